"""The page's tables of a bare device as a log device, and the sentence on its write cache."""

from __future__ import annotations

from collections.abc import Iterator

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.devices.slog import slog_tests
from reports.features.section import Section
from reports.features.slog import rows
from reports.features.slog.figure import by_size


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of a run with the phases of `hsp slog`."""
    if not summary.slog:
        return None
    told, tests = {row.device: row for row in summary.slog}, [*slog_tests(manifest)]
    devices = [
        {
            "name": f"{rows.identity(test)}, {rows.state(test)}", "told": told.get(test.device.name),
            "flushes": test.flushes, "sizes": [*rows.by_size(test)], "threads": [*rows.by_threads(test)],
            "idle": [*rows.idle(test)],
        }
        for test in tests
    ]  # fmt: skip
    values = {"devices": devices, "head": [*_head()], "threads_head": rows.THREADS_HEAD}
    return Section("slog", "As a log device", "slog/slog.html.j2", values, [by_size(each) for each in tests])


def _head() -> Iterator[str]:
    """Each column with the name of its group, which a small screen shows beside the value."""
    group = ""
    for name in rows.HEAD:
        first, _, rest = name.partition("\n")
        group = first if rest else group
        yield f"{group} {rest or first}".strip()
