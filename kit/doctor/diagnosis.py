"""Look at every host of a testbed at once, then judge what they said. Changes nothing on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kit.core.errors import KitError
from kit.doctor import client, machine, network, server, tracing
from kit.doctor.facts import HELPER_DEADLINE_S, Facts, Request, Unknown, parse_answer
from kit.doctor.finding import Finding, Judgement, Subject, Wanted, examine, undetermined
from kit.doctor.report import Examinee, Report, make_report
from kit.hosts.base import DeadlineExceeded, Host, HostLost, Result
from kit.trace.program import programs

HELPER = Path(__file__).parents[1] / "remote" / "read_facts.py"
Role = Literal["server", "client"]

_TRUE_DEADLINE_S = 30.0
# The helper's own deadline, and time for a slow host to start Python and read its kernel's symbols.
_ANSWER_DEADLINE_S = HELPER_DEADLINE_S + 60.0


@dataclass(frozen=True)
class Target:
    """A host to look at. `open` connects, and raises KitError if it cannot; leaving it lets go of the host.

    `peer`: of a client, the server's name or address as the client knows it. `real_clock`: whether
    its wall clock should be the world's; a lab's is not.
    """

    name: str
    roles: tuple[Role, ...]
    open: Callable[[], AbstractContextManager[Host]]
    peer: str = ""
    real_clock: bool = True


@dataclass(frozen=True)
class Gathered:
    """What a host said. Without `facts`, `failed` is the check that says why there are none."""

    target: Target
    facts: Facts | None
    failed: Judgement | None = None
    round_trip_s: float | None = None
    offset_s: float | None = None


def diagnose(targets: Sequence[Target], wanted: Wanted | None = None) -> Report:
    """Every host is looked at, whatever the others say."""
    found: dict[int, Gathered | BaseException] = {}

    def look(number: int, target: Target) -> None:
        try:
            found[number] = gather(target)
        except BaseException as error:
            found[number] = error

    # Daemons: an interrupt does not wait for hosts that do not answer.
    threads = [
        threading.Thread(target=look, args=(number, target), daemon=True)
        for number, target in enumerate(targets)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gathered: list[Gathered] = []
    for number, _ in enumerate(targets):
        outcome = found[number]
        if isinstance(outcome, BaseException):
            raise outcome
        gathered.append(outcome)
    return judge(gathered, wanted or Wanted())


def gather(target: Target) -> Gathered:
    """Two commands: one that does nothing, for its time, and the helper; more only where that is not root."""
    try:
        opened = target.open()
    except KitError as error:
        return Gathered(target, None, Judgement("reachable", "fail", _words(error)))
    with opened as host:
        try:
            started = time.monotonic()
            host.run(["true"], deadline_s=_TRUE_DEADLINE_S)
            round_trip_s = time.monotonic() - started
        except KitError as error:
            return Gathered(target, None, Judgement("reachable", "fail", _words(error)))
        try:
            answer = _ask(host, target)
            answered = time.time()
            raw = parse_answer(answer.stdout)
        except (KitError, Unknown) as error:
            said = _words(error) if isinstance(error, KitError) else str(error)
            failed = Judgement("python", "fail", f"{said}; nothing else could be found out")
            return Gathered(target, None, failed, round_trip_s)
        facts = Facts(raw)
        try:
            # The helper looks at the clock last, and its answer takes half a round trip.
            offset_s = facts.number("wall_s") - (answered - round_trip_s / 2)
        except Unknown:
            offset_s = None
        return Gathered(target, _with_roots_files(host, target, facts), None, round_trip_s, offset_s)


def request(target: Target) -> Request:
    """What is asked of a host in its roles."""
    parts = [machine, network]
    parts += [server, tracing] if "server" in target.roles else []
    parts += [client] if "client" in target.roles else []

    def union(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(word for part in parts for word in getattr(part, name, ())))

    programs = union("PROGRAMS")
    if "server" in target.roles:
        programs += server.DEVICE_PROGRAMS
    return Request(
        files=union("FILES"),
        present=union("PRESENT"),
        programs=programs,
        commands={name: argv for part in parts for name, argv in getattr(part, "COMMANDS", {}).items()},
        needs={name: path for part in parts for name, path in getattr(part, "NEEDS", {}).items()},
        symbols=_functions() if "server" in target.roles else (),
        peer=target.peer,
    )


def _functions() -> tuple[str, ...]:
    return tuple(sorted({name for one in programs() for name in one.functions}))


def _ask(host: Host, target: Target) -> Result:
    """The helper's answer. Raises KitError, Unknown."""
    argv = ["/usr/bin/python3", "-", request(target).as_json()]
    # Through sudo only where a run uses it so; `env` is nothing that sudo is asked for.
    ways = [argv, ["env", *argv]] if "server" in target.roles else [["env", *argv]]
    refusals: list[str] = []
    for way in ways:
        try:
            answer = host.run(way, stdin=HELPER.read_bytes(), deadline_s=_ANSWER_DEADLINE_S, check=False)
        except (HostLost, DeadlineExceeded):
            raise
        except KitError as error:
            refusals.append(_words(error))
            continue
        if answer.returncode == 0:
            return answer
        said = (answer.stderr.strip() or answer.stdout.strip() or "it said nothing").splitlines()[-1]
        refusals.append(f"/usr/bin/python3 ended with {answer.returncode}: {said[:200]}")
        break
    raise Unknown(refusals[0])


