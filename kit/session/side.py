"""A side of a comparison: a workload and a testbed, as given on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from kit.config.candidates import with_candidates
from kit.config.overrides import split, with_length, with_sets
from kit.config.sweep import AxisExpectation, read_sweep
from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.config.toml import nearest, printable
from kit.config.workload import Workload, workload_of
from kit.config.workload_base import WORKLOADS, WorkloadSource, find_workload, read_source
from kit.plan.known_failures import checks_of, refuse_unknown
from kit.plan.plan import Plan, make_plan
from kit.plan.sweep.builds import SweepPlan, plan_sweep
from kit.plan.sweep.check_values import check_values
from kit.plan.sweep.draft import used
from kit.session.slog.target import with_only

_LAB = "-testbed.toml"
_REFERENCES = WORKLOADS.parent / "reports" / "published" / "references"


@dataclass(frozen=True)
class Side:
    """A workload (name or file) and a testbed file; `sets`: as --set has them, "job.bs=4k".

    `by`: the workload's file that names the testbed; None: a person does. `device`: the only one that is
    used, as a log device (kit.session.slog.target); "": all of the testbed.
    """

    workload: str
    testbed: Path
    sets: tuple[str, ...] = ()
    by: Path | None = None
    device: str = ""

    @classmethod
    def of(cls, workload: str, testbed: Path | None, sets: Sequence[str] = ()) -> Side:
        """As on the command line: without a testbed it is the workload's own lab. Raises ConfigError."""
        if testbed is not None:
            return cls(workload, testbed, tuple(sets))
        path, by = lab_of(read_source(find_workload(workload)))
        return cls(workload, path, tuple(sets), by)

    def read_testbed(self) -> Testbed:
        """Raises ConfigError; SafetyRefusal of a device without a serial number."""
        return with_only(self.device, self.testbed) if self.device else read_testbed(self.testbed, self.by)

    def plan(self) -> Plan:
        """The plan of the workload itself, whatever it sweeps. Raises ConfigError."""
        source, testbed = self._source(), self.read_testbed()
        return self._whole(workload_of(source), testbed, source)

    def sweep(self, only: Sequence[str] = (), *, quick: bool = False) -> SweepPlan | None:
        """The plan of all that the workload sweeps; None without a sweep. Raises ConfigError."""
        source = self._source()
        sweep = read_sweep(source)
        if sweep is None:
            return None
        testbed = self.read_testbed()
        # The base by itself first: a mistake there is none of a cell.
        self._whole(workload_of(source), testbed, source)
        check_values(sweep, testbed)
        return plan_sweep(sweep, testbed, self._planned, only, quick=quick)

    def checks(self) -> tuple[list[str], list[dict[str, Any]]]:
        """What a known failure can be of: phases, and expectations, those on axes too. Raises ConfigError."""
        return checks_of(self.plan(), _on_axes(self._source()))

    @property
    def sweeps(self) -> bool:
        """Whether the workload has axes. Raises ConfigError."""
        return read_sweep(self._source()) is not None

    def _source(self) -> WorkloadSource:
        length, sets = split(self.sets)
        source = with_sets(with_length(read_source(find_workload(self.workload)), length), sets)
        return with_candidates(source, self.read_testbed)

    def _whole(self, workload: Workload, testbed: Testbed, source: WorkloadSource) -> Plan:
        """All phases. A known failure may be of one that a cell does not have. Raises ConfigError."""
        if source.expanded:
            # Not each candidate is of each role.
            in_use = {device.role for device in testbed.without_idle.device}
            others = {str(each.role): 1 for each in testbed.device if each.role not in in_use}
            testbed = used(testbed, others)
        plan = self._planned(workload, testbed, source)
        refuse_unknown(plan, source.place_of, _on_axes(source))
        return plan

    def _planned(self, workload: Workload, testbed: Testbed, source: WorkloadSource) -> Plan:
        """Raises ConfigError."""
        plan = make_plan(workload, testbed, source.path, self.testbed, source)
        _check_reference(plan.workload, source)
        if any(each.is_inside for each in plan.workload.expect):
            # So late because the reports take long to load.
            import_module("kit.session.published_expectations").check(plan, source)
        return replace(plan, sets=self.sets, device=self.device)


def lab_of(source: WorkloadSource) -> tuple[Path, Path | None]:
    """The testbed of a workload where none is named: its `lab`, or the lab's own, and the file that names it.

    Raises ConfigError for anything but a lab of the kit, by name, or a testbed beside the file.
    """
    lab = source.document.get("lab")
    if not isinstance(lab, str) or not lab:
        return LAB_TESTBED, None
    if lab.endswith(".toml"):
        path, by = source.file_beside("workload.lab", ("lab",), lab), source.place_of(("lab",))[0]
        if not path.exists():
            source.refuse(("lab",), f"{path}: no such file beside {by.name}")
        read_testbed(path, by)
        return path, by
    labs = {path.name.removesuffix(_LAB): path for path in sorted(LAB_TESTBED.parent.glob(f"[a-z]*{_LAB}"))}
    if lab not in labs:
        text = f"the kit has no lab '{printable(lab[:60])}', {nearest(lab, list(labs), 'labs')}"
        source.refuse(("lab",), f"{text}; or write the name of a testbed beside the file, such as lab.toml")
    return labs[lab], None


def _on_axes(source: WorkloadSource) -> tuple[AxisExpectation, ...]:
    sweep = read_sweep(source)
    return sweep.expect if sweep else ()


def _check_reference(workload: Workload, source: WorkloadSource) -> None:
    """The published ranges must exist; a workload without any says "". Raises ConfigError."""
    known = sorted(path.stem for path in _REFERENCES.glob("*.toml"))
    if workload.reference and workload.reference not in known:
        text = f"no reference '{workload.reference}', {nearest(workload.reference, known, 'references')}"
        source.refuse(("reference",), text)
