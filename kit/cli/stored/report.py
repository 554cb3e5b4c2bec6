"""Analyse and draw a stored run or series again, from its files alone."""

from __future__ import annotations

import os
import webbrowser
from functools import partial
from pathlib import Path

import typer

import reports
from kit.cli.result import OutputTargets
from kit.cli.usage import loaded, refuse_unused
from kit.config.toml import load
from kit.core.errors import ConfigError
from kit.core.output import as_json, say
from kit.pack.opened import pack_of
from kit.session.presentation import code_of, code_of_series, result_text, series_text, write_junit
from kit.store.checks.known_failures import Known
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir, named_run
from kit.store.series import Series, is_series, named_series
from kit.store.summary import Summary
from reports.published.references import Document


def report(
    context: typer.Context, run: Path, result: OutputTargets, reference: Path | None, known: Path | None,
    junit: Path | None, open_: bool,
) -> None:  # fmt: skip
    """Write it as text, JSON or page. Ends with the verdict's exit code. Raises ConfigError, HostError."""
    pack = pack_of(run)
    if pack and open_:
        raise ConfigError("the page of a pack is in no file", "write it to one: -o report.html")
    judged: Series | Summary
    if is_series(run):
        refuse_unused(context, {"the report of a series": True})
        path = named_series(run)
        judged = series = reports.analyse_series(path)
        page, text, code = path / "report.html", partial(series_text, series, path), code_of_series(series)
    else:
        run_dir = named_run(run)
        analysed = _analysed(run_dir, reference, known)
        judged = summary = analysed.summary
        page, text, code = run_dir.report, partial(result_text, analysed, run_dir), code_of(summary)
    # First: standard output may have no room.
    write_junit(junit, judged)
    result.write({
        # The last two lines are places of files, which a pack has not.
        "text": lambda width: [*text(width)[:-2], f"pack:   {pack}"] if pack else text(width),
        "json": lambda _: as_json(judged.as_json()),
        "html": lambda _: page.read_bytes(),
    })  # fmt: skip
    if not pack:
        _end(page, result, open_)
    if junit or judged.verdict == "invalid":
        raise typer.Exit(code)


def _analysed(run: RunDir, reference: Path | None, known: Path | None) -> reports.Analysed:
    document = load(reference, Document) if reference else None
    ranges = document.reference(reference.stem) if document and reference else None
    failures: tuple[Known, ...] = ()
    if known:
        # So late because it knows plans, which take long to load.
        failures = loaded("kit.session.rejudged").known_of(known, read_manifest(run))
    return reports.analyse(run, ranges, document.setup if document else None, failures)


def _end(report: Path, result: OutputTargets, open_: bool) -> None:
    """Say where the report is; open it in the user's browser, or say why not."""
    if "text" not in result.kinds:
        say(f"report: {report}")
    if not open_:
        return
    url = report.absolute().as_uri()
    if os.geteuid() == 0 and "SUDO_USER" in os.environ:
        reason = "not opened: a browser should not run as root"
    elif not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        reason = "not opened: this session has no display"
    elif not webbrowser.open(url):
        reason = "not opened: no browser was found"
    else:
        return
    say(f"{reason}; open {url}")
