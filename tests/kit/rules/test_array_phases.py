"""Phases on md arrays: what the plan refuses, with file and line, and what it makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.tables.phase_table import ArrayLayout
from kit.config.testbed import LAB_TESTBED
from kit.config.workload_base import WORKLOADS
from kit.devices import array
from kit.plan.names import planned_names
from kit.plan.steps import listed
from kit.rules.array_phases import bytes_of
from kit.session.side import Side
from tests.kit.rules.test_device_phases import HEAD, JOB, PHASE, plan, refused

ARRAY = PHASE.replace('"device:data"', '"array"') + 'array = { level = "raid0", chunk = "128KiB" }\n'
LABTEXT = LAB_TESTBED.read_text()
APPLIANCE = """\
name = "nas"
[server]
host = "none"
export = "nas:/pool/x"
[[client]]
host = "ssh://client"
"""
SSD = '[[device]]\nname = "{name}"\nrole = "data"\nsize = "{size}"\npreset = "ssd-2009-read"\n'


def lab(folder: Path, *sizes: str, first: str = "ssd0") -> Path:
    path = folder / "lab.toml"
    names = [first, *(f"ssd{number}" for number in range(1, len(sizes)))]
    devices = "".join(SSD.format(name=name, size=size) for name, size in zip(names, sizes, strict=True))
    path.write_text(LABTEXT.split("[[device]]")[0] + devices)
    return path


def test_an_array_is_made_before_its_phase_and_undone_after_it(tmp_path: Path) -> None:
    made = plan(tmp_path, HEAD + ARRAY, JOB, lab(tmp_path, "64MiB", "64MiB", "64MiB"))
    (phase,) = made.workload.phase
    assert phase.devices == ("ssd0", "ssd1", "ssd2") and phase.each == "in turn"
    commands = listed(made, planned_names(made))
    programs = [entry["argv"][0] for entry in commands]
    mdadm = programs.index("mdadm")
    assert programs[mdadm : mdadm + 2] == ["mdadm", "mknod"] and programs.index("fio") > mdadm
    undone = [entry["argv"] for entry in commands if entry["step"] == "undo"]
    assert [argv[:2] for argv in undone[:4]] == [["mdadm", "--stop"], *[["mdadm", "--zero-superblock"]] * 3]
    assert "/dev/hsp-ID" in undone[4]
    uuid = array.uuid_of(planned_names(made).run_id, "write")
    assert f"--uuid={uuid}" in commands[mdadm]["argv"]


def test_members_takes_the_first_devices(tmp_path: Path) -> None:
    text = HEAD + ARRAY.replace('"128KiB"', '"128KiB", members = 2')
    made = plan(tmp_path, text, JOB, lab(tmp_path, "64MiB", "64MiB", "64MiB"))
    assert made.workload.phase[0].devices == ("ssd0", "ssd1")
    # A device that no phase goes to is not taken.
    assert [device.name for device in made.testbed.device] == ["ssd0", "ssd1"]


LINE = len(HEAD.splitlines()) + len(PHASE.splitlines()) + 1
REFUSED = [
    ('level = "raid5"', ("64MiB", "64MiB"), 'phase[0].array.level: "raid5" needs at least 3 devices'),
    ('level = "raid1"', ("64MiB",), 'phase[0].array.level: "raid1" needs at least 2 devices'),
    ('level = "raid0", members = 3', ("64MiB", "64MiB"), "phase[0].array.members: 3: the phase has 2 data"),
    ('level = "raid0", members = 3', ("64MiB",), "array.members: 3: the phase has 1 data device of the"),
    ('level = "raid1", members = 1', ("64MiB",) * 2, "phase[0].array.members: 1: raid1 needs at least 2"),
    ('level = "raid0"', ("64MiB", "128MiB"), "stripes would have fewer members"),
    ('level = "raid1"', ("64MiB", "128MiB", "128MiB"), "128MiB of ssd1, ssd2 would be unused"),
    ('level = "raid1", chunk = "64KiB"', ("64MiB",) * 2, "phase[0].array.chunk: raid1 has no chunks"),
    ('level = "raid0", chunk = "96KiB"', ("64MiB",) * 2, "phase[0].array.chunk: must be a power of two"),
    ('level = "raid0", chunk = "64MiB"', ("64MiB",) * 2, "phase[0].array.chunk: 64MiB: not one fits"),
    ('level = "raid6"', ("64MiB",) * 4, "phase[0].array.level:"),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "sizes", "text"), REFUSED)
def test_what_cannot_be_is_refused(tmp_path: Path, layout: str, sizes: tuple[str, ...], text: str) -> None:
    array = ARRAY[: ARRAY.index("array = {")] + f"array = {{ {layout} }}\n"
    message = refused(tmp_path, HEAD + array, JOB, lab(tmp_path, *sizes))
    assert message.startswith(f"drives.toml:{LINE}: ") and text in message


@pytest.mark.parametrize(
    ("phase", "text"),
    [
        (ARRAY + 'each = "together"\n', "phase[0].each: an array is one device"),
        (PHASE.replace('"device:data"', '"array"'), "phase[0].array: which array? such as"),
        (
            PHASE + 'array = { level = "raid0" }\n',
            'phase[0].array: array is for a phase with target = "array"',
        ),
        (
            ARRAY + 'in_order = true\nlog = "histograms"\n',
            "phase[0].in_order: latencies are counted with log",
        ),
        (ARRAY + 'devices = ["ssd7"]\n', "phase[0].devices: the testbed 'lab' has no data device 'ssd7'"),
    ],
)
def test_keys_that_do_not_go_together(tmp_path: Path, phase: str, text: str) -> None:
    message = refused(tmp_path, HEAD + phase, JOB, lab(tmp_path, "64MiB", "64MiB"))
    # An unknown device alone is named: how many the array has is not known.
    assert text in message and message.count("phase[0]") == 1


def test_a_device_that_is_called_as_the_array_and_an_appliance(tmp_path: Path) -> None:
    message = refused(tmp_path, HEAD + ARRAY, JOB, lab(tmp_path, "64MiB", "64MiB", first="array"))
    assert "phase[0].target: a device of the testbed is called 'array'" in message
    (tmp_path / "nas.toml").write_text(APPLIANCE)
    assert "is an appliance" in refused(tmp_path, HEAD + ARRAY, JOB, tmp_path / "nas.toml")


@pytest.mark.parametrize(
    ("level", "sizes", "mib"), [("raid0", 3, 186), ("raid1", 3, 62), ("raid5", 3, 124), ("raid10", 3, 93)]
)
def test_what_an_array_holds(level: str, sizes: int, mib: int) -> None:
    """As mdadm 4.4 made them of devices of 64 MiB with chunks of 1 MiB, or a little more."""
    layout = ArrayLayout.model_validate(
        {"level": level} | ({} if level == "raid1" else {"chunk": "1MiB"}), strict=False
    )
    assert mib << 20 <= bytes_of(layout, [64 << 20] * sizes) <= (mib + sizes) << 20


def test_a_plan_that_asks_for_no_array_is_stored_as_before(tmp_path: Path) -> None:
    (phase,) = plan(tmp_path).workload.model_dump(mode="json")["phase"][:1]
    assert not {"array", "in_order"} & phase.keys()
    assert "lab" not in plan(tmp_path).workload.model_dump(mode="json")


# --- The kit's own workload ---


def test_the_stripes_are_one_run_in_a_lab_of_their_own() -> None:
    assert Side.of("stripes", None).testbed == WORKLOADS.parent / "kit" / "lab" / "stripes-testbed.toml"
    assert Side.of("drives", None).testbed == LAB_TESTBED
    sweep = Side.of("stripes", None).sweep()
    assert sweep is not None and not sweep.skipped
    (build,) = sweep.builds
    names = [phase.name for phase in build.plan.workload.phase]
    assert [name for name in names if name.startswith("alone")] == [f"alone-ssd{n}" for n in range(7)]
    assert "together" in names and len(build.cells) == 15
    for phase in build.plan.workload.phase:
        if phase.array:
            # Whole stripes.
            block = build.plan.jobs[phase.load].block_bytes
            assert block == len(phase.devices) * phase.array.chunk
            assert phase.devices == tuple(f"ssd{number}" for number in range(len(phase.devices)))


def test_phases_that_are_no_cells_are_measured_once_with_the_base(tmp_path: Path) -> None:
    sweep = Side.of("stripes", None).sweep(["drives=4"])
    assert sweep is not None
    (build,) = sweep.builds
    assert [cell.name for cell in build.cells] == ["base", "drives=4", "drives=4,depth=4", "base"]
    assert {"settle", "together", "alone-ssd6"} <= {phase.name for phase in build.plan.workload.phase}
