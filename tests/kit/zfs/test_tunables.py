"""kit.zfs.tunables: values in the module's unit and the host's time, checked after writing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.clock import Clock
from kit.core.errors import HostError, SafetyRefusal
from kit.zfs import other_pools, parameters, tunables
from kit.zfs.tunables import TIME_TUNABLES_NS, tunable, write_tunable
from tests.fakes import Answer, Command, ScriptedHost

REAL = Clock()
DILATED = Clock("virtual", 4)
FOLDER = "/sys/module/zfs/parameters"


class Server(ScriptedHost):
    """Module parameters as `grep` and `tee` see them; `fixed` ones keep their value."""

    def __init__(self, fixed: tuple[str, ...] = (), **values: str) -> None:
        super().__init__(default=AssertionError("no such command"))
        self.values, self.fixed = values, fixed
        self.effects = {"c_min": 128 << 20, "c_max": 4 << 30, "size": 1}

    def tune(self) -> None:
        """As arc_tuning_update of OpenZFS does."""
        least, most = (int(self.values.get(name, "0")) for name in ("zfs_arc_min", "zfs_arc_max"))
        if 32 << 20 <= least <= self.effects["c_max"]:
            self.effects["c_min"] = least
        if most >= 64 << 20 and most > self.effects["c_min"]:
            self.effects["c_max"] = most

    def answer(self, command: Command) -> Answer:
        argv, text = command.argv, command.stdin.decode()
        if argv == ("cat", "/proc/spl/kstat/zfs/arcstats"):
            return "\n".join(["name type data", *(f"{name} 4 {n}" for name, n in self.effects.items())])
        names = [argument.rsplit("/", 1)[1] for argument in argv if argument.startswith(FOLDER)]
        if argv[0] == "tee":
            if names[0] not in self.fixed:
                self.values[names[0]] = text.strip()
                self.tune()
            return text
        if argv[0] == "grep":
            known = [name for name in names if name in self.values]
            lines = "".join(f"{FOLDER}/{name}:{self.values[name]}\n" for name in known)
            return (0 if known == names else 2, lines, "")
        return super().answer(command)


@pytest.mark.parametrize(
    ("name", "value", "clock", "host_value"),
    [
        ("zfs_txg_timeout", "5s", REAL, 5),
        ("zfs_txg_timeout", "5s", DILATED, 20),
        ("zfs_txg_timeout", "250ms", DILATED, 1),
        ("zfs_txg_timeout", "1min", DILATED, 240),
        ("l2arc_feed_secs", "1s", DILATED, 4),
        ("l2arc_feed_min_ms", "200ms", REAL, 200),
        ("l2arc_feed_min_ms", "200ms", DILATED, 800),
        ("l2arc_feed_min_ms", "1s", DILATED, 4000),
        ("zfs_arc_max", "64MiB", DILATED, 64 << 20),  # a size is not a time
        ("zfs_arc_max", 67108864, DILATED, 67108864),
        ("zfs_prefetch_disable", 1, DILATED, 1),
        ("zfs_prefetch_disable", True, REAL, 1),
        ("zfs_prefetch_disable", False, REAL, 0),
    ],
)
def test_values_in_the_modules_unit(name: str, value: Any, clock: Clock, host_value: int) -> None:
    made = tunable(name, value, clock)
    assert (made.name, made.written, made.host_value) == (name, str(value), host_value)
    assert type(made.host_value) is int


@given(st.sampled_from(sorted(TIME_TUNABLES_NS)), st.integers(1, 10_000), st.integers(1, 64))
def test_every_time_is_dilated(name: str, seconds: int, dilation: int) -> None:
    made = tunable(name, f"{seconds}s", Clock("virtual", dilation))
    assert made.host_value * TIME_TUNABLES_NS[name] == seconds * dilation * 1_000_000_000


@pytest.mark.parametrize("name", sorted(TIME_TUNABLES_NS))
@pytest.mark.parametrize("value", [5, 0, True])
def test_a_plain_number_for_a_time_is_refused(name: str, value: Any) -> None:
    (problem,) = tunables.problems({name: value}, REAL)
    assert problem[0] == ("tunables", name) and problem[1].startswith("a time needs its unit")


@pytest.mark.parametrize(
    ("name", "value", "clock", "message"),
    [
        ("zfs_txg_timeout", "1500ms", REAL, "not a whole number of the module's units"),
        ("zfs_txg_timeout", "100ms", DILATED, "not a whole number of the module's units"),
        ("l2arc_feed_min_ms", "10us", DILATED, "not a whole number of the module's units"),
        ("zfs_txg_timeout", "5secs", REAL, "did you mean 's'?"),
        ("zfs_txg_timeout", "5MiB", REAL, "unknown unit 'MiB'"),
        ("zfs_arc_max", "64M", REAL, "did you mean 'MiB'?"),
        ("zfs_arc_max", "5s", REAL, "unknown unit 's'"),
        ("zfs_arc_max", "64", REAL, "needs a unit"),
        ("zfs_prefetch_disable", "1", REAL, "only whole numbers can be set, found '1'"),
        ("l2arc_headroom", "8MiB", REAL, "only whole numbers"),
    ],
)
def test_values_without_a_meaning_are_refused(name: str, value: str, clock: Clock, message: str) -> None:
    (problem,) = tunables.problems({name: value}, clock)
    assert problem[0] == ("tunables", name) and message in problem[1]


def test_no_tunable_is_both_time_and_size() -> None:
    sizes = {name for name, each in parameters.known().items() if each.is_size}
    assert not sizes & set(TIME_TUNABLES_NS)


def test_values_are_read_by_name() -> None:
    server = Server(zfs_arc_max="0", zfs_txg_timeout="5", other="9")
    assert tunables.read_tunables(server, ["zfs_txg_timeout", "zfs_arc_max"]) == {
        "zfs_arc_max": "0",
        "zfs_txg_timeout": "5",
    }
    assert tunables.read_tunables(server, []) == {}
    assert len(server.calls) == 1


def test_an_unknown_parameter_is_named() -> None:
    with pytest.raises(HostError, match="no module parameter zfs_arc_mox") as caught:
        tunables.read_tunables(Server(zfs_arc_max="0"), ["zfs_arc_max", "zfs_arc_mox"])
    assert caught.value.exit_code == 5


def test_a_value_is_written_and_checked() -> None:
    server = Server(zil_slog_bulk="0")
    write_tunable(server, "zil_slog_bulk", "1234")
    assert server.values == {"zil_slog_bulk": "1234"}
    assert server.calls[0] == ("tee", f"{FOLDER}/zil_slog_bulk")


def test_a_value_not_in_effect_is_an_error() -> None:
    with pytest.raises(HostError, match="zfs_arc_max was set to 1234 but is 0"):
        write_tunable(Server(fixed=("zfs_arc_max",), zfs_arc_max="0"), "zfs_arc_max", "1234")


@pytest.mark.parametrize("names", [("zfs_arc_max", "zfs_arc_min"), ("zfs_arc_min", "zfs_arc_max")])
@pytest.mark.parametrize("values", [("64MiB", "32MiB"), ("8GiB", "6GiB")])
def test_limits_of_the_arc_take_effect_and_are_put_back(
    names: tuple[str, str], values: tuple[str, str]
) -> None:
    """Whichever is named first; a 0 that is written back does not undo the limit by itself."""
    server = Server(zfs_arc_max="0", zfs_arc_min="0")
    before = dict(server.effects)
    effects = tunables.read_effects(server, list(names))
    assert effects == {"zfs_arc_max": str(4 << 30), "zfs_arc_min": str(128 << 20)}
    expected = dict(zip(("zfs_arc_max", "zfs_arc_min"), values, strict=True))
    ordered = tunables.in_order(tuple(tunable(name, expected[name], REAL) for name in names), effects)
    for limit in ordered:
        write_tunable(server, limit.name, str(limit.host_value), effects[limit.name])
        assert server.effects[tunables.EFFECTS[limit.name]] == limit.host_value
    for limit in reversed(ordered):
        write_tunable(server, limit.name, "0", effects[limit.name])
    assert server.effects == before
    assert server.values == {"zfs_arc_max": "0", "zfs_arc_min": "0"}


def test_a_limit_that_openzfs_ignores_is_an_error() -> None:
    server = Server(zfs_arc_max="0", zfs_arc_min="0")
    with pytest.raises(HostError, match=f"in effect .c_max of arcstats. is {4 << 30}"):
        write_tunable(server, "zfs_arc_max", str(100 << 20))


def test_a_parameter_that_was_never_set_is_not_changed() -> None:
    """An undo that was written down before a step that never came."""
    server = Server(zfs_arc_max="0", zfs_arc_min="0")
    write_tunable(server, "zfs_arc_max", "0", str(4 << 30))
    assert [call for call in server.calls if call[0] == "tee"] == [("tee", f"{FOLDER}/zfs_arc_max")]
    assert server.effects["c_max"] == 4 << 30


@pytest.mark.parametrize(
    ("value", "pools", "refused"),
    [("1GiB", "tank\nhome\n", True), ("1GiB", "", False), ("8GiB", "tank\n", False), ("0", "tank\n", False)],
)
def test_other_pools_keep_their_arc_unless_agreed(value: str, pools: str, refused: bool) -> None:
    server = Server()
    server.answers["zpool list -H -o name"] = pools
    setting = tunable("zfs_arc_max", 0 if value == "0" else value, REAL)
    if not refused:
        assert other_pools.refuse_settings(server, [setting], agreed=False) == []
        return
    with pytest.raises(SafetyRefusal, match="tank, home; nothing was changed") as caught:
        other_pools.refuse_settings(server, [setting], agreed=False)
    assert "--beside-other-pools" in caught.value.hint
    assert "tank, home" in other_pools.refuse_settings(server, [setting], agreed=True)[0]
    assert not any(command.argv[0] == "tee" for command in server.commands)


def test_what_only_the_server_shows_is_refused_before_anything_is_set() -> None:
    server = Server(zfs_arc_max="0")
    server.effects["memory_all_bytes"] = 4 << 30
    settings = [tunable("zfs_arc_max", "100MiB", REAL), tunable("zfs_arc_meta_balance", 500, REAL)]
    assert [key for key, _ in tunables.server_problems(server, settings, "2.1.11")] == [
        ("tunables", "zfs_arc_meta_balance")
    ]
    # Below the minimum in effect, a 32nd of the memory.
    ((key, text),) = tunables.server_problems(server, settings[:1], "2.1.11")
    assert key == ("tunables", "zfs_arc_max") and 'add zfs_arc_min = "32MiB"' in text
    assert not tunables.server_problems(server, [tunable("zfs_arc_max", "1GiB", REAL)], "2.1.11")
    assert not any(command.argv[0] == "tee" for command in server.commands)
