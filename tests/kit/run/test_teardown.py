"""kit.run.teardown: what a run says that has lost a host, and of an NFS server that somebody restarted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.config.tables.phase_table import Phase
from kit.core.errors import HostError
from kit.core.output import say_error
from kit.core.progress import Progress
from kit.hosts.base import HostLost
from kit.recovery import clean
from kit.recovery.journal import read_journal
from kit.run import execute as execute_module
from kit.run import teardown
from kit.run.phase import PhaseResult
from kit.session import measure
from kit.session.place import Request
from kit.setup.bench import Bench
from kit.setup.site import Site
from tests.kit.recovery.strikes import KINDS, Struck, load, new_world, site_of
from tests.machines.world import Wire

# Of a run that is cut off under its last load.
KIND, LAST = "traced, preconditioned, forced writes", "forced"
Loaded = Callable[[Wire], object]


def struck_at_last(folder: Path, patch: pytest.MonkeyPatch, wire: Wire, act: Loaded, kind: str) -> Struck:
    """`act` is called under the load of the last phase."""
    struck = Struck(kind, folder, patch)
    last = struck.plan.workload.phase[-1].name

    def run_phase(bench: Bench, phase: Phase, *_: Any) -> PhaseResult:
        if phase.name == last:
            act(wire)
        return load(bench, phase)

    patch.setattr(execute_module, "run_phase", run_phase)
    return struck


def cut_off(*names: str) -> Loaded:
    def act(wire: Wire) -> None:
        wire.lost |= set(names)
        wire.world.connections_end(names)
        raise HostLost(f"{names[0]}: the connection broke during `fio`: no answer")

    return act


@pytest.mark.parametrize(("names", "holds"), [
    (("nas",), "nas still has a pool, 2 exports, a tracer, "),
    (("c0",), "nas still has a pool, 2 exports, "),
    (("nas", "c0", "c1"), "nas still has a pool, 2 exports, a tracer, "),
])  # fmt: skip
def test_a_lost_host_is_said_once_with_the_command(
    names: tuple[str, ...],
    holds: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """There were 40 lines, most of them twice, and `hsp clean` in none."""
    wire = Wire(new_world())
    struck = struck_at_last(tmp_path, monkeypatch, wire, cut_off(*names), KIND)
    tried: list[str] = []

    def open_host(address: Any, *_: object) -> Any:
        tried.append(str(address.host))
        raise HostLost(f"{address.host}: no answer")

    monkeypatch.setattr(clean, "open_host", open_host)

    @contextmanager
    def place(run: str) -> Iterator[Site]:
        yield site_of(struck.plan, wire, run)

    monkeypatch.setattr(measure, "_create_run", lambda *_: struck.run)
    done = measure.measure(struck.plan, place, Request(tmp_path), Progress())
    measure._present(done, False)
    assert done.failure and done.failure.exit_code == 5
    say_error(done.failure)
    said, printed = (text.splitlines() for text in reversed(capsys.readouterr()))
    assert said[-1].startswith(f"  what to do: {holds}")
    assert said[-1].endswith(f"again, run `hsp clean {struck.run.path}`")
    assert sum("hsp clean" in line for line in (*said, *printed)) == 1
    assert sum("the connection broke during" in line for line in (*said, *printed)) == 1
    after = said[next(n for n, line in enumerate(said) if "failed after" in line) + 1 :]
    assert len(after) <= 10 and not any("not undone" in line for line in (*said, *printed))
    assert len(tried) == len(set(tried)), "one connection each"
    assert not read_journal(struck.run.journal).finished and struck.problems(wire.world) == []


def restart(wire: Wire, export_back: bool = False) -> None:
    """As `systemctl restart nfs-server` does it."""
    server = wire.world.machines["nas"]
    server.nfsd = 7
    if not export_back:
        server.exports = {key: each for key, each in server.exports.items() if key[1] == "/tank"}


def stale(wire: Wire) -> None:
    restart(wire)
    raise HostError("c0: working-set cannot be looked at: find: Stale file handle")


RESTARTED = "the NFS server on nas was restarted at 2026-11-26 12:00:07 UTC, by somebody else"


@pytest.mark.parametrize("act", [restart, stale])
def test_a_restart_of_the_nfs_server_by_somebody_else_is_named(
    act: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(new_world())
    struck = struck_at_last(tmp_path, monkeypatch, wire, act, "pool")
    outcome = struck.execute(wire)
    assert outcome and isinstance(outcome.failure, HostError) and outcome.left == []
    assert outcome.failure.message.startswith(f"{RESTARTED}: its exports of this run are gone")
    assert "needrestart" in outcome.failure.hint and struck.after(wire.world) != []
    wire.world.machines["nas"].nfsd = 1
    assert struck.after(wire.world) == []


def test_a_restart_that_left_the_export_is_a_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(new_world())
    act = lambda wire: restart(wire, export_back=True)  # noqa: E731
    outcome = struck_at_last(tmp_path, monkeypatch, wire, act, "pool").execute(wire)
    assert outcome and outcome.failure is None
    assert any(problem.text.startswith(RESTARTED) for problem in outcome.record.manifest.problems)


def test_a_restart_that_is_a_fault_of_the_run_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(new_world())
    act = lambda wire: restart(wire, export_back=True)  # noqa: E731
    outcome = struck_at_last(tmp_path, monkeypatch, wire, act, "faults, power").execute(wire)
    assert outcome and outcome.failure is None and "nfsd-restart" in KINDS["faults, power"].more
    assert not any("somebody else" in problem.text for problem in outcome.record.manifest.problems)
    assert teardown.RECONNECT_S == 0.0
