"""RUN on the command line where it may be a pack: unpacked into a directory for as long as a command runs."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from kit.core.errors import ConfigError
from kit.store import run_name

# Of each pack the directory, which is removed when the process ends.
_DIRECTORIES: dict[Path, Path] = {}


def find_run(name: str | None, results: Path, *, alone: bool = False) -> Path:
    """As of kit.store.run_name; of a pack the directory with its files. Raises ConfigError, HostError."""
    return opened(run_name.find_run(name, results, alone=alone))


def find_phase(name: str, results: Path) -> str:
    """The same with RUN:PHASE."""
    found = run_name.find_phase(name, results)
    ends = [at for at, letter in enumerate(found) if letter == ":"]
    for at in (len(found), *reversed(ends)):
        if os.path.isfile(found[:at]):
            return f"{opened(Path(found[:at]))}{found[at:]}"
    return found


def opened(path: Path) -> Path:
    """`path` itself, unless it is a pack."""
    if not path.is_file():
        return path
    # Not before: most commands name no file.
    from kit.pack.archive import is_pack

    return _unpacked(path.absolute()) if is_pack(path) else path


@contextmanager
def opened_files(path: Path, names: Collection[str]) -> Iterator[Path]:
    """The files of a pack that have these names, until the block ends: many packs need no room together.

    Raises as `unpack`; errors, also of the block, name neither place.
    """
    from kit.pack.archive import unpack

    with tempfile.TemporaryDirectory(prefix="hsp-pack-") as temporary:
        into = Path(temporary).resolve()
        try:
            yield unpack(path, into, names)
        except ConfigError as error:
            raise ConfigError(
                error.message.replace(f"{path}: ", "").replace(f"{into}/", ""), error.hint
            ) from None


def pack_of(path: Path) -> Path | None:
    """The pack that a directory is of: it will be gone. None of any other directory."""
    found = (pack for pack, each in _DIRECTORIES.items() if path.is_relative_to(each))
    return next(found, None)


@cache
def _unpacked(path: Path) -> Path:
    from kit.pack.archive import unpack

    directory = _DIRECTORIES[path] = Path(tempfile.mkdtemp(prefix="hsp-pack-")).resolve()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    # With the name of the pack, which messages show.
    into = directory / path.name
    into.mkdir(mode=0o700)
    return unpack(path, into)
