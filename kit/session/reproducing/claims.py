"""Claims of the documents, and whether a stored run reproduces them (docs/claims.md)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import reports
from kit.config.toml import nearest
from kit.core.errors import EXIT_EXPECTATION, EXIT_OK, EXIT_UNKNOWN, ConfigError
from kit.core.table import TextTable
from kit.core.units import format_latency, format_latency_range, format_percent
from kit.store.labels import ISSUERS
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir
from kit.store.series import Ratio, Series, is_series, read_series
from reports.published.share import share_inside
from reports.series.cells import StoredRun

LIST = Path(__file__).with_suffix(".toml")
State = Literal["pass", "fail", "unknown"]
Unit = Literal["us", "1", "ratio"]
_CODES: dict[State, int] = {"pass": EXIT_OK, "unknown": EXIT_UNKNOWN, "fail": EXIT_EXPECTATION}
# Short, and with another word for writes to disks than for reads from them.
_WORDS = {"dram": "DRAM (ARC)", "l2arc": "L2ARC", "disk": "disk", "slog": "SLOG", "pool": "pool disk"}


@dataclass(frozen=True)
class ClaimedTier:
    """What is claimed of a tier at the NFS server. `published_us`: the range of the reference.

    `p50_tolerance`: a part of `p50_us`. `inside` and `inside_min`: the part of the I/Os in that range.
    """

    tier: str
    p50_us: float
    published_us: tuple[float, float]
    inside: float
    p50_tolerance: float
    inside_min: float

    @property
    def p50_range_us(self) -> tuple[float, float]:
        return self.p50_us * (1 - self.p50_tolerance), self.p50_us * (1 + self.p50_tolerance)


@dataclass(frozen=True)
class ClaimedRatio:
    """The p50 of a phase's I/Os at a value of an axis, divided by that at the axis's first value.

    `beside`: values of other axes, of both. `measured`: by the claim's run.
    """

    axis: str
    to: str
    phase: str
    op: str
    ratio_min: float
    ratio_max: float
    measured: float
    beside: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        at = {self.axis: self.to, **self.beside}
        return f"p50, {self.phase}, {', '.join(f'{axis}={to}' for axis, to in at.items())}"


@dataclass(frozen=True)
class DocumentedClaim:
    """`minutes` on two cores; `first_minutes` with what is built once. `run`: that measured the figures.

    A claim is of the tiers of a run, or of the ratios of a sweep.
    """

    name: str
    title: str
    workload: str
    minutes: int
    first_minutes: int
    run: str
    tiers: tuple[ClaimedTier, ...] = ()
    ratios: tuple[ClaimedRatio, ...] = ()

    @property
    def head(self) -> str:
        return (
            f"{self.title} (run {self.run}). `hsp reproduce {self.name}` takes about "
            f"{self.minutes} minutes on two cores, {self.first_minutes} the first time."
        )

    def table(self) -> TextTable:
        """Figures and tolerances, as docs/claims.md has them."""
        rows = []
        for each in self.tiers:
            within = f"{format_percent(each.p50_tolerance)}: {format_latency_range(*each.p50_range_us)}"
            rows += [
                (_p50(each), format_latency(each.p50_us), within),
                (_inside(each), format_percent(each.inside), f"at least {format_percent(each.inside_min)}"),
            ]
        for ratio in self.ratios:
            limits = _shown(ratio.ratio_min, ratio.ratio_max, "ratio")
            rows.append((ratio.words, f"{ratio.measured:.2f} times", limits))
        return TextTable(("figure", "claimed", "tolerance"), rows)


@dataclass(frozen=True)
class ReproducedFigure:
    """`low` to `high` passes; `found` is None where it is not known.

    In `unit`: "us", "ratio", or 1 for a part. `tier` is "all" for I/Os of a device.
    """

    tier: str
    figure: str
    low: float
    high: float
    unit: Unit
    found: float | None
    state: State


@dataclass(frozen=True)
class Reproduction:
    """A claim beside a run. `reasons`: why the run is not valid. One that misses an expectation fails."""

    claim: str
    run: str
    path: str
    state: State
    reasons: tuple[str, ...]
    figures: tuple[ReproducedFigure, ...]

    @property
    def exit_code(self) -> int:
        return _CODES[self.state]

    def lines(self, width: int) -> Iterator[str]:
        yield f"{self.state.upper()}  {self.claim}, by run {self.run}"
        yield from self.reasons
        rows = []
        for each in self.figures:
            found = "not known" if each.found is None else _FORMATS[each.unit](each.found)
            rows.append((each.figure, _shown(each.low, each.high, each.unit), found, each.state))
        yield from TextTable(("figure", "must be", "found", ""), rows, numeric=(2,)).lines(width)


def claims() -> tuple[DocumentedClaim, ...]:
    """All claims of the kit."""
    return tuple(_claim(each) for each in tomllib.loads(LIST.read_text())["claim"])


def chosen(names: Sequence[str]) -> tuple[DocumentedClaim, ...]:
    """The claims with these names; all without a name. Raises ConfigError."""
    known = {each.name: each for each in claims()}
    for name in names:
        if name not in known:
            hint = nearest(name, [*known], "the claims are")
            raise ConfigError(
                f"there is no claim '{name[:40]}'", f"{hint}; `hsp reproduce --list` shows them"
            )
    return tuple(known[name] for name in dict.fromkeys(names or known))


def of_workload(run: RunDir) -> tuple[DocumentedClaim, ...]:
    """The claims that a stored run or series can reproduce. Raises ConfigError if there is none."""
    workload = read_series(run.path).name if is_series(run.path) else read_manifest(run).workload
    found = tuple(each for each in claims() if each.workload == workload)
    if not found:
        known = ", ".join(dict.fromkeys(each.workload for each in claims()))
        raise ConfigError(
            f"{run.path} is a run of {workload}, of which nothing is claimed", f"there are claims of {known}"
        )
    return found


def judge(claim: DocumentedClaim, run: RunDir) -> Reproduction:
    """Whether the run or series reproduces the claim. Raises ConfigError for a result of something else."""
    if is_series(run.path):
        return _of_series(claim, run.path)
    stored, _ = reports.stored_run(run)
    manifest, summary = stored.manifest, stored.summary
    length = f", at length {manifest.length}" if manifest.length else ""
    alike = manifest.workload == claim.workload and manifest.testbed.emulated and not length and claim.tiers
    if not alike:
        raise _something_else(
            claim, run.path, manifest.workload or "", bool(manifest.testbed.emulated), length
        )
    valid, known = summary.verdict == "valid", summary.verdict != "unknown"
    reasons = () if valid else (f"The run is {summary.state}.", *summary.shown_reasons)
    figures = tuple(figure for each in claim.tiers for figure in _figures(each, stored, decides=known))
    state = _whole(figures, fails=known and not valid)
    return Reproduction(claim.name, manifest.run or run.path.name, str(run.path), state, reasons, figures)


def _of_series(claim: DocumentedClaim, path: Path) -> Reproduction:
    """Raises ConfigError for a series of something else, or of a part."""
    series = read_series(path)
    part = ", in part" if series.only or series.quick or series.sets or not series.ended else ""
    if series.name != claim.workload or not series.emulated or part or not claim.ratios:
        raise _something_else(claim, path, series.name, series.emulated, part)
    valid, known = series.verdict == "valid", series.verdict != "unknown"
    figures = tuple(_ratio(each, series, decides=known) for each in claim.ratios)
    state = _whole(figures, fails=known and not valid)
    reasons = () if valid else (f"The series is {series.verdict}.", *series.reasons)
    return Reproduction(claim.name, series.id, str(path), state, reasons, figures)


def _something_else(
    claim: DocumentedClaim, path: Path, workload: str, emulated: bool, part: str
) -> ConfigError:
    place = "in the lab" if emulated else "on hosts of your own"
    return ConfigError(
        f"{path} is a run of {workload} {place}{part}: '{claim.name}' is about {claim.workload} in the "
        "built-in lab, whole",
        f"hsp reproduce {claim.name}",
    )


def _whole(figures: Sequence[ReproducedFigure], *, fails: bool) -> State:
    """`fails`: the run misses an expectation of its workload."""
    states = {*(each.state for each in figures), *(["fail"] if fails else [])}
    return "fail" if "fail" in states else "unknown" if "unknown" in states else "pass"


def _ratio(claimed: ClaimedRatio, series: Series, *, decides: bool) -> ReproducedFigure:
    found = next((each for each in series.ratios if _is_of(each, claimed)), None)
    ratio, tier = (found.ratio, found.tier) if found else (None, "all")
    limits = claimed.ratio_min, claimed.ratio_max
    return _judged(tier, claimed.words, limits, "ratio", ratio, decides)


def _is_of(ratio: Ratio, claimed: ClaimedRatio) -> bool:
    found = ratio.figure, ratio.axis, ratio.to, ratio.beside, ratio.phase, ratio.op
    wanted = claimed.axis, claimed.to, claimed.beside, claimed.phase, claimed.op
    return found == ("p50", *wanted) and ratio.layer in ISSUERS


def _figures(tier: ClaimedTier, stored: StoredRun, *, decides: bool) -> Iterator[ReproducedFigure]:
    """`decides`: the run can be trusted; it may miss an expectation."""
    row = next((each for each in stored.summary.main_rows if each.tier == tier.tier), None)
    p50 = row.p50_us if row else None
    inside = share_inside(stored.latency.bins, row, tier.published_us) if row else None
    yield _judged(tier.tier, _p50(tier), tier.p50_range_us, "us", p50, decides)
    yield _judged(tier.tier, _inside(tier), (tier.inside_min, 1), "1", inside, decides)


def _judged(
    tier: str, figure: str, limits: tuple[float, float], unit: Unit, found: float | None, decides: bool
) -> ReproducedFigure:
    low, high = limits
    state: State = "pass" if found is not None and low <= found <= high else "fail"
    if found is None or not decides:
        state = "unknown"
    return ReproducedFigure(tier, figure, low, high, unit, found, state)


def _p50(tier: ClaimedTier) -> str:
    return f"p50, {_WORDS[tier.tier]}"


def _inside(tier: ClaimedTier) -> str:
    return f"{_WORDS[tier.tier]} in {format_latency_range(*tier.published_us)}"


def _shown(low: float, high: float, unit: Unit) -> str:
    if unit == "ratio":
        return f"{low:g} to {high:g} times"
    return format_latency_range(low, high) if unit == "us" else f"at least {format_percent(low)}"


_FORMATS: Mapping[Unit, Callable[[float], str]] = {
    "us": format_latency, "1": format_percent, "ratio": lambda value: f"{value:.2f} times",
}  # fmt: skip


def _claim(table: dict[str, Any]) -> DocumentedClaim:
    names = ("name", "title", "workload", "minutes", "first_minutes")
    made = DocumentedClaim(**{name: table[name] for name in names}, run=table.get("run", ""))
    if "ratio" in table:
        common = {each.name: table[each.name] for each in fields(ClaimedRatio) if each.name in table}
        return replace(made, ratios=tuple(ClaimedRatio(**{**common, **each}) for each in table["ratio"]))
    measured = json.loads(LIST.with_name(table["measured"]).read_text())
    rows = {each["tier"]: each for each in measured["rows"]}
    tiers = []
    for each in table["tier"]:
        row, wanted = rows[each["name"]], (each["p50_tolerance"], each["inside_min"])
        low, high = row["published_us"]
        tiers.append(ClaimedTier(each["name"], row["p50_us"], (low, high), row["inside"], *wanted))
    return replace(made, tiers=tuple(tiers), run=measured["run"])
