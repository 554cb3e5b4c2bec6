"""The C library of device models from Python."""

from __future__ import annotations

import ctypes
import enum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.config.device_model import SECTOR_BYTES, DeviceModel, to_spec
from kit.core.errors import ConfigError
from kit.emulation import compilation
from kit.hosts.base import Closing
from kit.hosts.compilation import compiled

NEVER_NS = 2**64 - 1
LATER_NS = NEVER_NS - 1  # HSP_LATER: the answer is to collect
TAGS = 64
ROTATIONAL, VOLATILE_CACHE, DISCARDS = 1, 2, 4


class Op(enum.IntEnum):
    """Operations of enum hsp_op in model.h."""

    READ, WRITE, FLUSH, DISCARD, WRITE_ZEROES = range(5)


REQUEST = np.dtype(
    [
        ("arrival_ns", "<u8"),
        ("sector", "<u8"),
        ("sectors", "<u4"),
        ("op", "u1"),
        ("fua", "u1"),
        ("tag", "u1"),
        ("pad", "u1"),
    ]
)
ANSWER = np.dtype([("done_ns", "<u8"), ("error", "<i4"), ("pad", "<i4")])


class _Answer(ctypes.Structure):
    _fields_ = (("done_ns", ctypes.c_uint64), ("error", ctypes.c_int32), ("pad", ctypes.c_int32))


Requests = npt.NDArray[np.void]
Answers = npt.NDArray[np.void]


def library() -> Path:
    """The models as a shared library. Raises HostError."""
    folder, sources = compilation.HERE, compilation.models()
    return compiled("libhspdevices.so", folder, sources, ("-fPIC", "-shared"), ("-lm",), "the models")


