"""A stored value that was changed: refused, unknown or invalid, or listed as one that nothing determines.

Each number, name and flag of manifests of real runs is changed by itself. What stays valid must be in FREE.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from kit.core.errors import ConfigError
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from reports.analysis.summary import summarise
from reports.verdict import stored_checks, stored_phase
from reports.verdict.stored_phase import contradicting_intervals
from tests.kit.store.mutations import Path, places
from tests.kit.store.stored_runs import Json, counts_of, stored

pytestmark = pytest.mark.slow

# Reads of three tiers with mixed I/Os; asynchronous writes; devices, a dataset and forced
# writes; few phases of one with samples.
RUNS = ("mixed", "asynchronous", "dataset")
# A path as a regular expression, and why no other value, and no count, determines what it has.
FREE = {
    # What was asked for, and how: the results are beside it.
    r"(command|export\.lines|resumed)\b.*": "how it was done, as text",
    r"(title|workload|load|seed|length|reference)": "asked for",
    r"(expect|known|soak|impact)\..*": "limits that were asked for: they judge, and are not judged",
    r"working_set\..*|precondition\b.*": "asked for; what was done is in devices of it and ageing.parquet",
    r"phases\.\d+\.(title|job|is_random|expected_tiers\.\d+|tiers\.\d+|outstanding)": "asked for",
    r"phases\.\d+\.spans\..*": "asked for",
    r"(tunables|host_settings|dataset|pool|mount)\b.*": "texts of the system, read once",
    r"versions\..*|tracing\.(bpftrace|reason|missing.*|asked_for)": "texts of the system, read once",
    r"testbed\.(name|file)|testbed\.clients\.\d+": "texts of the testbed",
    r"testbed\.devices\.\d+\..*": "of the testbed and of the system, read once; the size of a real one twice",
    r"testbed\.emulated": "of the testbed, without a model's parameters beside it",
    # Measured once, by one counter or clock.
    r"(run|started_utc|wall_s)": "one clock; bounded by the phases, and by each other",
    r"clock\.dilation": "bounded by wall_s",
    r"clock\.kind": "a virtual clock may have a dilation of 1",
    r"warmup\.(l2arc_bytes|fed_bytes\.\d+|arc\..*)": "one counter each",
    r"phases\.\d+\.arc\..*": "one counter each; span_ns is bounded by the phase",
    r"phases\.\d+\.events\.\d+\..*": "a mark, seen once; its time is bounded by the phase",
    r"phases\.\d+\.(cpu|devices)\.\d+\..*": "samples: bounded by their neighbours, the time, and each other",
    r"phases\.\d+\.machines\.\d+\.(hottest_mdegc\.\d+|throttled)": "one counter each",
    r"phases\.\d+\.machines\.\d+\.clock_step_ns": "known to a microsecond by its check",
    r"phases\.\d+\.clients\.\d+\.clock_(offset|error)_ns": "measured once; the error is bounded by the phase",
    r"phases\.\d+\.clients\.\d+\.(first|last)_ns": "known to an interval by the counts",
    r"phases\.\d+\.extremes\.\d+\.(min|max)_ns": "exact; the counts know its bin",
    r"phases\.\d+\.sums\.\d+\.sum_ns": "exact; the counts know its bins",
    r"phases\.\d+\.sums\.\d+": "without one its mean is withheld",
    r"phases\.\d+\.client_log\.(kind|latency|window_ns|time_error_ns|ios_guessed)": "how "
    "clients counted, as they say; bounded by their I/Os",
    r"phases\.\d+\.client_log\.slowest\.\d+\.(latency|from|to)_ns": "as extremes; bounded by the phase",
    r"phases\.\d+\.shares\b.*": "the server's own counters: it was not traced",
    r"phases\.\d+\.forces\..*": "exact latencies, and what was asked for; bounded by one another",
    # Of checks: within the tolerance two counts say the same.
    r"phases\.\d+\.checks\.\d+\.(expected|found)": "within the tolerance",
    r"phases\.\d+\.checks\.\d+\.tolerance": "what closes with less, or within what an instrument gives",
    r"phases\.\d+\.checks\.\d+\.source": "text",
    r"phases\.\d+\.unavailable\.\d+\.(source|why)": "text",
    r"phases\.\d+\.(unavailable|checks)\.\d+(\.name)?": "made only if a device was quiet, or of another "
    "pool: whether it should be there is not stored",
    r"phases\.\d+\.lost_events": "of a load without a server",
}  # fmt: skip
_FREE = [re.compile(pattern) for pattern in FREE]
Change = tuple[Path, Any]


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def changes_of(manifest: Json) -> list[Change]:
    """Every leaf in several ways; ... deletes an element of what has rows."""
    made: list[Change] = []
    for path in places(manifest):
        value = _at(manifest, path)
        if isinstance(value, list | dict):
            if isinstance(path[-1], int) and path[-2] in (
                "phases",
                "checks",
                "unavailable",
                "clients",
                "sums",
            ):
                made.append((path, ...))
            continue
        made += [(path, new) for new in _others(value) if new != value]
    return made


def _others(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value - 1, 2 * value + 3, value + 10**12, -value - 1)
    else:
        yield from ("other", "read", "pool", "client", 3) if isinstance(value, str) else (3,)


def changed(manifest: Json, change: Change) -> Json:
    (*above, last), new = change
    made = copy.deepcopy(manifest)
    parent = _at(made, tuple(above))
    if new is ...:
        del parent[last]
    else:
        parent[last] = new
    return made


def verdict_of(manifest: Json, counts: Latency) -> str:
    try:
        return summarise(counts, Manifest.from_json(manifest, "manifest.json"), with_bands=False).verdict
    except ConfigError as error:
        assert error.exit_code == 2 and error.message.startswith("manifest.json: ")
        return "refused"


def _assert_found(name: str, seed: int, most: int) -> None:
    manifest = stored(name)
    counts = Latency.of(counts_of(manifest))
    assert verdict_of(manifest, counts) == "valid"
    made = changes_of(manifest)
    random.Random(seed).shuffle(made)
    valid = []
    for change in made[:most]:
        path = ".".join(map(str, change[0]))
        if verdict_of(changed(manifest, change), counts) == "valid" and not any(
            e.fullmatch(path) for e in _FREE
        ):
            valid.append(f"{path}: {_at(manifest, change[0])} as {change[1]}")
    assert not valid, "\n".join(valid)


@pytest.mark.parametrize("name", RUNS)
def test_a_value_that_others_determine_is_never_valid(name: str) -> None:
    _assert_found(name, 1, 150)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", RUNS)
def test_no_value_that_others_determine_is_valid(name: str) -> None:
    _assert_found(name, 0, 1 << 30)


@pytest.mark.parametrize("name", ["mixed", "dataset"])
def test_a_check_is_of_the_op_that_it_names(name: str) -> None:
    manifest = stored(name)
    counts = Latency.of(counts_of(manifest))
    ops = [path for path in places(manifest) if path[-1] == "op" and "checks" in path]
    assert ops
    for path in ops:
        other = "read" if _at(manifest, path) == "write" else "write"
        assert verdict_of(changed(manifest, (path, other)), counts) == "unknown", path


_PROOF = {"device": "log0", "counter": "unsafe_shutdowns", "before": 1, "after": 1001}


_MOMENT = {"acknowledged": 1, "looked_at": 1}
_UNPROVEN = {**_MOMENT, "proof": [_PROOF]}


def _observed(**ns: int) -> Json:
    stretch = {"traced": True, "threads": 1, "ios": 5, **ns}
    return {"op": "read", "tier": "dram", "block_bytes": 1, "stretches": [stretch]}


def _lost(**changes: Any) -> Json:
    return {"moments": [_MOMENT], "scope": "lab", **changes}


# As a stranger would write it: the value, and that it does not stay valid.
IMPOSSIBLE: dict[str, Change] = {
    "a sum that does not close, and says so": (("phases", 0, "checks", 0, "found"), 5),
    "a tolerance that lets all pass": (("phases", 0, "checks", 0, "tolerance"), 10**18),
    "a negative tolerance": (("phases", 0, "checks", 0, "tolerance"), -1),
    "no checks": (("phases", 0, "checks"), []),
    "a clock that is none": (("clock", "kind"), "sundial"),
    "an op that is none": (("phases", 0, "op"), "teleport"),
    "another op": (("phases", 0, "op"), "write"),
    "a tier that is none": (("phases", 0, "expected_tiers"), ["quantum"]),
    "tiers that answered nothing": (("phases", 0, "expected_tiers"), ["pool"]),
    "another interval": (("phases", 0, "interval_ns"), 7),
    "half an interval": (("phases", 0, "interval_ns"), 25_000_000),
    "a phase inside another": (("phases", 1, "start_ns"), 0),
    "no tracer": (("tracing", "kind"), "none"),
    "a tracer that is none": (("tracing", "kind"), "psychic"),
    "another server": (("testbed", "server"), "other"),
    "I/Os of no client": (("phases", 0, "clients", 0, "ios"), 5),
    "an end before the begin": (("phases", 0, "clients", 0, "last_ns"), 5),
    "a clock that nobody knows": (("phases", 0, "clients", 0, "clock_error_ns"), 3600 * 10**9),
    "a client that came late": (("phases", 0, "clients", 0, "skew_ns"), 9 * 10**9),
    "a text instead of a heat": (("phases", 0, "machines", 0, "hottest_mdegc"), ["nan", 0]),
    "a machine hotter than the sun": (("phases", 0, "machines", 0, "hottest_mdegc"), [0, 2_147_483_000]),
    "a machine that slept": (("phases", 0, "machines", 0, "slept_ns"), 10**12),
    "no CPUs": (("phases", 0, "cpu", 0, "cpus"), 0),
    "CPUs that run backwards": (("phases", 0, "cpu", 0, "samples", 0, "at_ns"), 10**15),
    "less than no time": (("phases", 0, "cpu", 0, "samples", 1, "user_ns"), -1),
    "a soak of no phase": (("soak",), [{"phase": "none", "row_ns": 1}]),
    "an impact of no phase": (("impact", 0, "alone"), "none"),
    "a start that is no time": (("started_utc",), "never"),
    "a warm-up with a problem": (("warmup", "problems"), ["not warm"]),
    "a device of no bytes": (("testbed", "devices", 0, "size_bytes"), -1),
    "percentiles that descend": (("observer_effect",), _observed(p50_ns=9, p99_ns=5)),
    "less than no latency": (("observer_effect",), _observed(p50_ns=-5, p99_ns=5)),
    "more acknowledged than there were": (("power_loss",), _lost(acknowledged=10**9)),
    "more lost than there were": (("power_loss",), _lost(moments=[{**_MOMENT, "lost": 5}])),
    "a thousand losses at one": (("power_loss",), _lost(scope="lab", moments=[_UNPROVEN])),
    "a scope that is none": (("power_loss",), _lost(scope="moon")),
    "fewer losses than asked for": (("power_loss",), _lost(scope="lab", asked=9)),
    "parts that do not add up": (("phases", 0, "parts"), [
        {"number": 1, "start_ns": 1, "end_ns": 2, "client_ios": 5, "server_ios": 5, "end": "itself"}]),
    "another format": (("format",), 2),
}  # fmt: skip


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_is_never_valid(change: Change) -> None:
    manifest = stored("mixed")
    assert verdict_of(changed(manifest, change), Latency.of(counts_of(manifest))) in ("refused", "unknown")


@pytest.mark.parametrize("name", ["traced", "mixed", "asynchronous", "dataset"])
def test_what_real_runs_store_does_not_contradict_itself(name: str) -> None:
    manifest = stored(name)
    assert verdict_of(manifest, Latency.of(counts_of(manifest))) == "valid"


@pytest.mark.parametrize("name", ["traced", "mixed", "asynchronous", "dataset"])
def test_a_run_without_any_check_is_never_valid(name: str) -> None:
    manifest = stored(name)
    for phase in manifest["phases"]:
        phase |= {"checks": [], "unavailable": []}
    assert verdict_of(manifest, Latency.of(counts_of(manifest))) == "unknown"


@pytest.mark.parametrize("out_of", [6_771_201, 10**15])
def test_a_share_is_of_no_more_than_clients_wrote(out_of: int) -> None:
    """Of 13,225 asynchronous writes of 512 bytes: with `out_of` the tolerance would grow."""
    manifest = stored("asynchronous")
    check = next(each for each in manifest["phases"][0]["checks"] if each["id"] == "ZIL-ASYNC-BYTES")
    check |= {"out_of": out_of, "tolerance": out_of // 100, "found": out_of // 100}
    assert verdict_of(manifest, Latency.of(counts_of(manifest))) == "unknown"


@pytest.mark.parametrize(
    ("times", "out_of", "verdict"), [(1, False, "valid"), (3, False, "unknown"), (3, True, "valid"),
                                     (99, True, "valid"), (101, True, "unknown")]
)  # fmt: skip
def test_steal_time_is_a_part_of_the_time_of_the_servers_clock(
    times: int, out_of: bool, verdict: str
) -> None:
    """A guest that QEMU emulates has another clock than the machine that stores the run."""
    manifest = stored("traced")
    manifest["wall_s"] = 100
    [first, *_] = phases = manifest["phases"]
    took_s = sum(each["end_ns"] - each["start_ns"] for each in phases) * manifest["clock"]["dilation"] / 1e9
    # This run does not have how many CPUs there were: as many as can be.
    ticks = int((100 + 2 * took_s) * 100 * (1 << 16)) * times
    check = next(each for each in first["checks"] if each["id"] == "CPU-STEAL")
    check |= {"tolerance": ticks // 100, **({"out_of": ticks} if out_of else {})}
    assert verdict_of(manifest, Latency.of(counts_of(manifest))) == verdict


@pytest.mark.parametrize("name", RUNS)
def test_a_check_is_of_a_host_that_the_phase_has(name: str) -> None:
    manifest = stored(name)
    of_hosts = [c for phase in manifest["phases"] for c in phase["checks"] if c["id"] == "CLOCK-STEP"]
    counts = Latency.of(counts_of(manifest))
    assert verdict_of(manifest, counts) == "valid"
    of_hosts[0] |= {"of": "nobody", "name": "of another version"}
    assert verdict_of(manifest, counts) == "unknown"


@pytest.mark.parametrize(("error_ns", "verdict"), [(648_419, "unknown"), (269_411_618, "valid")])
def test_the_last_io_of_counts_is_known_to_within_their_readings(error_ns: int, verdict: str) -> None:
    """A stall of 0.6 s at the end of a phase, and fio's readings of 20 ms came late."""
    manifest = stored("dataset")
    phase = next(each for each in manifest["phases"] if each.get("client_log"))
    phase["client_log"]["time_error_ns"] = error_ns
    ended_ns = phase["clients"][0]["last_ns"] = phase["end_ns"] + 200_000_000
    for slow in phase["client_log"]["slowest"] if verdict == "valid" else ():
        slow["to_ns"] = ended_ns
    assert verdict_of(manifest, Latency.of(counts_of(manifest))) == verdict


