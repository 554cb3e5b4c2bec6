"""What two runs must have in common to be compared: checked settings, as flat `dotted.key -> value`.

Words are no setting: titles, citations, comments of fio jobs.
"""

from __future__ import annotations

import difflib
import itertools
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kit.core.errors import ConfigError
from kit.core.text import whole
from kit.store.manifest import Manifest
from kit.store.stored import Json
from reports.analysis import import_source

# Of a phase, where the run has no plan: as the manifest has them.
_PHASE = ("job", "op", "block_bytes", "outstanding", "interval_ns", "expected_tiers", "tiers")
# Words for people; the reference and expectations, judged only after the run, are no part of it either.
_WORDS = ("title", "source")
_IDENTITY = ("model", "serial", "wwn", "size_bytes")
# What the run recorded of a phase that is compared by its name, besides the keys of its plan.
_RECORDED = ("op", "block_bytes", "outstanding")
# Checks of the doctor that find no setting, but what changes by itself.
_CHANGING = frozenset(
    {"steal", "load", "swap", "time-sync", "clock-offset", "link-errors", "route", "mtu", "python"}
)
_THREADS = "/proc/fs/nfsd/threads"
# Parameters that OpenZFS computes from the memory. The kernel's memory varies a little.
_SCALED = frozenset({"zfs_dirty_data_max", "zfs_dirty_data_max_max", "zfs_wrlog_data_max"})
PHASE = "phase."
# Parts of a key that name one thing, such as testbed.devices.cache0; of others two, such as phases.read.
_PARTS = {"testbed": 3, "phase": 1, "machines": 2}
_SHOWN = 160
# So many keys of one thing in a sentence.
_MOST_KEYS = 8
# A line is named by these first: what a series is measured again for.
_NAMED_BY = ("versions.kernel", "versions.zfs", ".settings.driver", "versions.", ".settings.", "testbed.")
_MOST_CHARACTERS = 40


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
        **({"length": manifest.length} if manifest.length else {}),
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
        "host": {each.label: each.set for each in manifest.host_settings},
        "tunables": {tunable.name: tunable.set for tunable in manifest.tunables},
        "machines": _machines(manifest),
        "pool": {
            "properties": manifest.pool.properties if manifest.pool else None,
            **{key: _table(workload.get("pool")).get(key) for key in ("data", "groups", "log", "age")},
        },
        "dataset": {"properties": manifest.dataset.properties if manifest.dataset else None},
        "export": {"options": _export(manifest)},
        "nfs": workload.get("nfs"),
        "fill_block": _table(workload.get("working_set")).get("fill_block"),
        "warmup": workload.get("warmup"),
        # What it may cost is not what was done.
        "precondition": {k: v for k, v in _table(workload.get("precondition")).items() if k != "budget"},
        "phases": _phases(manifest, workload),
        "jobs": {name: _without_comments(text) for name, text in _table(plan.get("jobs")).items()},
    }
    return dict(_flat(value))


def settings_of_phase(manifest: Manifest, plan: Json, name: str) -> dict[str, Any]:
    """As settings(), but of the phases only the one called `name`, under keys that begin with PHASE."""
    flat = {
        key: value
        for key, value in settings(manifest, plan).items()
        if key.partition(".")[0] not in ("phases", "jobs", "load")
    }
    stored = next(phase.as_json() for phase in manifest.phases if phase.name == name)
    planned = _phases(manifest, _table(plan.get("workload")))
    phase = {**planned.get(name, {}), **{key: stored.get(key) for key in _RECORDED}}
    jobs = _table(plan.get("jobs"))
    # What was removed stays away: it is the same for a phase after it.
    before = itertools.takewhile(lambda other: other != name, planned)
    gone = [planned[each].get("remove") for each in (*before, name) if each in planned]
    load = jobs.get(f"{phase.get('job')} ({name})", jobs.get(str(phase.get("job")), ""))
    phase |= {"remove": None, "removed": sorted(filter(None, gone)), "load": _options(load)}
    return flat | dict(_flat({"phase": phase}))


class Incomparable(ConfigError):
    """A and B differ. `lines`: in what."""

    def __init__(self, lines: Sequence[str], hint: str) -> None:
        text = "A and B are not alike, so a difference would not say what it comes from:"
        super().__init__("\n".join([text, *lines]), hint)
        self.lines = lines


