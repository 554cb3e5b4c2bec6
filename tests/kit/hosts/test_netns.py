"""kit.hosts.wrapped: all commands, and only commands, run in the network namespace, and in no other one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kit.hosts.wrapped import NetnsHost
from tests.fakes import Command, ScriptedHost

PREFIX = ("nsenter", "--net=/run/netns/client0", "--")


@pytest.fixture
def inner() -> ScriptedHost:
    return ScriptedHost(default="out", name="lab", files={"/p": "content"})


@pytest.fixture
def host(inner: ScriptedHost) -> NetnsHost:
    return NetnsHost(inner, "client0")


@pytest.mark.parametrize("argv", [["mount"], ["-x", "$(id)", ""], ("a b", "--")])
def test_a_command_runs_inside_with_its_arguments_as_they_are(
    host: NetnsHost, inner: ScriptedHost, argv: Sequence[str]
) -> None:
    assert host.name == "lab/client0"
    assert host.run(argv).stdout == "out"
    assert host.start(argv).wait(1).stdout == "out"
    assert inner.calls == [(*PREFIX, *argv)] * 2


def test_options_are_passed_on(host: NetnsHost, inner: ScriptedHost) -> None:
    inner.default = 3
    assert host.run(["x"], deadline_s=7.5, stdin=b"in", check=False).returncode == 3
    assert inner.commands == [Command((*PREFIX, "x"), stdin=b"in", deadline_s=7.5)]


def test_files_are_copied_by_the_wrapped_host(host: NetnsHost, inner: ScriptedHost) -> None:
    assert host.get("/p", deadline_s=4) == b"content"
    host.put(b"x", "/p", deadline_s=3)
    assert inner.files == {"/p": b"x"}
    assert inner.transfers == [("get", "/p", 4), ("put", "/p", 3)]


def test_the_wrapped_host_stays_open(host: NetnsHost, inner: ScriptedHost) -> None:
    with host as entered:
        assert entered is host
    host.close()
    assert inner.closed == 0
