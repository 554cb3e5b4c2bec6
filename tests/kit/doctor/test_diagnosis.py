"""Hosts that answer, hosts that do not, and hosts that say nonsense."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.errors import EXIT_HOST, EXIT_OK, HostError
from kit.doctor.checks import CHECKS, CLIENT, EVERY_HOST, SERVER
from kit.doctor.diagnosis import HELPER, Target, diagnose, judge, request
from kit.doctor.facts import Request, Unknown, parse_answer
from kit.doctor.finding import Finding, Requirements
from kit.doctor.report import Examinee, make_report, words
from kit.hosts.base import HostLost
from kit.hosts.local import LocalHost
from tests.fakes import Answer, ScriptedHost
from tests.kit.doctor.facts import RECORDED, changed, gathered, no_host, only, part, report, said


def unreachable() -> Any:
    raise HostLost(
        "nas: the SSH host key of nas is unknown: it shows SHA256:abc", "compare it on its console"
    )


def answering(role: str, **raw: Any) -> ScriptedHost:
    """A host with the recorded facts, changed by `raw`."""
    answers: dict[str, Answer] = {"true": "", "cat": lambda command: f"{command.argv[-1]} is read\n"}
    return ScriptedHost(answers, name=role, default=changed(role) | raw)


def test_a_host_that_cannot_be_reached_is_named_and_the_others_are_looked_at() -> None:
    targets = [
        Target("nas", ("server",), unreachable),
        Target("client", ("client",), lambda: answering("client"), "nas"),
    ]
    found = diagnose(targets)
    assert found.exit_code == EXIT_HOST
    lost = only(found, "nas", "reachable")
    assert lost.state == "fail" and "SHA256:abc" in lost.observed and "its console" in lost.observed
    assert [f.check for f in found.findings if f.host == "nas"] == ["reachable"]
    assert [(host.name, host.reachable, host.examined) for host in found.hosts] == [
        ("nas", False, False), ("client", True, True),
    ]  # fmt: skip
    assert only(found, "client", "fio").state == "ok"
    # The other end is not known, which is not well.
    assert only(found, "client", "mtu").state == "warn"


def test_a_host_whose_connection_breaks_before_it_answers() -> None:
    host = ScriptedHost({"true": ""}, default=HostLost("x: the connection broke"))
    found = diagnose([Target("x", ("client",), lambda: host)])
    assert only(found, "x", "python").state == "fail"
    assert "the connection broke" in only(found, "x", "python").observed


@pytest.mark.parametrize(
    ("code", "out", "err"),
    [(127, "", "/usr/bin/python3: No such file"), (0, "Welcome to nas!\n{}", ""), (0, "[]", ""), (1, "", "")],
)
def test_a_host_without_a_python_that_answers(code: int, out: str, err: str) -> None:
    host = ScriptedHost({"true": ""}, default=(code, out, err))
    found = diagnose([Target("x", ("server",), lambda: host)])
    assert only(found, "x", "python").state == "fail" and found.exit_code == EXIT_HOST
    assert only(found, "x", "reachable").state == "ok"
    assert {finding.check for finding in found.findings} == {"python", "reachable"}


def test_an_ordinary_user_whose_sudo_lets_files_be_read_but_not_python_run() -> None:
    host = answering("server", euid=1000)
    host.answers["python3"] = HostError("sudo did not run /usr/bin/python3")
    found = diagnose([Target("server", ("server",), lambda: host)])
    assert [argv[0] for argv in host.calls] == ["true", "/usr/bin/python3", "env", "cat", "cat", "cat", "cat"]
    assert only(found, "server", "privilege").state == "ok"
    # What came by that way is what is judged.
    assert "is read" in only(found, "server", "nfsd").observed


def test_a_client_asks_for_python_without_sudo() -> None:
    host = answering("client")
    diagnose([Target("client", ("client",), lambda: host, "nas")])
    assert [argv[:2] for argv in host.calls] == [("true",), ("env", "/usr/bin/python3")]


def test_every_check_has_exactly_one_finding_on_each_host_it_is_for() -> None:
    found = report()
    for host, checks in (("server", EVERY_HOST + SERVER), ("client", EVERY_HOST + CLIENT)):
        told = [finding.check for finding in found.findings if finding.host == host]
        assert sorted(told) == sorted(check.name for check in checks)


def test_a_host_that_is_both_is_looked_at_once() -> None:
    both = changed("server") | {
        k: v for k, v in RECORDED["client"].items() if k.startswith("command") or k == "peer"
    }
    both["programs"] = RECORDED["server"]["programs"] | RECORDED["client"]["programs"]
    one = gathered("server", both)
    one = type(one)(Target("local", ("server", "client"), no_host), one.facts, None, 0.01, 0.0)
    told = [finding.check for finding in judge([one], Requirements()).findings]
    assert sorted(told) == sorted(check.name for check in EVERY_HOST + SERVER + CLIENT)


def test_clients_with_different_versions_of_fio() -> None:
    def client(name: str, version: str) -> Any:
        return gathered("client", changed("client", said("fio", version)), name)

    alike = judge([client("a", "fio-3.39"), client("b", "fio-3.39")], Requirements())
    assert {only(alike, name, "fio-alike").state for name in "ab"} == {"ok"}
    some = [
        client("a", "fio-3.39"),
        client("b", "fio-3.35"),
        client("c", "fio-3.39"),
        client("d", "gibberish"),
    ]
    unlike = judge(some, Requirements())
    assert {only(unlike, name, "fio-alike").state for name in "abcd"} == {"warn"}
    assert "3.35 here" in only(unlike, "b", "fio-alike").observed
    assert "could not be determined" in only(unlike, "d", "fio-alike").observed


# Text with a character in it that no host writes.
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


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["server", "client"]), st.data())
def test_nonsense_in_one_place_never_makes_a_check_well(role: str, data: st.DataObject) -> None:
    """Of what was not well before, nothing is; nothing raises, and each check still has its finding."""
    before = {(f.host, f.check): f.state for f in report().findings}
    place = data.draw(st.sampled_from(PLACES[role]))
    garbage = data.draw(GARBAGE)
    raw = changed(role)
    inner = raw
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = garbage
    found = report(**{role: raw})
    assert len(found.findings) == len(before)
    for finding in found.findings:
        if finding.state == "ok":
            assert before[finding.host, finding.check] == "ok", (place, garbage, finding)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(list(RECORDED["server"] | RECORDED["client"])), GARBAGE))
def test_nothing_but_nonsense_is_never_well(raw: dict[str, Any]) -> None:
    found = judge([gathered("server", raw), gathered("client", raw)], Requirements())
    # These three are this machine's own knowledge.
    own = ("reachable", "round-trip", "clock-offset")
    assert [f for f in found.findings if f.state == "ok" and f.check not in own] == []
    told = {(finding.host, finding.check) for finding in found.findings}
    assert len(told) == 2 * len(EVERY_HOST) + len(SERVER) + len(CLIENT)


def test_what_hosts_say_is_inert() -> None:
    evil = "\x1b[31m</script>\r\n[red]\u202e" + "x" * 5000
    found = report(server=changed("server", said("bpftrace", evil), part("processes", [evil])))
    shown = only(found, "server", "bpftrace").observed
    assert "\x1b" not in shown and "\n" not in shown and len(shown) < 1100
    assert "\x1b" not in words(found)
    json.loads(json.dumps(found.as_json(), allow_nan=False))


def test_worst_first_then_by_host_then_in_the_order_of_the_list() -> None:
    hosts = (Examinee("b", ("server",), True, True), Examinee("a", ("client",), True, True))
    findings = [
        Finding("a", "smt", "ok", "off"), Finding("a", "fio", "fail", "not there"),
        Finding("b", "load", "warn", "7"), Finding("a", "swap", "note", "1"),
        Finding("b", "clock-source", "warn", "hpet"), Finding("b", "nfsd", "fail", "0"),
    ]  # fmt: skip
    found = make_report(hosts, findings)
    assert [(f.state, f.host, f.check) for f in found.findings] == [
        ("fail", "b", "nfsd"), ("fail", "a", "fio"), ("warn", "b", "clock-source"), ("warn", "b", "load"),
        ("note", "a", "swap"), ("ok", "a", "smt"),
    ]  # fmt: skip
    assert found.exit_code == EXIT_HOST
    told = words(found)
    assert CHECKS["nfsd"].remedy in told and CHECKS["nfsd"].meaning in told
    assert "ok    a: smt\n" in told and "smt: off" not in told
    assert "ok    a: smt: off" in words(found, verbose=True)
    assert make_report(hosts, findings[:1]).exit_code == EXIT_OK


def test_a_check_that_is_not_in_the_list_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="weather"):
        Finding("a", "weather", "ok", "sunny")


def test_this_very_machine() -> None:
    """The helper under the machine's own Python, nothing in between."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no /usr/bin/python3 here")
    found = diagnose([Target("here", ("server", "client"), LocalHost, "127.0.0.1")])
    assert only(found, "here", "reachable").state == "ok"
    assert only(found, "here", "python").state == "ok"
    assert only(found, "here", "system").observed.startswith("Linux ")
    assert only(found, "here", "clock-offset").state == "ok"


