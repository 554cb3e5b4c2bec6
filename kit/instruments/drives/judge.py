"""What the readings of a drive before, under and after a load show. Pure.

A temperature proves nothing: a drive may read 40 degrees for ever while it counts transitions into slower
states (nvme-cli#3945). A link may run slower while nothing is asked of it, to save power; so its speed is
read under load, or right after it. A drive that can do more than its slot is a condition, and no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kit.core.text import commas, counted, some
from kit.instruments.drives.logs import THERMAL, THROTTLED_S, TRANSITIONS
from kit.instruments.drives.reading import BY_MODEL, DriveReading, PciLink
from kit.store.parts.machine import DriveReport
from kit.store.phase import Check, Missing

THROTTLED, DEGRADED = "DRIVE-THROTTLED", "LINK-DEGRADED"
THROTTLING, REPORT = "drive-throttling", "drive-report"
_COUNTED = (*THERMAL, "throttled_ns")
_UNCORRECTED = ("nonfatal", "fatal")
_PCI_SOURCE = "current_link_speed and _width of both ends, in sysfs"
_AER_SOURCE = "aer_dev_nonfatal and aer_dev_fatal of both ends, in sysfs"
_SATA_SOURCE = "sata_spd and sata_spd_limit in sysfs, smartctl"
_UNCOUNTED = (
    "no counter of theirs can be read: SATA disks and virtual ones have none, an NVMe drive may have no "
    "thermal management, and smartctl prints it since 2026-05 (install nvme-cli)"
)
_NAMED = 4


@dataclass(frozen=True)
class DriveChange:
    """One drive over a phase. `under_load`: in the order in which they were read; sysfs alone."""

    name: str
    before: DriveReading
    after: DriveReading
    under_load: Sequence[DriveReading] = ()

    def rise(self, *names: str) -> int | None:
        """Of counters together; None if a reading has none of them, or one went back."""
        rises = [rise for name in names if (rise := self.change_of(name)) is not None]
        return sum(rises) if rises and min(rises) >= 0 else None

    def went_back(self, *names: str) -> bool:
        return any((self.change_of(name) or 0) < 0 for name in names)

    def change_of(self, name: str) -> int | None:
        """Of one counter; below 0 if it went back."""
        before, after = self.before.counts.get(name), self.after.counts.get(name)
        if before is None and after is not None and name in THERMAL and self.after.source == "smartctl":
            # It prints them from the moment on at which one of them is not 0.
            before = 0 if self.before.source == "smartctl" else None
        return None if before is None or after is None else after - before

    @property
    def throttled_ms(self) -> int | None:
        if (model_ns := self.rise("throttled_ns")) is not None:
            return -(-model_ns // 1_000_000)
        seconds = self.rise(*THROTTLED_S)
        return None if seconds is None else seconds * 1000

    @property
    def link(self) -> PciLink | None:
        """The slowest under load; without a look then, that after it."""
        under_load = [link for each in self.under_load if (link := each.link)]
        return min(under_load, key=lambda each: each.mts) if under_load else self.after.link

    def aer(self, *kinds: str) -> int | None:
        rises = [self.after.aer[kind] - self.before.aer[kind] for kind in kinds
                 if kind in self.before.aer and kind in self.after.aer]  # fmt: skip
        return sum(rises) if rises and min(rises) >= 0 else None


def checks(changes: Sequence[DriveChange]) -> Iterator[Check | Missing]:
    """Of each drive what it counts, of each link what the kernel says of it; what is not known, once."""
    uncounted, linkless = [], []
    links = _links(changes)
    for each in changes:
        thermal, of_link = [*_thermal(each)], [*_sata(each)]
        of_link += _pci(each, links[each.name]) if each.name in links else ()
        yield from (*thermal, *of_link)
        uncounted += [] if thermal else [each.name]
        has_other = of_link or each.after.link_max or each.after.source == BY_MODEL
        linkless += [] if has_other else [each.name]
    if uncounted:
        name = f"slowdowns because of heat of {some(uncounted, _NAMED)}"
        yield Missing(id=THROTTLED, name=name, source="nvme smart-log, smartctl", why=_UNCOUNTED)
    if linkless:
        name = f"speed of the links of {some(linkless, _NAMED)}"
        yield Missing(id=DEGRADED, name=name, source=_PCI_SOURCE, why="the kernel does not report it")


def _links(changes: Sequence[DriveChange]) -> dict[str, str]:
    """What has a PCIe link, in words, by the first drive behind it: a drive, or the controller of some."""
    behind: dict[str, list[DriveChange]] = {}
    for each in changes:
        if address := str(each.after.controller.get("address", "")):
            behind.setdefault(address, []).append(each)
    words = {"nvme": ""}
    return {
        group[0].name: words.get(str(group[0].after.controller.get("driver")), "the controller of ")
        + some([each.name for each in group], _NAMED)
        for group in behind.values()
    }


def _thermal(change: DriveChange) -> Iterator[Check]:
    name, source = change.name, f"{change.after.source}, thermal management"
    if change.went_back(*_COUNTED):
        sums = [sum(each.counts.get(key, 0) for key in _COUNTED) for each in (change.before, change.after)]
        yield _back(THROTTLED, "counters of thermal management", source, name, *sums)
        return
    transitions, throttled_ms = change.rise(*TRANSITIONS), change.throttled_ms
    if transitions is not None:
        text = f"slowdowns of {name} because of heat"
        yield Check.of_counts(THROTTLED, text, source, 0, transitions, of=name)
    if throttled_ms is not None:
        # It may have begun before the phase: then it is no transition of it.
        text = f"time in which heat slowed {name} down, in ms"
        yield Check.of_counts(THROTTLED, text, source, 0, throttled_ms, of=name)


def _back(id_: str, what: str, source: str, name: str, before: int, after: int) -> Check:
    """A count of less than before proves that it does not count the phase."""
    check = Check.of_counts(id_, f"{what} of {name}, of which one went back", source, before, after, of=name)
    return check.model_copy(update={"ok": False})


def _pci(change: DriveChange, names: str) -> Iterator[Check]:
    link, best = change.link, change.after.link_max or change.before.link_max
    if link and best:
        text = f"PCIe link of {names} ({link}; both ends can do {best}), in millions of transfers a second"
        yield Check.of_counts(DEGRADED, text, _PCI_SOURCE, best.mts, min(link.mts, best.mts), of=change.name)
    errors = change.aer(*_UNCORRECTED)
    sums = [sum(each.aer.get(kind, 0) for kind in _UNCORRECTED) for each in (change.before, change.after)]
    if errors is None and sums[1] < sums[0]:
        yield _back(DEGRADED, "counters of PCIe errors", _AER_SOURCE, change.name, *sums)
    elif errors is not None:
        text = f"errors on the PCIe link of {names} that were not corrected"
        yield Check.of_counts(DEGRADED, text, _AER_SOURCE, 0, errors, of=change.name)


def _sata(change: DriveChange) -> Iterator[Check]:
    name, before, after = change.name, change.before, change.after
    speed, was = after.sata_gbps("speed"), before.sata_gbps("speed")
    if speed is not None and was is not None:
        expected = max(was, _best_sata(after) if _is_lowered(after) else 0.0)
        text = f"speed of the SATA link of {name}, in Mb/s"
        yield Check.of_counts(
            DEGRADED, text, _SATA_SOURCE, round(expected * 1000), round(min(speed, expected) * 1000), of=name
        )
    if change.went_back("crc_errors"):
        sums = [each.counts["crc_errors"] for each in (before, after)]
        yield _back(DEGRADED, "CRC errors", "smartctl, attribute 199", name, *sums)
    elif (errors := change.rise("crc_errors")) is not None:
        text = f"CRC errors on the SATA link of {name}"
        yield Check.of_counts(DEGRADED, text, "smartctl, attribute 199", 0, errors, of=name)


def _is_lowered(reading: DriveReading) -> bool:
    """Whether libata has lowered its limit, as it does after errors (libata-eh.c, sata_down_spd_limit)."""
    limit, port = reading.sata_gbps("limit"), reading.sata_gbps("port_max")
    return limit is not None and (port or reading.sata_gbps("drive_max") or 0) > limit


def _best_sata(reading: DriveReading) -> float:
    known = [each for key in ("drive_max", "port_max") if (each := reading.sata_gbps(key)) is not None]
    return min(known, default=0.0)


def conditions(changes: Sequence[DriveChange]) -> Iterator[str]:
    """Sentences of what limits drives by the way in which the server is built."""
    links = _links(changes)
    for each in changes:
        most, best = PciLink.parse(each.after.controller.get("link_max")), each.after.link_max
        if most and best and best.mts < most.mts and each.name in links:
            name = links[each.name]
            yield f"{name} can do {most} (PCIe), and the slot {best}: that is the limit on this server."
        speed, most_gbps = each.after.sata_gbps("speed"), each.after.sata_gbps("drive_max")
        if speed and most_gbps and speed < most_gbps and not _is_lowered(each.after):
            yield f"{each.name} can do {most_gbps:g} Gb/s (SATA), its link {speed:g}: that is the limit here."


def events(changes: Sequence[DriveChange]) -> Iterator[tuple[str, str]]:
    """Kind and text of marks at unknown times of the phase."""
    links = _links(changes)
    for each in changes:
        yield from _events(each)
        if each.name in links and (corrected := each.aer("corrected")):
            yield REPORT, f"{links[each.name]}: {commas(corrected)} errors on its PCIe link, all corrected"


def _events(change: DriveChange) -> Iterator[tuple[str, str]]:
    name, transitions, throttled_ms = change.name, change.rise(*TRANSITIONS), change.throttled_ms
    if transitions or throttled_ms:
        took = f", {throttled_ms / 1000:g} s" if throttled_ms else ""
        times = counted(transitions or 0, "transition")
        yield THROTTLING, f"{name} made itself slower because of heat: {times}{took}"
    words = {
        "media_errors": "media errors", "reallocated": "sectors reallocated", "pending": "sectors pending",
        "warning_temp_time": "min above its warning temperature, which proves no throttling",
        "critical_comp_time": "min above its critical temperature, which proves no throttling",
    }  # fmt: skip
    for key, text in words.items():
        if rise := change.rise(key):
            yield REPORT, f"{name}: {commas(rise)} {text}"
    if slow := slow_commands(change.before.slow, change.after.slow):
        from_ms = change.after.slow.get("ms", 0)
        yield REPORT, f"{name}: {commas(slow)} commands slower than {from_ms} ms, by its own log"


def slow_commands(before: Mapping[str, int], after: Mapping[str, int]) -> int | None:
    """None without the log, and where its timer began anew: then its counters did, too."""
    if "slow_commands" not in before or "slow_commands" not in after:
        return None
    if after.get("minutes", 0) < before.get("minutes", 0) or after.get("ms") != before.get("ms"):
        return None
    rise = after["slow_commands"] - before["slow_commands"]
    return rise if rise >= 0 else None


def report(change: DriveChange) -> DriveReport:
    """As it is stored."""
    slow = slow_commands(change.before.slow, change.after.slow)
    link, best = change.link, change.after.link_max
    values = {
        "counted_by": change.after.source if change.after.counts else None,
        "transitions": change.rise(*TRANSITIONS),
        "throttled_ms": change.throttled_ms,
        "warning_min": change.rise("warning_temp_time"),
        "critical_min": change.rise("critical_comp_time"),
        "media_errors": change.rise("media_errors"),
        "reallocated": change.rise("reallocated"),
        "pending": change.change_of("pending"),
        "crc_errors": change.rise("crc_errors"),
        "slow_commands": slow,
        "slow_from_ms": None if slow is None else change.after.slow.get("ms"),
        "link": str(link) if link else change.after.sata.get("speed"),
        "link_max": str(best) if best else None,
        "pcie_corrected": change.aer("corrected"),
        "pcie_uncorrected": change.aer(*_UNCORRECTED),
    }
    known = {name: value for name, value in values.items() if value is not None}
    return DriveReport.model_validate({"device": change.name, **known})
