"""series.json: the runs of a sweep, its cells, and what they say together (docs/formats/results.md).

    results/<workload>/series-<UTC time>-<id>/
        series.json    written before the first run and after each
        report.html    one page for all cells, drawn at the end

The runs are beside it, as any other. Latencies in microseconds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kit.core.errors import ConfigError
from kit.core.seed import RUN_ID
from kit.store import json_file
from kit.store.checks.ids import id_of_ratio
from kit.store.checks.known_failures import Known
from kit.store.checks.outcome import Verdict
from kit.store.format import FORMAT, Format
from kit.store.run_directory import RunDir, named_run, new_directory
from kit.store.stored import Count, Many, Share, Stored, contradiction, read_versioned
from kit.store.summary import BytesOnTheWay, ForcesRow, Range

PREFIX = "series-"
# The name of a run directory: it stands in a file of a stranger, and becomes a path.
RunName = Annotated[str, Field(pattern=f"^(?:{RUN_ID})$")]


# 146 years: 62 bits of ns, as the counts have them.
_Us = Annotated[float, Field(ge=0, le=5e12)]
_Rate = Annotated[float, Field(ge=0, le=1e18)]
_Ratio = Annotated[float, Field(ge=0, le=1e13)]
_Round = Annotated[Count, Field(ge=1, le=10_000)]


def _holds(name: str, value: float | None, span: Range | None) -> None:
    """Raises a contradiction unless a figure is inside of its range."""
    if span is not None and (span[0] > span[1] or value is None or not span[0] <= value <= span[1]):
        raise contradiction(f"{name} is {value}, its range {span[0]} to {span[1]}")


class Claim(Stored):
    """What was published about the ratio of a row at `to` to that of the base."""

    to: str
    phase: str
    op: str
    tier: str
    text: str


class SeriesAxis(Stored):
    """An axis. `values`: names, the base's first; `kind`: what another value needs (docs/sweeps.md).

    `phases`: those that it is about; none named: all. `unit`: "%" where the values of its key are parts.
    """

    name: str
    keys: Many[str]
    kind: Literal["phase", "build", "nothing"]
    values: Many[str]
    phases: Many[str] = ()
    unit: Literal["", "%"] = ""
    published: Many[Claim] = ()

    def worded(self, value: str) -> str:
        """A value with its unit, for people: "90 %"."""
        return f"{value} {self.unit}".rstrip()


class SeriesRun(Stored):
    """A run of a build; `round` from 1. `verdict`: None until it has ended."""

    run: RunName
    round: _Round
    verdict: Verdict | None = None
    problem: str | None = None


class SeriesBuild(Stored):
    """Cells that share a pool: a run in each round."""

    name: str
    digest: str
    runs: Many[SeriesRun] = ()


class CellRow(Stored):
    """A layer x op x tier of a cell in one run. Ranges: what its I/Os leave open, within this run."""

    layer: str
    op: str
    tier: str
    count: Count
    share: Share
    p50_us: _Us | None
    p50_range_us: Range | None
    p99_us: _Us | None
    p99_range_us: Range | None = None
    mean_us: _Us | None = None
    published_us: Range | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        _holds("p50_us", self.p50_us, self.p50_range_us)
        _holds("p99_us", self.p99_us, self.p99_range_us)
        if self.p50_us is not None and self.p99_us is not None and self.p50_us > self.p99_us:
            raise contradiction(f"p50_us is {self.p50_us}, above p99_us, {self.p99_us}")
        return self


class CellRun(Stored):
    """A cell in one run. `cpu_busy`: of 1, the busiest machine, or its busiest CPU.

    `bytes`: on their way to the log devices.
    `ios_per_s_range`: what the I/Os leave open, within this run.
    `never_written`: of reads on a device that was filled in part, the part (0 to 1) of their addresses that
    nothing had written; `rotating`: whether the load went to disks, where that is known. `known`: each of its
    reasons is a known failure.
    """

    run: RunName
    round: _Round
    verdict: Verdict
    reasons: Many[str] = ()
    known: bool = False
    ios_per_s: _Rate | None = None
    ios_per_s_range: Range | None = None
    bytes_per_s: _Rate | None = None
    cpu_busy: Share | None = None
    bytes: BytesOnTheWay | None = None
    forces: ForcesRow | None = None
    never_written: Share = 0.0
    rotating: bool | None = None
    rows: Many[CellRow] = ()


class SeriesCell(Stored):
    """A phase with its values. `at`: the axes that have not their base's value; `in_run`: its phase there.

    `again`: the base once more; `excluded`: why it is kept out of ratios.
    """

    name: str
    at: dict[str, str]
    phase: str
    in_run: str
    build: str
    again: bool = False
    verdict: Verdict | None = None
    excluded: str | None = None
    runs: Many[CellRun] = ()

    @property
    def is_known(self) -> bool:
        """Whether it is measured and not valid, by known failures alone."""
        bad = [run for run in self.runs if run.verdict != "valid"]
        return self.verdict not in (None, "valid") and bool(bad) and all(run.known for run in bad)


class SkippedCell(Stored):
    """A cell that cannot be, and why. `problem`: the reason without the key that is refused."""

    name: str
    at: dict[str, str]
    phase: str
    reason: str
    problem: str = ""


class Ratio(Stored):
    """A figure of a row at `to` over that at `from_` of an axis; all other values are as in `beside`.

    `interval`: with 95 % confidence, over rounds; None for one round: then none is claimed. `range`: what the
    I/Os leave open within the rounds; how runs differ from one another is not in it.
    """

    axis: str
    from_: str = Field(alias="from")
    to: str
    beside: dict[str, str]
    phase: str
    layer: str
    op: str
    tier: str
    figure: Literal["p50", "p99", "ios_per_s"]
    ratio: _Ratio
    interval: Range | None = None
    range: Range | None = None
    rounds: _Round = 1

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        _holds("ratio", self.ratio, self.range)
        if self.interval is not None and (self.interval[0] > self.interval[1] or self.rounds < 2):
            raise contradiction(f"interval is {list(self.interval)}, of {self.rounds} rounds")
        return self


class Drift(Stored):
    """The base's p50 measured last over that measured first. `ok`: it is inside the bound; None: not told."""

    build: str
    phase: str
    layer: str
    op: str
    tier: str
    round: _Round
    ratio: _Ratio
    ok: bool | None


