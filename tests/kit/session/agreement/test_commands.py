"""kit.session.agreement.commands: what a testbed runs is shown, and agreed to before its first time here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.core.errors import SafetyRefusal
from kit.plan.plan import Plan
from kit.recovery import registry
from kit.session.agreement import commands
from kit.session.side import Side
from tests.conftest import Called

BED = (Path(__file__).parents[4] / "docs" / "examples" / "mynas.toml").read_text()
COMMAND = '[[command]]\nname = "swap"\nrun = ["failover", "nas 2"]\nundo = ["failover", "nas"]\n'
SETTING = '[[setting]]\nname = "path"\nget = ["show"]\nset = ["modify", "x={value}"]\n'
OTHER = SETTING.replace("path", "other").replace("show", "look")
POWER = '[power]\nscope = "server"\noff = ["pdu", "off"]\non = ["pdu", "on"]\n'
FAULT = '[[fault]]\nat = "9s"\nphase = "read"\nwhat = "command"\ncommand = "swap"\n'
SWEEP = '[sweep.t]\nset = "tunables.zfs_txg_timeout"\nto = ["5s", "6s"]\n'
WORKLOAD = """
format = 1
name = "mine"
title = "Mine"
base = "top-speeds"
[[phase]]
name = "read"
duration = "20s"
"""


def plan(folder: Path, bed: str, more: str = "") -> Plan:
    (folder / "w.toml").write_text(WORKLOAD + more)
    (folder / "bed.toml").write_text(bed)
    return Side(os.fspath(folder / "w.toml"), folder / "bed.toml").plan()


@pytest.mark.parametrize(
    ("bed", "more", "lines"),
    [
        (BED, "", []),
        # What this run does not need is not run.
        (BED + COMMAND + SETTING + POWER, "", []),
        (
            BED + COMMAND, FAULT,
            ["ssh://root@nas: run of [[command]] swap: failover 'nas 2'",
             "ssh://root@nas: undo of [[command]] swap: failover nas"],
        ),
        (
            BED + SETTING + OTHER, '[setting]\npath = "off"\n',
            ["ssh://root@nas: get of [[setting]] path: show",
             "ssh://root@nas: set of [[setting]] path: modify 'x={value}'",
             "ssh://root@nas: get of [[setting]] other: look"],
        ),
        (
            BED + POWER, "[power_loss]\nmoments = 1\n",
            ["this machine: off of [power]: pdu off", "this machine: on of [power]: pdu on"],
        ),
    ],
)  # fmt: skip
def test_each_command_that_the_run_executes_is_listed(
    tmp_path: Path, bed: str, more: str, lines: list[str]
) -> None:
    assert commands.listed(plan(tmp_path, bed, more)) == lines


def test_what_an_ssh_configuration_runs_is_listed_with_its_digest(tmp_path: Path) -> None:
    config = tmp_path / "ssh_config"
    config.write_text("Host nas\n  HostName 10.0.0.1\n")
    bed = f'ssh_config = "ssh_config"\n{BED}'
    assert commands.listed(plan(tmp_path, bed)) == []
    codes = set()
    for more in ("  ProxyCommand nc %h %p", 'Match exec "id"', "Include other", "  KnownHostsCommand /bin/x"):
        config.write_text(f"Host nas\n  HostName 10.0.0.1\n{more}\n")
        (line,) = commands.listed(plan(tmp_path, bed))
        assert f"ssh_config {config}" in line and line.endswith(more.strip())
        codes.add(commands.code_of([line]))
    # Also another host behind the same command is another configuration.
    config.write_text(config.read_text().replace("10.0.0.1", "10.0.0.2"))
    codes.add(commands.code_of(commands.listed(plan(tmp_path, bed))))
    assert len(codes) == 5


def test_in_the_lab_nothing_is_asked(tmp_path: Path) -> None:
    bed = LAB_TESTBED.read_text() + COMMAND
    assert commands.listed(plan(tmp_path, bed, FAULT)) == []


def test_it_is_asked_once_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path / "state"))
    made = plan(tmp_path, BED + COMMAND, FAULT)
    code = commands.code_of(commands.listed(made))
    asked: list[str] = []

    def answer(text: str) -> commands.Ask:
        return lambda question: asked.append(question) or text  # type: ignore[func-returns-value]

    for given, ask in (((), None), ((), answer("yes")), (("0" * 16,), None), ((), answer(""))):
        with pytest.raises(SafetyRefusal, match="nothing was run and nothing was contacted") as caught:
            commands.agree([made], given, ask)
        assert f"--agree {code}" in caught.value.hint
    assert len(asked) == 2 and all(code in question for question in asked)
    commands.agree([made], (), answer(f"{code}\n"))
    commands.agree([made], (), None)
    # Another command is another agreement, also of the same name.
    changed = plan(tmp_path, BED + COMMAND.replace("nas 2", "nas 3"), FAULT)
    with pytest.raises(SafetyRefusal):
        commands.agree([changed], (), None)
    commands.agree([changed], (commands.code_of(commands.listed(changed)),), None)
    assert registry.is_agreed(code)


def test_the_plan_shows_them_and_a_run_without_agreement_contacts_nobody(
    hsp_here: Called, tmp_path: Path
) -> None:
    made = plan(tmp_path, BED + COMMAND, FAULT)
    code = commands.code_of(commands.listed(made))
    words = (os.fspath(tmp_path / "w.toml"), "--testbed", os.fspath(tmp_path / "bed.toml"))
    shown = hsp_here("plan", *words).stdout
    assert "the testbed makes the run execute:" in shown and f"--agree {code}" in shown
    assert json.loads(hsp_here("plan", *words, "--json").stdout)["testbed_commands"] == commands.listed(made)
    # Of a sweep, those of all its builds.
    (tmp_path / "w.toml").write_text(WORKLOAD + FAULT + SWEEP)
    assert f"--agree {code}" in hsp_here("plan", *words).stdout
    assert json.loads(hsp_here("plan", *words, "--json").stdout)["testbed_commands"] == commands.listed(made)
    (tmp_path / "w.toml").write_text(WORKLOAD + FAULT)
    results = ("--results", os.fspath(tmp_path / "results"))
    done = hsp_here("run", *words, *results)
    assert done.returncode == 4 and "run of [[command]] swap: failover 'nas 2'" in done.stderr
    assert not (tmp_path / "results").exists()
