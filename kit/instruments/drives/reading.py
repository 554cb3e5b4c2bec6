"""Drives as a host has them at one moment: the command that reads them, and what it printed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.core.errors import HostError
from kit.core.text import json_value, safe_text
from kit.hosts.base import Host
from kit.instruments.drives import logs

PROGRAM = Path(__file__).parents[2] / "remote" / "read_drives.py"
SOURCE = "kit/remote/read_drives.py"
# Of those that the program knows: what is asked before and after each phase.
LOGS = ("smart", "identify", "smartctl")
# A drive that does not answer has 20 s for each log; several are read at a time.
_DEADLINE_S = 300.0
_PCI = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)? x([0-9]{1,2})", re.ASCII)
_SATA = re.compile(r"([0-9]{1,2}\.[0-9]) (?:Gbps|Gb/s)", re.ASCII)
BY_MODEL = "counters of its model"
Words = Mapping[str, Sequence[str]]
# Counters of a model (kit/emulation/models) by those of a drive.
_MODEL = {"thermal_transitions": "thm_temp1_trans_count", "thermal_throttled_ns": "throttled_ns"}


@dataclass(frozen=True)
class PciLink:
    """GT/s of a lane, and lanes."""

    speed_gts: float
    width: int

    @classmethod
    def parse(cls, text: object) -> PciLink | None:
        """None for anything else, such as "Unknown x0" of a device without a link."""
        match = _PCI.fullmatch(text) if isinstance(text, str) else None
        return cls(float(match[1]), int(match[2])) if match and float(match[1]) and int(match[2]) else None

    def at_most(self, other: PciLink | None) -> PciLink:
        if other is None:
            return self
        return PciLink(min(self.speed_gts, other.speed_gts), min(self.width, other.width))

    @property
    def mts(self) -> int:
        """Millions of transfers a second, of all lanes."""
        return round(self.speed_gts * self.width * 1000)

    def __str__(self) -> str:
        return f"{self.speed_gts:g} GT/s x{self.width}"


@dataclass(frozen=True)
class DriveReading:
    """`counts` by the names of kit.instruments.drives.logs; `source`: the program that printed them.

    `controller`, `aer`, `sata`: as kit/remote/read_drives.py prints them, and `drive_max` of SATA.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    slow: Mapping[str, int] = field(default_factory=dict)
    controller: Mapping[str, Any] = field(default_factory=dict)
    aer: Mapping[str, int] = field(default_factory=dict)
    sata: Mapping[str, str] = field(default_factory=dict)

    @property
    def link(self) -> PciLink | None:
        return PciLink.parse(self.controller.get("link"))

    @property
    def link_max(self) -> PciLink | None:
        """What both ends can do; None unless both say it."""
        drive, port = (PciLink.parse(self.controller.get(name)) for name in ("link_max", "port_max"))
        return drive.at_most(port) if drive and port else None

    def sata_gbps(self, name: str) -> float | None:
        match = _SATA.fullmatch(str(self.sata.get(name, "")))
        return float(match[1]) if match else None


def command(paths: Mapping[str, str], wanted: Words, models: Words) -> list[str]:
    """argv of the program, which is its input; as root: logs of drives are for root alone.

    All by name: `paths`; the logs that are `wanted`; `models`: argv that prints counters of a model.
    """
    logs_of = {name: [*each] for name, each in wanted.items()}
    request = {"paths": dict(paths), "logs": logs_of, "models": dict(models)}
    return ["/usr/bin/python3", "-I", "-", json.dumps(request, sort_keys=True)]


def read(host: Host, paths: Mapping[str, str], wanted: Words, models: Words) -> dict[str, dict[str, Any]]:
    """What the program printed of each drive, unparsed; arguments as of `command`. Raises HostError."""
    argv = command(paths, wanted, models)
    output = host.run(argv, stdin=PROGRAM.read_bytes(), deadline_s=_DEADLINE_S).stdout
    try:
        found = json_value(output)
        return {name: {**found[name]} for name in paths}
    except (ValueError, KeyError, TypeError) as error:
        shown = safe_text(output[:200])
        raise HostError(f"{host.name}: {SOURCE} printed no drives: {shown!r}") from error


def parse(found: Mapping[str, Any]) -> DriveReading:
    """One drive of what `read` returns. Pure."""
    texts = {name: text for name, text in _table(found.get("logs")).items() if isinstance(text, str)}
    model = logs.counts(logs.as_object(str(found.get("model") or "")))
    counts, source = logs.of_nvme(texts.get("smart", ""), texts.get("identify", "")), "nvme smart-log"
    if not texts.get("smart"):
        counts, source = logs.of_smartctl(texts.get("smartctl", "")), "smartctl"
    if throttles := {ours: model[name] for name, ours in _MODEL.items() if name in model}:
        counts, source = throttles, BY_MODEL
    sata = {name: str(text)[:40] for name, text in _table(found.get("sata")).items()}
    return DriveReading(
        counts=counts,
        source=source,
        slow=logs.slow_commands(texts.get("latency", "")),
        controller=_table(found.get("controller")),
        aer=logs.counts(_table(found.get("aer"))),
        sata=logs.sata_speeds(texts.get("smartctl", "")) | sata,
    )


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
