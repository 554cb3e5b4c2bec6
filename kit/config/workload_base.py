"""The files of a workload: its own, and those of the workloads that it is based on.

`base = "top-speeds"` takes every key from there that the file does not have. Tables are merged key by key,
but for the values of an axis, which are replaced. Arrays are not, but for phases: the `[[phase]]` tables of
the file are the phases that run; each takes the keys that it does not have from the base's phase of its own
name, or from the phase that its `base` names, of the base or above it in the file. A file without phases has
those of its base.

Expectations are not taken over: they are limits for what the base measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from kit.config import named_files
from kit.config.toml import (
    OfKey,
    Place,
    Text,
    describe,
    dotted,
    nearest,
    placed_refusal,
    printable,
    read_document,
    suggested,
)
from kit.config.toml_lines import KeyLines, KeyPath
from kit.core.errors import ConfigError

WORKLOADS = Path(__file__).parents[2] / "workloads"
Document = dict[str, Any]
# What a file says of itself alone.
_OWN = ("base", "format", "name", "title", "expect", "known", "lengths")
# A table that has another value of this key replaces the base's: its other keys would mean something else.
_KIND: dict[tuple[str, ...], str] = {("precondition",): "method", ("nfs",): "engine", ("tree",): "list"}
_SWEEP = ("sweep", "sweeps")
_MOST_FILES = 8


@dataclass(frozen=True)
class _File:
    path: Path
    document: Document
    lines: KeyLines


# The tables that a merged phase was made of, nearest first: number of the file, number of its phase.
_Origin = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class WorkloadSource:
    """`document`: the merged content; `files`: the workload's own file first, then its bases.

    `sweep`: the tables of its sweep (kit.config.sweep), which the document does not have; `lengths`: those of
    kit.config.overrides; `min_count`: the most I/Os that an expectation asks for at the chosen length;
    `set_at`: the places of keys that a sweep or an option has set; `expanded`: axes whose values are those
    of the testbed (kit.config.candidates).
    """

    document: Document
    files: tuple[_File, ...]
    phase_origins: tuple[_Origin, ...]
    sweep: Document = field(default_factory=dict)
    lengths: Document = field(default_factory=dict)
    min_count: int | None = None
    set_at: Mapping[KeyPath, Place] = field(default_factory=dict)
    expanded: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        """The workload's own file."""
        return self.files[0].path

    def place_of(self, key: KeyPath) -> Place:
        """File and line of a key of `document`; of one that is nowhere, of what encloses it."""
        for depth in range(len(key), 0, -1):
            if key[:depth] in self.set_at:
                return self.set_at[key[:depth]]
        file, known = self._nearest(key)
        return file.path, file.lines.line_of(known)

    def _nearest(self, key: KeyPath) -> tuple[_File, KeyPath]:
        """The file that has most of `key`, and that part as it stands there."""
        # Of equals, max takes the first: the nearest file.
        return max(self._known(key), key=lambda found: len(found[1]))

    def as_written(self, key: KeyPath) -> KeyPath:
        """`key` as its file numbers phases and expectations: a cell of a sweep has others."""
        if key[:1] not in (("phase",), ("expect",)) or len(key) < 2:
            return key
        known = self._nearest(key)[1]
        return (*known[:2], *key[2:]) if len(known) >= 2 else key

    def is_own(self, key: KeyPath) -> bool:
        """Whether the workload's own file has this key, so that it is not of a base."""
        return any(file is self.files[0] and len(known) == len(key) for file, known in self._known(key))

    def part(self, phases: Sequence[int], expect: Sequence[int]) -> WorkloadSource:
        """The same with these phases and expectations alone, by number; places are those in the files."""
        document = dict(self.document)
        for name, numbers in (("phase", phases), ("expect", expect)):
            if name in document:
                document[name] = [document[name][number] for number in numbers]
        new_key: dict[KeyPath, KeyPath] = {("phase", old): ("phase", new) for new, old in enumerate(phases)}
        set_at = {
            (*new_key.get(key[:2], key[:2]), *key[2:]): place
            for key, place in self.set_at.items()
            if key[:1] != ("phase",) or key[:2] in new_key
        }
        origins = tuple(self.phase_origins[number] for number in phases)
        return replace(self, document=document, phase_origins=origins, set_at=set_at)

    def expect_key(self, number: int) -> KeyPath:
        """The key of the expectation `number` of an axis, as its file numbers expectations."""
        expected = self.files[0].document.get("expect")
        axes = [n for n, each in enumerate(tables_of(expected)) if "axis" in each]
        return ("expect-of-file", axes[number])

    def file_beside(self, kind: str, key: KeyPath, name: str) -> Path:
        """The file that the key names: it is beside the workload file that has the key.

        `kind`: of kit.config.named_files. Raises ConfigError.
        """
        try:
            return named_files.beside(kind, self.place_of(key)[0], name)
        except ValueError as error:
            self.refuse(key, str(error))

    def placed(self, problems: Iterable[tuple[KeyPath, str]]) -> list[tuple[Place, Text]]:
        """Problems of keys with file and line, for `placed_refusal`."""
        return [
            (self.place_of(key), OfKey(dotted(self.as_written(key)), text) if key else text)
            for key, text in problems
        ]

    def refuse(self, key: KeyPath, text: str) -> NoReturn:
        """Raise ConfigError for one problem of `key`."""
        raise placed_refusal(self.placed([(key, text)]))

    def _known(self, key: KeyPath) -> Iterator[tuple[_File, KeyPath]]:
        """For each file the part of `key` that it has, as it numbers its phases and expectations."""
        number = key[1] if len(key) > 1 and isinstance(key[1], int) else None
        if key[:1] == ("phase",) and number is not None and number < len(self.phase_origins):
            for file, phase in self.phase_origins[number]:
                yield _known_in(self.files[file], ("phase", phase, *key[2:]))
            return
        if key[:1] == ("expect-of-file",):
            yield _known_in(self.files[0], ("expect", *key[1:]))
            return
        for file_ in self.files:
            own = key
            if key[:1] == ("expect",) and number is not None:
                expected = tables_of(self.document.get("expect"))
                each = expected[number] if number < len(expected) else None
                same = [n for n, other in enumerate(tables_of(file_.document.get("expect"))) if other is each]
                own = ("expect", *same[:1], *key[2:]) if same else key[:0]
            yield _known_in(file_, own)


