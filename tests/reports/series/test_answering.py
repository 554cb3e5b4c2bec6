"""What SSDs do best: reads a second by role, which tiers answer, and how well the ratio is known."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.series import Series
from reports.series.answering import answering_sentences, answers
from reports.series.sentences import answer
from tests.reports import addresses

VALUES = ("none", "l2arc", "special")
RATES = {"none": 290.0, "l2arc": 9400.0, "special": 2600.0}
TIERS = {
    "none": {"dram": 0.33, "disk": 0.67}, "l2arc": {"dram": 0.32, "l2arc": 0.68},
    "special": {"dram": 0.33, "special": 0.58, "disk": 0.09},
}  # fmt: skip


def cell(value: str, rates: dict[str, float], op: str, busy: float) -> dict[str, Any]:
    rows = [
        {"layer": "nfs-server", "op": op, "tier": tier, "count": int(1000 * part), "share": part,
         "p50_us": 100.0, "p50_range_us": None, "p99_us": 200.0}
        for tier, part in TIERS[value].items()
    ]  # fmt: skip
    run = {"run": f"20261129T00000{VALUES.index(value)}Z-abcdef", "round": 1, "verdict": "valid"}
    return {
        "name": f"ssds={value}", "at": {} if value == "none" else {"ssds": value}, "phase": "read",
        "in_run": "read", "build": value, "verdict": "valid",
        "excluded": "bound by CPU: a machine's CPU was 99 % busy" if busy > 0.85 else None,
        "runs": [{**run, "ios_per_s": rates[value], "rows": rows}],
    }  # fmt: skip


def series(
    rates: dict[str, float] = RATES, *, op: str = "read", interval: tuple[float, float] | None = None,
    busy: dict[str, float] | None = None, keys: tuple[str, ...] = ("use.cache", "use.special", "x"),
) -> Series:  # fmt: skip
    ratios = [
        {"axis": "ssds", "from": "none", "to": value, "beside": {}, "phase": "read", "layer": "client",
         "op": op, "tier": "all", "figure": "ios_per_s", "ratio": rates[value] / rates["none"],
         "interval": interval, "rounds": 3 if interval else 1}
        for value in VALUES[1:]
    ]  # fmt: skip
    axis = {"name": "ssds", "keys": keys, "kind": "build", "values": VALUES}
    cells = [cell(value, rates, op, (busy or {}).get(value, 0.1)) for value in VALUES]
    if interval:
        for each in cells:
            each["runs"] += [{**each["runs"][0], "round": 2}, {**each["runs"][0], "round": 3}]
    return Series.from_json(template() | {"axes": [axis], "cells": cells, "ratios": ratios}, "series.json")


def template() -> dict[str, Any]:
    made: dict[str, Any] = addresses.series({("read", "100"): addresses.DISK}).as_json()
    return {**made, "drift": [], "expect": [], "builds": [], "notes": []}


def shares(made: Series) -> list[str]:
    return [*answering_sentences(made, made.axes[0])]


def test_the_fastest_is_first_and_one_round_decides_nothing() -> None:
    (text,) = answers(series())
    assert text == (
        "Reads a second by ssds: l2arc 9,400, special 2,600 and none 290 (one round; another may differ)."
    )
    assert answer(series(), [], None) == text
    assert shares(series()) == [
        "Reads a second: l2arc 9,400 (SSD cache (L2ARC) 68 % and DRAM (ARC) 32 %); special 2,600 "
        "(special vdev 58 %, DRAM (ARC) 33 % and disk 9 %); none 290 (disk 67 % and DRAM (ARC) 33 %)."
    ]


def test_over_rounds_the_ratio_has_its_interval() -> None:
    (text,) = answers(series(interval=(30.0, 35.0)))
    assert text.endswith("; with l2arc 32.4 times as many as with none (95 %: 30.0 times to 35.0 times).")


def test_where_nothing_helps_no_role_is_praised() -> None:
    (text,) = answers(series({"none": 300.0, "l2arc": 290.0, "special": 280.0}))
    assert text == (
        "Reads a second by ssds: none 300, l2arc 290 and special 280 (one round; another may differ)."
    )
    (text,) = answers(series({"none": 300.0, "l2arc": 290.0, "special": 280.0}, interval=(0.9, 1.1)))
    assert text == "Reads a second by ssds: none 300, l2arc 290 and special 280 (means of 3 rounds)."
    (text,) = answers(series(interval=(0.001, 1000.0)))
    assert text.endswith(" (means of 3 rounds, too few to know the ratios).")


@pytest.mark.parametrize(
    "made", [series(op="write"), series(keys=("use.cache",)), series(busy=dict.fromkeys(VALUES, 0.99))]
)
def test_writes_other_axes_and_loads_bound_by_cpu_say_nothing(made: Series) -> None:
    assert [*answers(made), *shares(made)] == []


def test_what_is_kept_out_is_not_among_them() -> None:
    (text,) = answers(series(busy={"l2arc": 0.99}))
    assert "l2arc" not in text and text.startswith("Reads a second by ssds: special 2,600 ")
