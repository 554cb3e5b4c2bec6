"""Hosts that answer, hosts that do not, and hosts with malformed answers."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.errors import EXIT_HOST, EXIT_OK, HostError
from kit.doctor.checks import CHECKS, CLIENT, EVERY_HOST, SERVER
from kit.doctor.diagnosis import HELPER, DiagnosedHost, diagnose, judge, request
from kit.doctor.facts import FactsRequest, parse_json
from kit.doctor.finding import Finding, Requirements
from kit.doctor.report import Examinee, make_report, words
from kit.hosts.base import HostLost
from kit.hosts.local import LocalHost
from kit.hosts.sudo import CLIENT_PROGRAMS, SudoHost
from tests.fakes import Answer, ScriptedHost
from tests.kit.doctor.facts import RECORDED, changed, finding_of, gathered, no_host, output, part, report

pytestmark = pytest.mark.any_python


def unreachable() -> Any:
    raise HostLost(
        "nas: the SSH host key of nas is unknown: it shows SHA256:abc", "compare it on its console"
    )


def answering(role: str, **raw: Any) -> ScriptedHost:
    """A host with the recorded facts, changed by `raw`."""
    answers: dict[str, Answer] = {"true": "", "cat": lambda command: f"{command.argv[-1]} is read\n"}
    return ScriptedHost(answers, name=role, default=changed(role) | raw)


def test_an_unreachable_host_is_reported_and_the_others_are_checked() -> None:
    targets = [
        DiagnosedHost("nas", ("server",), unreachable),
        DiagnosedHost("client", ("client",), lambda: answering("client"), "nas"),
    ]
    observed = diagnose(targets)
    assert observed.exit_code == EXIT_HOST
    lost = finding_of(observed, "nas", "reachable")
    assert lost.state == "fail" and "SHA256:abc" in lost.observed and "its console" in lost.observed
    assert [f.check for f in observed.findings if f.host == "nas"] == ["reachable"]
    assert [(host.name, host.reachable, host.examined) for host in observed.hosts] == [
        ("nas", False, False), ("client", True, True),
    ]  # fmt: skip
    assert finding_of(observed, "client", "fio").state == "ok"
    # The server's MTU is not known.
    assert finding_of(observed, "client", "mtu").state == "warn"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((127, "", "/usr/bin/python3: No such file"), "ended with 127: /usr/bin/python3: No such file"),
        ((1, "", ""), "ended with 1: no output"),
        ((0, "Welcome to nas!\n{}", ""), "is not JSON; it starts with: 'Welcome"),
        ((0, "[]", ""), "is not a JSON object"),
        ((0, "[" * 100_000, ""), "is not JSON"),
        (HostLost("x: the connection broke"), "the connection broke"),
    ],
)
def test_a_host_without_a_usable_answer(answer: Answer, reason: str) -> None:
    host = ScriptedHost({"true": ""}, default=answer)
    observed = diagnose([DiagnosedHost("x", ("server",), lambda: host)])
    python = finding_of(observed, "x", "python")
    assert python.state == "fail" and reason in python.observed and observed.exit_code == EXIT_HOST
    assert finding_of(observed, "x", "reachable").state == "ok" and len(observed.findings) == 2


def test_sudo_that_allows_cat_and_refuses_python() -> None:
    host = answering("server", euid=1000)
    host.answers["python3"] = HostError("sudo did not run /usr/bin/python3")
    observed = diagnose([DiagnosedHost("server", ("server",), lambda: host)])
    assert [argv[0] for argv in host.calls] == ["true", "/usr/bin/python3", "env", *4 * ["cat"], "find"]
    assert finding_of(observed, "server", "privilege").state == "ok"
    # Files that were read with sudo are judged.
    assert "is read" in finding_of(observed, "server", "nfsd").observed


def test_a_client_runs_python_without_sudo() -> None:
    host = answering("client")
    diagnose([DiagnosedHost("client", ("client",), lambda: host, "nas")])
    assert [argv[:2] for argv in host.calls] == [("true",), ("env", "/usr/bin/python3")]


def test_an_ordinary_user_whom_sudo_refuses_a_program_of_the_list() -> None:
    """The list of the host's role is asked for, of what is installed."""
    asked = "\nPATH="
    inner: Any = answering("client", euid=1000)
    inner.answers["sh -c"] = lambda command: "dd\nmount\n" if command.argv[2].startswith(asked) else ""
    observed = diagnose([DiagnosedHost("client", ("client",), lambda: SudoHost(inner), "nas")])
    finding = finding_of(observed, "client", "privilege")
    assert finding.state == "fail" and finding.observed.endswith("a password: dd, mount")
    (question,) = inner.called("sh", "-c")
    assert question[4:] == tuple(sorted(CLIENT_PROGRAMS))


