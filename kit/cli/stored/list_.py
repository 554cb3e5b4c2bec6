"""`hsp list`: stored runs, from their files alone; workloads, presets, baselines and labs."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kit.cli import complete
from kit.cli.options import JsonOption, ResultsOption
from kit.cli.usage import loaded, refuse_unused
from kit.config.workload_base import WORKLOADS
from kit.core.errors import ConfigError, error_text
from kit.core.output import emit_json, emit_text, say
from kit.core.seed import RUN_ID
from kit.core.table import TextTable
from kit.core.terminal import terminal_width
from kit.core.units import format_latency
from kit.recovery.clean import is_made
from kit.store.baselines import read_baselines, run_of_baseline
from kit.store.labels import SERVER, SYNCS, layer_name, short_name, verdict_name
from kit.store.manifest import read_manifest
from kit.store.run_directory import named_run
from kit.store.run_name import NO_RUNS, run_folders
from kit.store.series import is_series, named_series, read_series
from kit.store.summary import Summary, read_summary
from reports.analysis.headline import sentence

_MOST_SHOWN = 2
# The column that is cut on a terminal, so that a run is a row.
_CUT = "p50 at the NFS server"
_NUMERIC = ("age", "in the lab")
_RUN_ID = re.compile(RUN_ID)
# What makes a directory one of a run, whatever its name.
_FILES = ("plan.json", "manifest.json", "summary.json", "series.json")


@dataclass(frozen=True)
class ListedRun:
    """A run directory. `verdict`: None without summary.json; `problem`: why its files cannot be read.

    `rows`: its medians, with `phase`, `layer`, `op`, `tier` and `p50_us`.
    """

    path: str
    run: str
    workload: str
    started_utc: str | None
    verdict: str | None = None
    sentence: str | None = None
    problem: str | None = None
    rows: tuple[dict[str, Any], ...] = ()
    imported: bool = False


def list_command(
    context: typer.Context,
    kind: Annotated[
        Literal["runs", "workloads", "presets", "baselines", "labs"],
        typer.Argument(metavar="WHAT", help="Of what: runs, workloads, presets, baselines, labs."),
    ] = "runs",
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, metavar="N", help="Only the newest N runs.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="NAME",
            help="Only runs of this workload.",
            autocompletion=complete.workloads,
        ),
    ] = None,
    verdict: Annotated[
        Literal["valid", "failed", "unknown"] | None, typer.Option("--verdict", help="Only runs with this.")
    ] = None,
    json_output: JsonOption = False,
    results: ResultsOption = Path("results"),
) -> None:
    """List stored runs, newest first: a row a run; or workloads, presets of devices, baselines, labs.

    In a pipe the columns are separated by tabs, and nothing is shortened.

    Examples:
      hsp list -n 5 --workload top-speeds
      hsp list workloads
      hsp list | awk -F'\\t' '$1 == "FAILED" {print $5}'
    """
    refuse_unused(context, {
        "a list of anything but runs": kind != "runs",
        "a list of what is not stored": kind in ("workloads", "presets", "labs"),
    })  # fmt: skip
    if kind == "runs":
        found = map(_listed, run_folders(results, _is_run, _say_left_out))
        wanted = (
            r for r in found
            if workload in (None, r.workload) and verdict in (None, verdict_name(r.verdict or ""))
        )  # fmt: skip
        runs = sorted(wanted, key=lambda r: r.started_utc or "", reverse=True)[:number]
        _show_runs(runs, results, json_output, " such" if workload or verdict else "")
    elif kind == "labs":
        loaded("kit.cli.lab").status(json_output)
    else:
        document, head, rows = _OTHERS[kind](results)
        if json_output:
            emit_json(document)
        else:
            _emit_table(head, rows)


def _show_runs(runs: Sequence[ListedRun], results: Path, json_output: bool, such: str) -> None:
    if json_output:
        emit_json({"format": 1, "runs": [asdict(run) for run in runs]})
        return
    if not runs:
        say(f"no{such} runs in {results}" if such else f"no runs in {results}: {NO_RUNS}")
    _emit_table(("verdict", "workload", "age", _CUT, "run"), [_row(run) for run in runs])
    if sys.stdout.isatty():
        emit_text(f"! {run.problem}" for run in runs if run.problem)


def _emit_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal, `_CUT` shortened; in a pipe a line a row, columns separated by tabs, no head."""
    if sys.stdout.isatty():
        cut = head.index(_CUT) if _CUT in head else None
        numeric = [n for n, name in enumerate(head) if name in _NUMERIC]
        emit_text(TextTable(head, rows, numeric, cut=cut).lines(terminal_width()) if rows else ())
    else:
        emit_text(tuple(row) for row in rows)


