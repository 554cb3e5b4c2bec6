"""What an import is, in words: which files of which program, and what they cannot show.

From `import` of the manifest (docs/import.md); an own run has none.
"""

from __future__ import annotations

import polars as pl

from kit.core.text import counted, some
from kit.store.labels import SERVER, layer_name
from kit.store.manifest import Import, Manifest
from kit.store.phase import Phase
from kit.store.summary import Summary

_SHOWN = 3


# The title of what is no row of a table: kit/importers/format_detection.py.
_WHOLE = "Imported"
# No clock since a boot has run for thirty years.
_LEAST_EPOCH_NS = 10**18


def name(manifest: Manifest, phase: Phase) -> str:
    """What figures and headings call a phase: its title, or the kind of file it was imported from."""
    section = manifest.import_
    title = phase.title or phase.name
    return section.source.files if section and title == _WHOLE else title


def rows(manifest: Manifest) -> dict[str, str]:
    """By the name of a phase what it is, where phases are rows of a table."""
    if manifest.import_ is None:
        return {}
    return {each.name: each.title for each in manifest.phases if each.title and each.title != _WHOLE}


def title(manifest: Manifest) -> str | None:
    """The title of the page."""
    if manifest.import_ is None:
        return manifest.title
    files = [each.file for each in manifest.import_.files]
    return f"Imported {manifest.import_.source.files}: {some(files, _SHOWN)}"


def timed(manifest: Manifest) -> bool:
    """Whether it is known when an I/O was done."""
    return manifest.import_ is None or manifest.import_.source.timed


def tick_ns(manifest: Manifest) -> float | None:
    """Of the clock that measured; None where it is not known."""
    return manifest.import_.tick_ns if manifest.import_ else None


def means(manifest: Manifest, summary: Summary) -> list[tuple[str, float]]:
    """Name and mean, us, of each row of a table that has means alone: pg_test_fsync's; of others nothing.

    A name is `FILE: SECTION: ROW`, without a file or section that does not matter (pg_test_fsync.py).
    """
    if manifest.import_ is None or manifest.import_.format != "pg-test-fsync":
        return []
    return [(row.phase, row.mean_us or row.max_us) for row in summary.main_rows]


def clock_ns(manifest: Manifest) -> int | None:
    """The time of day at 0 s, in ns since 1970; None where the source counts from another moment."""
    origin_ns = manifest.import_.origin_ns if manifest.import_ and timed(manifest) else None
    return origin_ns if origin_ns is not None and origin_ns >= _LEAST_EPOCH_NS else None


def sentences(section: Import, latency: pl.DataFrame) -> list[str]:
    """What the page says of an import, below "What you are looking at"."""
    source, files = section.source, section.files
    layers = [str(value) for value in latency["layer"].unique().sort()]
    told = [
        "Imported: not measured by this kit. "
        f"{source.program} wrote {counted(len(files), 'file')} ({source.files}), listed under Import.",
        f"Latency: {source.latency}, measured at the {' and '.join(layer_name(each) for each in layers)}.",
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


def phase_frame(latency: pl.DataFrame, phase: str, layer: str) -> pl.DataFrame:
    """The rows of one phase, by its name, and layer."""
    return latency.filter((pl.col("phase") == phase) & (pl.col("layer") == layer))


def load_of(phase: Phase, manifest: Manifest) -> str:
    """How many I/Os were outstanding, in words."""
    if manifest.import_:
        return "Load not recorded"
    if phase.open is not None or phase.replayed is not None:
        return f"Open loop, at most {phase.outstanding} outstanding"
    if phase.outstanding is not None:
        return f"Closed loop, {phase.outstanding} outstanding"
    return (manifest.load or "Load not recorded").capitalize()
