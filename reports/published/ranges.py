"""Published ranges beside the phases of a run: which stand there, and why others do not. In microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kit.core.units import format_binary_bytes
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.summary import Conditions, Range, Reference
from reports.published.setup import io_sizes, nfs_versions


@dataclass(frozen=True)
class Beside:
    """Of one phase, by op and tier: the ranges whose conditions it meets; sentences for the others."""

    ranges_us: dict[tuple[str, str], Range] = field(default_factory=dict)
    why_not: dict[tuple[str, str], str] = field(default_factory=dict)


def beside(reference: Reference | None, manifest: Manifest, phase: Phase | None) -> Beside:
    """What of `reference` stands beside `phase`. What a phase does not record meets no condition."""
    made = Beside()
    for each in reference.ranges if reference else ():
        unlike = list(_unlike(each.conditions, manifest, phase)) if each.conditions else []
        if unlike:
            theirs, ours = (" and ".join(words) for words in zip(*unlike, strict=True))
            made.why_not[each.op, each.tier] = (
                f"No published range: measured with {theirs}, this phase has {ours}."
            )
        else:
            made.ranges_us[each.op, each.tier] = each.range_us
    return made


def _unlike(conditions: Conditions, manifest: Manifest, phase: Phase | None) -> Iterator[tuple[str, str]]:
    """Each condition that is not met, and what the phase has instead, in words."""
    if phase and phase.op == "mixed":
        yield "reads or writes alone", "both together"
    random, is_random = conditions.random, phase.is_random if phase else None
    # Runs of before did not record it.
    if random is not None and is_random is not None and random != is_random:
        yield _order(random), _order(is_random)
    size = conditions.io_size
    if size is not None and size != (phase.block_bytes if phase else None):
        sizes = map(format_binary_bytes, sorted({*io_sizes(phase)}) if phase else ())
        yield format_binary_bytes(size), " and ".join(sizes) or "an unknown I/O size"
    outstanding, on_their_way = conditions.outstanding, _on_their_way(manifest, phase)
    if outstanding is not None and outstanding != on_their_way:
        yield _outstanding(outstanding), _outstanding(on_their_way) if on_their_way else "an unknown load"
    version, versions = conditions.nfs_version, list(dict.fromkeys(nfs_versions(manifest)))
    if version is not None and versions != [version]:
        yield f"NFSv{version}", " and ".join(f"NFSv{each}" for each in versions) or "an unknown NFS version"


def _on_their_way(manifest: Manifest, phase: Phase | None) -> int:
    """I/Os at a time, of all clients together; 0: not known."""
    return ((phase and phase.outstanding) or 0) * max(len(manifest.testbed.clients), 1)


def _order(random: bool) -> str:
    return "random I/O" if random else "I/O in order"


def _outstanding(ios: int) -> str:
    return f"{ios} I/O{'s' * (ios != 1)} outstanding"