def check(
    a: Sequence[tuple[str, Mapping[str, Any]]],
    b: Sequence[tuple[str, Mapping[str, Any]]],
    across: Sequence[str],
    free: Sequence[str] = (),
) -> dict[str, tuple[Any, Any]]:
    """What A and B differ in: key -> (value of A, value of B).

    `a` and `b`: name and settings of each run. `across`: keys, or what keys begin with up to a dot, that A
    and B may differ in; `free`: the same, without anybody having asked for it. Raises ConfigError with every
    other key that differs and both values: between A and B, and within one side always.
    """
    keys = sorted({key for _, s in [*a, *b] for key in s})
    refuse_unknown(across, keys)
    mixed = [line for side, runs in (("A", a), ("B", b)) for line in _mixed(side, runs, keys)]
    if mixed:
        raise ConfigError(
            "the runs of one side are not alike:\n" + "\n".join(mixed),
            "compare runs of one kind with runs of one other kind; --across is for what A and B differ in",
        )
    differing = {
        k: (a[0][1].get(k), b[0][1].get(k)) for k in keys if differ(k, a[0][1].get(k), b[0][1].get(k))
    }
    refused = {k: v for k, v in differing.items() if not any(covers(p, k) for p in (*across, *free))}
    if refused:
        lines = [f"  {key}: A has {shown(x, y)}, B has {shown(y, x)}" for key, (x, y) in refused.items()]
        # The shortest that cover them: of several keys of one thing what names the thing, else the key.
        covering = [keys[0] if len(keys) == 1 else thing for thing, keys in _by_thing(refused).items()]
        flags = " ".join(f"--across {shlex.quote(prefix)}" for prefix in covering)
        raise Incomparable(lines, f"if that is what you compare: {flags}")
    return differing


def refuse_unknown(across: Sequence[str], keys: Sequence[str]) -> None:
    """Raises ConfigError for what covers none of `keys`."""
    for prefix in across:
        if not any(covers(prefix, key) for key in keys):
            parts = [".".join(key.split(".")[:n]) for key in keys for n in range(1, key.count(".") + 2)]
            near = difflib.get_close_matches(prefix, dict.fromkeys(parts), n=3)
            raise ConfigError(
                f"--across {prefix}: the runs have no such key",
                f"did you mean: {', '.join(near)}"
                if near
                else "without it, `hsp compare` names the keys that differ",
            )


def differ(key: str, x: Any, y: Any) -> bool:
    """Whether two runs differ in the setting `key`.

    Runs of before have no settings of devices and machines: what is not known there is no difference.
    """
    is_read_back = key.startswith("machines.") or (key.startswith("testbed.devices.") and ".settings." in key)
    return bool(x != y) and not (is_read_back and (x is None or y is None))


def covers(prefix: str, key: str) -> bool:
    """Whether `prefix` is the key itself, or what it begins with up to a dot."""
    return key == prefix or key.startswith(prefix.rstrip(".") + ".")


def _by_thing(keys: Iterable[str]) -> dict[str, list[str]]:
    things: dict[str, list[str]] = {}
    for key in keys:
        parts = key.split(".")
        things.setdefault(".".join(parts[: _PARTS.get(parts[0], 2)]), []).append(key)
    return things


def differences(across: Mapping[str, Sequence[Any]]) -> list[str]:
    """What A and B differ in as sentences, one of each thing; `across`: key -> values of A and of B."""
    made = []
    for thing, keys in _by_thing(across).items():
        listed = [f"{key}: A has {shown(*across[key])}, B has {shown(*across[key][::-1])}" for key in keys]
        words = f"They differ in {listed[0]}"
        if len(keys) > 1:
            words = "The phases differ: " if thing == "phase" else f"They differ in {thing}: "
            words += "; ".join(each.removeprefix(f"{thing}.") for each in listed[:_MOST_KEYS])
        more = f"; {len(keys) - _MOST_KEYS} more keys" if len(keys) > _MOST_KEYS else ""
        made.append(f"{words}{more}.")
    return made


def side_names(across: Mapping[str, tuple[Any, Any]]) -> tuple[str, str]:
    """A and B by the setting that tells them apart, such as "A: kernel 6.1"; without one by their letter."""
    for wanted in _NAMED_BY:
        for key, values in across.items():
            is_wanted = key.startswith(wanted) or (wanted.startswith(".") and wanted in key)
            if is_wanted and None not in values:
                said = key.rpartition(".")[2]
                first, second = (str(value)[:_MOST_CHARACTERS] for value in values)
                return f"A: {said} {first}", f"B: {said} {second}"
    return "A", "B"


