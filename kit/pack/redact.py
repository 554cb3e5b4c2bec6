"""A stored result without names: JSON values by the meaning of their keys, tables by their columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from pydantic import BaseModel

from kit.pack.names import HOME, PackNames
from kit.store.manifest import Mount
from kit.store.stored import Json, Stored

# Keys whose values are names by themselves, by kind.
_NAMED = {
    **dict.fromkeys(("serial", "wwn", "guid", "eui", "nguid", "uuid", "spl_hostid", "machine_id"), "serials"),
    **dict.fromkeys(("device", "members"), "devices"),
    **dict.fromkeys(("server", "clients", "host", "client", "hosts", "export", "testbed"), "hosts"),
    **dict.fromkeys(("file_system", "file_systems", "dataset"), "pools"),
    **dict.fromkeys(("file", "ssh_config", "sources", "testbed_file", "workload_file"), "paths"),
    "user": "users",
}
# What `name` is, by the key above it; of others a word that stays.
_NAME_OF = {
    "devices": "devices", "device": "devices", "testbed": "hosts", "pools": "pools", "pool": "pools",
    "dataset": "pools", "files": "paths", "client": "hosts", "server": "hosts",
}  # fmt: skip
# Values of closed sets, times, ids and digests.
_CLOSED = {
    "op", "tier", "layer", "kind", "state", "role", "method", "code", "id", "format", "run", "verdict", "utc",
    "started_utc", "phase", "end", "scope", "control", "digest", "check", "until", "durable", "makes", "open",
    "part", "figure", "reference", "target", "level",
}  # fmt: skip
# Not sentences: words of a workload, a model or a version. A name in them is replaced, no other word.
_WORDS = {
    "workload", "title", "name", "job", "model", "firmware", "alone", "beside", "image", "transport",
    "driver", "scheduler", "write_cache", "kernel", "kit", "hsp", "to", "from", "in_run", "build", "axis",
    "keys", "values", "cross", "only", "sets", "load", "caller", "program", "set", "written", "before",
    "lines", "options",
}  # fmt: skip
_TREES = {
    "versions", "modules", "properties", "parameters", "settings", "working_set", "axes", "at", "plan",
    "host_settings", "tunables", "bus", "lab", "mount",
}  # fmt: skip
# Keys of the plan that decide whether runs are alike (reports.comparison.comparability).
_COMPARED = ("nfs", "warmup", "precondition", "phase")
_COMPARED_OF = {"pool": ("data", "groups", "log", "age"), "working_set": ("fill_block",)}


def _fields(of: type[BaseModel]) -> set[str]:
    """Keys of stored values: they are never names."""
    own = {field.alias or name for name, field in of.model_fields.items()}
    return own.union(*map(_fields, of.__subclasses__()))


def kind_of(key: str, parent: str) -> str:
    """The kind of name that the value of a key is, or with a `parent` of `KEY.*` the key itself; "": none."""
    if parent.endswith(".*"):
        return "" if key in _FIELDS else {"spans.*": "devices", "mount.*": "hosts"}.get(parent, "")
    if key == "name":
        return _NAME_OF.get(parent, "")
    if key == "path":
        return "paths" if parent in ("devices", "device", "identity") else ""
    if key == "devices":
        return "devices"
    if key == "source" and parent == "mount":
        return "hosts"
    return _NAMED.get(key, "")


def known_json(value: Any) -> Any:
    """A stored value as JSON, without keys that this version does not know: anything may be in them."""
    if isinstance(value, BaseModel):
        names = {name: field.alias or name for name, field in type(value).model_fields.items()}
        given = {
            names[name]: known_json(getattr(value, name)) for name in names if name in value.model_fields_set
        }
        # Of an appliance it has the options of each client, by the client's name.
        return given | (known_json(value.model_extra or {}) if isinstance(value, Mount) else {})
    if isinstance(value, dict):
        return {name: known_json(inner) for name, inner in value.items()}
    return [known_json(inner) for inner in value] if isinstance(value, list | tuple) else value


def compared_plan(plan: Any) -> Json:
    """Of plan.json what comparisons read."""
    workload, testbed = (_table(_table(plan).get(key)) for key in ("workload", "testbed"))
    parts = {
        key: {name: table[name] for name in names if name in table}
        for key, names in _COMPARED_OF.items()
        if (table := _table(workload.get(key)))
    }
    return {
        "workload": {key: workload[key] for key in _COMPARED if key in workload} | parts,
        "testbed": {"lab": testbed.get("lab")},
        "jobs": _table(_table(plan).get("jobs")),
    }


# All that are imported with this module: manifest, series, summary.
_FIELDS = frozenset(_fields(Stored))


def _table(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def collect(value: Any, names: PackNames) -> None:
    """Add the names of a JSON value."""
    for key, parent, _, text in _texts(value):
        for user in HOME.findall(text):
            names.add("users", user)
        if kind := kind_of(key, parent):
            names.add(kind, text)


def kept_words(value: Any, names: PackNames) -> None:
    """Add the words that stay in sentences: those of `value` that are not sentences."""
    for key, parent, within, text in _texts(value):
        if not parent.endswith(".*") and (within or _is_word(key, parent)):
            names.add_words(text)


def _texts(
    value: Any, key: str = "", parent: str = "", within: bool = False
) -> Iterator[tuple[str, str, bool, str]]:
    """Key, key above it, whether it is below one of _TREES, and text; a key itself is below `KEY.*`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, f"{key}.*", within, name
            yield from _texts(inner, name, key, within or key in _TREES)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key, parent, within)
    elif isinstance(value, str):
        yield key, parent, within, value


def _is_word(key: str, parent: str) -> bool:
    if key in _TREES or key in _CLOSED:
        return True
    return key in _WORDS and not (key == "name" and parent in ("checks", "unavailable"))


def redacted(value: Any, names: PackNames, key: str = "", parent: str = "", within: bool = False) -> Any:
    """A JSON value without names. `within`: it is below a key whose values are no sentences."""
    if isinstance(value, dict):
        inside = within or key in _TREES
        return {
            name if name in _FIELDS else names.name(name): redacted(inner, names, name, key, inside)
            for name, inner in value.items()
        }  # fmt: skip
    if isinstance(value, list):
        return [redacted(inner, names, key, parent, within) for inner in value]
    if not isinstance(value, str):
        return value
    if kind_of(key, parent):
        return names.name(value)
    if key in _CLOSED and not within:
        return value if names.sentence(value) == value else names.text(value)
    return names.text(value) if within or _is_word(key, parent) else names.sentence(value)


def redacted_table(frame: pl.DataFrame, names: PackNames) -> pl.DataFrame:
    """A table whose texts are without names; rows and counts are as they were."""
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    return frame.with_columns(
        pl.col(name).replace({value: names.name(value) for value in frame[name].unique().to_list()})
        for name in texts
    )
