"""kit.hosts.netns: every command, and nothing but commands, runs inside the namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kit.hosts.base import Result
from kit.hosts.netns import NetnsHost

PREFIX = ("nsenter", "--net=/run/netns/client0", "--")


class Inner:
    name = "lab"

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.closed = 0

    def run(self, argv: Sequence[str], **options: Any) -> Result:
        self.calls.append(("run", tuple(argv), options))
        return Result(self.name, tuple(argv), 0, "out", "")

    def start(self, argv: Sequence[str]) -> str:
        self.calls.append(("start", tuple(argv)))
        return "process"

    def put(self, content: bytes, path: str, **options: Any) -> None:
        self.calls.append(("put", content, path, options))

    def get(self, path: str, **options: Any) -> bytes:
        self.calls.append(("get", path, options))
        return b"content"

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def host(inner: Inner) -> Any:
    return NetnsHost(inner, "client0")  # type: ignore[arg-type]


def test_its_name_tells_clients_apart(host: NetnsHost) -> None:
    assert host.name == "lab/client0"


@pytest.mark.parametrize("argv", [["mount"], ["-x", "$(id)", ""], ("a b", "--")])
def test_a_command_runs_inside_with_its_arguments_as_they_are(
    host: NetnsHost, inner: Inner, argv: Sequence[str]
) -> None:
    assert host.run(argv).stdout == "out"
    assert host.start(argv) == "process"
    assert [call[1] for call in inner.calls] == [(*PREFIX, *argv)] * 2


def test_no_mount_namespace_is_entered(host: NetnsHost, inner: Inner) -> None:
    host.run(["mount"])
    [(_, argv, _)] = inner.calls
    assert [word for word in argv[: argv.index("--")] if word.startswith("-")] == ["--net=/run/netns/client0"]


def test_options_are_passed_on(host: NetnsHost, inner: Inner) -> None:
    host.run(["x"], deadline_s=7.5, stdin=b"in", check=False)
    assert inner.calls[0][2] == {"deadline_s": 7.5, "stdin": b"in", "check": False}


def test_files_are_those_of_the_host(host: NetnsHost, inner: Inner) -> None:
    host.put(b"x", "/p", deadline_s=3)
    assert host.get("/p", deadline_s=4) == b"content"
    assert inner.calls == [("put", b"x", "/p", {"deadline_s": 3}), ("get", "/p", {"deadline_s": 4})]


def test_the_host_is_closed_by_whoever_opened_it(host: NetnsHost, inner: Inner) -> None:
    with host as entered:
        assert entered is host
    host.close()
    assert inner.closed == 0