def _say_left_out(path: Path, error: OSError) -> None:
    say(f"left out: {path}: {error.strerror}")


def _is_run(path: Path) -> bool:
    return _RUN_ID.fullmatch(path.name) is not None or any(os.path.lexists(path / name) for name in _FILES)


def _listed(path: Path) -> ListedRun:
    known: dict[str, Any] = {
        "path": str(path), "run": path.name, "workload": path.parent.name, "started_utc": _time(path.name)
    }  # fmt: skip
    try:
        if is_series(path):
            return _listed_series(path)
        run = named_run(path)
        if not os.path.lexists(run.path / "manifest.json"):
            return ListedRun(**known, sentence="It has not ended, or was killed: it has no manifest.")
        manifest = read_manifest(run)
        of_manifest = {key: getattr(manifest, key) for key in ("run", "workload", "started_utc")}
        known |= {key: value for key, value in of_manifest.items() if value}
        if not os.path.lexists(run.path / "summary.json"):
            return ListedRun(**known, sentence=f"Not analysed yet: hsp show {path}")
        summary = read_summary(run)
        return ListedRun(
            **known, verdict=summary.verdict, sentence=sentence(manifest, summary), rows=_medians(summary),
            imported=summary.state == "imported",
        )  # fmt: skip
    except ConfigError as error:
        return ListedRun(**known, problem=error.message)
    except OSError as error:
        return ListedRun(**known, problem=f"{error.filename}: {error.strerror}")
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        # Parts of a summary are not checked when they are read.
        return ListedRun(**known, problem=f"{path / 'summary.json'}: damaged ({error_text(error)})")


def _listed_series(path: Path) -> ListedRun:
    """Raises ConfigError."""
    series = read_series(named_series(path))
    runs = sum(len(build.runs) for build in series.builds)
    text = f"A series: {len(series.cells)} measurements in {runs} runs. {' '.join(series.reasons)}".strip()
    if not series.ended:
        text += f" Not ended: hsp run --resume {path}" if is_made(path) else " Not ended."
    return ListedRun(str(path), series.id, series.name, series.started_utc, series.verdict, text)


def _time(name: str) -> str | None:
    """The UTC time in the name of a run directory, as in a manifest."""
    if not _RUN_ID.fullmatch(name):
        return None
    return f"{name[:4]}-{name[4:6]}-{name[6:11]}:{name[11:13]}:{name[13:15]}Z"


def _row(run: ListedRun) -> tuple[str, ...]:
    judged = "imported" if run.imported else verdict_name(run.verdict or "no result")
    state = "damaged" if run.problem else judged
    on_terminal = sys.stdout.isatty()
    when = _age(run.started_utc) if on_terminal else run.started_utc or ""
    # On a terminal it stands below the table.
    problem = "see below" if on_terminal and run.problem else run.problem
    text = problem or _p50s(run.rows) or run.sentence or ""
    return (state.upper(), run.workload, when, text, run.run if on_terminal else run.path)


def _age(started_utc: str | None) -> str:
    """Such as "3 h"; "" where the time is not known."""
    try:
        began = datetime.fromisoformat(started_utc or "")
    except ValueError:
        return ""
    age_s = (datetime.now(UTC) - began.astimezone(UTC)).total_seconds()
    for unit, length_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if age_s >= length_s:
            return f"{age_s / length_s:.0f} {unit}"
    return f"{max(age_s, 0):.0f} s"


