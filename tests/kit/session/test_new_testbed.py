"""`hsp new testbed --candidates`: which disks are taken, and that the files are planned as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kit.cli import new
from kit.config.need import read_need
from kit.config.testbed import read_testbed
from kit.core.errors import ConfigError, SafetyRefusal
from kit.devices.inventory import BY_ID
from kit.devices.listing import ListedDisk, list_devices
from kit.session import new_testbed
from kit.session.new_testbed import Chosen, choose
from kit.session.side import Side
from tests.conftest import Called
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import recorded

HOST = ScriptedHost(default=recorded("pools"))
GIB = 1 << 30
RECORDED = list_devices(HOST)
FREE = next(disk for disk in RECORDED if disk.available)


def disk(
    name: str, gib: int, model: str = "ACME SSD 1", *, rotates: bool = False, serial: str = ""
) -> ListedDisk:
    links = (f"{BY_ID}ata-{name}", f"{BY_ID}wwn-{name}")
    node = replace(
        FREE.node, kernel_name=name, serial=serial or f"S-{name}", model=model, size_bytes=gib * GIB,
        rotational=rotates, links=links,
    )  # fmt: skip
    return replace(FREE, node=node, path=links[0])


SSDS = [disk("sdx", 100), disk("sdy", 200)]
DISKS = [disk("sda", 4000, "WD", rotates=True), disk("sdb", 6000, "WD", rotates=True)]
Chooser = Callable[..., Chosen]


@pytest.fixture
def chooser(monkeypatch: pytest.MonkeyPatch) -> Chooser:
    def made(disks: list[ListedDisk], candidates: list[str], data: tuple[str, ...] = ()) -> Chosen:
        monkeypatch.setattr(new_testbed, "list_devices", lambda host: tuple(disks))
        return choose(HOST, candidates, data)

    return made


@pytest.mark.parametrize(
    ("others", "data", "left"),
    [
        (DISKS, ["sdb", "sda"], []),
        ([*DISKS, disk("sdc", 5000, rotates=True)], ["sdb", "sdc"], ["sda"]),
        ([DISKS[0], disk("sdz", 9000)], ["sda"], ["sdz"]),
        ([disk("sdz", 9000), disk("sdw", 1)], ["sdz", "sdw"], []),
    ],
)
def test_data_are_free_disks_of_one_kind(
    chooser: Chooser, others: list[ListedDisk], data: list[str], left: list[str]
) -> None:
    chosen = chooser([*SSDS, *others], ["/dev/disk/by-id/ata-sdx", "sdy"])
    assert [each.node.kernel_name for each in chosen.candidates] == ["sdx", "sdy"]
    assert [each.node.kernel_name for each in chosen.data] == data
    assert [each.node.kernel_name for each in chosen.left] == left


@pytest.mark.parametrize(
    "name", [f"{BY_ID}ata-sdx", f"{BY_ID}wwn-sdx", "ata-sdx", "/dev/sdx", "sdx", "S-sdx"]
)
def test_each_name_of_a_disk_is_written_as_its_link(chooser: Chooser, name: str) -> None:
    assert chooser([*SSDS, *DISKS], [name]).candidates == (SSDS[0],)


@pytest.mark.parametrize(
    ("disks", "candidates", "data", "message"),
    [
        ([*SSDS, *DISKS], ["sdx", "/dev/sdx"], (), "named twice"),
        ([*SSDS, *DISKS], ["sdx"], ("S-sdx",), "named twice"),
        ([*SSDS, *DISKS], ["sdx1"], (), "no disk of the name sdx1"),
        ([*SSDS, *DISKS], [""], (), "no disk of the name"),
        ([disk("n1", 1, serial="S"), disk("n2", 1, serial="S")], ["S"], (), "2 disks of the name S"),
        (SSDS, ["sdx", "sdy"], (), "disks for data are needed.*it has no others"),
    ],
)
def test_refused(
    chooser: Chooser, disks: list[ListedDisk], candidates: list[str], data: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        chooser(disks, candidates, data)


def test_a_disk_in_use_is_refused_with_its_reason() -> None:
    for names, data in ((["sda"], ()), (["sdc"], ("sda",))):
        with pytest.raises(SafetyRefusal, match=r"HSPSD0 is not touched: .*pool"):
            choose(HOST, names, data)
    with pytest.raises(ConfigError, match=r"disks for data are needed.*virtio-HSPVD0: .*pool"):
        choose(HOST, ["sdc"], ())


@pytest.mark.parametrize(("role", "phases"), [("log", {"write-slog", "write-pool"}), ("cache", {"read"})])
@pytest.mark.parametrize("disks", [DISKS, DISKS[:1]])
def test_the_files_are_planned_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hsp_here: Called, role: str, phases: set[str],
    disks: list[ListedDisk],
) -> None:  # fmt: skip
    monkeypatch.setattr(new_testbed, "list_devices", lambda host: (*SSDS, *disks))
    monkeypatch.setattr(new, "open_server", lambda testbed: HOST)
    words = ("new", "testbed", "--candidates", "sdx", "sdy", "--role", role, "--client", "ssh://root@client1")
    done = hsp_here(*words, "--server", "ssh://root@nas", "-C", str(tmp_path))
    assert done.returncode == 0, done.stderr
    testbed, workload = tmp_path / "which-ssd-testbed.toml", tmp_path / "which-ssd.toml"
    names = [f"{role}-acme-ssd-1", f"{role}-acme-ssd-1-2"]
    assert [each.name for each in read_testbed(testbed).device if each.role != "data"] == names
    need = tmp_path / "which-ssd-need.toml"
    assert (read_need(need).sync_write_p99_us is None) == (role == "cache")
    sweep = Side(str(workload), testbed).sweep()
    assert sweep is not None and not sweep.skipped
    assert [build.name for build in sweep.builds] == ["base", "candidate=acme-ssd-1-2", "base-again"]
    assert {cell.phase for cell in sweep.cells} == phases
    # With all that a buyer may fill in.
    for path in (testbed, need):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line.removeprefix("# ") if " = " in line else line for line in lines))
    assert read_testbed(testbed).device[-1].price == "180 EUR"
    assert read_need(need).today == "acme-ssd-1"
    again = hsp_here(*words, "-C", str(tmp_path))
    assert again.returncode == 2 and "is there already" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sdx",), "add --candidates"),
        (("--candidates", "sdx", "--server", "nas"), "is not a host"),
        (("--candidates", "sdx", "--server", "none"), "machines of your own"),
        (("--candidates", "sdx", "--client", "lab"), "machines of your own"),
        (("--candidates", "sdx", "--name", "A b"), "is not a name"),
        (("--candidates",), "missing argument"),
    ],
)
def test_what_is_wrong_is_said_before_a_machine_is_reached(
    tmp_path: Path, hsp_here: Called, words: tuple[str, ...], message: str
) -> None:
    done = hsp_here("new", "testbed", *words, "-C", str(tmp_path), COLUMNS="200")
    assert done.returncode == 2 and message in done.stderr
    assert not list(tmp_path.iterdir())