class JudgedRatio(Stored):
    """An `[[expect]]` on an axis. `ok`: None where there is no ratio, or its interval leaves the limit open.

    `interval`: of the ratio, over rounds, or within the one round. `ok` is false where all of it is outside.
    `known`: the entry that says so, if that it is not met is a known failure.
    """

    axis: str
    from_: str = Field(alias="from")
    to: str
    phase: str
    layer: str
    op: str
    tier: str
    ratio_min: float | None = None
    ratio_max: float | None = None
    ratio: float | None = None
    interval: Range | None = None
    ok: bool | None = None
    reason: str = ""
    known: Known | None = None

    @property
    def id(self) -> str:
        """Its stable id (docs/verdict.md)."""
        return id_of_ratio(self.model_dump(by_alias=True))


class Series(Stored):
    """The file. `only`, `quick`, `sets`, `seed`: as asked for. `digest`: of all plans; `repeat`: rounds.

    `known`: failures that are known, those of the workload first. `notes`: what devices cost, and how many of
    one replace another.
    """

    format: Format = FORMAT
    name: str
    title: str
    id: str
    started_utc: str
    sources: tuple[str, str]
    testbed: str
    emulated: bool = False
    only: Many[str] = ()
    quick: bool = False
    sets: Many[str] = ()
    seed: Count | None = None
    repeat: Annotated[int, Field(ge=1)] = 1
    digest: str
    drift_max: float
    cross: Many[tuple[str, ...]] = ()
    axes: Many[SeriesAxis]
    builds: Many[SeriesBuild]
    cells: Many[SeriesCell]
    skipped: Many[SkippedCell] = ()
    reference: str | None = None
    known: Many[Known] = ()
    ended: bool = False
    verdict: Verdict | None = None
    reasons: Many[str] = ()
    notes: Many[str] = ()
    ratios: Many[Ratio] = ()
    drift: Many[Drift] = ()
    expect: Many[JudgedRatio] = ()

    @property
    def is_known(self) -> bool:
        """Whether it is not valid, by known failures alone: nothing is new."""
        cells = [cell for cell in self.cells if cell.verdict != "valid"]
        unmet = [each for each in self.expect if each.ok is not True]
        judged = self.verdict not in (None, "valid")
        return judged and all(cell.is_known for cell in cells) and all(each.known for each in unmet)

    def axis(self, name: str) -> SeriesAxis:
        """Raises KeyError."""
        return {axis.name: axis for axis in self.axes}[name]

    def value_of(self, cell: SeriesCell, axis: SeriesAxis) -> str | None:
        """The cell's value on an axis; None where it is not about its phase, or another sets its keys."""
        others = {key for name in cell.at if name != axis.name for key in self.axis(name).keys}
        if axis.name not in cell.at and others & set(axis.keys):
            return None
        if axis.phases and cell.phase not in axis.phases and axis.name not in cell.at:
            return None
        return cell.at.get(axis.name, axis.values[0])


def create_series(results: Path, workload: str) -> Path:
    """Make the directory of a new series; returns its path."""
    return new_directory(results, workload, PREFIX)


def is_series(path: Path) -> bool:
    """Whether a directory is that of a series."""
    return os.path.lexists(path / "series.json")


def named_series(path: Path) -> Path:
    """The directory of a series that a user names. Raises ConfigError."""
    return named_run(path).path


def read_series(path: Path) -> Series:
    """series.json of the directory. Raises ConfigError."""
    file = path / "series.json"
    series = Series.from_json(read_versioned(file), file)
    _check(series, file)
    return series


def write_series(path: Path, series: Series) -> None:
    json_file.write_json(path / "series.json", series.as_json())


def run_of(path: Path, name: str) -> RunDir:
    """A run of the series in the directory `path`, which is beside it. Raises ConfigError."""
    return named_run(path.parent / name)


def _check(series: Series, file: Path) -> None:
    """What types alone do not say. Raises ConfigError."""
    axes = {axis.name: axis for axis in series.axes}
    builds = {build.name for build in series.builds}
    for cell in series.cells:
        if cell.build not in builds:
            raise ConfigError(
                f"{file}: the cell {cell.name} is of no build that is listed", json_file.DAMAGED
            )
    for at in (*(cell.at for cell in series.cells), *(each.at for each in series.skipped)):
        for axis, value in at.items():
            if axis not in axes or value not in axes[axis].values:
                raise ConfigError(f"{file}: no axis has the value {axis}={value}", json_file.DAMAGED)
    if any(not axis.values for axis in series.axes):
        raise ConfigError(f"{file}: an axis has no value", json_file.DAMAGED)
