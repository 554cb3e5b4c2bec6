"""kit.precondition.selection and the table [precondition]: what is refused first of all; what is fresh."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.config.tables.precondition_table import Precondition
from kit.config.testbed import Testbed, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError, KitError, SafetyRefusal
from kit.plan.plan import make_plan
from kit.precondition import selection

DATA = Path(__file__).parents[1] / "data" / "plan"
WORKLOAD, TESTBED = DATA / "top-speeds.toml", DATA / "testbed.toml"


@pytest.fixture
def aging(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the testbed's devices were SSDs."""
    monkeypatch.setattr(selection, "ages", lambda device: device.role != "data")


def plan(tmp_path: Path, table: str, change: Callable[[str], str] = lambda text: text) -> Any:
    # At the front: a key of its own may not come after a table.
    head, rest = WORKLOAD.read_text().split("[pool]", 1)
    for job in DATA.glob("*.fio"):
        (tmp_path / job.name).write_text(job.read_text())
    (tmp_path / "w.toml").write_text(f"{head}{table}\n[pool]{rest}")
    (tmp_path / "t.toml").write_text(change(TESTBED.read_text()))
    workload, testbed = read_workload(tmp_path / "w.toml"), read_testbed(tmp_path / "t.toml")
    return make_plan(workload, testbed, tmp_path / "w.toml", tmp_path / "t.toml")


def refusal(tmp_path: Path, table: str, change: Callable[[str], str] = lambda text: text) -> KitError:
    with pytest.raises(KitError) as caught:
        plan(tmp_path, table, change)
    return caught.value


def test_devices_that_do_not_age_need_no_table(tmp_path: Path) -> None:
    assert plan(tmp_path, "").workload.precondition is None


def test_devices_that_age_need_one(tmp_path: Path, aging: None) -> None:
    error = refusal(tmp_path, "")
    assert isinstance(error, ConfigError) and error.exit_code == 2
    assert "does not say how to precondition" in error.message and "cache0, log0" in error.message
    assert 'precondition = "none"' in error.message


@pytest.mark.parametrize("table", ['precondition = "none"', '[precondition]\nmethod = "none"'])
def test_none_is_fresh_and_the_title_says_so(tmp_path: Path, aging: None, table: str) -> None:
    planned = plan(tmp_path, table)
    settings, testbed = planned.workload.precondition, planned.testbed
    assert not settings.writes and selection.is_fresh(settings, testbed)
    assert selection.title("Top speeds", settings, testbed) == "Top speeds (fresh devices)"


def test_a_device_left_out_is_fresh(tmp_path: Path, aging: None) -> None:
    planned = plan(tmp_path, '[precondition]\nmethod = "snia"\nroles = ["log"]')
    assert selection.is_fresh(planned.workload.precondition, planned.testbed)
    planned = plan(tmp_path, '[precondition]\nmethod = "snia"')
    assert selection.title("T", planned.workload.precondition, planned.testbed) == "T"


