"""Which addresses of a device nothing had written when a phase read them. Pure.

An SSD answers reads of such addresses from its map: it says that nothing is there, and no flash is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kit.store.manifest import Manifest
from kit.store.phase import Phase

Span = tuple[int, int]


def never_written(manifest: Manifest, phase: Phase | None) -> float:
    """Part (0 to 1) of the addresses of a phase of reads that were never written; 0 where it is not known.

    Preconditioning says up to where it filled a device after its purge. What phases before may have written
    counts as written.
    """
    if phase is None or phase.op != "read" or not phase.spans:
        return 0.0
    before = list(itertools.takewhile(lambda each: each.name != phase.name, manifest.phases))
    read = unwritten = 0
    for device, span in phase.spans.items():
        left = list(_behind_fill(manifest, device))
        for other in before:
            if other.op != "read" and device in other.spans:
                left = list(_without(left, other.spans[device]))
        read += span[1] - span[0]
        unwritten += sum(max(min(end, span[1]) - max(first, span[0]), 0) for first, end in left)
    return unwritten / read if read > 0 else 0.0


def _behind_fill(manifest: Manifest, device: str) -> Iterator[Span]:
    """What preconditioning left unwritten at the end of a device."""
    entries = (manifest.precondition or {}).get("devices")
    sizes = {each.name: each.size_bytes for each in manifest.testbed.devices}
    for entry in entries if isinstance(entries, list) else ():
        filled = entry.get("filled_bytes") if entry.get("device") == device else None
        if isinstance(filled, int) and isinstance(size := sizes.get(device), int):
            yield filled, size


def _without(spans: Sequence[Span], written: Span) -> Iterator[Span]:
    for first, end in spans:
        yield from (
            (a, b) for a, b in ((first, min(end, written[0])), (max(first, written[1]), end)) if a < b
        )
