"""`hsp host check`: what is printed where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kit.cli.host import check as command
from kit.cli.main import app
from kit.config.testbed import LAB_TESTBED
from kit.core.errors import EXIT_HOST, EXIT_OK, ConfigError
from kit.doctor.finding import Finding
from kit.doctor.report import Diagnosis, Examinee, make_report

REAL = (
    '[server]\nhost = "local"\n[[client]]\nhost = "local"\n[[device]]\nname = "d"\nrole = "data"\n'
    'path = "/dev/disk/by-id/ata-X_1"\nserial = "1"\nsize = "1GiB"\n'
)


@pytest.fixture
def real(tmp_path: Path) -> str:
    path = tmp_path / "testbed.toml"
    path.write_text(REAL)
    return str(path)


def report_of(state: Any) -> Diagnosis:
    hosts = (Examinee("local", ("server", "client"), True, True),)
    return make_report(
        hosts, [Finding("local", "nfsd", state, "as it is"), Finding("local", "smt", "ok", "off")]
    )


@pytest.mark.parametrize(("state", "code"), [("fail", EXIT_HOST), ("warn", EXIT_OK), ("ok", EXIT_OK)])
def test_the_result_is_on_stdout(real: str, state: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "diagnose", lambda targets, requirements, tell: report_of(state))
    words = CliRunner().invoke(app, ["host", "check", "--testbed", real])
    assert words.exit_code == code
    assert ("nfsd: as it is" in words.stdout) is (state != "ok")
    assert "smt: off" not in words.stdout and "nfsd" not in words.stderr
    assert "smt: off" in CliRunner().invoke(app, ["host", "check", "--testbed", real, "--verbose"]).stdout
    data = CliRunner().invoke(app, ["host", "check", "--testbed", real, "--json", "--quiet"])
    assert (data.exit_code, data.stderr) == (code, "")
    document = json.loads(data.stdout)
    assert (document["format"], document["ready"]) == (1, code == EXIT_OK)
    assert {"host", "check", "state", "found", "meaning", "remedy"} == set(document["findings"][0])
    assert document["hosts"] == [
        {"name": "local", "roles": ["server", "client"], "reachable": True, "examined": True}
    ]


def test_a_testbed_in_the_lab_is_not_booted_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def boots(*_: Any) -> None:
        raise AssertionError("nobody asked for that")

    monkeypatch.setattr(command, "lab_site", boots)
    monkeypatch.setattr(command, "build", boots)
    monkeypatch.setattr(
        command, "judge_lab", lambda *_: [Finding("this machine", "lab-qemu", "fail", "none")]
    )
    for more in ([], ["--boot"]):  # what cannot start is not started
        done = CliRunner().invoke(app, ["host", "check", "--testbed", str(LAB_TESTBED), "--json", *more])
        assert done.exit_code == EXIT_HOST, done.exception
        assert [finding["check"] for finding in json.loads(done.stdout)["findings"]] == ["lab-qemu"]


def test_usage(real: str, tmp_path: Path) -> None:
    booted = CliRunner().invoke(app, ["host", "check", "--testbed", real, "--boot"])
    assert isinstance(booted.exception, ConfigError) and "--boot" in booted.exception.message
    absent = CliRunner().invoke(app, ["host", "check", "--testbed", str(tmp_path / "none.toml")])
    assert isinstance(absent.exception, ConfigError)
    unknown = CliRunner().invoke(app, ["host", "check", "--testbed", real, "--workload", "no-such"])
    assert isinstance(unknown.exception, ConfigError)
    assert CliRunner().invoke(app, ["host", "check"]).exit_code == 2
