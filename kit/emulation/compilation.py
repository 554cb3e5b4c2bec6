"""Compilation of the emulated devices on this machine, cached by a digest of the sources.

The same program runs in the lab's guest and on this machine (`hsp device emulate`). It is linked
statically, because the C libraries differ.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from kit.core.cache import content_digest, locked
from kit.core.errors import HostError
from kit.core.files import cache_dir
from kit.core.progress import Progress
from kit.hosts.base import CommandFailed
from kit.hosts.local import LocalHost

HERE = Path(__file__).parent
_COMPILE_DEADLINE_S = 300.0
# Without warnings: those of a newer compiler are for developers (the tests enable them), not for users.
_FLAGS = ("-std=gnu11", "-O2", "-g")
_PACKAGES = "gcc libc6-dev liburing-dev"


def models() -> list[Path]:
    """Source files of the models; they need only the C library."""
    return sorted((HERE / "models").glob("*.c"))


def models_digest() -> str:
    """Digest of the models' sources: a state is valid only for the same digest."""
    folder = HERE / "models"
    return content_digest("", [*models(), *sorted(folder.glob("*.h"))], folder)


def server() -> Path:
    """Path of the compiled program `hsp-devices` (server/main.c). Raises HostError."""
    sources = [*models(), *sorted((HERE / "server").glob("*.c"))]
    return compiled("hsp-devices", sources, ("-static", "-pthread"), ("-luring", "-lm"))


def compiled(name: str, sources: Sequence[Path], flags: Sequence[str], libraries: Sequence[str]) -> Path:
    """Compile `sources` to the program `name`, or take it from the cache. Raises HostError."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise HostError(
            "there is no C compiler; the emulated devices are written in C",
            f"install one: apt-get install {_PACKAGES}",
        )
    headers = sorted({header for path in sources for header in path.parent.glob("*.h")})
    key = content_digest(repr((name, flags, libraries, _FLAGS)), [*sources, *headers], HERE)
    folder = cache_dir() / "devices"
    target = folder / f"{key}-{name}"
    with locked(folder, key, "another compilation of the same devices", Progress(quiet=True)):
        if not target.exists():
            part = folder / f".{target.name}.{os.getpid()}"
            try:
                LocalHost().run(
                    [compiler, *_FLAGS, *flags, "-o", *map(os.fspath, (part, *sources)), *libraries],
                    deadline_s=_COMPILE_DEADLINE_S,
                )
                part.rename(target)
            except CommandFailed as error:
                output = error.result.stderr.strip()
                missing = "liburing.h" in output or "-luring" in output or "linux/ublk_cmd.h" in output
                raise HostError(
                    f"the emulated devices do not compile:\n{output[-2000:]}",
                    f"install what they need: apt-get install {_PACKAGES}" if missing else "",
                ) from error
            finally:
                part.unlink(missing_ok=True)
    return target
