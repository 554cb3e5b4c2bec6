"""Values of a stored run that cannot all be true (docs/verdict.md, MANIFEST-VALUES). Pure.

What the kit wrote closes by itself. A manifest that was damaged or changed is found where another value, or
the counts, determine the one that was changed; kit.store refuses what no run can have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kit.store.checks.outcome import Outcome
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from reports.verdict import stored_checks, stored_phase

MANIFEST_VALUES = "MANIFEST-VALUES"
_MOST_SHOWN = 5
# A run's id is made before its manifest, by the same clock.
_EARLY = timedelta(seconds=2)


def contradictions(manifest: Manifest, latency: Latency) -> Iterator[Outcome]:
    """Outcomes of a run that nothing else makes unknown. An import has one count alone."""
    if not manifest.kind.value.counts_twice:
        return
    for text in itertools.islice(_of_the_run(manifest), _MOST_SHOWN):
        yield Outcome.failed(MANIFEST_VALUES, f"manifest.json contradicts itself: {text}.")
    counted = stored_phase.counted(latency, [phase.name for phase in manifest.phases])
    for phase in manifest.phases:
        ios = counted[phase.name]
        texts = itertools.chain(
            stored_phase.contradictions(manifest, phase, ios),
            stored_checks.contradictions(manifest, phase, ios),
        )
        for text in itertools.islice(texts, _MOST_SHOWN):
            words = f"manifest.json contradicts itself or the counts: {text}."
            yield Outcome.failed(MANIFEST_VALUES, words, phase.name)


def _of_the_run(manifest: Manifest) -> Iterator[str]:
    yield from _order(manifest)
    yield from _names(manifest)
    yield from _times(manifest)
    yield from _devices(manifest)
    if manifest.warmup and (manifest.warmup.problems or any(manifest.warmup.trouble.values())):
        yield "the warm-up had problems, and the run has none"


def _order(manifest: Manifest) -> Iterator[str]:
    names = [phase.name for phase in manifest.phases]
    if len(set(names)) < len(names):
        yield "a phase is there twice"
    whole = sorted((phase for phase in manifest.phases if not phase.parts), key=lambda each: each.start_ns)
    for one, other in itertools.pairwise(whole):
        # The last I/O of the one is in its last interval, the first of the other begins in its first.
        if other.start_ns + other.interval_ns <= one.end_ns - one.interval_ns:
            yield f"the phase {other.name} begins at {other.start_ns} ns, before {one.name} ends"


def _names(manifest: Manifest) -> Iterator[str]:
    """What is declared of phases that the run does not have."""
    known = {phase.name for phase in manifest.phases} | manifest.skipped_phases
    declared = [("soak", each.phase) for each in manifest.soak]
    declared += [("impact", name) for each in manifest.impact for side in each.sides for name in side]
    for what, name in declared:
        if name not in known:
            yield f"{what} is of the phase {name}, which the run does not have"


def _times(manifest: Manifest) -> Iterator[str]:
    stamp = (manifest.run or "").partition("-")[0]
    if manifest.started_utc and manifest.run:
        try:
            made = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            return
        started = datetime.fromisoformat(manifest.started_utc)
        if started < made - _EARLY:
            yield f"started_utc is {manifest.started_utc}, before the run {manifest.run} was made"


def _devices(manifest: Manifest) -> Iterator[str]:
    testbed = manifest.testbed
    names = [each.name for each in testbed.devices]
    if len(set(map(str, names))) < len(names):
        yield "a device of the testbed is there twice"
    if testbed.emulated is False and any(each.parameters for each in testbed.devices):
        yield "emulated is false, and devices have the parameters of a model"
    known = set(map(str, names)) | {"array"}
    most = manifest.outstanding
    hosts = {str(testbed.server), *testbed.clients}
    for phase in manifest.phases:
        if most is not None and (phase.outstanding or 0) > most:
            yield f"outstanding of {phase.name} is {phase.outstanding}, that of the run is {most} at most"
        machines = [*(each.host for each in phase.machines), *(each.host for each in phase.cpu)]
        for host in machines:
            # Of a lab whose clients are namespaces, the lab.
            if host not in hosts and not any(each.startswith(f"{host}/") for each in hosts):
                yield f"{phase.name} has the machine {host}, which the testbed does not have"
        if strange := [each.device for each in phase.devices if each.device not in known]:
            yield f"{phase.name} has the use of {strange[0]}, which the testbed does not have"
