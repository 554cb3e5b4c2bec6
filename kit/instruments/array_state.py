"""The md array that a load goes to: what it is, that no member was lost, and what its level implies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kit.config.tables.phase_table import ARRAY, ArrayLayout
from kit.core.errors import MeasurementUnknown
from kit.devices import array
from kit.devices.array import ArraySpec
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.store.parts.resource_use import DeviceSample, DeviceUse, ModelUse
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
        name = words(op, f"the members of the {level}")
        source = "fio, /sys/block/*/stat of the members"
        issued = ios.get(op, 0) * measured.block_bytes.get(op, 0)
        if level == "raid5":
            yield Missing(id="ARRAY-BYTES", name=name, source=source, op=op, of=level, why=_PARITY)
        else:
            copies = 1 if op == "read" else _COPIES.get(level, len(members))
            found = sum(bytes_of(used[each].samples[-1])[op] for each in members)
            yield Check.of_counts("ARRAY-BYTES", name, source, issued * copies, found, op=op, of=level)
        for member in members:
            if model := used[member].model:
                source = f"/sys/block/*/stat of {member}, counters of its model"
                kernel = bytes_of(used[member].samples[-1])
                yield device_bytes(op, member, source, kernel[op], bytes_of(model)[op])


def bytes_of(moved: DeviceSample | ModelUse) -> dict[str, int]:
    """Bytes by op."""
    return {"read": moved.read_bytes, "write": moved.written_bytes}


def device_bytes(op: str, device: str, source: str, expected: int, found: int) -> Check:
    """Of a device, or of its model."""
    return Check.of_counts("DEVICE-BYTES", words(op, device), source, expected, found, op=op, of=device)


def words(op: str, device: str) -> str:
    """What such a check compares."""
    return f"bytes {'read from' if op == 'read' else 'written to'} {device}"
