"""The md array that a load goes to: what it is, that no member was lost, and what its level implies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kit.config.tables.phase_table import ARRAY, ArrayLayout
from kit.core.errors import MeasurementUnknown
from kit.devices import array
from kit.devices.array import ArraySpec
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.store.parts.resource_use import DeviceUse
from kit.store.phase import ArrayOf, Check, Missing

# How often the members write what the load does, and why it cannot be said.
_COPIES: Mapping[str, int] = {"raid0": 1, "raid10": 2}
_PARITY = "how much parity md reads and writes depends on which blocks of a stripe come together"


class ArrayState(Instrument):
    """Begins and ends with a look at md: an array that lost a member is another one."""

    code = "array"

    def __init__(self, server: Host, spec: ArraySpec, layout: ArrayLayout, members: Sequence[str]) -> None:
        self._server, self._spec, self._layout, self._members = server, spec, layout, members
        self._lost = ""

    def begin(self) -> None:
        if lost := array.degraded(self._server, self._spec):
            raise MeasurementUnknown(f"the array lost {lost} before the load began")

    def end(self) -> None:
        self._lost = array.degraded(self._server, self._spec)

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        text = f"the array lost {self._lost} during the load: what was measured is partly another array"
        entry = ArrayOf(
            level=self._layout.level, chunk_bytes=self._layout.chunk, members=tuple(self._members)
        )
        return InstrumentReport(problems=[text] if self._lost else [], entry={"array": entry})


def member_checks(
    level: str, members: Sequence[str], used: Mapping[str, DeviceUse], measured: MeasuredPhase
) -> Iterator[Check | Missing]:
    """The members' bytes by fio's and the level; each member's model beside the kernel. Pure."""
    ios = measured.client_ios.get(ARRAY, {})
    for op in ("read", "write"):
        words = f"bytes {'read from' if op == 'read' else 'written to'} the members of the {level}"
        source = "fio, /sys/block/*/stat of the members"
        issued = ios.get(op, 0) * measured.block_bytes.get(op, 0)
        if level == "raid5":
            yield Missing(id="ARRAY-BYTES", name=words, source=source, op=op, of=level, why=_PARITY)
        else:
            copies = 1 if op == "read" else _COPIES.get(level, len(members))
            found = sum(_bytes(used[name], op) for name in members)
            yield Check.of_counts("ARRAY-BYTES", words, source, issued * copies, found, op=op, of=level)
        for name in members:
            if model := used[name].model:
                counted = model.read_bytes if op == "read" else model.written_bytes
                yield Check.of_counts(
                    "DEVICE-BYTES",
                    f"bytes {'read from' if op == 'read' else 'written to'} {name}",
                    f"/sys/block/*/stat of {name}, counters of its model",
                    _bytes(used[name], op),
                    counted,
                    op=op,
                    of=name,
                )


def _bytes(used: DeviceUse, op: str) -> int:
    last = used.samples[-1]
    return last.read_bytes if op == "read" else last.written_bytes
