"""kit.instruments.nfs_operations: nfsd's count of each operation beside the tracer's and the load's."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.instruments.base import MeasuredPhase
from kit.instruments.nfs_operations import NfsCounts, NfsOperations
from kit.instruments.server_activity import NFSD
from kit.instruments.tier_tracer import TierTracer
from kit.store.parts.metadata import Metadata
from kit.store.phase import Check
from tests.fakes import ScriptedHost

# GETATTR, READ, CREATE, REMOVE of 22 procedures.
BEFORE = {1: 10, 6: 1, 8: 5, 12: 2}
AFTER = {1: 30, 6: 9, 8: 12, 12: 2}
LOAD = Metadata(
    action="create", files=7, directories=1, depth=0, least_bytes=0, most_bytes=0, version="3",
    expected={"create": 7},
)  # fmt: skip


class Traced:
    """A tracer after its phase."""

    def __init__(self, ios: dict[tuple[str, str], int]) -> None:
        self.ios = ios


def nfsd(counts: dict[int, int]) -> str:
    return "rc 0 0 0\nproc3 22 " + " ".join(str(counts.get(number, 0)) for number in range(22)) + "\n"


def checks(
    ios: dict[tuple[str, str], int], load: Metadata | None = LOAD, between: int = 0
) -> dict[str, Check]:
    host = ScriptedHost(files={NFSD: nfsd(BEFORE)})
    outer = NfsCounts(host)
    outer.begin()
    instrument = NfsOperations(host, cast(TierTracer, Traced(ios)), outer)
    host.files[NFSD] = nfsd(BEFORE | {0: between}).encode()
    instrument.begin()
    host.files[NFSD] = nfsd(AFTER | {0: between}).encode()
    instrument.end()
    outer.end()
    measured = MeasuredPhase({}, 1, 0, 1, {}, 0, Clock("real", 1), metadata=load)
    made: list[Any] = instrument.report(measured).checks
    return {each.name: each for each in made}


SEEN = {("getattr", "dram"): 18, ("getattr", "disk"): 2, ("create", "slog"): 7, ("read", "dram"): 8}


def test_all_three_counts_agree_by_operation_and_data_are_not_among_them() -> None:
    made = checks(SEEN)
    assert set(made) == {"GETATTR by the tracer", "CREATE by the tracer", "CREATE by the load"}
    assert all(check.ok and check.tolerance == 0 for check in made.values())


@pytest.mark.parametrize("op", ["getattr", "create"])
def test_one_operation_more_or_less_does_not_close(op: str) -> None:
    for change in (-1, 1):
        made = checks(SEEN | {(op, "dram"): SEEN.get((op, "dram"), 0) + change})
        assert not made[f"{op.upper()} by the tracer"].ok
    more = checks(SEEN, LOAD.model_copy(update={"expected": {"create": 8}}))
    assert not more["CREATE by the load"].ok and more["CREATE by the tracer"].ok


def test_what_comes_while_the_tracer_begins_is_seen_by_it_or_not() -> None:
    assert "NULL by the tracer" not in checks(SEEN, between=2)
    for seen, closes in ((1, True), (2, True), (3, False)):
        made = checks(SEEN | {("null", "dram"): seen}, between=2)
        assert made["NULL by the tracer"].ok is closes


def test_what_one_of_them_alone_has_does_not_close() -> None:
    assert not checks(SEEN | {("rename", "slog"): 1})["RENAME by the tracer"].ok
    assert not checks({("getattr", "dram"): 20})["CREATE by the tracer"].ok
    assert not checks(SEEN, LOAD.model_copy(update={"expected": {"remove": 1}}))["REMOVE by the load"].ok


def test_counts_that_cannot_be_read_are_an_error_of_the_host() -> None:
    instrument = NfsCounts(ScriptedHost(files={NFSD: "proc3 22 x\n"}))
    with pytest.raises(HostError, match="cannot be read"):
        instrument.begin()