def _mixed(side: str, runs: Sequence[tuple[str, Mapping[str, Any]]], keys: Sequence[str]) -> Iterator[str]:
    """A line for each setting that a run of one side has otherwise than the first of that side."""
    first_name, first = runs[0]
    for key in keys:
        for name, found in runs[1:]:
            x, y = first.get(key), found.get(key)
            if differ(key, x, y):
                yield f"  {key}: of {side}, {first_name} has {shown(x, y)}, {name} has {shown(y, x)}"


def shown(value: Any, other: Any) -> str:
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


def _flat(value: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of all its tables by dotted key; nothing of what is None."""
    for key, inner in value.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(inner, dict):
            yield from _flat(inner, name)
        elif inner is not None:
            yield name, inner


def _machines(manifest: Manifest) -> Json:
    """What was found, and not set by the run, by "server" and "clients", for names of hosts differ.

    Without spl_hostid, which only says which machine it is.
    """
    own = {each.name for each in manifest.tunables} | {"spl_hostid"}
    own |= {"nfsd_threads" for each in manifest.host_settings if each.path == _THREADS}
    server = manifest.testbed.server
    uses = (use for phase in manifest.phases for use in phase.cpu if use.host == server)
    memory = next((use.memory_bytes for use in uses if use.memory_bytes), 0)
    found: Json = {"server": {"nfsd_threads": manifest.nfsd_threads, **manifest.modules}, "clients": {}}
    for each in manifest.findings:
        if each.check not in _CHANGING and not each.unknown:
            machine = found["server" if each.host == server else "clients"]
            machine[each.check] = sorted({*machine.get(each.check, ()), each.found})

    def plain(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(key, inner) for key, inner in value.items() if key not in own}
        # What is whole GiB, somebody has chosen, or it is the cap of OpenZFS.
        size = whole(str(value)) if name in _SCALED and memory else None
        return f"{100 * size / memory:.0f} % of memory" if size and memory and size % (1 << 30) else value

    return {machine: plain("", values) for machine, values in found.items()}


def _table(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _by_name(value: Any) -> Json:
    tables = [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
    return {str(d.get("name")): {k: v for k, v in d.items() if k != "name"} for d in tables}


def _device(found: Json) -> Json:
    """What it is, not where the kernel put it: that changes with a restart, or a cable."""
    identity = found.get("identity")
    left_out = {"path", "identity", "capacitor_health"}
    if isinstance(found.get("parameters"), dict):
        # The title of the preset: its parameters are what it is.
        left_out.add("model")
    kept = {key: without_words(value) for key, value in found.items() if key not in left_out}
    # Which CPUs take its interrupts, irqbalance changes at any time.
    _table(_table(kept.get("settings")).get("controller")).pop("irq_cpus", None)
    if isinstance(identity, dict):
        kept["identity"] = {key: identity.get(key) for key in _IDENTITY}
    return kept


def without_words(value: Any) -> Any:
    """`value` without titles and citations, also in the tables in it."""
    if not isinstance(value, dict):
        return value
    return {key: without_words(inner) for key, inner in value.items() if key not in _WORDS}


def _without_comments(job: Any) -> str:
    """The text of a fio job without comments and empty lines."""
    lines = [line.strip() for line in str(job).splitlines()]
    return "\n".join(line for line in lines if line and line[0] not in ";#")


def _options(job: Any) -> Json:
    """The options of a fio job by their names; of several sections under the names of the sections."""
    sections: dict[str, Json] = {}
    options: Json = {}
    for line in _without_comments(job).splitlines():
        name, _, value = (part.strip() for part in line.partition("="))
        if name.startswith("["):
            options = sections.setdefault(name, {})
        else:
            options[name] = value
    return options if len(sections) == 1 else sections


def _export(manifest: Manifest) -> list[str] | None:
    """The options of the export, without path and client, and without fsid, which follows from the path."""
    if manifest.export is None:
        return None
    listed = [line.partition("(")[2].rstrip(")").split(",") for line in manifest.export.lines]
    return sorted({",".join(word for word in words if not word.startswith("fsid=")) for words in listed})


def _phases(manifest: Manifest, workload: Json) -> Json:
    # Rows of a table of others: which there are is a result, not a setting.
    if import_source.rows(manifest):
        return {}
    planned = _by_name(workload.get("phase"))
    # How much time a column of an import holds says nothing of what was measured.
    keys = [key for key in _PHASE if key != "interval_ns" or manifest.import_ is None]
    stored = {phase.name: phase.as_json() for phase in manifest.phases}
    found = planned or {name: {k: phase.get(k) for k in keys} for name, phase in stored.items()}
    return {name: without_words(phase) for name, phase in found.items()}
