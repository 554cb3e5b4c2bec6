"""Output of a result: text, exit code, JUnit file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import reports
from kit.core.errors import EXIT_EXPECTATION, EXIT_OK, EXIT_UNKNOWN
from kit.core.output import emit_json, emit_text, say, write_target
from kit.core.terminal import terminal_width
from kit.store.run_directory import RunDir
from kit.store.series import Series
from kit.store.summary import Summary
from reports.output.junit import junit, series_junit
from reports.output.result_table import result_lines
from reports.output.series_table import series_lines

VERDICT_CODES = {"valid": EXIT_OK, "invalid": EXIT_EXPECTATION, "unknown": EXIT_UNKNOWN}


def code_of(summary: Summary) -> int:
    """The exit code of its verdict; 0 where nothing failed that is not known."""
    if summary.is_known:
        return EXIT_OK
    unmet = [each for each in summary.causes if each.makes == "invalid"]
    if summary.verdict == "invalid" and len(unmet) < len(summary.causes) and all(e.known for e in unmet):
        # What is left makes it unknown by its nature.
        return EXIT_UNKNOWN
    return VERDICT_CODES[summary.verdict]


def code_of_series(series: Series) -> int:
    """The exit code of its verdict; 0 where nothing failed that is not known."""
    return EXIT_OK if series.is_known else VERDICT_CODES[series.verdict or "unknown"]


def result_text(analysed: reports.Analysed, run: RunDir, width: int, told: Collection[str] = ()) -> list[str]:
    """Verdict, table and the places of the run and of its report. `told`: reasons printed as messages."""
    findings = [each.text for each in analysed.findings]
    lines = result_lines(analysed.summary, analysed.headline, width, findings, told)
    return [*lines, "", f"run:    {run.path}", f"report: {run.report.absolute().as_uri()}"]


def print_result(analysed: reports.Analysed, run: RunDir, told: Collection[str] = ()) -> None:
    """The same on stdout. Raises HostError."""
    emit_text(result_text(analysed, run, terminal_width(), told))


def write_junit(path: Path | None, judged: Summary | Series) -> None:
    """Write a summary or series as a JUnit file if there is a path. Raises HostError."""
    if path:
        write_target(path, junit(judged) if isinstance(judged, Summary) else series_junit(judged))


def series_text(series: Series, path: Path, width: int) -> list[str]:
    """A series for people, and the places of it and of its report."""
    report = (path / "report.html").absolute()
    return [*series_lines(series, width), "", f"series: {path}", f"report: {report.as_uri()}"]


def present_series(series: Series, path: Path, json_output: bool, junit_file: Path | None) -> None:
    """Print a series, as JSON or for people, and write its JUnit file. Raises HostError."""
    # First: standard output may have no room.
    write_junit(junit_file, series)
    if json_output:
        emit_json(series.as_json())
        say(f"report: {(path / 'report.html').absolute()}")
    else:
        emit_text(series_text(series, path, terminal_width()))