@cache
def _library() -> ctypes.CDLL:
    functions = ctypes.CDLL(str(library()))
    device, u64, size = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
    text, memory, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "new": (device, [text, u64, memory, size]),
        "free": (None, [device]),
        "attributes": (ctypes.c_uint, [device]),
        "is_volatile": (number, [device, u64, u64]),
        "power_loss": (None, [device, u64]),
        "set_write_cache": (number, [device, u64, number, memory]),
        "write_cache_is_on": (number, [device]),
        "fault": (number, [device, u64, text, memory, size]),
        "counter": (u64, [device, text]),
        "counter_names": (text, [device]),
        "save": (size, [device, u64, memory, size]),
        "load": (number, [device, memory, size, memory, size]),
        "next_ns": (u64, [device]),
        "collect": (number, [device, u64, memory, memory]),
        "join": (number, [device, device]),
        "deliver": (None, [device, memory]),
        "submit": (_Answer, [device, memory]),
        "submit_many": (None, [device, memory, memory, size, number, u64]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(functions, f"hsp_device_{name}")
        function.restype, function.argtypes = result, arguments
    functions.hsp_bus_new.restype, functions.hsp_bus_new.argtypes = device, [u64, u64]
    functions.hsp_bus_free.restype, functions.hsp_bus_free.argtypes = None, [device]
    return functions


class ModelBus(Closing):
    """A bus that devices share; they are closed before it."""

    def __init__(self, bytes_per_s: int, command_ns: int = 0) -> None:
        self._library = _library()
        self.bus = self._library.hsp_bus_new(bytes_per_s, command_ns)
        assert self.bus

    def close(self) -> None:
        if self.bus:
            self._library.hsp_bus_free(self.bus)
            self.bus = None


def requests(count: int) -> Requests:
    """`count` requests, all zero: reads of nothing at time 0."""
    return np.zeros(count, REQUEST)


class ModelDevice(Closing):
    """A device of the library. Times are ns since it was made; arrivals never decrease."""

    def __init__(
        self, device: DeviceModel | str, size_bytes: int, seed: int = 1, bus: ModelBus | None = None
    ) -> None:
        """`device` may be a spec's text. Raises ConfigError if the library does not take it."""
        spec = device if isinstance(device, str) else to_spec(device, seed)
        if size_bytes <= 0 or size_bytes % SECTOR_BYTES:
            raise ConfigError(f"{size_bytes} bytes: a device is one or more sectors of {SECTOR_BYTES} bytes")
        self._library = _library()
        self._error = ctypes.create_string_buffer(256)
        self.sectors = size_bytes // SECTOR_BYTES
        self._device = self._library.hsp_device_new(spec.encode(), self.sectors, self._error, 256)
        if not self._device:
            raise ConfigError(f"the device model: {self._error.value.decode()}")
        if bus:
            assert not self._library.hsp_device_join(self._device, bus.bus)

    def begin(
        self, arrival_ns: int, op: int, sector: int, sectors: int, tag: int, *, fua: bool = False
    ) -> int:
        """When the request is done (ns), or LATER_NS: then it is to collect, by its tag."""
        request = requests(1)
        request[0] = (arrival_ns, sector, sectors, op, fua, tag, 0)
        self._library.hsp_device_deliver(self._device, request.ctypes.data)
        answer = self._library.hsp_device_submit(self._device, request.ctypes.data)
        assert not answer.error, answer.error
        return int(answer.done_ns)

    @property
    def next_ns(self) -> int:
        """When there is something to collect."""
        return int(self._library.hsp_device_next_ns(self._device))

    def collect(self, now_ns: int) -> list[tuple[int, int]]:
        """Tags of what is decided by then, each with the time when it is done (ns)."""
        tag, answer, found = ctypes.c_uint8(), np.zeros(1, ANSWER), []
        while self._library.hsp_device_collect(self._device, now_ns, ctypes.byref(tag), answer.ctypes.data):
            assert not answer["error"][0]
            found.append((tag.value, int(answer["done_ns"][0])))
        return found

    def submit(
        self, arrival_ns: int, op: int, sector: int = 0, sectors: int = 0, *, fua: bool = False
    ) -> tuple[int, int]:
        """When the request is done (ns), and its errno or 0."""
        request = requests(1)
        request[0] = (arrival_ns, sector, sectors, op, fua, 0, 0)
        answer = self.submit_many(request)[0]
        return int(answer["done_ns"]), int(answer["error"])

    def submit_many(self, batch: Requests, *, closed_loop: bool = False, think_ns: int = 0) -> Answers:
        """Answers, one a request. `closed_loop`: each arrives after the one before; arrivals are written."""
        if batch.dtype != REQUEST or not batch.flags.c_contiguous:
            raise TypeError("requests are a contiguous array of REQUEST")
        answers = np.zeros(len(batch), ANSWER)
        self._library.hsp_device_submit_many(
            self._device, batch.ctypes.data, answers.ctypes.data, len(batch), closed_loop, think_ns
        )
        return answers

    @property
    def attributes(self) -> int:
        return int(self._library.hsp_device_attributes(self._device))

    def is_volatile(self, now_ns: int, sector: int) -> bool:
        return bool(self._library.hsp_device_is_volatile(self._device, now_ns, sector))

    def power_loss(self, now_ns: int) -> None:
        self._library.hsp_device_power_loss(self._device, now_ns)

    def write_cache_is_on(self) -> int:
        """1, 0, or -1 for a device without a volatile write cache."""
        return int(self._library.hsp_device_write_cache_is_on(self._device))

    def set_write_cache(self, now_ns: int, *, on: bool) -> int:
        """When its cache is written out (ns). Raises ConfigError if it has none."""
        done_ns = ctypes.c_uint64()
        if self._library.hsp_device_set_write_cache(self._device, now_ns, on, ctypes.byref(done_ns)):
            raise ConfigError("no write cache")
        return done_ns.value

    def fault(self, now_ns: int, fault: str) -> None:
        """As hsp_device_fault in model.h. Raises ConfigError if it is no fault."""
        if self._library.hsp_device_fault(self._device, now_ns, fault.encode(), self._error, 256):
            raise ConfigError(self._error.value.decode())

    def counters(self) -> dict[str, int]:
        names = self._library.hsp_device_counter_names(self._device).decode().split()
        return {name: self._library.hsp_device_counter(self._device, name.encode()) for name in names}

    def save(self, now_ns: int) -> bytes:
        size = self._library.hsp_device_save(self._device, now_ns, None, 0)
        saved = ctypes.create_string_buffer(size)
        self._library.hsp_device_save(self._device, now_ns, saved, size)
        return saved.raw

    def load(self, saved: bytes) -> None:
        """For a new device. Raises ConfigError if it is not the state of such a device."""
        if self._library.hsp_device_load(self._device, saved, len(saved), self._error, 256):
            raise ConfigError(self._error.value.decode())

    def close(self) -> None:
        if self._device:
            self._library.hsp_device_free(self._device)
            self._device = None