def test_what_each_host_is_asked_for_is_told() -> None:
    told: list[str] = []
    diagnose([DiagnosedHost("nas", ("server",), lambda: answering("server"))], None, told.append)
    assert told[:2] == ["nas: logging in", "nas: reading facts"] and told[-1] == ""


def test_every_check_has_one_finding_on_each_host_of_its_role() -> None:
    observed = report()
    for host, checks in (("server", EVERY_HOST + SERVER), ("client", EVERY_HOST + CLIENT)):
        names = [finding.check for finding in observed.findings if finding.host == host]
        assert sorted(names) == sorted(check.name for check in checks)


def test_a_host_in_both_roles_has_each_finding_once() -> None:
    both = changed("server") | {
        k: v for k, v in RECORDED["client"].items() if k.startswith("command") or k == "peer"
    }
    both["programs"] = RECORDED["server"]["programs"] | RECORDED["client"]["programs"]
    host = replace(gathered("server", both), target=DiagnosedHost("local", ("server", "client"), no_host))
    checks = [finding.check for finding in judge([host], Requirements()).findings]
    assert sorted(checks) == sorted(check.name for check in EVERY_HOST + SERVER + CLIENT)


def test_clients_with_different_versions_of_fio() -> None:
    def client(name: str, version: str) -> Any:
        return gathered("client", changed("client", output("fio", version)), name)

    alike = judge([client("a", "fio-3.39"), client("b", "fio-3.39")], Requirements())
    assert {finding_of(alike, name, "fio-alike").state for name in "ab"} == {"ok"}
    versions = {"a": "fio-3.39", "b": "fio-3.35", "c": "fio-3.39", "d": "gibberish"}
    unlike = judge([client(*item) for item in versions.items()], Requirements())
    assert {finding_of(unlike, name, "fio-alike").state for name in "abcd"} == {"warn"}
    assert "3.35 here" in finding_of(unlike, "b", "fio-alike").observed
    assert "could not be determined" in finding_of(unlike, "d", "fio-alike").observed


# Text with a character that no host writes.
GARBAGE_TEXT = st.text(max_size=40).map(lambda text: f"{text}\x07{text}")
SCALAR = st.one_of(
    st.none(), st.booleans(), GARBAGE_TEXT, st.just(float("nan")), st.just(-1), st.just(10**30)
)
GARBAGE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["error", "code", "out", "err", "path", "x"]), inner, max_size=4),
    ),
    max_leaves=6,
)
PLACES = {
    role: [(key,) for key in raw]
    + [(key, inner) for key, value in raw.items() if isinstance(value, dict) for inner in value]
    for role, raw in RECORDED.items()
}


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["server", "client"]), st.data())
def test_one_malformed_fact_never_makes_a_check_ok(role: str, data: st.DataObject) -> None:
    """Nothing raises, and each check still has its finding."""
    before = {(f.host, f.check): f.state for f in report().findings}
    place = data.draw(st.sampled_from(PLACES[role]))
    garbage = data.draw(GARBAGE)
    raw = changed(role)
    inner = raw
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = garbage
    observed = report(**{role: raw})
    assert len(observed.findings) == len(before)
    for finding in observed.findings:
        if finding.state == "ok":
            assert before[finding.host, finding.check] == "ok", (place, garbage, finding)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(list(RECORDED["server"] | RECORDED["client"])), GARBAGE))
def test_only_malformed_facts_are_never_ok(raw: dict[str, Any]) -> None:
    observed = judge([gathered("server", raw), gathered("client", raw)], Requirements())
    # This machine knows these three itself.
    own = ("reachable", "round-trip", "clock-offset")
    assert [f for f in observed.findings if f.state == "ok" and f.check not in own] == []
    checks = {(finding.host, finding.check) for finding in observed.findings}
    assert len(checks) == 2 * len(EVERY_HOST) + len(SERVER) + len(CLIENT)


def test_control_characters_of_hosts_are_removed() -> None:
    evil = "\x1b[31m</script>\r\n[red]\u202e" + "x" * 5000
    observed = report(server=changed("server", output("bpftrace", evil), part("processes", [evil])))
    shown = finding_of(observed, "server", "bpftrace").observed
    assert "\x1b" not in shown and "\n" not in shown and len(shown) < 1100
    assert "\x1b" not in words(observed)
    json.loads(json.dumps(observed.as_json(), allow_nan=False))


