"""Programs of the kit in C: compiled on this machine, cached by a digest of their sources."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from kit.core.cache import content_digest, locked, sha256
from kit.core.errors import ConfigError, HostError
from kit.core.files import cache_dir, write_atomically
from kit.core.own_file import read_own
from kit.core.progress import Progress
from kit.hosts.base import CommandFailed
from kit.hosts.local import LocalHost

_COMPILE_DEADLINE_S = 300.0
_MAX_BYTES = 64 << 20
# Without warnings: those of a newer compiler are for developers (the tests enable them), not for users.
_FLAGS = ("-std=gnu11", "-O2", "-g")
_PACKAGES = "gcc libc6-dev liburing-dev"


def compiled(
    name: str,
    folder: Path,
    sources: Sequence[Path],
    flags: Sequence[str],
    libraries: Sequence[str],
    what: str,
) -> Path:
    """Compile `sources`, which are below `folder`, to the program `name`, or take it from the cache.

    `what`: the sources, in a message, as a plural. Raises HostError.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise HostError(
            f"there is no C compiler; {what} are written in C", f"install one: apt-get install {_PACKAGES}"
        )
    headers = sorted({header for path in sources for header in path.parent.glob("*.h")})
    key = content_digest(repr((name, flags, libraries, _FLAGS)), [*sources, *headers], folder)
    folder = cache_dir() / "devices"
    target = folder / f"{key}-{name}"
    with locked(folder, key, f"another compilation of {name}", Progress(quiet=True)):
        if not _is_own(target):
            part = folder / f".{target.name}.{os.getpid()}"
            try:
                LocalHost().run(
                    [compiler, *_FLAGS, *flags, "-o", *map(os.fspath, (part, *sources)), *libraries],
                    deadline_s=_COMPILE_DEADLINE_S,
                )
                write_atomically(_digest_of(target), sha256(part).encode())
                part.rename(target)
            except CommandFailed as error:
                output = error.result.stderr.strip()
                missing = "liburing.h" in output or "-luring" in output or "linux/ublk_cmd.h" in output
                raise HostError(
                    f"{what} do not compile:\n{output[-2000:]}",
                    f"install what they need: apt-get install {_PACKAGES}" if missing else "",
                ) from error
            finally:
                part.unlink(missing_ok=True)
    return target


def _digest_of(program: Path) -> Path:
    """The file with its SHA-256, written with it."""
    return program.with_name(f"{program.name}.sha256")


def _is_own(program: Path) -> bool:
    """Whether the caller's own program is there as it was compiled. Else it is compiled again."""
    try:
        content = read_own(program, _MAX_BYTES)
        recorded = read_own(_digest_of(program), 1 << 10).decode("ascii", "replace")
    except (OSError, ConfigError):
        return False
    return hashlib.sha256(content).hexdigest() == recorded
