"""The C library of device models from Python: compiled once a version of its sources, and bound."""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kit.errors import ConfigError, HostError
from kit.hosts.base import CommandFailed
from kit.hosts.local import LocalHost
from kit.lab.devices.spec import SECTOR_BYTES, DeviceModel, to_spec
from kit.lab.image.cache import cache_dir, cannot_use

SOURCES = Path(__file__).parent
CFLAGS = ("-std=c11", "-O2", "-g", "-fPIC")  # a newer compiler's warnings are no reason to fail here
COMPILE_DEADLINE_S = 120.0

READ, WRITE, FLUSH, DISCARD, WRITE_ZEROES = range(5)
NEVER_NS = 2**64 - 1
ROTATIONAL, VOLATILE_CACHE, DISCARDS = 1, 2, 4

REQUEST = np.dtype(
    [("arrival_ns", "<u8"), ("sector", "<u8"), ("sectors", "<u4"), ("op", "u1"), ("fua", "u1"), ("pad", "V2")]
)
ANSWER = np.dtype([("done_ns", "<u8"), ("error", "<i4"), ("pad", "<i4")])

Requests = npt.NDArray[np.void]
Answers = npt.NDArray[np.void]


def sources() -> list[Path]:
    """The C files of the models, in a fixed order."""
    return sorted(SOURCES.glob("*.c"))


def digest() -> str:
    """Of everything that goes into the library."""
    state = hashlib.sha256(" ".join(CFLAGS).encode())
    for path in sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.h")]):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()[:16]


def compile_library() -> Path:
    """The shared library, made if it is not in the cache. Raises HostError without a C compiler."""
    directory = cache_dir() / "devices"
    library = directory / f"libhspdevices-{digest()}.so"
    if library.exists():
        return library
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".making-") as making:
            made = Path(making) / library.name
            _compile(["-shared", "-o", str(made)])
            made.rename(library)  # whoever is first, it is the same
    except OSError as error:
        raise cannot_use(directory, error) from error
    return library


def _compile(options: list[str]) -> None:
    argv = ["cc", *CFLAGS, *options, *(str(path) for path in sources()), "-lm"]
    try:
        LocalHost().run(argv, deadline_s=COMPILE_DEADLINE_S)
    except CommandFailed as error:
        if error.result.returncode != 127:
            raise
        raise HostError(
            "there is no C compiler, and the emulated devices are compiled here",
            "install gcc libc6-dev (Debian, Ubuntu) or your distribution's packages of that kind",
        ) from error


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compile_library()))
    device, u64, size = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t
    text, memory, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "new": (device, [text, u64, memory, size]),
        "free": (None, [device]),
        "attributes": (ctypes.c_uint, [device]),
        "is_volatile": (number, [device, u64, u64]),
        "power_loss": (None, [device, u64]),
        "fault": (number, [device, u64, text, memory, size]),
        "counter": (u64, [device, text]),
        "counter_names": (text, [device]),
        "memory": (u64, [device]),
        "save": (size, [device, u64, memory, size]),
        "load": (number, [device, memory, size, memory, size]),
        "submit_many": (None, [device, memory, memory, size, number, u64]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"hsp_device_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def requests(count: int) -> Requests:
    """`count` requests, all zero: reads of nothing at time 0."""
    return np.zeros(count, REQUEST)


class EmulatedDevice:
    """A device of the library. Times are ns since it was made; arrivals never decrease."""

    def __init__(self, device: DeviceModel | str, size_bytes: int, seed: int = 1) -> None:
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

    def submit(
        self, arrival_ns: int, op: int, sector: int = 0, sectors: int = 0, *, fua: bool = False
    ) -> tuple[int, int]:
        """When the request is done (ns), and its errno or 0."""
        request = requests(1)
        request[0] = (arrival_ns, sector, sectors, op, fua, b"")
        answer = self.submit_many(request)[0]
        return int(answer["done_ns"]), int(answer["error"])

    def submit_many(self, asked: Requests, *, closed_loop: bool = False, think_ns: int = 0) -> Answers:
        """Answers, one a request. `closed_loop`: each arrives after the one before; arrivals are written."""
        if asked.dtype != REQUEST or not asked.flags.c_contiguous:
            raise TypeError("requests are a contiguous array of REQUEST")
        answers = np.zeros(len(asked), ANSWER)
        self._library.hsp_device_submit_many(
            self._device, asked.ctypes.data, answers.ctypes.data, len(asked), closed_loop, think_ns
        )
        return answers

    @property
    def attributes(self) -> int:
        return int(self._library.hsp_device_attributes(self._device))

    @property
    def memory_bytes(self) -> int:
        return int(self._library.hsp_device_memory(self._device))

    def is_volatile(self, now_ns: int, sector: int) -> bool:
        return bool(self._library.hsp_device_is_volatile(self._device, now_ns, sector))

    def power_loss(self, now_ns: int) -> None:
        self._library.hsp_device_power_loss(self._device, now_ns)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