GRID, STALLED = [*range(9)], [0, 4]


@pytest.mark.parametrize(("begins", "count"), [(GRID, 0), ([2 * each for each in GRID], 1), (STALLED, 0)])
def test_few_intervals_with_a_stall_do_not_contradict_themselves(begins: list[int], count: int) -> None:
    """45 files were made in two intervals, two seconds apart: the server stood still."""
    manifest = stored("traced")
    interval = manifest["phases"][0]["interval_ns"]
    times = [each * interval for each in begins]
    values = {"start_ns": 0, "end_ns": times[-1] + interval, "client_ios": 1000, "clients": []}
    phase = Phase.from_json(manifest["phases"][0] | values, "phases[0]")
    assert len(list(contradicting_intervals(phase, times))) == count


def said_of(name: str, number: int, about: str, *, without: str = "", **values: Any) -> list[str]:
    """What a phase with these values contradicts, of one kind. `without`: the op that has no I/O."""
    stored_run = stored(name)
    stored_run["phases"][number] |= values
    manifest = Manifest.from_json(stored_run, "manifest.json")
    bins = counts_of(stored(name)).filter(pl.col("op") != without)
    phase = manifest.phases[number]
    ios = stored_phase.counted(Latency.of(bins), [phase.name])[phase.name]
    texts = [*stored_phase.contradictions(manifest, phase, ios)]
    texts += stored_checks.contradictions(manifest, phase, ios)
    return [text for text in texts if about in text]


