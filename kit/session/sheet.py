"""The work of `hsp sheet`: from runs, series and results of `hsp size` to the sheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import reports
from kit import __version__
from kit.config.need import read_need
from kit.config.toml import read_text, refusal, shorten
from kit.config.toml_lines import KeyLines
from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.store.printed.sizing import SizeResult
from kit.store.printed.slog import SlogTest
from kit.store.run_directory import RunDir, named_run
from kit.store.series import Series, is_series, named_series, read_series, run_of
from kit.store.sheet import Sheet
from kit.store.stored import read_versioned
from reports.comparison import comparability
from reports.comparison.each_once import EachOnce
from reports.devices.slog import slog_tests
from reports.sheet.evidence import EvidenceSource, Run, hardware_of, model_of
from reports.sheet.sheet import sheet_of

_MOST = 20
# Roles that a candidate is made of.
_KEYS = {"use.log", "use.cache"}


def buyers_sheet(names: Sequence[str], need_file: Path) -> Sheet:
    """The sheet of runs (those of `hsp slog`, too), series and files of `hsp size`. Raises ConfigError."""
    need = read_need(need_file)
    found = _Found()
    for name in names:
        found.add(Path(name))
    sources = found.sources()
    if need.today is not None and need.today not in (known := [each.name for each in sources]):
        line = KeyLines(read_text(need_file)).line_of(("today",))
        text = f"today: no candidate is called {shorten(need.today)}; there are: {', '.join(known)}"
        raise refusal(need_file, [(line, text)])
    return sheet_of(sources, need, __version__, [*found.notes, *_differences(sources)])


class _Found:
    """What was named: runs by the candidate that they measured, and evidence for drives of the same model."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._candidates: dict[str, list[Run]] = {}
        self._power_losses: dict[str, list[Run]] = {}
        self._slog: list[SlogTest] = []
        self._sizing: SizeResult | None = None
        self._once = EachOnce()

    def add(self, path: Path) -> None:
        """A run, a series or a file of `hsp size`. Raises ConfigError."""
        if path.is_file():
            self._add_file(path)
        elif is_series(path):
            directory = named_series(path)
            self._add_series(directory, read_series(directory))
        else:
            run = self._read(named_run(path), {})
            tests = [*slog_tests(run.stored.manifest)]
            self._slog += tests
            if not tests or any(not phase.on_devices for phase in run.stored.manifest.phases):
                self._keep(self._name(run), run)

    def _add_file(self, path: Path) -> None:
        value = read_versioned(path)
        if "disk_reads_now" not in value:
            found = "what `hsp slog` prints" if {"forces", "tests"} & value.keys() else "something else"
            raise ConfigError(
                f"{path}: expected a result of `hsp size`, found {found}",
                "name a file of `hsp size RUN -o size.json`, or the run of `hsp slog` (results/slog/...)",
            )
        elif self._sizing:
            raise ConfigError(f"{path}: another result of `hsp size`: a sheet is for one load", "name one")
        else:
            try:
                self._sizing = SizeResult.from_json(value, path)
            except ConfigError as error:
                raise ConfigError(error.message, "make it anew: `hsp size RUN -o size.json`") from None

    def sources(self) -> list[EvidenceSource]:
        """The candidates with their evidence. Raises ConfigError where there is none, or too many."""
        without_own = {
            name: runs
            for name, runs in self._power_losses.items()
            if not any(_log_models(runs) == _log_models(others) for others in self._candidates.values())
        }
        candidates = {**self._candidates, **without_own}
        alone = self._alone(candidates)
        if not candidates and not alone:
            raise ConfigError(
                "nothing that was named has a candidate",
                "name a series, runs with a log device or an L2ARC, or results of hsp slog",
            )
        if (number := len(candidates) + len(alone)) > _MOST:
            raise ConfigError(f"{number} candidates, a sheet has at most {_MOST}", "name fewer runs")
        cuts = [run for runs in self._power_losses.values() for run in runs]
        return [
            EvidenceSource(
                name,
                tuple(runs),
                tuple(each.stored for each in cuts if _log_models([each]) == _log_models(runs) != []),
                tuple(test for test in self._slog if _is_of(test, runs)),
                self._sizing,
            )
            for name, runs in candidates.items()
        ] + [EvidenceSource(name, (), (), tuple(tests), self._sizing) for name, tests in alone.items()]

    def _alone(self, candidates: Mapping[str, Sequence[Run]]) -> dict[str, list[SlogTest]]:
        """Results of `hsp slog` of drives that no run measured, by the name of the drive."""
        found: dict[str, list[SlogTest]] = {}
        for test in self._slog:
            if any(_is_of(test, runs) for runs in candidates.values()):
                continue
            device = test.device
            name = device.name.removeprefix("log-")
            others = {(each.device.serial, each.device.emulated) for each in found.get(name, ())}
            if name in candidates or others - {(device.serial, device.emulated)}:
                name = f"{device.emulated or device.model or name} ({device.serial or len(found) + 1})"
            found.setdefault(safe_text(name), []).append(test)
        return found

    def _add_series(self, path: Path, series: Series) -> None:
        """Its candidates: values of the axes that choose log devices or L2ARC, all else as in the base."""
        axes = [axis for axis in series.axes if _KEYS & set(axis.keys)]
        builds = {build.name: build for build in series.builds}
        phases: dict[tuple[str, str], dict[str, str]] = {}
        for cell in series.cells:
            if set(cell.at) <= {axis.name for axis in axes}:
                name = ", ".join(str(series.value_of(cell, axis)) for axis in axes) or series.name
                for run in builds[cell.build].runs:
                    phases.setdefault((name, run.run), {})[cell.in_run] = cell.phase
        for (name, run_name), of_run in phases.items():
            try:
                self._keep(name, self._read(run_of(path, run_name), of_run))
            except ConfigError as error:
                self.notes.append(f"{name}: left out: {error.message}")
        if series.verdict != "valid":
            reasons = " ".join(series.reasons) or "it has not ended."
            self.notes.append(f"{series.id} is {series.verdict or 'unknown'}: {reasons}")

    def _read(self, directory: RunDir, phases: dict[str, str]) -> Run:
        """`phases`: those that count; none named: all. Raises ConfigError for a run that was named before."""
        stored, aged = reports.stored_run(directory)
        name = stored.manifest.run or directory.path.name
        self._once.add(str(directory.path), [name], stored.manifest.fingerprint)
        every = {phase.name: phase.name for phase in stored.manifest.phases}
        return Run(safe_text(name), stored, aged, phases or every)

    def _keep(self, name: str, run: Run) -> None:
        kept = self._power_losses if run.stored.manifest.power_loss else self._candidates
        others = kept.get(name)
        if others and hardware_of(others[0].stored) != hardware_of(run.stored):
            name = f"{name} ({run.name})"
        kept.setdefault(name, []).append(run)

    def _name(self, run: Run) -> str:
        """Of a run alone: its testbed's."""
        return safe_text(run.stored.manifest.testbed.name or run.name)


