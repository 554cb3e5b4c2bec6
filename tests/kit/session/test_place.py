"""kit.session.place: which earlier runs stop a new one on the same hosts."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import find_workload
from kit.core.errors import HostError, SafetyRefusal
from kit.core.progress import Progress
from kit.hosts import compilation
from kit.plan.plan import Plan, make_plan
from kit.recovery.journal import Journal
from kit.session.place import Request, place_of, refuse_unfinished

RUN = "20260101T000000Z-abcdef"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file, path = tmp_path / "nas.toml", find_workload("top-speeds")
    file.write_text('[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "ssh://c"\n')
    return make_plan(read_workload(path), read_testbed(file), path, file)


def test_forced_writes_need_a_compiler_here_before_a_host_is_contacted(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation.shutil, "which", lambda _: None)
    phase = plan.workload.phase[0]
    place_of(plan, Request(), Progress(quiet=True))
    forced = plan.workload.model_copy(update={"phase": (phase.model_copy(update={"force": object()}),)})
    with pytest.raises(HostError, match="there is no C compiler"):
        place_of(replace(plan, workload=forced), Request(), Progress(quiet=True))


def earlier(results: Path, client: str, journal: str = "", name: str = RUN) -> Path:
    run = results / "w" / name
    run.mkdir(parents=True)
    plan = {"hosts": {"server": "none", "client0": client}, "ssh_config": None}
    (run / "plan.json").write_text(json.dumps(plan))
    (run / "journal.jsonl").write_text(journal or f'{{"run": "{name}", "plan": "x"}}\n')
    return run


def test_an_unfinished_run_on_the_same_hosts_stops_a_new_one(plan: Plan, tmp_path: Path) -> None:
    run = earlier(tmp_path / "results", "ssh://c")
    with pytest.raises(SafetyRefusal, match="was not finished") as caught:
        refuse_unfinished(plan, Request(tmp_path / "results"))
    assert f"hsp clean {run}" in caught.value.hint
    refuse_unfinished(plan, Request(tmp_path / "results", resume=run))
    with Journal(run / "journal.jsonl"), pytest.raises(SafetyRefusal, match="still goes on") as caught:
        refuse_unfinished(plan, Request(tmp_path / "results"))
    assert "hsp clean" not in caught.value.hint


def test_a_damaged_journal_stops_only_runs_on_its_hosts(plan: Plan, tmp_path: Path) -> None:
    """After one `hsp clean` beside a live run, no other could begin."""
    earlier(tmp_path / "elsewhere", "ssh://other", "{}\n")
    refuse_unfinished(plan, Request(tmp_path / "elsewhere"))
    earlier(tmp_path / "results", "ssh://c", "{}\n")
    with pytest.raises(SafetyRefusal, match=r"journal\.jsonl:1: ") as caught:
        refuse_unfinished(plan, Request(tmp_path / "results"))
    assert "move the directory away" in caught.value.hint


def test_what_says_nothing_about_its_hosts_is_mentioned(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = earlier(tmp_path / "results", "ssh://c")
    (run / "plan.json").unlink()
    os.mkfifo(run / "plan.json")
    refuse_unfinished(plan, Request(tmp_path / "results"))
    assert f"left out: {run / 'plan.json'}" in capsys.readouterr().err