def test_constant_devices_are_never_fresh() -> None:
    settings, testbed = Precondition(method="none"), read_testbed(TESTBED)
    assert selection.title("T", settings, testbed) == "T" and not selection.is_fresh(None, testbed)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('precondition = "yes"', 'expected "none" or a table'),
        ("precondition = true", "expected a table"),
        ("[precondition]", "method: required, but missing"),
        ('[precondition]\nmethod = "sniaa"', "did you mean 'snia'?"),
        ('[precondition]\nmethod = "fills"', 'needs fills = N'),
        ('[precondition]\nmethod = "fills"\nfills = 0', "greater than or equal to 1"),
        ('[precondition]\nmethod = "fills"\nfills = 2.5', "expected an integer"),
        ('[precondition]\nmethod = "snia"\nfills = 2', 'is for method = "fills"'),
        ('[precondition]\nmethod = "none"\nfilled = "50%"', 'filled = "50%" is for a method that writes'),
        ('[precondition]\nmethod = "snia"\nfilled = "0%"', 'expected a part of the device such as "50%"'),
        ('[precondition]\nmethod = "snia"\nfilled = "1%"\nblock = "64KiB"', "fit the 1% that are filled of"),
        ('[precondition]\nmethod = "snia"\nroles = []', "at least 1 element"),
        ('[precondition]\nmethod = "snia"\nroles = ["log", "log"]', "lists a value twice"),
        ('[precondition]\nmethod = "snia"\nroles = ["slog"]', "did you mean 'log'?"),
        ('[precondition]\nmethod = "snia"\nblock = "1000B"', "a multiple of 512"),
        ('[precondition]\nmethod = "snia"\nblock = 4096', "expected a size"),
        ('[precondition]\nmethod = "snia"\nround_size = "5000B"', "no multiple of block"),
        ('[precondition]\nmethod = "snia"\nios = 367', "greater than or equal to 368"),
        ('[precondition]\nmethod = "snia"\ntracked = ["p50"]', "valid values: p99, iops"),
        ('[precondition]\nmethod = "snia"\nrounds = 9', "unknown key"),
        ('[precondition]\nmethod = "snia"\nbudget = { endurance = 1.5 }', "less than or equal to 1"),
        ('[precondition]\nmethod = "snia"\nbudget = { endurance = 0 }', "greater than 0"),
        ('[precondition]\nmethod = "snia"\nbudget = { write = "0B" }', "greater than 0"),
        ('[precondition]\nmethod = "snia"\nbudget = { bytes = "1GB" }', "unknown key"),
        ('[precondition]\nmethod = "snia"\nbudget = { endurance = 0.1 }', "no endurance of cache0"),
        ('[precondition]\nmethod = "snia"\nround_size = "1TiB"', "do not fit a device"),
        ('[precondition]\nmethod = "snia"\nblock = "1MiB"', "do not fit a device"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, table: str, message: str) -> None:
    error = refusal(tmp_path, table)
    assert isinstance(error, ConfigError) and message in error.message, error.message
    assert "w.toml" in error.message and "precondition" in error.message


def without(role: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        head, *tables = text.split("[[device]]")
        return "[[device]]".join([head, *(t for t in tables if f'role = "{role}"' not in t)])

    return change


def test_roles_must_have_devices(tmp_path: Path) -> None:
    workload, testbed = read_workload(WORKLOAD), read_testbed(TESTBED)
    none = testbed.model_copy(update={"device": testbed.devices("data")})
    one = testbed.model_copy(update={"device": (*testbed.devices("data"), *testbed.devices("log"))})

    def check(testbed: Testbed, **values: Any) -> list[str]:
        return [text for _, text in selection.problems(Precondition(method="snia", **values), testbed)]

    assert "has no cache device" in check(one, roles=("cache", "log"))[0]
    assert "no device of the roles cache, log, special, dedup" in check(none)[0]
    assert not check(one)  # cache and log by default: those that are there
    assert not check(none, roles=("data",))
    assert workload.precondition is None


def test_budgets_are_judged_before_anything_is_touched(tmp_path: Path) -> None:
    error = refusal(tmp_path, '[precondition]\nmethod = "fills"\nfills = 3\nbudget = { write = "100MB" }')
    assert isinstance(error, SafetyRefusal) and error.exit_code == 4
    assert "the budget allows 100MB" in error.message

    def rated(text: str) -> str:
        return text.replace('role = "cache"', 'endurance = "1GB"\nrole = "cache"').replace(
            'role = "log"', 'endurance = "1TB"\nrole = "log"'
        )

    table = '[precondition]\nmethod = "fills"\nfills = 3\nbudget = { endurance = 0.1 }'
    error = refusal(tmp_path, table, rated)
    assert isinstance(error, SafetyRefusal) and "cache0" in error.message
    assert "% of its rated endurance" in error.message
    assert plan(tmp_path, table.replace("0.1", "0.5"), rated).testbed.devices("log")[0].endurance == 10**12


def test_a_plan_says_how(tmp_path: Path) -> None:
    planned = plan(
        tmp_path, '[precondition]\nmethod = "fills"\nfills = 2\nbudget = { time = "2h" }'
    ).as_json()
    table = planned["workload"]["precondition"]
    assert (table["method"], table["fills"], table["budget"]["time"]) == ("fills", 2, 7_200_000_000_000)
