"""Device models of every kind, small enough that everything happens often, and loads for them."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.kit.emulation.model_library import LATER_NS, ModelDevice, Op, requests

Spec = dict[str, int | str]
Latencies = npt.NDArray[np.int64]


# --- Loads -----------------------------------------------------------------------------------------------


class Load:
    """One request after the other at a device, from where its time has come to. Latencies in ns."""

    def __init__(self, device: ModelDevice, seed: int = 1) -> None:
        self.device = device
        self.now_ns = 0
        self.random = np.random.default_rng(seed)

    def at_random(self, op: int, sectors: int, count: int, think_ns: int = 0) -> Latencies:
        batch = requests(count)
        batch["sector"] = self.random.integers(0, self.device.sectors // sectors, count) * sectors
        return self._run(batch, op, sectors, think_ns)

    def in_order(self, op: int, sectors: int, count: int = 0, first: int = 0) -> Latencies:
        """`count` requests from sector `first` on; without a count once over the device."""
        batch = requests(count or self.device.sectors // sectors)
        batch["sector"] = first + np.arange(len(batch), dtype=np.uint64) * sectors
        return self._run(batch, op, sectors, 0)

    def _run(self, batch: npt.NDArray[np.void], op: int, sectors: int, think_ns: int) -> Latencies:
        batch["op"], batch["sectors"] = op, sectors
        batch["arrival_ns"][0] = self.now_ns
        answers = self.device.submit_many(batch, closed_loop=True, think_ns=think_ns)
        assert not answers["error"].any()
        self.now_ns = int(answers["done_ns"][-1])
        return (answers["done_ns"] - batch["arrival_ns"]).astype(np.int64)

    def sync_writes(self, sectors: int, count: int) -> Latencies:
        """Each a write at random and a flush after it."""
        batch = requests(2 * count)
        batch["op"][0::2], batch["op"][1::2] = Op.WRITE, Op.FLUSH
        batch["sectors"][0::2] = sectors
        batch["sector"][0::2] = self.random.integers(0, self.device.sectors // sectors, count) * sectors
        batch["arrival_ns"][0] = self.now_ns
        answers = self.device.submit_many(batch, closed_loop=True)
        self.now_ns = int(answers["done_ns"][-1])
        return (answers["done_ns"][1::2] - batch["arrival_ns"][0::2]).astype(np.int64)

    def in_flight(self, op: int, sectors: int, count: int, depth: int, align: int = 0) -> Latencies:
        """At random, `depth` requests at a time, at multiples of `align` sectors (0: of their size)."""
        step = align or sectors
        sectors_of = self.random.integers(0, (self.device.sectors - sectors) // step + 1, count) * step
        (latencies,) = together([self.device], op, sectors, [sectors_of], depth, self.now_ns)
        self.now_ns += int(latencies[:, 1].max())
        return latencies[:, 0]

    def age(self) -> None:
        """Twice the capacity in order, then one and a half times at random."""
        for _ in range(2):
            self.in_order(Op.WRITE, 256)
        self.at_random(Op.WRITE, 8, self.device.sectors * 3 // 2 // 8)


def together(
    devices: Sequence[ModelDevice],
    op: int,
    sectors: int,
    places: Sequence[npt.NDArray[np.int64]],
    depth: int,
    now_ns: int = 0,
) -> list[Latencies]:
    """A closed loop at each device, `depth` requests at a time, at the places it is given, in their order.

    Of each device a row a request: latency, and when it was done (ns from now_ns on).
    """
    left = [iter(map(int, each)) for each in places]
    done: list[list[tuple[int, int]]] = [[] for _ in devices]
    begun: dict[tuple[int, int], int] = {}
    free = [(now_ns, number, tag) for number in range(len(devices)) for tag in range(depth)]
    heapq.heapify(free)

    def answer(number: int, tag: int, done_ns: int) -> None:
        done[number].append((done_ns - begun[number, tag], done_ns - now_ns))
        heapq.heappush(free, (done_ns, number, tag))

    while True:
        decided_ns, first = min((device.next_ns, number) for number, device in enumerate(devices))
        if free and free[0][0] <= decided_ns:
            at_ns, number, tag = heapq.heappop(free)
            if (sector := next(left[number], None)) is None:
                continue
            begun[number, tag] = at_ns
            done_ns = devices[number].begin(at_ns, op, sector, sectors, tag)
            if done_ns != LATER_NS:
                answer(number, tag, done_ns)
        elif decided_ns <= LATER_NS:
            for tag, done_ns in devices[first].collect(decided_ns):
                answer(first, tag, done_ns)
        else:
            return [np.array(each, np.int64) for each in done]


def shortest_range(latencies: Latencies, share: float = 0.95) -> tuple[int, int]:
    """The shortest interval that holds the share, as reports have it."""
    ordered = np.sort(latencies)
    count = int(np.ceil(share * len(ordered)))
    widths = ordered[count - 1 :] - ordered[: len(ordered) - count + 1]
    first = int(np.argmin(widths))
    return int(ordered[first]), int(ordered[first + count - 1])


# --- Random devices --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RandomDevice:
    """Of a seed: a spec for the library, and a size."""

    text: str
    model: str
    sectors: int
    page_sectors: int


def random_device(seed: int) -> RandomDevice:
    draw = random.Random(seed)
    spec = draw.choice([_disk, _ssd, _ssd, _controller])(draw)
    page_bytes = int(spec.get("page_bytes", spec.get("backing.page_bytes", 512)))
    text = "".join(f"{key} {value}\n" for key, value in spec.items())
    return RandomDevice(text, str(spec["model"]), draw.choice([1, 7, 64, 100, 1000, 4099]), page_bytes // 512)


def _disk(draw: random.Random, is_backing: bool = False) -> Spec:
    settle_ns = draw.randint(1, 10**6)
    average_ns = settle_ns + draw.randint(0, 10**7)
    outer = draw.randint(10**6, 3 * 10**8)
    return {
        "model": "disk",
        "seed": draw.randint(0, 2**64 - 1),
        "rpm": draw.choice([3600, 7200, 10000, 15000]),
        "heads": draw.randint(1, 6),
        "zones": draw.randint(1, 8),
        "stroke_ppm": draw.choice([0, 10**4, 10**6]),
        "settle_ns": settle_ns,
        "average_seek_ns": average_ns,
        "full_seek_ns": average_ns + draw.randint(0, 10**7),
        "head_switch_ns": draw.randint(1, 2 * 10**6),
        "write_settle_ns": draw.choice([0, 300_000]),
        "outer_bytes_per_s": outer,
        "inner_bytes_per_s": draw.randint(10**6, outer),
        "link_bytes_per_s": draw.choice([10**8, 6 * 10**8]),
        "command_ns": draw.choice([0, 10**5]),
        "command_spread_ns": draw.choice([0, 10**5]),
        "destage_idle_ns": draw.choice([0, 10**5, 3 * 10**7]),
        "track_buffer_bytes": draw.choice([0, 4096, 2**20]),
        "read_ahead_bytes": draw.choice([0, 4096, 2**20]),
        "write_cache_bytes": draw.choice([0, 2**16, 2**20]),
        **({"queue_depth": depth} if (depth := draw.choice([1, 1, 2, 32])) > 1 and not is_backing else {}),
    }


def _ssd(draw: random.Random) -> Spec:
    return {
        "model": "ssd",
        "seed": draw.randint(0, 2**64 - 1),
        "channels": draw.randint(1, 3),
        "dies_per_channel": draw.randint(1, 3),
        "page_bytes": draw.choice([512, 2048, 4096, 32768]),
        "pages_per_block": draw.choice([2, 3, 8, 32]),
        "over_provisioning_permyriad": draw.choice([0, 700, 9999]),
        "read_ns": draw.randint(1, 10**5),
        "read_spread_ns": draw.choice([0, 10**5]),
        "program_ns": draw.randint(1, 10**6),
        "program_spread_ns": draw.choice([0, 10**6]),
        "erase_ns": draw.randint(1, 5 * 10**6),
        "channel_bytes_per_s": draw.choice([4 * 10**7, 16 * 10**9]),
        "link_bytes_per_s": draw.choice([3 * 10**8, 16 * 10**9]),
        "serial_ns": draw.choice([0, 2 * 10**4]),
        "command_ns": draw.choice([0, 2 * 10**4]),
        "command_spread_ns": draw.choice([0, 2 * 10**4]),
        "write_command_ns": draw.choice([0, 2 * 10**4]),
        "write_command_spread_ns": draw.choice([0, 2 * 10**4]),
        "flush_ns": draw.choice([0, 10**4]),
        "buffer_pages": draw.choice([2, 3, 8, 64]),
        "destage_at_percent": draw.choice([0, 50, 99]),
        "destage_idle_ns": draw.choice([0, 10**5, 10**7]),
        **draw.choice(
            [
                {"power_loss_protection": 0, "write_cache": "on"},
                {"power_loss_protection": 0, "write_cache": "off"},
                {"power_loss_protection": 1, "write_cache": "on"},
            ]
        ),
        "flush": draw.choice(["honoured", "honoured", "honoured", "ignored"]),
    }


def _controller(draw: random.Random) -> Spec:
    backing = _disk(draw, is_backing=True) if draw.random() < 0.5 else _ssd(draw)
    cache, cache_bytes = (
        draw.choice(["battery", "battery", "bypass", "write-through"]),
        draw.choice([4096, 2**16, 2**20]),
    )
    read_ahead = draw.choice([0, 512, cache_bytes // 2]) if cache != "bypass" else 0
    return {
        "model": "controller",
        "seed": draw.randint(0, 2**64 - 1),
        "cache": cache,
        "cache_bytes": cache_bytes,
        **({"read_ahead_bytes": read_ahead} if read_ahead else {}),
        "command_ns": draw.choice([0, 10**4]),
        "command_spread_ns": draw.choice([0, 10**4]),
        "link_bytes_per_s": draw.choice([10**9, 16 * 10**9]),
        "destage_idle_ns": draw.choice([0, 10**5, 10**7]),
        **{f"backing.{key}": value for key, value in backing.items()},
    }
