"""The forced writes of a series as the table of pg_test_fsync: a row a method, by configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.store.series import Series, SeriesCell
from kit.store.summary import ForcesRow
from reports.series.view import forces_of, geometric_mean

# us by (method, bytes of a record, records a force, of the split table), by configuration.
Published = Mapping[str, Mapping[tuple[str, int, int, bool], float]]
_SPLIT_KEY = "force.record"
# Phase, and values on axes that need no build.
_Key = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class SyncCell:
    """One configuration: us an operation (a group until it is safe), and operations a second, as 1 / us.

    Over several rounds the geometric mean. `struck`: why it is not to be held against others; "" if it is.
    `lost`: because a power loss would lose its writes.
    """

    mean_us: float
    p50_us: float | None
    p99_us: float | None
    records_per_s: float
    bytes_per_s: float
    struck: str = ""
    lost: bool = False
    published_us: float | None = None

    @property
    def ops_per_s(self) -> float:
        return 1e6 / self.mean_us


@dataclass(frozen=True)
class SyncRow:
    """`cells`: by configuration, None where it was not measured; `missing`: why there is none at all."""

    phase: str
    label: str
    cells: tuple[SyncCell | None, ...]
    missing: str = ""

    @property
    def ratio(self) -> float | None:
        """Of the second configuration to the first."""
        return self._ratio([None if cell is None or cell.struck else cell.mean_us for cell in self.cells])

    @property
    def published_ratio(self) -> float | None:
        return self._ratio([cell.published_us if cell else None for cell in self.cells])

    def _ratio(self, values: Sequence[float | None]) -> float | None:
        first, second = (*values, None, None)[:2]
        return second / first if first and second else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Why figures are struck out, or missing."""
        texts = (self.missing, *(cell.struck for cell in self.cells if cell))
        return tuple(dict.fromkeys(filter(None, texts)))


@dataclass(frozen=True)
class SyncTable:
    """`configurations`: names, such as those of two log devices; `axes`: what they are values of."""

    axes: str
    configurations: tuple[str, ...]
    rows: tuple[SyncRow, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of all rows, each once."""
        return tuple(dict.fromkeys(note for row in self.rows for note in row.notes))

    @property
    def struck_words(self) -> str:
        """Why figures are struck out, in short; "" if none is."""
        struck = {cell.lost for row in self.rows for cell in row.cells if cell and cell.struck}
        words = {True: "not durable", False: "not to be trusted"}
        return " or ".join(text for lost, text in words.items() if lost in struck)


def sync_table(series: Series, published: Published | None = None) -> SyncTable | None:
    """None for a series without forced writes."""
    forced = [cell for cell in series.cells if forces_of(cell) and not cell.again]
    if not forced:
        return None
    builds = [axis for axis in series.axes if axis.kind == "build"]
    names = [axis.name for axis in builds]
    base = {axis.name: axis.values[0] for axis in builds}

    def configuration(at: Mapping[str, str]) -> str:
        return ", ".join(at.get(name, base[name]) for name in names)

    columns = tuple(dict.fromkeys(configuration(cell.at) for cell in forced))
    rows: dict[_Key, dict[str, SeriesCell]] = {}
    why: dict[_Key, str] = {}
    phases = list(dict.fromkeys(cell.phase for cell in forced))
    for cell in forced:
        rows.setdefault(_key(series, cell.phase, cell.at, names), {})[configuration(cell.at)] = cell
    for skipped in series.skipped:
        if skipped.phase in phases:
            key = _key(series, skipped.phase, skipped.at, names)
            rows.setdefault(key, {})
            why[key] = skipped.problem
    made = []
    for key, found in sorted(rows.items(), key=lambda item: _order(series, phases, item[0])):
        cells = (_cell(series, found.get(name), (published or {}).get(name, {})) for name in columns)
        made.append(SyncRow(key[0], _label(key[1], found), tuple(cells), "" if found else why[key]))
    return SyncTable(", ".join(names), columns, tuple(made))


def _key(series: Series, phase: str, at: Mapping[str, str], builds: Sequence[str]) -> _Key:
    """The phase, and its values on the axes that need no build; those that are not about it are left out."""
    return phase, tuple(
        at.get(axis.name, axis.values[0])
        for axis in series.axes
        if axis.name not in builds and axis.keys != ("phase",) and (not axis.phases or phase in axis.phases)
    )


def _order(series: Series, phases: Sequence[str], key: _Key) -> tuple[int, tuple[int, ...]]:
    places = {value: n for axis in series.axes for n, value in enumerate(axis.values)}
    return phases.index(key[0]), tuple(places[value] for value in key[1])


def _label(values: Sequence[str], found: Mapping[str, SeriesCell]) -> str:
    if values:
        return ", ".join(values)
    return next((row.method for cell in found.values() for row in forces_of(cell)), "")


def _cell(
    series: Series, cell: SeriesCell | None, published: Mapping[tuple[str, int, int, bool], float]
) -> SyncCell | None:
    rows = forces_of(cell) if cell else []
    if cell is None or not rows:
        return None
    first = rows[0]
    axes = [axis for axis in series.axes if not axis.phases or cell.phase in axis.phases]
    is_split = any(_SPLIT_KEY in axis.keys for axis in axes)
    return SyncCell(
        geometric_mean([row.mean_us for row in rows]) or first.mean_us,
        geometric_mean([row.p50_us for row in rows]), geometric_mean([row.p99_us for row in rows]),
        sum(row.records_per_s for row in rows) / len(rows),
        sum(row.bytes_per_s for row in rows) / len(rows), _struck(cell, rows), bool(_lost(rows)),
        published.get((first.method, first.record_bytes, first.per_force, is_split)),
    )  # fmt: skip


def _struck(cell: SeriesCell, rows: Sequence[ForcesRow]) -> str:
    """Why the figures are struck through; "" if they are not."""
    lost = _lost(rows)
    if lost or cell.excluded or cell.verdict == "valid":
        return lost or cell.excluded or ""
    return f"{cell.verdict}: {next((text for run in cell.runs for text in run.reasons), '')}"


def _lost(rows: Sequence[ForcesRow]) -> str:
    """Why the writes are not safe after a force; "" if they are, or if it is not known."""
    return next((row.why for row in rows if row.may_lose), "")