def _log_models(runs: Sequence[Run]) -> list[str]:
    return sorted(map(model_of, runs[0].stored.manifest.testbed.of_role("log"))) if runs else []


def _is_of(test: SlogTest, runs: Sequence[Run]) -> bool:
    """Whether `hsp slog` measured a log device of a candidate, or one of its model."""
    for device in runs[0].stored.manifest.testbed.of_role("log") if runs else ():
        model = (device.identity or {}).get("model")
        if model == test.device.model if model else device.model == test.device.emulated is not None:
            return True
    return False


def _differences(sources: Sequence[EvidenceSource]) -> Iterator[str]:
    """What runs of candidates differ in besides their devices: a difference may come from that."""
    runs = [
        (source.name, source.runs[0])
        for source in sources
        # A run of power losses measures nothing that is held beside others.
        if source.runs and not source.runs[0].stored.manifest.power_loss
    ]
    if len(runs) < 2:
        return
    known = [(name, comparability.settings(run.stored.manifest, {})) for name, run in runs]
    free = sorted({key.partition(".")[0] for _, settings in known for key in settings})
    for name, settings in known[1:]:
        found = comparability.check(known[:1], [(name, settings)], (), free)
        others = {
            key: pair
            for key, pair in found.items()
            if not key.startswith(("testbed.devices.", "precondition", "phases.", "host."))
        }
        for sentence in comparability.differences(others):
            yield f"{known[0][0]} and {name} differ in more than their drives: {sentence}"