def _known_in(file: _File, key: KeyPath) -> tuple[_File, KeyPath]:
    value: Any = file.document
    for depth, part in enumerate(key):
        if isinstance(value, dict) and part in value:
            value = value[str(part)]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return file, key[:depth]
    return file, key


def find_workload(name_or_path: str) -> Path:
    """Path of a workload: a file, or the name of one of the kit's workloads. Raises ConfigError."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or "/" in name_or_path:
        return path
    known = sorted(file.stem for file in WORKLOADS.glob("*.toml"))
    if name_or_path not in known:
        close = suggested(name_or_path, known)
        hint = f"the kit has: {', '.join(known)}; or give a .toml file"
        raise ConfigError(f"there is no workload '{name_or_path}'", f"{close} {hint}".strip())
    return WORKLOADS / f"{name_or_path}.toml"


def read_source(path: Path) -> WorkloadSource:
    """Read a workload file and its bases. Raises ConfigError with file and line."""
    files = [_File(path, *read_document(path))]
    while (base := files[-1].document.get("base")) is not None:
        path, by = _base_path(files, base)
        files.append(_File(path, *read_document(path, by)))
    document: Document = {}
    origins: list[_Origin] = []
    for number in range(len(files) - 1, -1, -1):
        document, origins = _with_base(files, number, document, origins)
    for phase, origin in zip(tables_of(document.get("phase")), origins, strict=False):
        if added := _options_since_title(files, origin):
            phase["title"] = f"{phase['title']}, {added}"
    sweep = {name: document.pop(name) for name in _SWEEP if name in document}
    if of_axes := [each for each in tables_of(document.get("expect")) if "axis" in each]:
        sweep["expect"] = of_axes
        document["expect"] = [each for each in document["expect"] if each not in of_axes]
        if not document["expect"]:
            del document["expect"]
    lengths = document.pop("lengths", {})
    return WorkloadSource(document, tuple(files), tuple(origins), sweep, lengths)


def _base_path(files: Sequence[_File], base: object) -> tuple[Path, Path | None]:
    """The file that the last of `files` is based on, and the file that names it; None: it is the kit's."""
    file = files[-1]

    def refuse(text: str) -> NoReturn:
        raise placed_refusal([((file.path, file.lines.line_of(("base",))), f"base: {text}")])

    if not isinstance(base, str):
        refuse(f"expected the name of a workload or of a .toml file, found {describe(base)}")
    by = file.path if base.endswith(".toml") or "/" in base else None
    try:
        path = named_files.beside("workload.base", by, base) if by else find_workload(base)
    except ConfigError as error:
        refuse(f"{error.message}; {error.hint}")
    except ValueError as error:
        refuse(str(error))
    if any(path.resolve() == other.path.resolve() for other in files):
        refuse(f"{base} is based on this file itself: each would wait for the other")
    if len(files) == _MOST_FILES:
        refuse(f"the {_MOST_FILES}th workload beneath another; use one nearer to the first")
    if not path.exists():
        refuse(f"{path}: no such file beside {file.path.name}")
    return path, by