def _with_roots_files(host: Host, target: Target, facts: Facts) -> Facts:
    """Where Python did not run as root, read what is root's with a command that may go through sudo."""
    found: dict[str, str] = {}
    roots_files = (*server.ROOT_FILES, tracing.KPROBES) if "server" in target.roles else ()
    try:
        if facts.number("euid") == 0:
            return facts
        for path in (machine.ROOT_ONLY, *roots_files):
            said = host.run(["cat", "--", path], check=False, deadline_s=_TRUE_DEADLINE_S)
            if said.returncode == 0 and said.stdout.strip():
                found[path] = said.stdout
    except (KitError, Unknown):
        # Not root, and no sudo either: what was not read is said not to be known.
        return facts
    return replace(facts, elsewhere=found)


def judge(gathered: Sequence[Gathered], wanted: Wanted) -> Report:
    """Pure."""
    clients = [one for one in gathered if "client" in one.target.roles]
    servers = [one for one in gathered if "server" in one.target.roles]
    wanted = replace(wanted, clients=max(1, len(clients)))
    serves = _addresses(clients)
    server_facts = next((one.facts for one in servers), None)
    findings: list[Finding] = []
    for one in gathered:
        findings += _findings(one, wanted, server_facts, serves)
    findings += _alike(clients)
    hosts = tuple(
        Examinee(
            one.target.name,
            one.target.roles,
            reachable=one.facts is not None or one.round_trip_s is not None,
            examined=one.facts is not None,
        )
        for one in gathered
    )
    return make_report(hosts, findings)


def _findings(
    one: Gathered, wanted: Wanted, server_facts: Facts | None, serves: tuple[str, ...]
) -> Iterator[Finding]:
    target = one.target
    if one.failed:
        yield Finding(target.name, one.failed.check, one.failed.state, one.failed.found)
    if one.round_trip_s is not None:
        yield Finding(target.name, "reachable", "ok", "commands run")
    if one.facts is None:
        return
    subject = Subject(target.name, one.facts, wanted, server_facts, serves, one.offset_s, one.round_trip_s)
    examinations = machine.EXAMINATIONS + (machine.WALL_CLOCK if target.real_clock else ())
    if "server" in target.roles:
        examinations += server.EXAMINATIONS + tracing.EXAMINATIONS
    if "client" in target.roles:
        examinations += client.EXAMINATIONS + network.CLIENT
    elif "server" in target.roles:
        examinations += network.SERVER
    yield from examine(subject, examinations)


def _addresses(clients: Sequence[Gathered]) -> tuple[str, ...]:
    """Where the clients look for the server."""
    found: list[str] = []
    for one in clients:
        try:
            found += network.addresses(one.facts)[:1] if one.facts else ()
        except Unknown:
            continue
    return tuple(dict.fromkeys(found))


def _alike(clients: Sequence[Gathered]) -> Iterator[Finding]:
    versions: dict[str, str] = {}
    for one in clients:
        if one.facts is None:
            continue
        try:
            versions[one.target.name] = client.fio_version(one.facts)
        except Unknown as unknown:
            yield Finding(one.target.name, "fio-alike", "warn", undetermined(str(unknown)))
    for name, judged in client.versions_alike(versions):
        yield Finding(name, judged.check, judged.state, judged.found)


def _words(error: KitError) -> str:
    """What happened, and what to do if it says: a host key that is not known comes with both."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
