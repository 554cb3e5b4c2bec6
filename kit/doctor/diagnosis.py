"""Diagnosis of a testbed: gather facts from all hosts in parallel, then judge them. Changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kit.core.errors import KitError
from kit.doctor import client, machine, network, packages, server, tracing
from kit.doctor.facts import HELPER_DEADLINE_S, FactsRequest, HostFacts, Unknown, parse_json
from kit.doctor.finding import Examination, ExaminedHost, Finding, Requirements, examine
from kit.doctor.report import Diagnosis, Examinee, make_report
from kit.hosts.base import CommandResult, DeadlineExceeded, Host, HostLost
from kit.hosts.sudo import CLIENT_PROGRAMS, SERVER_PROGRAMS, SudoHost
from kit.recovery import work_directory
from kit.trace.support import programs

HELPER = Path(__file__).parents[1] / "remote" / "read_facts.py"
Role = Literal["server", "client"]

_TRUE_DEADLINE_S = 30.0
# The helper's own deadline, plus the start of Python and reading the kernel's symbols on a slow host.
_ANSWER_DEADLINE_S = HELPER_DEADLINE_S + 60.0


@dataclass(frozen=True)
class DiagnosedHost:
    """A host to diagnose. `open` connects (raises KitError); leaving the context closes the connection.

    `peer`: for a client, the server's name or address. `real_clock`: whether its wall clock should show
    the real time; a lab's does not. `of_run`: only what numbers depend on is read, not the tools.
    """

    name: str
    roles: tuple[Role, ...]
    open: Callable[[], AbstractContextManager[Host]]
    peer: str = ""
    real_clock: bool = True
    of_run: bool = False


def left_open(host: Host) -> Callable[[], AbstractContextManager[Host]]:
    """`open` of a host that is connected already, and stays so."""
    return lambda: nullcontext(host)


@dataclass(frozen=True)
class Gathered:
    """Facts of a host. Without `facts`, `failed` is the finding that explains why."""

    target: DiagnosedHost
    facts: HostFacts | None
    failed: Finding | None = None
    round_trip_s: float | None = None
    offset_s: float | None = None


def diagnose(
    targets: Sequence[DiagnosedHost],
    requirements: Requirements | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Diagnose all hosts; a failed host does not affect the others. `tell`: what each is asked for now."""
    outcomes: list[Future[Gathered]] = [Future() for _ in targets]
    asked: dict[str, str] = {}

    def run(outcome: Future[Gathered], target: DiagnosedHost) -> None:
        def at(part: str) -> None:
            asked[target.name] = part
            tell("; ".join(f"{name}: {each}" for name, each in list(asked.items()) if each))

        try:
            outcome.set_result(gather(target, at))
            at("")
        except BaseException as error:
            outcome.set_exception(error)

    for pair in zip(outcomes, targets, strict=True):
        # A daemon thread: Ctrl-C does not wait for hosts that do not answer.
        threading.Thread(target=run, args=pair, daemon=True).start()
    return judge([outcome.result() for outcome in outcomes], requirements or Requirements())


def gather(target: DiagnosedHost, at: Callable[[str], None] = lambda _: None) -> Gathered:
    """Run `true` for the round-trip time, then the helper; without root, also read root's files.

    `at` is called with each part.
    """
    with ExitStack() as stack:
        try:
            at("logging in")
            host = stack.enter_context(target.open())
            started = time.monotonic()
            host.run(["true"], deadline_s=_TRUE_DEADLINE_S)
            round_trip_s = time.monotonic() - started
        except KitError as error:
            return Gathered(target, None, Finding(target.name, "reachable", "fail", _describe(error)))
        try:
            at("reading facts")
            answer = _run_helper(host, target)
            answer_time_s = time.time()
            facts = HostFacts(parse_json(answer.stdout, "its answer", dict))
        except (KitError, Unknown) as error:
            reason = _describe(error) if isinstance(error, KitError) else str(error)
            failed = Finding(target.name, "python", "fail", f"{reason}; no other check is possible")
            return Gathered(target, None, failed, round_trip_s)
        try:
            # The helper reads the clock last, and its answer takes half a round trip.
            offset_s = facts.number("wall_s") - (answer_time_s - round_trip_s / 2)
        except Unknown:
            offset_s = None
        at("asking sudo" if isinstance(host, SudoHost) else "")
        return Gathered(target, _add_root_files(host, target, facts), None, round_trip_s, offset_s)


def request(target: DiagnosedHost) -> FactsRequest:
    """The facts to read from a host in its roles."""
    parts, serves = [machine, network], "server" in target.roles
    if target.of_run:
        files = {*machine.FILES, *network.FILES, *(server.FILES if serves else ())} - {packages.OS_RELEASE}
        return FactsRequest(
            tuple(sorted(files)), (), (), {**machine.COMMANDS, **network.COMMANDS}, peer=target.peer
        )
    parts += [server, tracing] if serves else []
    parts += [client] if "client" in target.roles else []

    def union(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value for part in parts for value in getattr(part, name, ())))

    def merged(name: str) -> dict[str, Any]:
        return {key: value for part in parts for key, value in getattr(part, name, {}).items()}

    functions = {name for program in programs() for name in program.functions}
    return FactsRequest(
        files=union("FILES"),
        present=union("PRESENT"),
        programs=union("PROGRAMS") + (server.DEVICE_PROGRAMS if serves else ()),
        commands=merged("COMMANDS"),
        needs=merged("NEEDS"),
        symbols=tuple(sorted(functions)) if serves else (),
        peer=target.peer,
    )


