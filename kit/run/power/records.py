"""The records of a power loss: where they lie, what was acknowledged, and what was there afterwards. Pure.

The classes are those of Zheng, Tucek, Qin and Lillibridge, "Understanding the robustness of SSDs under power
fault" (FAST '13). A worker has one write under way: the one after its last acknowledged
write may be there or not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.core.text import json_value
from kit.store.manifest import Classes, Moment

SLOTS = 32
"""Of each worker: records that are there at once."""
_TAG_BITS = 16
# As in kit/remote/power_loss_records.py.
_NOTHING, _WHOLE, _TORN, _FOREIGN, _UNREADABLE = range(5)
Found = Sequence[Sequence[Sequence[int]]]


@dataclass(frozen=True)
class RecordLayout:
    """`run`: a number of the run; `number`: of the power loss; `sizes`: bytes of a record, by worker."""

    path: str
    run: int
    number: int
    sizes: tuple[int, ...]
    offset_bytes: int = 0
    durable: bool = True
    direct: bool = True
    slots: int = SLOTS

    @property
    def tag(self) -> int:
        return self.run << _TAG_BITS | self.number

    @property
    def bytes_(self) -> int:
        """Room of all records."""
        return self.slots * sum(self.sizes)

    def text(self, path: str = "", device: str = "", *, fresh: bool = False) -> str:
        """The argument LAYOUT of the helper; `path`: where the reader has the file, if elsewhere.

        `device`: MAJOR:MINOR:SEQUENCE of the device that the path must lead to. `fresh`: the reader is a
        client, whose page cache may have it.
        """
        workers, offset = [], self.offset_bytes
        for size in self.sizes:
            workers.append([offset, size])
            offset += size * self.slots
        value = {
            "path": path or self.path, "tag": self.tag, "slots": self.slots, "workers": workers,
            "durable": self.durable, "direct": self.direct, "device": device, "fresh": fresh,
        }  # fmt: skip
        return json.dumps(value)


@dataclass(frozen=True)
class Acknowledged:
    """A write that returned. `number`: from 1, of its worker; `at_ns`: on the witness's clock."""

    worker: int
    number: int
    at_ns: int


def parse_acknowledged(text: str) -> list[Acknowledged]:
    """The list of a writer; its last line may be cut short. Raises HostError if it is damaged."""
    whole, _, _ = text.rpartition("\n")
    try:
        return [Acknowledged(*map(int, line.split())) for line in whole.splitlines()]
    except (ValueError, TypeError):
        raise HostError("the list of acknowledged writes is damaged", "run it again") from None


def parse_found(text: str, layout: RecordLayout) -> Found:
    """What the reader printed. Raises HostError if it does not fit the layout."""
    try:
        found: Found = json_value(text)
        fits = len(found) == len(layout.sizes) and all(len(slots) == layout.slots for slots in found)
        if fits and all(
            isinstance(number, int) for slots in found for each in slots for number in (each[0], *each)
        ):
            return found
    except (ValueError, TypeError, IndexError, KeyError):
        pass
    raise HostError("what was read of the records is damaged", "run it again")


def judge(
    layout: RecordLayout, acknowledged: Sequence[Acknowledged], found: Found, cut_ns: int | None = None
) -> Moment:
    """Compare what was promised with what is there.

    Of each slot only the newest record can be looked for, and not where the write under way has replaced it.
    `cut_ns`: when the power went, if writes went on after it: only those acknowledged before it count.
    """
    before = [each for each in acknowledged if cut_ns is None or each.at_ns < cut_ns]
    counts = dict.fromkeys(Classes.model_fields, 0)
    firsts: list[tuple[int, int]] = []
    in_flight_torn = looked_at = 0
    for worker in range(len(layout.sizes)):
        numbers = [each.number for each in before if each.worker == worker]
        newest: dict[int, int] = {}
        for number in numbers:
            newest[number % layout.slots] = max(number, newest.get(number % layout.slots, 0))
        flight = max(numbers, default=0) + 1
        for slot, content in enumerate(found[worker]):
            kind = _class_of(
                layout, content, newest.get(slot, 0), flight if flight % layout.slots == slot else 0
            )
            in_flight_torn += kind == "in flight"
            looked_at += kind not in (None, "in flight")
            if kind in counts:
                counts[kind] += 1
                firsts.append((newest[slot], worker))
    first = min(firsts, default=None)
    ended_ns = cut_ns or max((each.at_ns for each in before), default=0)
    return Moment(
        acknowledged=len(before),
        looked_at=looked_at,
        after_ns=max(0, ended_ns - min((each.at_ns for each in before), default=ended_ns)),
        written_bytes=sum(layout.sizes[each.worker] for each in before),
        at_ns=cut_ns or 0,
        first_lost=first[0] if first else None,
        first_worker=first[1] if first else None,
        in_flight_torn=in_flight_torn,
    ).model_copy(update=counts)


def gone(layout: RecordLayout) -> Found:
    """As if no slot could be read."""
    return [[[_UNREADABLE]] * layout.slots for _ in layout.sizes]


def _class_of(layout: RecordLayout, content: Sequence[int], newest: int, flight: int) -> str | None:
    """Of one slot; "" if it is as promised, None if nothing can be said of its newest record.

    `newest`: 0 if nothing was promised; `flight`: 0 if no write under way goes there.
    """
    kind = content[0]
    if kind == _UNREADABLE:
        return "gone" if newest else None
    if kind == _TORN and flight:
        # A device need not write more than a sector at once: the old one and the new one, mixed.
        return "in flight"
    if not newest:
        return None
    if kind == _WHOLE:
        _, tag, _, number = content
        if tag == layout.tag:
            if flight and number == flight:
                return None
            return "" if number == newest else "old" if number < newest else "foreign"
        # Of an earlier power loss of this run.
        return "old" if tag < layout.tag else "foreign"
    by_kind: Mapping[int, str] = {_NOTHING: "lost", _TORN: "torn", _FOREIGN: "foreign"}
    return by_kind.get(kind, "foreign")
