"""fio's log of each I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kit.core.errors import MeasurementUnknown

IntArray = npt.NDArray[np.int64]
_MAX_NS = 2**63 - 1


@dataclass(frozen=True)
class ClientLatencies:
    """One entry per I/O: host clock at its end (ns), latency (ns), direction (0 read, 1 write)."""

    end_ns: IntArray
    latency_ns: IntArray
    direction: IntArray


def parse_latency_log(text: str) -> ClientLatencies:
    """fio's per-I/O latency log: `time_ms, latency_ns, direction, block size, offset, priority`.

    Raises MeasurementUnknown with the number of the first line that is not of that form.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split(",")
        try:
            stamp, latency, direction = (int(field) for field in fields[:3])
        except ValueError:
            raise MeasurementUnknown(f"fio's latency log, line {number}: {line[:80]!r}") from None
        if not (0 <= latency <= _MAX_NS and 0 <= stamp <= _MAX_NS // 1_000_000) or direction not in (0, 1):
            raise MeasurementUnknown(f"fio's latency log, line {number} is impossible: {line[:80]!r}")
        rows.append((stamp, latency, direction))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return ClientLatencies(table[:, 0] * 1_000_000, table[:, 1], table[:, 2])