def _with_base(
    files: Sequence[_File], number: int, base: Document, origins: list[_Origin]
) -> tuple[Document, list[_Origin]]:
    """The content of file `number` merged over `base`, and the origins of its phases."""
    own = {key: value for key, value in files[number].document.items() if key != "base"}
    beneath = {key: value for key, value in base.items() if key not in _OWN}
    merged = _merge(own, beneath)
    if "phase" in own and own["phase"] != tables_of(own["phase"]):
        # Refused when the document is validated: until then, its phases come from nowhere.
        return merged, []
    if "phase" in own:
        known = list(zip(tables_of(beneath.get("phase")), origins, strict=False))
        phases, origins = [], []
        for index, phase in enumerate(own["phase"]):
            made, origin = _phase(files[number], index, phase, known)
            phases.append(made)
            origins.append(((number, index), *origin))
            known.insert(0, (made, origins[-1]))
        merged["phase"] = phases
    return merged, origins


def _options_since_title(files: Sequence[_File], origin: _Origin) -> str:
    """The fio options that a phase has beside those of the phase whose title it takes over: "bs=4k, ...".

    With the title alone a report would call two loads the same.
    """
    changed: Document = {}
    for number, index in origin:
        own = files[number].document["phase"][index]
        if "title" in own:
            # Of files that are nearer than the title's. What is no table is refused when it is validated.
            tables = [*(files[nearer].document.get("job") for nearer in reversed(range(number))), changed]
            options = {k: v for table in tables if isinstance(table, dict) for k, v in table.items()}
            return ", ".join(f"{name}={value}" for name, value in options.items())
        if isinstance(options := own.get("options"), dict):
            changed = {**options, **changed}
    return ""


def tables_of(value: object) -> list[Document]:
    """The tables of an array, before it is validated."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _phase(
    file: _File, index: int, own: Document, known: Sequence[tuple[Document, _Origin]]
) -> tuple[Document, _Origin]:
    """A phase with the keys of the one that it is based on, and the origins of that one."""
    base_key = "split_of" if "split_of" in own else "base"
    name = own.get(base_key, own.get("name"))
    found = next((each for each in known if name is not None and each[0].get("name") == name), None)
    if found is None and base_key in own:
        names = list(dict.fromkeys(str(phase.get("name")) for phase, _ in known))
        key = ("phase", index, base_key)
        named = f"'{printable(name[:40])}'" if isinstance(name, str) else describe(name)
        text = f"no phase {named} above it or in the base, {nearest(str(name), names, 'phases')}"
        raise placed_refusal([((file.path, file.lines.line_of(key)), f"{dotted(key)}: {text}")])
    phase, origin = found or ({}, ())
    if "duration" in own:
        # Who says how long a phase lasts means that.
        phase = {key: value for key, value in phase.items() if key not in ("ios", "duration_max")}
    made = _merge({k: v for k, v in own.items() if k != "base"}, phase)
    if base_key == "split_of":
        # The device is out by then.
        made = {k: v for k, v in made.items() if k != "remove" or k in own}
        made["title"] = own.get("title", f"{phase.get('title')}: where the time goes")
    return made, origin


def _merge(own: Document, base: Document, key: tuple[str, ...] = ()) -> Document:
    """`base` with the keys of `own`; tables are merged, everything else is replaced."""
    kind = _KIND.get(key)
    if kind and kind in own and own[kind] != base.get(kind):
        return own
    if key[:1] == ("sweep",) and len(key) == 2 and "to" in own:
        # Other values: what was published about those of the base is not about them.
        base = {name: value for name, value in base.items() if name not in ("to", "published")}
    merged = {**base, **own}
    for name in own.keys() & base.keys():
        if isinstance(own[name], dict) and isinstance(base[name], dict):
            merged[name] = _merge(own[name], base[name], (*key, name))
    return merged
