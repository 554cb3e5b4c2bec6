"""What two runs must have in common to be compared: checked settings, as flat `dotted.key -> value`."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kit.core.errors import ConfigError
from kit.store.manifest import Manifest

Json = dict[str, Any]
# Of a phase, where the run has no plan: as the manifest has them.
_PHASE = ("job", "op", "block_bytes", "outstanding", "interval_ns", "expected_tiers", "tiers")
# Words for people, and what is judged only after the run; the reference and expectations are no part of it.
_WORDS = ("title",)
_IDENTITY = ("model", "serial", "wwn", "size_bytes")
_SHOWN = 160


def settings(manifest: Manifest, plan: Json) -> dict[str, Any]:
    """The settings of a run that decide whether another run is like it.

    `plan` is the content of plan.json, {} where a run has none. Names of pools, paths of files, addresses
    and times are not in it: they differ from run to run.
    """
    workload, imported = _table(plan.get("workload")), manifest.import_
    testbed = manifest.testbed.as_json()
    value: Json = {
        # Of an import it is what the user called the files.
        "workload": None if imported else manifest.workload,
        "import": {"format": imported.format, "counts": imported.counts} if imported else None,
        "load": manifest.load,
        "clock": manifest.clock.as_json() if manifest.clock else None,
        "versions": manifest.versions,
        "working_set": manifest.working_set,
        "testbed": {
            "server": testbed.get("server"),
            "clients": testbed.get("clients"),
            "emulated": testbed.get("emulated"),
            "devices": {name: _device(found) for name, found in _by_name(testbed.get("devices")).items()},
            "lab": _table(plan.get("testbed")).get("lab"),
        },
        "tunables": {tunable.name: tunable.set for tunable in manifest.tunables},
        "pool": {
            "properties": manifest.pool.properties if manifest.pool else None,
            "data": _table(workload.get("pool")).get("data"),
        },
        "dataset": {"properties": manifest.dataset.properties if manifest.dataset else None},
        "export": {"options": _export(manifest)},
        "nfs": workload.get("nfs"),
        "fill_block": _table(workload.get("working_set")).get("fill_block"),
        "warmup": workload.get("warmup"),
        # What it may cost is not what was done.
        "precondition": {k: v for k, v in _table(workload.get("precondition")).items() if k != "budget"},
        "phases": _phases(manifest, workload),
        "jobs": plan.get("jobs"),
    }
    flat: dict[str, Any] = {}
    _flatten(value, "", flat)
    return flat


def check(
    a: Sequence[tuple[str, Mapping[str, Any]]],
    b: Sequence[tuple[str, Mapping[str, Any]]],
    across: Sequence[str],
) -> dict[str, tuple[Any, Any]]:
    """What A and B differ in: key -> (value of A, value of B), all of them keys of `across`.

    `a` and `b`: name and settings of each run. Raises ConfigError with every key that differs otherwise and
    both values: between A and B unless the key is in `across`, and within one side always.
    """
    keys = sorted({key for _, s in [*a, *b] for key in s})
    for key in across:
        if key not in keys:
            near = (
                difflib.get_close_matches(key, keys, n=3) or [k for k in keys if k.startswith(f"{key}.")][:8]
            )
            raise ConfigError(
                f"--across {key}: the runs have no such key",
                f"did you mean: {', '.join(near)}" if near else "a key is named as the refusal names it",
            )
    mixed = [line for side, runs in (("A", a), ("B", b)) for line in _mixed(side, runs, keys)]
    if mixed:
        raise ConfigError(
            "the runs of one side are not alike:\n" + "\n".join(mixed),
            "compare runs of one kind with runs of one other kind; --across is for what A and B differ in",
        )
    differing = {k: (a[0][1].get(k), b[0][1].get(k)) for k in keys if a[0][1].get(k) != b[0][1].get(k)}
    refused = {k: v for k, v in differing.items() if k not in across}
    if refused:
        lines = [f"  {key}: A has {_shown(x, y)}, B has {_shown(y, x)}" for key, (x, y) in refused.items()]
        flags = " ".join(f"--across {shlex.quote(key)}" for key in refused)
        raise ConfigError(
            "A and B are not alike, so a difference would not say what it comes from:\n" + "\n".join(lines),
            f"if that is what you compare: {flags}",
        )
    return differing


def _mixed(side: str, runs: Sequence[tuple[str, Mapping[str, Any]]], keys: Sequence[str]) -> Iterator[str]:
    """A line for each setting that a run of one side has otherwise than the first of that side."""
    first_name, first = runs[0]
    for key in keys:
        for name, found in runs[1:]:
            x, y = first.get(key), found.get(key)
            if x != y:
                yield f"  {key}: of {side}, {first_name} has {_shown(x, y)}, {name} has {_shown(y, x)}"


def _shown(value: Any, other: Any) -> str:
    """A value in one line; of a long one, the stretch where it departs from `other`."""
    if value is None:
        return "nothing"
    text, beside = (json.dumps(v, ensure_ascii=False) for v in (value, other))
    if len(text) <= _SHOWN:
        return text
    same = next((n for n, (x, y) in enumerate(zip(text, beside, strict=False)) if x != y), len(beside))
    first = max(min(same, len(text)) - _SHOWN // 4, 0) if other is not None else 0
    part = text[first : first + _SHOWN]
    return f"{'...' if first else ''}{part}{'...' if first + _SHOWN < len(text) else ''}"


def _flatten(value: Any, prefix: str, into: dict[str, Any]) -> None:
    if not isinstance(value, dict):
        if value is not None:
            into[prefix] = value
        return
    for key, inner in value.items():
        _flatten(inner, f"{prefix}.{key}" if prefix else str(key), into)


def _table(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _by_name(value: Any) -> Json:
    tables = [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
    return {str(d.get("name")): {k: v for k, v in d.items() if k != "name"} for d in tables}


def _device(found: Json) -> Json:
    """What it is, not where the kernel put it: that changes with a restart, or a cable."""
    identity = found.get("identity")
    kept = {key: value for key, value in found.items() if key not in ("path", "identity")}
    if isinstance(identity, dict):
        kept["identity"] = {key: identity.get(key) for key in _IDENTITY}
    return kept


def _export(manifest: Manifest) -> list[str] | None:
    """The options of the export, without path and client, and without fsid, which follows from the path."""
    if manifest.export is None:
        return None
    listed = [line.partition("(")[2].rstrip(")").split(",") for line in manifest.export.lines]
    return sorted({",".join(word for word in words if not word.startswith("fsid=")) for words in listed})


def _phases(manifest: Manifest, workload: Json) -> Json:
    planned = _by_name(workload.get("phase"))
    # How much time a column of an import holds says nothing of what was measured.
    keys = [key for key in _PHASE if key != "interval_ns" or manifest.import_ is None]
    stored = {phase.name: phase.as_json() for phase in manifest.phases}
    found = planned or {name: {k: phase.get(k) for k in keys} for name, phase in stored.items()}
    return {name: {k: v for k, v in phase.items() if k not in _WORDS} for name, phase in found.items()}
