"""JSON Schemas (2020-12) of what the kit stores, prints and reads, made from the models that check it.

Those of TOML files are for editors: `#:schema FILE` in the first line, as Taplo and VS Code's Even Better
TOML read it. A schema knows keys and types, and not what the kit checks beyond them: `hsp plan` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

from kit.config import device_model, need, overrides, sweep, testbed, workload
from kit.core.errors import ConfigError
from kit.store.manifest import Manifest
from kit.store.printed.gallery import Gallery
from kit.store.printed.sizing import SizeResult
from kit.store.printed.slog import SlogTest
from kit.store.series import Series
from kit.store.sheet import Sheet
from kit.store.summary import Summary

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _stored(model: type[BaseModel]) -> Schema:
    """Of a file that the kit writes. Keys of a newer version are no mistake."""
    return model.model_json_schema(by_alias=True, mode="validation")


def _workload() -> Schema:
    """Of one file: with a `base` it need not be whole, and a phase has the keys of the base's."""
    whole = workload.Workload.model_json_schema(by_alias=True)
    axes = TypeAdapter(sweep.SweepTables).json_schema(by_alias=True)
    expectations = [tables["properties"]["expect"] for tables in (whole, axes)]
    whole["$defs"] |= axes.pop("$defs")
    whole["properties"] |= {
        "base": {"type": "string", "description": "Another workload: a name, or a file beside this one."},
        **{key: axes["properties"][key] for key in ("sweep", "sweeps")},
        "lengths": {
            "type": "object",
            "description": "Keys of --set for shorter runs: hsp run --length smoke.",
            "properties": {name: {"type": "object"} for name in overrides.LENGTHS if name != overrides.FULL},
            "additionalProperties": False,
        },
        "expect": {"type": "array", "items": {"anyOf": [each["items"] for each in expectations]}},
    }
    whole["if"] = {"not": {"required": ["base"]}}
    whole["then"] = {"required": whole.pop("required"), "$ref": "#/$defs/WholePhases"}
    phase = whole["$defs"]["Phase"]
    needed = phase.pop("required")
    # How long a replay lasts follows from its capture.
    of_replay = [*(key for key in needed if key != "duration"), "replay"]
    whole_phase = {"anyOf": [{"required": keys} for keys in (["base"], needed, of_replay)]}
    whole["$defs"]["WholePhases"] = {"properties": {"phase": {"items": whole_phase}}}
    phase["properties"]["base"] = {"type": "string", "description": "A phase of the base, or above."}
    # A phase with a base has the keys of its table, too.
    for table in ("ForceTable", "ReplayTable"):
        del whole["$defs"][table]["required"]
    return whole


_SCHEMAS: Mapping[str, tuple[str, Callable[[], Schema]]] = {
    "manifest": ("manifest.json of a run", lambda: _stored(Manifest)),
    "summary": ("summary.json of a run", lambda: _stored(Summary)),
    "series": ("series.json of a sweep", lambda: _stored(Series)),
    "slog": ("what hsp slog --json prints", lambda: _stored(SlogTest)),
    "size": ("what hsp size --json prints", lambda: _stored(SizeResult)),
    "sheet": ("what hsp sheet --json prints", lambda: _stored(Sheet)),
    "gallery": ("what hsp gallery --json prints", lambda: _stored(Gallery)),
    "need": ("a need of hsp sheet, as TOML", lambda: need.NeedFile.model_json_schema(by_alias=True)),
    "workload": ("a workload, as TOML", _workload),
    "testbed": ("a testbed, as TOML", lambda: testbed.Testbed.model_json_schema(by_alias=True)),
    "device": ("a device file, as TOML", lambda: device_model.DeviceModel.model_json_schema(by_alias=True)),
}


def names() -> dict[str, str]:
    """What there are schemas of."""
    return {name: title for name, (title, _) in _SCHEMAS.items()}


def schema(name: str) -> Schema:
    """The schema called `name`. Raises ConfigError."""
    if name not in _SCHEMAS:
        raise ConfigError(f"there is no schema called {name}", f"there are: {', '.join(_SCHEMAS)}")
    title, make = _SCHEMAS[name]
    return {"$schema": _DIALECT, "$id": f"urn:hsp:schema:{name}", **make(), "title": f"hsp: {title}"}


def file_name(name: str) -> str:
    """Name of the schema's file in `docs/schemas/`."""
    return f"{name}.schema.json"
