"""Candidates of a testbed as values of an axis, and what a file replaces of its base's axis."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError
from kit.plan.sweep.builds import SweepPlan
from kit.session.side import Side

ROOT = Path(__file__).parents[3]
LAB = LAB_TESTBED.with_name("candidates-testbed.toml")
HEAD = 'format = 1\nname = "mine"\ntitle = "Mine"\nbase = "candidates"\n'
DATA = (ROOT / "docs" / "examples" / "mynas.toml").read_text().partition('[[device]]\nname = "cache0"')[0]


def device(name: str, role: str, *, idle: bool = False) -> str:
    link = f'path = "/dev/disk/by-id/nvme-{name}"\nserial = "S-{name}"\nsize = "960197124096B"\n'
    return f'\n[[device]]\nname = "{name}"\nrole = "{role}"\n{link}{"idle = true" if idle else ""}\n'


def sweep(testbed: Path, workload: str = "candidates") -> SweepPlan:
    planned = Side(workload, testbed).sweep()
    assert planned is not None
    return planned


def shape(planned: SweepPlan) -> dict[str, list[str]]:
    return {build.name: [cell.phase for cell in build.cells] for build in planned.builds}


def test_in_the_lab_each_candidate_is_of_both_roles() -> None:
    planned = sweep(LAB)
    names = ["today", "consumer", "datacentre", "slc"]
    assert planned.sweep.axes["candidate"].values == {
        name: (f"log-{name}", f"cache-{name}") for name in names
    }
    every = ["read", "write-slog", "write-pool"]
    assert shape(planned) == {
        "base": every, **{f"candidate={name}": every for name in names[1:]}, "base-again": every
    }  # fmt: skip
    assert Side.of("candidates", None).testbed == LAB


@pytest.mark.parametrize(
    ("devices", "builds"),
    [
        (device("log-a", "log") + device("log-b", "log", idle=True),
         {"base": ["write-slog", "write-pool"], "candidate=b": ["write-slog", "write-pool"],
          "base-again": ["write-slog", "write-pool"]}),
        (device("cache-a", "cache") + device("b", "cache", idle=True),
         {"base": ["read"], "candidate=b": ["read"], "base-again": ["read"]}),
        (device("log-a", "log"), {"base": ["write-slog", "write-pool"]}),
        (device("log-a", "log", idle=True), {"base": ["write-slog", "write-pool"]}),
        # Each of another role, and the first in use is the base.
        (device("log-a", "log", idle=True) + device("cache0", "cache"),
         {"base": ["read"], "candidate=a": ["write-slog", "write-pool"]}),
    ],
)  # fmt: skip
def test_a_candidate_may_be_of_one_role(tmp_path: Path, devices: str, builds: dict[str, list[str]]) -> None:
    (tmp_path / "t.toml").write_text(DATA + devices)
    planned = sweep(tmp_path / "t.toml")
    assert shape(planned) == builds
    for build in planned.builds:
        assert sum(each.role != "data" for each in build.plan.testbed.device) == 1
    assert {each.reason for each in planned.skipped} <= {
        "the candidate cache0 is no log device", "the candidate a is no cache device"
    }  # fmt: skip


@pytest.mark.parametrize("other", ["", device("cache0", "cache")])
def test_an_axis_of_candidates_is_crossed(tmp_path: Path, other: str) -> None:
    """Also where phases are left out, for want of a cache device."""
    bed, path = tmp_path / "t.toml", tmp_path / "w.toml"
    bed.write_text(DATA + device("log-a", "log") + device("log-b", "log", idle=True) + other)
    packed = 'set = "dataset.compression"\nto = ["off", "lz4"]\nphases = ["read", "write-slog"]\n'
    path.write_text(f'{HEAD}[sweep.packed]\n{packed}[sweeps]\ncross = [["candidate", "packed"]]\n')
    assert shape(sweep(bed, str(path)))["candidate=b,packed=lz4"] == ["write-slog"]


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("", "has no device of role log or cache: add the candidates"),
        ('[sweep.candidate]\nset = "use.data"\n', "takes devices, so set has use.log or use.cache"),
        ('[sweep.candidate]\nset = "use.log"\nto = ["data0"]\n', "at least two values"),
    ],
)
def test_refused(tmp_path: Path, axis: str, message: str) -> None:
    (tmp_path / "t.toml").write_text(
        DATA + (device("log0", "log") + device("cache0", "cache") if "to" in axis else "")
    )
    (tmp_path / "w.toml").write_text(HEAD + axis)
    with pytest.raises(ConfigError, match=message):
        sweep(tmp_path / "t.toml", str(tmp_path / "w.toml"))


def test_values_of_an_axis_replace_those_of_the_base(tmp_path: Path) -> None:
    """What was published about those of the base is not about them."""
    size = (
        '[sweep.io-size]\nto = { 512 = ["512", 512, "300ms", "3500ms"], 2k = ["2k", "2KiB", "1s", "4s"] }\n'
    )
    (tmp_path / "w.toml").write_text(HEAD.replace("candidates", "reality-checks") + size)
    axis, base = (
        sweep(LAB_TESTBED, each).sweep.axes["io-size"]
        for each in (str(tmp_path / "w.toml"), "reality-checks")
    )
    assert list(axis.values) == ["512", "2k"] and list(base.values) != ["512", "2k"]
    assert (axis.keys, axis.phases, axis.published) == (base.keys, base.phases, ())


NAS = ROOT / "docs" / "examples" / "mynas.toml"


@pytest.mark.parametrize("workload", sorted(path.stem for path in (ROOT / "workloads").glob("*.toml")))
def test_each_workload_of_the_kit_is_planned_on_a_server(tmp_path: Path, workload: str) -> None:
    bed = tmp_path / "bed.toml"
    scope = "device" if workload == "candidates-power-loss" else "server"
    power = f'\n[power]\nscope = "{scope}"\noff = ["pdu", "off"]\non = ["pdu", "on"]\n'
    text = NAS.read_text()
    if "special" in workload:
        text = text.replace('role = "cache"', 'role = "special"').replace('role = "log"', 'role = "special"')
    if workload == "cache-or-special":
        # The same drives once more.
        _, ssds = text.split('[[device]]\nname = "cache0"')
        ssds = ssds.replace("log0", "cache1").replace('role = "special"', 'role = "cache"\nidle = true')
        text = text.replace('"cache0"', '"special0"').replace('"log0"', '"special1"')
        text += '[[device]]\nname = "cache0"' + ssds
    bed.write_text(text + (power if "power-loss" in workload else ""))
    side = Side(workload, bed)
    assert side.sweep() or side.plan()


def test_an_axis_takes_the_devices_of_the_testbed() -> None:
    devices = sweep(NAS, "write-cache").sweep.axes["device"]
    assert devices.values == {"data0": ("data0",), "data1": ("data1",)} and devices.published == ()
    assert sweep(LAB_TESTBED, "write-cache").sweep.axes["device"].values == {
        "ssd": ("slc",),
        "disk": ("disk",),
    }


def test_an_axis_without_two_devices_is_left_out() -> None:
    planned = sweep(NAS, "sync-methods").sweep
    assert {*planned.axes} == {"method", "split", "descriptor"} and planned.sweeps.cross == ()
    # Four disks of two, and pairs of which there is one.
    assert not {"ssd", "disks"} & {*sweep(NAS, "reality-checks").sweep.axes}


def test_a_name_that_is_wrong_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        HEAD.replace("candidates", "top-speeds") + '[sweep.log]\nset = "use.log"\nto = ["log0", "lgo1"]\n'
    )
    with pytest.raises(ConfigError, match="no device 'lgo1'"):
        Side(str(path), NAS).sweep()


@pytest.mark.parametrize(
    ("to", "names"),
    [("[1, 2, 4]", {"1", "2"}), ("{ one = 1, two = 2, four = 4 }", {"one", "two"}), ("[2, 4]", None)],
)
def test_numbers_of_devices_are_those_that_the_testbed_has(
    tmp_path: Path, to: str, names: set[str] | None
) -> None:
    path = tmp_path / "own.toml"
    axes = f'[sweep.disks]\nset = "use.data"\nto = {to}\nelsewhere = "auto"\n'
    axes += '[sweep.sync]\nset = "dataset.sync"\nto = ["standard", "always"]\n'
    path.write_text(HEAD.replace("candidates", "top-speeds") + 'pool.data = "stripe"\n' + axes)
    found = sweep(NAS, str(path)).sweep.axes
    assert ({*found["disks"].values} if "disks" in found else None) == names
