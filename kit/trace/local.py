"""What the tracer counts besides of the calls of any process (local_begin.bt): by process, without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

EMPTY, FAILED, MAPPED, BESIDE, MISSED, LATE = range(4004, 4010)
"""Keys of @counts, see local_begin.bt."""
KEYS = (EMPTY, FAILED, MAPPED, BESIDE, MISSED, LATE)

# Of one function the kernel follows at least so many calls at a time (kernel/kprobes.c, register_kretprobe).
_FOLLOWED = 10


@dataclass
class LocalCounts:
    """`apart`: of each of KEYS the counts by (op, file system); the last that was printed counts.

    `unfinished`: calls that had not ended at the end of the phase.
    """

    apart: dict[int, dict[tuple[str, int], int]] = field(default_factory=dict)
    unfinished: int = 0

    def add(self, number: int, op: str, place: int, value: int) -> None:
        self.apart.setdefault(number, {})[op, place] = value

    def of(self, number: int, op: str | None = None, place: int | None = None) -> int:
        """The sum of those that match."""
        found = self.apart.get(number, {}).items()
        return sum(n for (what, where), n in found if op in (None, what) and place in (None, where))


def inconsistencies(local: LocalCounts, started: Mapping[str, int], done: Mapping[str, int]) -> Iterator[str]:
    """Each call that started must have ended, or have been under way at the end."""
    for op, count in started.items():
        ended = done.get(op, 0) + local.of(EMPTY, op) + local.of(FAILED, op) + local.of(MISSED, op)
        if ended > count:
            yield f"the tracer saw {count} calls of {op} start and {ended} end"
    missed = local.of(MISSED)
    if missed or local.unfinished > _FOLLOWED:
        yield (
            f"the tracer missed the end of {missed} calls, and {local.unfinished} had not ended at its own "
            "end: the kernel follows few calls at a time (kretprobe, twice the CPUs)"
        )
    without = sum(started.values()) - sum(done.values()) - sum(map(local.of, (EMPTY, FAILED, MISSED)))
    if without > local.unfinished:
        yield f"the tracer lost {without - local.unfinished} calls: a map was full"
