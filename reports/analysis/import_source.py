"""What an import is, in words: which files of which program, and what nobody can know from them.

From `import` of the manifest (docs/formats.md); an own run has none.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from kit.store import import_source
from kit.store.import_source import ImportSource

Json = dict[str, Any]
SERVER = "nfs-server"
LAYERS = {"client": "clients", SERVER: "NFS server", "vdev": "vdevs"}
_SHOWN = 3


def section(manifest: Json) -> Json | None:
    """The part of the manifest that tells of an import; None for a run of the kit's own."""
    found = manifest.get("import")
    return found if isinstance(found, dict) and found else None


def _source(manifest: Json) -> ImportSource:
    return import_source.read(section(manifest) or {})


def _files(manifest: Json) -> list[str]:
    listed = (section(manifest) or {}).get("files") or []
    return [str(entry.get("file")) for entry in listed]


def name(manifest: Json, phase: Json) -> str:
    """What figures and headings call a phase: its title, or the kind of file it was imported from."""
    return _source(manifest).files if section(manifest) else str(phase.get("title") or phase["name"])


def title(manifest: Json) -> Any:
    """The title of the page."""
    if not section(manifest):
        return manifest.get("title")
    files = _files(manifest)
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return f"Imported {_source(manifest).files}: {', '.join(files[:_SHOWN])}{more}"


def timed(manifest: Json) -> bool:
    """Whether it is known when an I/O was done."""
    return not section(manifest) or _source(manifest).timed


def latency_words(manifest: Json) -> str:
    """What a latency of the files is, as the end of a sentence about latency."""
    return _source(manifest).latency


def sentences(manifest: Json, latency: pl.DataFrame) -> list[str]:
    """What the page says of an import, below "What you are looking at"."""
    source, files = _source(manifest), _files(manifest)
    layers = [str(value) for value in latency["layer"].unique().sort()]
    count = f"{len(files)} file{'s' * (len(files) != 1)}"
    told = [
        f"This run was imported: the kit measured nothing of it. It has what {source.program} wrote into "
        f"{count} ({source.files}), listed under Import.",
        f"Latency is {source.latency}. It was taken at the layer "
        f"{' and '.join(LAYERS.get(layer, layer) for layer in layers)}.",
    ]
    unknown = []
    if SERVER not in layers:
        unknown.append("what an NFS server saw")
    if set(latency["tier"].unique()) <= {"all"}:
        unknown.append("which tier answered")
    unknown += ["the hardware, pool and settings below it", "how many I/Os were outstanding"]
    if not source.timed:
        unknown.append("when the I/Os were done")
    unknown.append("whether these are all I/Os")
    told.append(f"Such files do not tell {', '.join(unknown[:-1])}, nor {unknown[-1]}.")
    if width := _widest(latency):
        told.append(
            f"Bins are those of the source, up to {width:.3g} % wide, and that far a percentile can be off."
        )
    return told


def _widest(latency: pl.DataFrame) -> float | None:
    """The width of the widest bin with I/Os in percent of its lower edge; of those from 1 us on."""
    used = latency.filter((pl.col("count") > 0) & (pl.col("lo_ns") >= 1000))
    if not used.height:
        return None
    share = used.select(((pl.col("hi_ns") - pl.col("lo_ns")) / pl.col("lo_ns")).max()).item()
    return 100 * float(share)
