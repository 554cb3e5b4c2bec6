"""The drives of a run, a row for each operation that those of one role answered (`hsp gallery`). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.store.manifest import Device, Manifest
from kit.store.phase import Phase
from kit.store.printed.gallery import GalleryRow
from kit.store.printed.slog import SlogDevice
from kit.store.summary import Summary
from reports.devices.slog import described, state_of

# Of each tier the role that its answers come from; none of DRAM, and where several may have answered.
_ROLES = {
    "l2arc": "cache", "slog": "log", "special": "special", "disk": "data", "pool": "data", "direct": "data",
}  # fmt: skip
_MOST_LETTERS = 100
# More are no testbed and no workload, but a file that is to take long.
_MOST_DRIVES, _MOST_ROWS = 1000, 10_000
_FLUSHED, _MOST_SIZES = re.compile(r"write_flush_([0-9]{1,9})_p50_us", re.ASCII), 100
NO_VERDICT = "A line of `hsp slog --format row` has no verdict, and no number of writes."
# With what was done to it before.
_Drive = tuple[Device, SlogDevice, str]


def gallery_rows(manifest: Manifest, summary: Summary) -> Iterator[GalleryRow]:
    """`summary`: as it is stored. Raises ConfigError for impossible values."""
    before, devices, versions = manifest.precondition or {}, manifest.testbed.devices, manifest.versions or {}
    if max(len(devices), len(before.get("devices") or ())) > _MOST_DRIVES or len(summary.rows) > _MOST_ROWS:
        raise ConfigError(f"it has more than {_MOST_DRIVES} drives or {_MOST_ROWS} rows")
    drives = [(each, described(each), state_of(before, str(each.name)).kind) for each in devices]
    of_run = _short(
        run=manifest.run,
        utc=manifest.started_utc,
        **{key: versions.get(name) for key, name in (("kit", "hsp"), ("zfs", "zfs"), ("kernel", "kernel"))},
        reason="" if summary.verdict == "valid" else next(iter(summary.shown_reasons), ""),
    )
    emulated = any(found.emulated for _, found, _ in drives) or manifest.testbed.emulated
    phases = {phase.name: (phase, _names(phase)) for phase in manifest.phases}
    for row in summary.main_rows:
        phase, names = phases.get(row.phase, (None, None))
        role = _ROLES.get(row.tier, "")
        mine = [each for each in drives if (each[0].role == role if names is None else each[0].name in names)]
        forced = phase.forces.method if phase and phase.forces and names is not None else ""
        yield GalleryRow.made(
            "summary.json",
            **of_run,
            **_short(phase=row.phase, layer=row.layer, op=row.op, tier=row.tier, method=forced),
            **_of(mine),
            **_load(phase, row.op),
            **{"ios": row.count, "p50_us": row.p50_us, "p99_us": row.p99_us},
            **{"verdict": summary.verdict, "emulated": emulated},
        )


def slog_rows(line: Mapping[str, Any]) -> Iterator[GalleryRow]:
    """Of a line that `hsp slog --format row` printed. Raises ConfigError for anything else."""
    texts = {key: line.get(key) for key in ("model", "firmware", "transport", "kernel", "date", "kit")}
    sizes = [found[1] for key in line if (found := _FLUSHED.fullmatch(key))]
    if not all(isinstance(text, str | None) for text in texts.values()) or not 0 < len(sizes) <= _MOST_SIZES:
        raise ConfigError("not a line of `hsp slog --format row`")
    texts |= {"utc": texts.pop("date"), "interface": texts.pop("transport")}
    common = _short(**texts, run="", layer="device", op="write", tier="all", zfs="")
    for size in sizes:
        yield GalleryRow.made(
            "the line",
            **common,
            **{"phase": f"flush-{size}", "method": "fdatasync", "block_bytes": int(size), "threads": 1},
            **{key: line.get(key) for key in ("size_bytes", "state", "emulated")},
            **{key: line.get(f"write_flush_{size}_{key}") for key in ("p50_us", "p99_us")},
            **{"drives": 1, "ios": 0, "verdict": "unknown", "reason": NO_VERDICT},
        )


def _short(**texts: str | None) -> dict[str, Any]:
    """Texts of somebody else, by key."""
    safe = {key: safe_text(text or "") for key, text in texts.items()}
    return {
        key: text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."
        for key, text in safe.items()
    }


def _names(phase: Phase) -> set[str] | None:
    """Of the devices that a load went to; None where it did not go to bare ones."""
    return {*(phase.array.members if phase.array else phase.spans)} if phase.on_devices else None


def _load(phase: Phase | None, op: str) -> dict[str, Any]:
    if phase is None:
        return {"block_bytes": None, "threads": None}
    block = phase.block_bytes or phase.block_bytes_by_op.get(op)
    return {"block_bytes": block, "threads": phase.forces.threads if phase.forces else phase.outstanding}


def _of(drives: Sequence[_Drive]) -> dict[str, Any]:
    """What they are, each once; the size, where all have the same."""
    texts: dict[str, Iterator[str | None]] = {
        "model": (found.model or found.emulated or stored.model for stored, found, _ in drives),
        "firmware": (found.firmware for _, found, _ in drives),
        "interface": (found.transport for _, found, _ in drives),
    }
    sizes, states = {stored.size_bytes for stored, _, _ in drives}, {state for *_, state in drives}
    return {
        **_short(**{key: ", ".join(filter(None, dict.fromkeys(each))) for key, each in texts.items()}),
        "drives": len(drives),
        "size_bytes": sizes.pop() if len(sizes) == 1 else None,
        "state": states.pop() if len(states) == 1 else "mixed" if states else None,
    }
