"""The result of `hsp gallery`: figures of many packed runs. Texts of strangers are short, and do not act."""

from __future__ import annotations

from typing import Literal

from kit.store.checks.outcome import Verdict
from kit.store.format import Format
from kit.store.stored import Count, Many, Positive, Stored


class GalleryRow(Stored):
    """What the drives of one role, or a drive alone, did in a phase. "" and None: not stored.

    `drives`: how many, 0 where none is known to have answered; `state`: "mixed" where they differ.
    `emulated`: of the built-in lab. `method`: of forced writes on a drive alone. `threads`: I/Os at a time.
    `reason`: why the verdict is not "valid". `files`: packs with this row, below the directory.
    """

    run: str
    utc: str
    model: str
    firmware: str
    interface: str
    drives: Count
    size_bytes: Count | None
    state: Literal["as-found", "fresh", "aged", "mixed"] | None
    emulated: bool | None
    phase: str
    layer: str
    op: str
    tier: str
    method: str
    block_bytes: Count | None
    threads: Count | None
    ios: Count
    p50_us: Positive | None
    p99_us: Positive | None
    verdict: Verdict
    reason: str
    zfs: str
    kernel: str
    kit: str
    files: Many[str] = ()

    @property
    def is_ranked(self) -> bool:
        """Whether its p99 is that of a drive, and may stand beside others."""
        return self.verdict == "valid" and self.p99_us is not None and self.drives > 0


class PackLeftOut(Stored):
    """A file or a folder without rows, and why."""

    file: str
    reason: str


class Gallery(Stored):
    """`packs`: how many were read. `rows`: by p99, those that are not ranked last. `more`: rows too many."""

    format: Format
    kit: str
    packs: Count
    rows: Many[GalleryRow]
    more: Count
    left_out: Many[PackLeftOut]