def _run_helper(host: Host, target: DiagnosedHost) -> CommandResult:
    """The helper's answer. Raises KitError, Unknown."""
    argv = ["/usr/bin/python3", "-I", "-", request(target).as_json()]
    # With sudo only on servers, as in a run; with `env` in front the command does not go through sudo.
    variants = [argv, ["env", *argv]] if "server" in target.roles else [["env", *argv]]
    refusals: list[str] = []
    for variant in variants:
        try:
            answer = host.run(variant, stdin=HELPER.read_bytes(), deadline_s=_ANSWER_DEADLINE_S, check=False)
        except (HostLost, DeadlineExceeded):
            raise
        except KitError as error:
            refusals.append(_describe(error))
            continue
        if answer.returncode == 0:
            return answer
        output = (answer.stderr.strip() or answer.stdout.strip() or "no output").splitlines()[-1]
        refusals.append(f"/usr/bin/python3 ended with {answer.returncode}: {output[:200]}")
        break
    raise Unknown(refusals[0])


def _add_root_files(host: Host, target: DiagnosedHost, facts: HostFacts) -> HostFacts:
    """Of an ordinary user: what sudo refuses, and by commands that go through it what root alone can read."""
    texts: dict[str, str] = {}
    serves = "server" in target.roles
    root_files = (*server.ROOT_FILES, tracing.KPROBES) if serves else ()
    try:
        if isinstance(host, SudoHost):
            used = [SERVER_PROGRAMS if role == "server" else CLIENT_PROGRAMS for role in target.roles]
            facts = replace(facts, refused=host.refused(frozenset().union(*used)))
        if facts.number("euid") == 0:
            return facts
        for path in (machine.ROOT_ONLY, *root_files):
            result = host.run(["cat", "--", path], check=False, deadline_s=_TRUE_DEADLINE_S)
            if result.returncode == 0 and result.stdout.strip():
                texts[path] = result.stdout
        texts[machine.RUN_ROOT] = " ".join(work_directory.left_by(host))
    except (KitError, Unknown):
        # Neither root nor sudo: what was not read stays unknown.
        pass
    return replace(facts, elsewhere=texts)


def judge(gathered: Sequence[Gathered], requirements: Requirements) -> Diagnosis:
    """Judge the facts of all hosts. Pure."""
    clients = [host for host in gathered if "client" in host.target.roles]
    requirements = replace(requirements, clients=max(1, len(clients)))
    serves = _addresses(clients)
    server_facts = next((host.facts for host in gathered if "server" in host.target.roles), None)
    findings: list[Finding] = []
    for host in gathered:
        if host.failed:
            findings.append(host.failed)
        if host.round_trip_s is not None:
            findings.append(Finding(host.target.name, "reachable", "ok", "commands run"))
        if host.facts is not None:
            name, times = host.target.name, (host.offset_s, host.round_trip_s)
            subject = ExaminedHost(name, host.facts, requirements, server_facts, serves, *times)
            findings += examine(subject, _examinations(host.target, requirements))
    fio = client.fio_alike({host.target.name: host.facts for host in clients if host.facts})
    findings += [Finding(name, "fio-alike", *verdict) for name, verdict in fio.items()]
    hosts = tuple(
        Examinee(
            host.target.name,
            host.target.roles,
            reachable=host.round_trip_s is not None,
            examined=host.facts is not None,
        )
        for host in gathered
    )
    return make_report(hosts, findings)


def _examinations(target: DiagnosedHost, requirements: Requirements) -> dict[str, Examination]:
    chosen = machine.EXAMINATIONS | (machine.WALL_CLOCK if target.real_clock else {})
    if "server" in target.roles:
        chosen |= server.EXAMINATIONS
        chosen |= server.OF_A_POOL if requirements.pool else {}
        chosen |= server.OF_NFS | tracing.EXAMINATIONS | network.SERVER if requirements.over_nfs else {}
    if "client" in target.roles:
        # Of a host in both roles, the interface is that of the client.
        chosen |= client.EXAMINATIONS | network.CLIENT
    return chosen


def _addresses(clients: Sequence[Gathered]) -> tuple[str, ...]:
    """The server's addresses that the clients use."""
    used: list[str] = []
    for host in clients:
        with suppress(Unknown):
            used += network.addresses(host.facts)[:1] if host.facts else ()
    return tuple(dict.fromkeys(used))


def _describe(error: KitError) -> str:
    """Message and hint of an error, for example of an unknown host key."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
