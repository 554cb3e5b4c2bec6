"""Whether the write cache of a bare device is protected, by its forced writes: one sentence a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.printed.slog import SlogRow
from kit.store.summary import Row, Summary
from reports.devices.slog import slog_tests
from reports.features.feature import Feature, Judged
from reports.features.slog import write_cache


def _judged(manifest: Manifest, _: Latency, __: Sequence[Row]) -> Judged:
    found = [(test, write_cache.judge(test)) for test in slog_tests(manifest)]
    rows = [
        SlogRow(device=test.device.name, code=cache.code, sentence=cache.sentence, why=cache.why)
        for test, cache in found
    ]
    return Judged({"slog": rows})


def _answer(summary: Summary) -> Iterator[str]:
    """Of the first device; of several with its name."""
    for row in summary.slog:
        yield f"{row.device}: {row.sentence}" if len(summary.slog) > 1 else row.sentence


def _lines(summary: Summary) -> Iterator[str]:
    """Why; of several devices with the sentence, as the answer has that of the first alone."""
    for row in summary.slog:
        why = f"{row.why[:1].upper()}{row.why[1:]}."
        yield f"{row.device}: {row.sentence} {why}" if len(summary.slog) > 1 else why


FEATURE = Feature(_judged, answer=_answer, lines=_lines)
