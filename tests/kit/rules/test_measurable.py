"""kit.rules.measurable, keys of a phase: the tracer samples blocks, so there has to be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed

ROOT = Path(__file__).parents[3]
TRACED = LAB_TESTBED.read_text()
WORKLOAD = """\
format = 1
name = "sampled"
title = "Sampled"
base = "top-speeds"
[[phase]]
name = "read"
keys = {keys}
[[phase]]
name = "write-slog"
"""


def plan(folder: Path, testbed: str, keys: int = 8) -> Plan:
    path, bed = folder / "sampled.toml", folder / "t.toml"
    path.write_text(WORKLOAD.format(keys=keys))
    bed.write_text(testbed)
    return make_plan(read_workload(path), read_testbed(bed), path, bed)


def test_a_plan_says_what_is_sampled_and_has_a_tracer_for_each_kind_of_phase(tmp_path: Path) -> None:
    made = plan(tmp_path, TRACED)
    notes = [str(each.get("input", "")) for each in listed(made, planned_names(made))]
    tracers = [note for note in notes if note.startswith("kit/trace/nfsd.bt")]
    assert tracers == [
        "kit/trace/nfsd.bt, a sample of one in 8 blocks, for read", "kit/trace/nfsd.bt, for write-slog",
    ]  # fmt: skip
    assert [phase.keys for phase in made.workload.phase] == [8, None]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[server]\n", '[server]\ntrace = "none"\n', 'has trace = "none"'),
        ("", "", "has no login for the tracer"),
    ],
)
def test_without_a_tracer_it_is_refused(tmp_path: Path, old: str, new: str, why: str) -> None:
    appliance = 'name = "nas"\n[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "local"\n'
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, TRACED.replace(old, new, 1) if old else appliance)
    assert (
        f"{tmp_path}/sampled.toml:7: phase[0].keys: " in caught.value.message and why in caught.value.message
    )