def ask(wanted: Request) -> dict[str, Any]:
    argv = [sys.executable, os.fspath(HELPER), wanted.as_json()]
    return parse_answer(subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout)


def test_a_command_that_hangs_keeps_nothing_else_waiting() -> None:
    commands = {"hangs": ("sleep", "3600"), "lives": ("echo", "here")}
    raw = ask(
        Request(files=("/proc/loadavg",), present=(), programs=("sh",), commands=commands, deadline_s=1)
    )
    assert raw["command hangs"] == {"error": "sleep did not end within 1 s"}
    assert raw["command lives"]["out"] == "here\n"
    assert raw["files"]["/proc/loadavg"] and raw["programs"]["sh"]["path"]


def test_what_is_not_there_is_said_not_to_be(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    raw = ask(
        Request(
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
    wanted = Request((), (), (), {"touch": ("touch", str(mark))}, needs={"touch": str(there)})
    assert ask(wanted)["command touch"] == {"error": f"there is no {there}"}
    assert not mark.exists()
    there.touch()
    assert ask(wanted)["command touch"]["code"] == 0 and mark.exists()
    # libzfs and libzfs_core do that.
    assert {"pyzfs", "pools", "marks", "status"} <= set(request(Target("x", ("server",), no_host)).needs)


def test_a_mistake_of_the_kit_is_not_taken_for_a_host_that_is_away() -> None:
    def broken() -> Any:
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        diagnose([Target("x", ("client",), broken)])


def test_a_port_is_tried_from_the_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        wanted = Request((), (), (), {}, peer="127.0.0.1", port=port)
        assert ask(wanted)["peer"]["connect"]["ms"] >= 0
    closed = ask(wanted)["peer"]["connect"]
    assert "refused" in closed["error"].lower()
    unknown = ask(Request((), (), (), {}, peer="no..host"))["peer"]
    assert unknown["error"].startswith("no..host: ")


def test_the_helper_keeps_to_what_an_old_python_reads() -> None:
    ast.parse(HELPER.read_text(), feature_version=(3, 7))


def test_only_what_a_role_needs_is_asked() -> None:
    server, client = (request(Target("x", (role,), no_host)) for role in ("server", "client"))  # type: ignore[arg-type]
    assert "pools" in server.commands and "pools" not in client.commands
    assert server.symbols and not client.symbols
    # The whole request is one argument of a command.
    assert len(server.as_json()) < 16_000


def test_an_answer_nested_too_deep() -> None:
    with pytest.raises(Unknown):
        parse_answer("[" * 100_000)


_INTERRUPTED = """
import os, signal, threading
from kit.doctor.diagnosis import Target, diagnose
for_ever = threading.Event()
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
diagnose([Target("away", ("client",), for_ever.wait)])
"""


def test_an_interrupt_does_not_wait_for_a_host_that_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr
