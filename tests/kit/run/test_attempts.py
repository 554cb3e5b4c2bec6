"""kit.run.attempts: a phase whose tiers answered too few I/Os is measured again, longer."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kit.config.tables.phase_table import Phase
from kit.run import attempts
from kit.run.phase import PhaseResult

SECOND = 10**9
# I/Os of a second.
Rates = dict[str, float]


def phase_of(**changes: Any) -> Phase:
    table = {"name": "read", "title": "reads", "job": "x.fio", "tiers": ("dram", "disk"), "ios": 100}
    return Phase.model_validate({**table, "duration": "1s", "interval": "20ms", **changes})


class Server:
    """Answers at `rates` by tier, or the client alone by op; each attempt leaves a file."""

    def __init__(self, raw: Path, *rates: Rates, layer: str = "nfs-server", **result: Any) -> None:
        self.raw, self.rates, self.layer, self.result = raw, list(rates), layer, result
        self.asked: list[Phase] = []

    def __call__(self, phase: Phase, number: int) -> PhaseResult:
        self.asked.append(phase)
        assert number == len(self.asked)
        (self.raw / f"read-trace.{number}.json").write_text("")
        rates = self.rates[min(number, len(self.rates)) - 1]
        rows = [
            {"layer": self.layer, "op": "read", "tier": tier, "count": int(rate * phase.duration / SECOND)}
            for tier, rate in rates.items()
        ]
        entry = SimpleNamespace(problems=(), block_bytes_by_op={"read": 512}, **self.result)
        return PhaseResult(entry, pl.DataFrame(rows), interrupted=False, failed=False)  # type: ignore[arg-type]


def both(rate: float) -> Rates:
    return {"dram": rate, "disk": rate}


def measured(tmp_path: Path, phase: Phase, *rates: Rates, **more: Any) -> tuple[list[float], list[str]]:
    """Durations of the attempts in s, and what was said."""
    raw = Path(mkdtemp(dir=tmp_path))
    (raw / "before").write_text("")
    server, said = Server(raw, *rates, **more), []
    attempts.measured(phase, server, raw, said.append)
    last = f"read-trace.{len(server.asked)}.json"
    assert sorted(path.name for path in raw.iterdir()) == ["before", last]
    return [each.duration / SECOND for each in server.asked], said


def test_enough_is_measured_once(tmp_path: Path) -> None:
    assert measured(tmp_path, phase_of(), {"dram": 900, "disk": 100}) == ([1.0], [])
    assert measured(tmp_path, phase_of(ios=None), {"dram": 1, "disk": 1})[0] == [1.0]


def test_the_slowest_tier_decides(tmp_path: Path) -> None:
    durations, said = measured(tmp_path, phase_of(), {"dram": 900, "disk": 10})
    assert durations == [1.0, 12.5]
    assert said == [
        "Phase read was measured again, for 12.5 s: in 1 s there were 10 I/Os of disk, and 100 are asked for."
    ]


def test_a_server_that_became_slower_is_asked_once_more_and_no_more(tmp_path: Path) -> None:
    slower = {"dram": 9.0, "disk": 1.0}
    assert measured(tmp_path, phase_of(), {"dram": 900, "disk": 10}, slower)[0] == [1.0, 12.5, 130.2]
    assert measured(tmp_path, phase_of(), both(50), both(5), both(0.1))[0] == [1.0, 2.5, 26.0]


@pytest.mark.parametrize(("most", "durations"), [("3s", [1.0, 3.0]), ("1s", [1.0])])
def test_it_is_not_longer_than_the_workload_says(tmp_path: Path, most: str, durations: list[float]) -> None:
    assert measured(tmp_path, phase_of(duration_max=most), {"dram": 9, "disk": 1})[0] == durations


def test_a_tier_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    assert measured(tmp_path, phase_of(), {"dram": 900, "disk": 0})[0] == [1.0]
    # So few in all say nothing about it.
    assert measured(tmp_path, phase_of(), {"dram": 2, "disk": 0})[0][:2] == [1.0, 900.0]


def test_without_tiers_all_ios_count(tmp_path: Path) -> None:
    assert measured(tmp_path, phase_of(), {"all": 50}, layer="nfs-client")[0] == [1.0, 2.5]


def test_a_long_attempt_has_no_more_intervals_than_a_map_shows(tmp_path: Path) -> None:
    server = Server(tmp_path, {"dram": 9, "disk": 1})
    attempts.measured(phase_of(), server, tmp_path, lambda _: None)
    assert [each.interval // 10**6 for each in server.asked] == [20, 63]


def test_a_log_that_lies_in_one_of_two_places_is_not_missed_in_the_other(tmp_path: Path) -> None:
    """With OpenZFS 2.3 no write is `special`: the phase was measured for 15 minutes to get some."""
    asked: list[Phase] = []
    said: list[str] = []

    def attempt(phase: Phase, number: int) -> PhaseResult:
        asked.append(phase)
        rows = [{"layer": "nfs-server", "op": "write", "tier": "pool", "count": 120}]
        entry = SimpleNamespace(problems=(), block_bytes_by_op={"write": 4096})
        return PhaseResult(entry, pl.DataFrame(rows), interrupted=False, failed=False)  # type: ignore[arg-type]

    attempts.measured(phase_of(tiers=("special", "pool")), attempt, tmp_path, said.append)
    assert len(asked) == 1 and not said
    attempts.measured(phase_of(tiers=("special", "pool"), ios=300), attempt, tmp_path, said.append)
    assert "120 I/Os of special or pool, and 300 are asked for." in said[0]