@pytest.mark.parametrize(
    ("without", "values", "count"),
    [("write", {}, 0), ("read", {}, 0), ("", {"op": "write"}, 1), ("write", {"block_bytes_by_op": {}}, 1)],
)
def test_a_mix_may_have_no_io_of_an_op(without: str, values: Json, count: int) -> None:
    """One write of a hundred I/Os, and the server stood still."""
    assert len(said_of("mixed", 1, "its I/Os are", without=without, **values)) == count


DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize(("ppm", "count"), [(50, 0), (450, 0), (2000, 1)])
def test_ntp_may_slew_the_clock_of_the_ios(ppm: int, count: int) -> None:
    """Kstats have the raw clock of the machine, and are read just before and after the load."""
    start_ns = stored("mixed")["phases"][0]["start_ns"]
    arc = stored("mixed")["phases"][0]["arc"] | {"span_ns": DAY_NS - DAY_NS * ppm // 10**6}
    values = {"end_ns": start_ns + DAY_NS, "interval_ns": 10**9, "arc": arc}
    assert len(said_of("mixed", 0, "arc is of", **values)) == count


@pytest.mark.parametrize(("in_flight", "count"), [(1, 0), (0, 1)])
def test_a_disk_may_have_been_busy_before_the_phase(in_flight: int, count: int) -> None:
    devices = copy.deepcopy(stored("mixed")["phases"][0]["devices"])
    first, *_, last = devices[0]["samples"]
    first["in_flight"] = in_flight
    last["busy_ns"] = 2 * (last["at_ns"] - first["at_ns"])
    assert len(said_of("mixed", 0, "was busy for", devices=devices)) == count


@pytest.mark.parametrize(("interval_s", "verdict"), [(2, "valid"), (0.5, "unknown")])
def test_a_phase_may_begin_in_the_last_interval_of_the_one_before(interval_s: float, verdict: str) -> None:
    """With intervals of two seconds the last is not over 1.8 s later, but the next phase has begun."""
    manifest = stored("mixed")
    first, other = manifest["phases"][:2]
    first |= {"interval_ns": int(interval_s * 10**9), "end_ns": first["start_ns"] + 6 * 10**9}
    assert first["end_ns"] > other["start_ns"]
    assert verdict_of(manifest, Latency.of(counts_of(manifest))) == verdict


def test_an_expected_tier_that_did_not_answer_is_no_contradiction() -> None:
    manifest = stored("traced")
    manifest["phases"][0]["expected_tiers"] = ["special"]
    counts = Latency.of(counts_of(manifest))
    summary = summarise(counts, Manifest.from_json(manifest, "manifest.json"), with_bands=False)
    assert [(each.id, each.phase) for each in summary.causes] == [("EXPECTED-TIERS", "one")]
    (reason,) = summary.reasons
    assert "no I/O was answered by special vdev, which the workload expects" in reason
    # What is expected judges it.
    manifest["expect"] = [{"phase": "one", "op": "write", "tier": "special", "min_count": 1}]
    assert verdict_of(manifest, counts) == "invalid"
