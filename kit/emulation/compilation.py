"""The program of the emulated devices.

The same program runs in the lab's guest and on this machine (`hsp lab up --here`). It is linked
statically, because the C libraries differ.
"""

from __future__ import annotations

from pathlib import Path

from kit.core.cache import content_digest
from kit.hosts.compilation import compiled

HERE = Path(__file__).parent
_WHAT = "the emulated devices"


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
    return compiled("hsp-devices", HERE, sources, ("-static", "-pthread"), ("-luring", "-lm"), _WHAT)
