"""What a manifest holds before anything is done."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload, workload_of
from kit.config.workload_base import WORKLOADS, read_source
from kit.core.clock import Clock
from kit.plan.plan import Plan, make_plan
from kit.setup import manifest as manifests
from kit.setup.manifest import new_manifest
from kit.setup.site import Site, SiteClient
from kit.store import run_directory
from tests.fakes import ScriptedHost

DATA = Path(__file__).parents[1] / "data" / "plan"
WISH = '\n[[expect]]\nphase = "read"\nop = "read"\ntier = "disk"\n'


def stored_manifest(tmp_path: Path, emulated: bool, lines: str, server: str = "") -> dict[str, Any]:
    shutil.copytree(DATA, tmp_path / "plan")
    path, testbed = tmp_path / "plan" / "top-speeds.toml", tmp_path / "plan" / "testbed.toml"
    path.write_text(path.read_text() + lines)
    testbed.write_text(testbed.read_text().replace("[server]", f"[server]\n{server}"))
    return manifest_of(
        make_plan(read_workload(path), read_testbed(testbed), path, testbed), tmp_path, emulated
    )


def manifest_of(plan: Plan, tmp_path: Path, emulated: bool) -> dict[str, Any]:
    host = ScriptedHost({})
    paths = {device.name: f"/dev/{device.name}" for device in plan.testbed.device}
    site = Site((SiteClient(host, "a", "b"),), Clock("virtual", 4), emulated, host, paths)
    run = run_directory.create_run(tmp_path, "top-speeds")
    value: dict[str, Any] = new_manifest(plan, site, run, []).as_json()
    return value


def stored_expectation(tmp_path: Path, emulated: bool, lines: str) -> dict[str, Any]:
    observed: dict[str, Any] = stored_manifest(tmp_path, emulated, WISH + lines)["expect"][-1]
    return observed


@pytest.mark.parametrize(
    ("name", "load"), [("top-speeds", "closed loop, 1 "), ("capacity", "open loop, at most 64 ")]
)
def test_a_load_that_waits_for_no_answer_is_no_closed_loop(tmp_path: Path, name: str, load: str) -> None:
    path = WORKLOADS / f"{name}.toml"
    workload, testbed = workload_of(read_source(path)), read_testbed(LAB_TESTBED)
    plan = make_plan(workload, testbed, path, LAB_TESTBED)
    assert manifest_of(plan, tmp_path, True)["load"] == f"{load}outstanding"


@pytest.mark.parametrize(("server", "version"), [("", None), ('version = "TrueNAS 13.0"', "TrueNAS 13.0")])
def test_the_version_of_the_server_is_among_the_versions(
    tmp_path: Path, server: str, version: str | None
) -> None:
    versions = stored_manifest(tmp_path, True, "", server)["versions"]
    assert versions.get("server") == version and "hsp" in versions


@pytest.mark.parametrize(
    ("emulated", "lines", "inside", "share"),
    [
        (True, "", False, None),
        (False, "", False, None),
        (True, "inside = true", True, None),
        (False, "inside = true", True, None),
        (True, "inside_share_min = 0.9", True, 0.9),
        (False, "inside_share_min = 0.9", True, 0.9),
        (False, "inside = true\ninside_share_min = 0.9", True, 0.9),
    ],
)
def test_a_share_inside_is_stored_where_it_is_judged(
    tmp_path: Path, emulated: bool, lines: str, inside: bool, share: float | None
) -> None:
    observed = stored_expectation(tmp_path, emulated, lines)
    assert observed["inside"] is inside
    assert observed.get("inside_share_min") == share
    # Manifests without the key stay as they were.
    assert ("inside_share_min" in observed) == (share is not None)


KNOWN = '[[known]]\ncheck = "POWER-LOSS-*"\nreason = "firmware"\n'
IMPACT = '[[impact]]\nalone = "write-slog"\nbeside = "write-pool"\nop = "write"\np50_ratio_max = 2\n'
TO = 'ratio_to = { phase = "write-slog", op = "write", tier = "slog" }\np99_ratio_max = 9\n'


@pytest.mark.parametrize(
    ("key", "table", "stored"),
    [
        ("known", KNOWN, {"check": "POWER-LOSS-*", "reason": "firmware", "issue": ""}),
        (
            "known",
            f"{KNOWN}until = 2027-01-31\n",
            {"check": "POWER-LOSS-*", "reason": "firmware", "issue": "", "until": "2027-01-31"},
        ),
        (
            "impact",
            IMPACT,
            {
                "alone": "write-slog",
                "beside": "write-pool",
                "op": "write",
                "p50_ratio_max": 2.0,
                "p99_ratio_max": None,
            },
        ),
        (
            "expect",
            WISH + TO,
            {
                "phase": "read",
                "op": "read",
                "tier": "disk",
                "layer": "nfs-server",
                "min_count": 1,
                "inside": False,
                "ratio_to": {"phase": "write-slog", "op": "write", "tier": "slog"},
                "p99_ratio_max": 9.0,
            },
        ),
    ],
    ids=["known", "known until a day", "impact", "ratio"],
)
def test_what_a_workload_asks_for_is_stored_with_these_keys(
    tmp_path: Path, key: str, table: str, stored: dict[str, Any]
) -> None:
    observed = stored_manifest(tmp_path, True, f"\n{table}")[key][-1]
    assert list(observed.items()) == list(stored.items())


def test_parameters_of_modules_and_threads_are_stored_as_they_were_found() -> None:
    settings = {
        "/sys/module/zfs/parameters/zfs_nocacheflush": "0", "/sys/module/spl/parameters/spl_hostid": "7",
        "/proc/fs/nfsd/threads": "8", "/sys/class/block/sda/queue/scheduler": "none", "arcstats c_max": "1",
    }  # fmt: skip
    modules = {"zfs": {"zfs_nocacheflush": "0"}, "spl": {"spl_hostid": "7"}}
    assert manifests.found(settings) == {"modules": modules, "nfsd_threads": 8}
    # A host without them, and a server that is none: no error.
    assert manifests.found({}) == {"modules": {}}
    assert manifests.found({"/proc/fs/nfsd/threads": "Input/output error"}) == {"modules": {}}