def test_findings_are_sorted_by_state_host_and_check() -> None:
    hosts = (Examinee("b", ("server",), True, True), Examinee("a", ("client",), True, True))
    findings = [
        Finding("a", "smt", "ok", "off"), Finding("a", "fio", "fail", "not there"),
        Finding("b", "load", "warn", "7"), Finding("a", "swap", "note", "1"),
        Finding("b", "clock-source", "warn", "hpet"), Finding("b", "nfsd", "fail", "0"),
    ]  # fmt: skip
    observed = make_report(hosts, findings)
    assert [(f.state, f.host, f.check) for f in observed.findings] == [
        ("fail", "b", "nfsd"), ("fail", "a", "fio"), ("warn", "b", "clock-source"), ("warn", "b", "load"),
        ("note", "a", "swap"), ("ok", "a", "smt"),
    ]  # fmt: skip
    assert observed.exit_code == EXIT_HOST
    text = words(observed)
    assert CHECKS["nfsd"].remedy in text and CHECKS["nfsd"].meaning in text
    assert "ok    a: smt\n" in text and "smt: off" not in text
    assert "ok    a: smt: off" in words(observed, verbose=True)
    assert make_report(hosts, findings[:1]).exit_code == EXIT_OK


def test_a_check_that_is_not_in_the_list_is_an_error() -> None:
    with pytest.raises(ValueError, match="weather"):
        Finding("a", "weather", "ok", "sunny")


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="there is no /usr/bin/python3")
def test_this_machine() -> None:
    """The helper under the machine's own Python."""
    observed = diagnose([DiagnosedHost("here", ("server", "client"), LocalHost, "127.0.0.1")])
    for check in ("reachable", "python", "clock-offset"):
        assert finding_of(observed, "here", check).state == "ok"
    assert finding_of(observed, "here", "system").observed.startswith("Linux ")


def ask(facts_request: FactsRequest) -> dict[str, Any]:
    argv = [sys.executable, os.fspath(HELPER), facts_request.as_json()]
    return parse_json(subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout, "it", dict)


def test_a_command_that_hangs_does_not_delay_the_rest() -> None:
    commands = {"hangs": ("sleep", "3600"), "lives": ("echo", "here")}
    raw = ask(
        FactsRequest(files=("/proc/loadavg",), present=(), programs=("sh",), commands=commands, deadline_s=3)
    )
    assert raw["command hangs"] == {"error": "sleep did not end within 3 s"}
    assert raw["command lives"]["out"] == "here\n"
    assert raw["files"]["/proc/loadavg"] and raw["programs"]["sh"]["path"]


def test_missing_parts_are_reported(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    raw = ask(
        FactsRequest(
            files=(f"{tmp_path}/*", f"{tmp_path}/nothing"),
            present=(f"{tmp_path}/*",),
            programs=("no-such-program",),
            commands={"none": ("/no/such/program",)},
            space="/no/such/place",
        )
    )
    assert raw["files"][f"{tmp_path}/directory"]["error"] == "Is a directory"
    assert raw["present"] == [f"{tmp_path}/directory"]
    assert raw["programs"]["no-such-program"] == {"path": None, "elsewhere": None}
    assert "No such file" in raw["command none"]["error"] and "No such file" in raw["space"]["error"]


def test_a_command_that_would_load_a_module_is_not_run(tmp_path: Path) -> None:
    mark, there = tmp_path / "ran", tmp_path / "module"
    facts_request = FactsRequest((), (), (), {"touch": ("touch", str(mark))}, needs={"touch": str(there)})
    assert ask(facts_request)["command touch"] == {"error": f"there is no {there}"}
    assert not mark.exists()
    there.touch()
    assert ask(facts_request)["command touch"]["code"] == 0 and mark.exists()
    # libzfs and libzfs_core would load it.
    assert {"pyzfs", "pools", "marks", "status"} <= set(
        request(DiagnosedHost("x", ("server",), no_host)).needs
    )


def test_an_error_of_the_kit_is_not_an_unreachable_host() -> None:
    def broken() -> Any:
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        diagnose([DiagnosedHost("x", ("client",), broken)])


def test_the_client_tries_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        facts_request = FactsRequest((), (), (), {}, peer="127.0.0.1", port=port)
        assert ask(facts_request)["peer"]["connect"]["ms"] >= 0
    closed = ask(facts_request)["peer"]["connect"]
    assert "refused" in closed["error"].lower()
    unknown = ask(FactsRequest((), (), (), {}, peer="no..host"))["peer"]
    assert unknown["error"].startswith("no..host: ")


def test_the_helper_can_be_parsed_by_an_old_python() -> None:
    ast.parse(HELPER.read_text(), feature_version=(3, 7))


def test_the_facts_requestdepends_on_the_role() -> None:
    server, client = (request(DiagnosedHost("x", (role,), no_host)) for role in ("server", "client"))  # type: ignore[arg-type]
    assert "pools" in server.commands and "pools" not in client.commands
    assert server.symbols and not client.symbols
    # The whole request is one argument of a command.
    assert len(server.as_json()) < 16_000


_INTERRUPTED = """
import os, signal, threading
from kit.doctor.diagnosis import DiagnosedHost, diagnose

def hang():
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()

diagnose([DiagnosedHost("away", ("client",), hang)])
"""


def test_an_interrupt_does_not_wait_for_a_host_that_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr
