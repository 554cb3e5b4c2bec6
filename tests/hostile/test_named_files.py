"""Workloads, bases, runs and series of a stranger that name programs, hosts and files: nothing comes of it.

Each case is planned and run (or resumed) as a person would, in the stranger's folder. Nothing is started,
nothing outside of it is shown or written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.config.workload_base import WORKLOADS
from kit.recovery import registry
from kit.session.live.watch_server import WatchServer
from tests.conftest import Called
from tests.reports import synthetic_series

MARK, SECRET = "PWNED", "root:$y$j9T$secret-line"
HEAD = 'format = 1\nname = "nice"\ntitle = "Nice"\nbase = "top-speeds"\n'
LAB = '[server]\nhost = "lab"\n[[client]]\nhost = "lab"\n'
SSD = '[[device]]\nname = "d0"\nrole = "data"\nsize = "64MiB"\n'
DISK = f'{SSD}preset = "disk-7200"\n'
NAS = 'ssh_config = "ssh_config"\n[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "ssh://c"\n'
REACH = "a workload names it (lab), so it may be the lab alone"
PATH = "is a path; name a file beside"
FAULT = '[[fault]]\nat = "9s"\nphase = "read"\nwhat = "command"\n'

# Files of the folder by name ("-> X": a link), and what the refusal says.
DATA = {
    "lab-of-hosts": ({"nice.toml": f'{HEAD}lab = "bed.toml"\n', "bed.toml": NAS}, REACH),
    "lab-above": ({"nice.toml": f'{HEAD}lab = "../bed.toml"\n'}, "lab: "),
    "lab-anywhere": ({"nice.toml": f'{HEAD}lab = "/etc/hsp/bed.toml"\n'}, "lab: "),
    "lab-through-a-base": (
        {
            "nice.toml": HEAD.replace("top-speeds", "mid.toml"),
            "mid.toml": f'{HEAD}lab = "bed.toml"\n', "bed.toml": NAS,
        },
        REACH,
    ),
    "lab-of-a-sweep": (
        {
            "nice.toml": f'{HEAD}lab = "bed.toml"\n[sweep.t]\nset = "job.numjobs"\nto = [1, 2]\n',
            "bed.toml": NAS,
        },
        REACH,
    ),
    "lab-of-no-such-name": ({"nice.toml": f'{HEAD}lab = "strips"\n'}, "did you mean 'stripes'?"),
    "lab-is-a-link": (
        {"nice.toml": f'{HEAD}lab = "bed.toml"\n', "bed.toml": "-> /etc/passwd"}, "a link, a FIFO"
    ),
    "lab-with-ssh": (
        {"nice.toml": f'{HEAD}lab = "bed.toml"\n', "bed.toml": f'ssh_config = "ssh_config"\n{LAB}{DISK}'},
        REACH,
    ),
    "lab-with-command": (
        {
            "nice.toml": f'{HEAD}lab = "bed.toml"\n',
            "bed.toml": f'{LAB}{DISK}[[command]]\nname = "x"\nrun = ["sh"]\n',
        },
        REACH,
    ),
    "lab-with-setting": (
        {
            "nice.toml": f'{HEAD}lab = "bed.toml"\n',
            "bed.toml": f'{LAB}{DISK}[[setting]]\nname = "x"\nget = ["sh"]\nset = ["sh", "{{value}}"]\n',
        },
        REACH,
    ),
    "lab-that-keeps": (
        {"nice.toml": f'{HEAD}lab = "bed.toml"\n', "bed.toml": f'{LAB}{DISK}keep = "made"\n'},
        REACH,
    ),
    "lab-with-a-model-elsewhere": (
        {"nice.toml": f'{HEAD}lab = "bed.toml"\n', "bed.toml": f'{LAB}{SSD}file = "../secret"\n'},
        PATH,
    ),
    "lab-with-a-model-through-a-link": (
        {
            "nice.toml": f'{HEAD}lab = "bed.toml"\n', "bed.toml": f'{LAB}{SSD}file = "m.toml"\n',
            "m.toml": "-> ../secret",
        },
        "a link, a FIFO",
    ),
    "base-above": ({"nice.toml": HEAD.replace("top-speeds", "../secret.toml")}, PATH),
    "base-is-a-link": (
        {"nice.toml": HEAD.replace("top-speeds", "mid.toml"), "mid.toml": "-> ../secret"},
        "a link, a FIFO",
    ),
    "job-is-a-link": (
        {"nice.toml": f'{HEAD}[[phase]]\nname = "read"\njob = "x.fio"\n', "x.fio": "-> ../secret"},
        "a link, a FIFO",
    ),
    "job-above": ({"nice.toml": f'{HEAD}[[phase]]\nname = "read"\njob = "../secret"\n'}, PATH),
    "fault-runs": ({"nice.toml": f'{HEAD}{FAULT}run = ["touch", "{MARK}"]\n'}, "a workload names no program"),
    "fault-undoes": ({"nice.toml": f'{HEAD}{FAULT}undo = ["sh"]\n'}, "a workload names no program"),
    "fault-through-a-base": (
        {
            "nice.toml": HEAD.replace("top-speeds", "mid.toml"),
            "mid.toml": f'{HEAD}{FAULT}run = ["touch", "{MARK}"]\n',
        },
        "a workload names no program",
    ),
}  # fmt: skip


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    folder = tmp_path / "stranger"
    folder.mkdir()
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "bed.toml").write_text(NAS)
    for place in (tmp_path, folder):
        (place / "ssh_config").write_text(f'Match exec "touch {folder / MARK}"\n  HostName 127.0.0.1\n')
    return folder


@pytest.mark.parametrize("case", DATA)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_what_data_names_is_data(hsp_here: Called, stranger: Path, command: str, case: str) -> None:
    files, reason = DATA[case]
    for name, text in files.items():
        if text.startswith("-> "):
            (stranger / name).symlink_to(text.removeprefix("-> "))
        else:
            (stranger / name).write_text(text)
    before = sorted(stranger.iterdir())
    done = hsp_here(command, "nice.toml", cwd=stranger)
    assert done.returncode == 2 and reason in done.stderr, done.stderr
    assert SECRET not in done.stderr + done.stdout and "daemon" not in done.stderr
    assert sorted(stranger.iterdir()) == before


# --- Runs and series -------------------------------------------------------------------------------------

RUN = "20260101T000000Z-abcdef"


def run_of(folder: Path, workload: Path, testbed: Path) -> Path:
    run = folder / "results" / "w" / RUN
    run.mkdir(parents=True)
    plan = {
        "hosts": {"server": "none", "client0": "ssh://harmless"}, "ssh_config": None,
        "sources": [os.fspath(workload), os.fspath(testbed)],
    }  # fmt: skip
    (run / "plan.json").write_text(json.dumps(plan))
    (run / "journal.jsonl").write_text(f'{{"run": "{RUN}", "plan": "x"}}\n')
    return run


def series_of(folder: Path, workload: Path, testbed: Path) -> Path:
    return synthetic_series.series(folder, sources=[os.fspath(workload), os.fspath(testbed)])


@pytest.mark.parametrize("make", [run_of, series_of])
def test_a_run_of_a_stranger_is_shown_and_agreed_to(hsp_here: Called, stranger: Path, make: Called) -> None:
    workload, testbed = stranger / "nice.toml", stranger / "bed.toml"
    workload.write_text(HEAD)
    testbed.write_text(NAS)
    path = make(stranger, workload, testbed)
    asked = hsp_here("run", "--resume", os.fspath(path))
    assert asked.returncode == 4 and f"--agree {path.name}" in asked.stderr, asked.stderr
    for shown in (
        workload,
        testbed,
        "server: none",
        "client: ssh://c",
        f"ssh_config: {stranger / 'ssh_config'}",
    ):
        assert str(shown) in asked.stderr
    assert hsp_here("run", "--resume", os.fspath(path), "--agree", "y").returncode == 4
    # Agreed to, it is still what it was planned as, or not resumed; commands are agreed to by themselves.
    agreed = hsp_here("run", "--resume", os.fspath(path), "--agree", path.name)
    assert agreed.returncode in (2, 4) and "was not agreed to" not in agreed.stderr, agreed.stderr
    assert registry.is_remembered(path.name, path)
    assert not (stranger / MARK).exists()


def test_the_device_of_a_run_of_a_stranger_is_shown(hsp_here: Called, stranger: Path) -> None:
    run = run_of(stranger, WORKLOADS / "slog.toml", LAB_TESTBED)
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps({**plan, "device": "/dev/disk/by-id/nvme-photos"}))
    asked = hsp_here("run", "--resume", os.fspath(run))
    assert asked.returncode == 4 and f"--agree {run.name}" in asked.stderr, asked.stderr
    assert "device: /dev/disk/by-id/nvme-photos" in asked.stderr
    assert "this machine has no disk of that name" in asked.stderr
    agreed = hsp_here("run", "--resume", os.fspath(run), "--agree", run.name)
    assert agreed.returncode == 2 and "this machine has no disk of that name" in agreed.stderr


@pytest.mark.parametrize("make", [run_of, series_of])
@pytest.mark.parametrize("inside", ["workload", "testbed"])
def test_what_came_with_a_run_is_not_used(
    hsp_here: Called, stranger: Path, make: Called, inside: str
) -> None:
    own = {"workload": stranger / "nice.toml", "testbed": stranger / "bed.toml"}
    path = make(stranger, *own.values())
    made = own | {inside: path / own[inside].name}
    for key, text in (("workload", HEAD), ("testbed", NAS)):
        made[key].write_text(text)
    file = next(each for each in (path / "plan.json", path / "series.json") if each.exists())
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "sources": [os.fspath(each) for each in made.values()]}))
    for _ in range(2):
        done = hsp_here("run", "--resume", os.fspath(path), "--agree", path.name)
        assert done.returncode == 2 and "which is inside a run directory" in done.stderr, done.stderr
        # Not even where this machine made it.
        registry.remember(path.name, path)
    assert not (stranger / MARK).exists()


def test_nobody_is_told_to_resume_what_is_not_known(
    hsp_here: Called, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WatchServer, "wait", lambda _: None)
    workload, testbed = stranger / "nice.toml", stranger / "bed.toml"
    workload.write_text(HEAD)
    testbed.write_text(NAS)
    run = run_of(stranger, workload, testbed)
    whole = synthetic_series.series(stranger / "results")
    series = json.loads((whole / "series.json").read_text())
    for each in (*series["builds"], *series["cells"]):
        each["runs"] = []
    (whole / "series.json").write_text(json.dumps({**series, "ended": False}))
    told = {
        "list": hsp_here("list", "--results", os.fspath(stranger / "results")),
        "check": hsp_here("show", "--checks", os.fspath(whole)),
        "watch": hsp_here("show", "--live", os.fspath(run)),
    }
    assert f"hsp clean {run}" in told["watch"].stderr
    plan = json.loads((run / "plan.json").read_text())
    plan["hosts"]["client0"] = "ssh://c"
    (run / "plan.json").write_text(json.dumps(plan))
    bed = stranger / "own.toml"
    bed.write_text(NAS.replace('ssh_config = "ssh_config"\n', ""))
    results = os.fspath(stranger / "results")
    told["run"] = hsp_here("run", "top-speeds", "--testbed", os.fspath(bed), "--results", results)
    assert told["run"].returncode == 4 and f"hsp clean {run}" in told["run"].stderr
    for done in told.values():
        assert "--resume" not in done.stdout + done.stderr
    registry.remember(whole.name, whole)
    registry.remember(run.name, run)
    assert f"hsp run --resume {run}" in hsp_here("show", "--live", os.fspath(run)).stderr
    again = hsp_here("list", "--results", os.fspath(stranger / "results"), "--json")
    assert f"hsp run --resume {whole}" in again.stdout