def _medians(summary: Summary) -> tuple[dict[str, Any], ...]:
    keys = ("phase", "layer", "op", "tier", "p50_us")
    known = (row for row in summary.main_rows if row.p50_us is not None and row.op not in SYNCS)
    return tuple({key: getattr(row, key) for key in keys} for row in known)


def _p50s(medians: Sequence[dict[str, Any]]) -> str:
    """Such as "read L2ARC 141 µs, disk 5.05 ms; write SLOG 141 µs"; what is not of the server says so."""
    texts = []
    for (layer, op), rows in itertools.groupby(medians, lambda row: (row["layer"], row["op"])):
        each = [f"{short_name(row['tier'], op)} {format_latency(row['p50_us'])}" for row in rows]
        where = "" if layer == SERVER else f"{layer_name(layer)}: "
        texts.append(f"{where}{'' if each[0].startswith(op) else f'{op} '}{', '.join(each)}")
    return "; ".join(texts[:_MOST_SHOWN])


# What is listed: as JSON, and as the head and the rows of a table.
_Listing = tuple[dict[str, Any], Sequence[str], Sequence[Sequence[str]]]


def _list_workloads(results: Path) -> _Listing:
    """The kit's, with their titles and what they take in the lab, as far as that is known."""
    found: list[dict[str, Any]] = []
    for name in sorted(path.stem for path in WORKLOADS.glob("*.toml")):
        side = loaded("kit.session.side").Side.of(name, None, ())
        try:
            title, minutes = _minutes(side)
        except ConfigError as error:
            title, minutes = error.message, None
        found.append({"name": name, "title": title, "lab_minutes": minutes})
    rows = [
        (e["name"], "" if e["lab_minutes"] is None else f"{e['lab_minutes']} min", e["title"]) for e in found
    ]
    return {"format": 1, "workloads": found}, ("workload", "in the lab", "title"), rows


def _minutes(side: Any) -> tuple[str, int | None]:
    """Title, and minutes in the lab. Raises ConfigError."""
    plan_sweep, run_time = (loaded(name) for name in ("kit.cli.plan_sweep", "kit.lab.expected_duration"))
    if planned := side.sweep((), quick=False):
        plan, seconds = planned.builds[0].plan, plan_sweep.total_seconds(planned)[0]
        title = str(planned.sweep.source.document.get("title", plan.workload.title))
    else:
        plan = side.plan()
        title, seconds = plan.workload.title, run_time.expected_s(plan, aged=True)
    return title, None if seconds is None else max(1, round(seconds / 60))


def _list_presets(results: Path) -> _Listing:
    """The kit's own device models, with their sources."""
    model = loaded("kit.config.device_model")
    models = {name: model.find_preset(name) for name in model.preset_names()}
    document = {name: each.model_dump(mode="json") for name, each in models.items()}
    return document, ("preset", "device"), [(name, each.title) for name, each in models.items()]


def _list_baselines(results: Path) -> _Listing:
    """Those of a results directory, and whether their runs are there."""
    entries = []
    for name, each in sorted(read_baselines(results).items()):
        try:
            found = str(run_of_baseline(results, name).path)
        except ConfigError:
            found = None
        entries.append({"name": name, **each.as_json(), "found": found})
    if not entries:
        say(f"no baselines in {results}: `hsp tag RUN` makes one")
    rows = [(e["name"], e["run"], e["set_utc"], _whereabouts(e, results)) for e in entries]
    return {"format": 1, "baselines": entries}, ("baseline", "run", "set", ""), rows


def _whereabouts(baseline: Mapping[str, Any], results: Path) -> str:
    """Of its run, where that is not in its place; the path of each would make paragraphs of rows."""
    if baseline["found"] is None:
        return f"GONE: {baseline['path']}"
    now = os.path.relpath(baseline["found"], results)
    return "" if now == baseline["path"] else f"moved to {now}"


_OTHERS = {"workloads": _list_workloads, "presets": _list_presets, "baselines": _list_baselines}
