"""Things to look at: what is named, where, in which order and words."""

import re

import polars as pl
import pytest

from kit.importers import fio_json
from kit.store.latency import Latency
from kit.store.summary import Summary
from kit.store.tables import LATENCY_SCHEMA
from reports.analysis.findings import KINDS, MOST, findings
from tests.reports import synthetic

SECOND = synthetic.SECOND
UNTIMED = {"format": "fio-json", "source": fio_json.FORMAT.source.as_json(), "rows_counted": 9}
POOL = 200 * SECOND  # where the phase write-pool begins
PLAIN = re.compile(r"[\w .,:;()+%/-]*")


def of(frame, manifest=None, summary=None):
    manifest = synthetic.manifest(frame) if manifest is None else manifest
    summary = synthetic.summarise(frame, manifest) if summary is None else summary
    return findings(Latency.of(frame), synthetic.parsed(manifest), Summary.from_json(summary, "summary.json"))


def with_one(frame, at_s, ms, tier="pool", phase="write-pool", op="write", start=POOL):
    """`frame` and one I/O of `ms` milliseconds that ended in the second `at_s` of a phase."""
    row = (start + at_s * SECOND, phase, "nfs-server", "lab", op, tier, (ms - 1) * 10**6, ms * 10**6, 1)
    return pl.concat([frame, synthetic.table([row])])


def kinds(listed):
    return [each.kind for each in listed]


def test_a_calm_run_has_nothing_to_look_at(calm):
    assert of(calm) == ()


def seen_by_clients(frame, more_ns, phases=("read", "write-slog", "write-pool")):
    """`frame`, and what its clients saw: each I/O took longer by `more_ns` in these phases."""
    there = frame.with_columns(
        layer=pl.lit("client"), host=pl.lit("lab/client0"), tier=pl.lit("all"),
        **{
            name: pl.col(name) + pl.when(pl.col("phase").is_in(phases)).then(more_ns).otherwise(20_480)
            for name in ("lo_ns", "hi_ns")
        },
    )  # fmt: skip
    return pl.concat([frame, there.select(frame.columns)])


@pytest.mark.parametrize(
    ("more_ns", "phases"),
    [
        # A delayed ACK; what a network and a client add; more than twice, and less than a millisecond more.
        (40 * 10**6, ["read", "write-slog", "write-pool"]),
        (30_720, []),
        (950_272, []),
        # More than a millisecond more: of writes to disk that is less than twice.
        (2 * 10**6, ["read", "write-slog"]),
    ],
)
def test_what_clients_wait_for_and_the_server_does_not_see(calm, more_ns, phases):
    found = [each for each in of(seen_by_clients(calm, more_ns)) if each.kind == "wait"]
    # At most two of a kind come first.
    assert [each.phase for each in found] == phases
    assert all(
        each.layer == "client" and "the time is between client and nfsd" in each.text for each in found
    )
    if phases:
        assert "The median read took" in found[0].text and "delayed ACKs of 40 ms" in found[0].text


@pytest.mark.parametrize(
    ("found", "own", "outstanding", "said"),
    [
        (8, None, 64, True),
        (64, None, 64, False),
        (None, None, 64, False),
        (8, "64", 64, False),
        (64, "8", 64, True),
    ],
)
def test_fewer_threads_of_nfsd_than_requests(calm, found, own, outstanding, said):
    manifest = synthetic.manifest(calm)
    manifest["phases"][0]["outstanding"] = outstanding
    if found:
        manifest["nfsd_threads"] = found
    if own:
        path = "/proc/fs/nfsd/threads"
        manifest["host_settings"] = [{"name": "nfsd_threads", "path": path, "before": "8", "set": own}]
    listed = of(calm, manifest)
    assert kinds(listed) == ["wait"] * said
    if said:
        assert "The threads of nfsd are too few, 8 for 64 outstanding requests" in listed[0].text
        assert PLAIN.fullmatch(listed[0].text) and (listed[0].phase, listed[0].op) == ("read", "read")
        # With a gap as well, one finding says both.
        (gap, *_) = of(seen_by_clients(calm, 40 * 10**6), manifest)
        assert "(8 for 64 outstanding requests)" in gap.text and PLAIN.fullmatch(gap.text)


def test_an_outlier_with_what_overlapped_it(calm):
    frame = with_one(calm, 3, 400)
    manifest = synthetic.manifest(frame)
    manifest["phases"][2]["events"] = [
        # Most I/Os overlap a txg sync here: that says nothing.
        {"time_ns": POOL + 2 * SECOND, "end_ns": POOL + 9 * SECOND, "kind": "txg", "text": "<b>txg 7</b>"},
        {"time_ns": POOL + 3 * SECOND, "end_ns": None, "kind": "l2arc-feed", "text": ""},
        {"time_ns": POOL + 9 * SECOND, "end_ns": None, "kind": "fault", "text": "far away"},
    ]
    (found,) = of(frame, manifest)
    assert found.text == (
        "1 of 1,201 writes of disk took 400 ms, 76 times the p99 (5.24 ms), while there was an L2ARC feed "
        "(at one time is no proof: by chance in 12 % of the phase)."
    )
    where = found.kind, found.phase, found.layer, found.op
    assert where == ("outlier", "write-pool", "nfs-server", "write")
    assert (found.from_s, found.to_s, found.low_us, found.high_us) == (3.0, 4.0, 399_000.0, 400_000.0)


def test_an_outlier_without_events_names_none(calm):
    (found,) = of(with_one(calm, 3, 400))
    assert "while" not in found.text


@pytest.mark.parametrize(("far_ms", "found"), [(2, []), (300, ["outlier"])])
def test_an_operation_that_is_shorter_than_one_beside_it_is_none(calm, far_ms, found):
    """A phase of files: CREATE takes some 5 ms, GETATTR 0.01 ms."""
    made = calm.filter(pl.col("phase") == "write-pool").with_columns(op=pl.lit("create"))
    looked = made.with_columns(op=pl.lit("getattr"), tier=pl.lit("dram"), lo_ns=9_000, hi_ns=10_000)
    frame = pl.concat([made, looked.cast(dict(made.schema))])
    assert of(frame) == () and kinds(of(with_one(frame, 3, far_ms, "dram", op="getattr"))) == found


def test_several_outliers_of_a_tier_are_one_finding(calm):
    frame = with_one(with_one(calm, 3, 400), 7, 100)
    (found,) = of(frame)
    told = "2 of 1,202 writes of disk took 99 to 400 ms, at least 19 times the p99 (5.24 ms)."
    assert (found.text, found.ios) == (told, 2)
    assert (found.from_s, found.to_s, found.low_us, found.high_us) == (3.0, 8.0, 99_000.0, 400_000.0)


def test_ten_times_the_p99_is_no_outlier(calm):
    assert of(with_one(calm, 3, 50)) == () and kinds(of(with_one(calm, 3, 53))) == ["outlier"]


def test_a_client_tells_what_the_server_did_not_see(calm):
    seen = calm.with_columns(layer=pl.lit("client"), tier=pl.lit("all"), host=pl.lit("lab/client0"))
    slow = (POOL + SECOND, "write-pool", "client", "lab/client0", "write", "all", 899 * 10**6, 900 * 10**6, 1)
    frame = pl.concat([calm, seen.filter(pl.col("phase") == "write-pool"), synthetic.table([slow])])
    (found,) = of(frame)
    assert (found.kind, found.layer) == ("outlier", "client")
    assert found.text.startswith("1 of 1,201 writes took 900 ms")
    assert [each.layer for each in of(with_one(frame, 1, 900))] == ["nfs-server"]


def test_a_stall_of_a_closed_loop(calm):
    """A fifth of the writes is slow: no outlier, as the p99 is slow, too."""
    key = "write-pool", "nfs-server", "lab", "write", "pool"
    slow = [(POOL + at * SECOND, *key, 2_900 * 10**6, 3_000 * 10**6, 30) for at in (2, 6, 9)]
    waits = (pl.col("phase") == "write-pool") & pl.col("time_ns").is_in(
        [POOL + n * SECOND for n in (4, 5, 7, 8)]
    )
    frame = pl.concat([calm.filter(~waits), synthetic.table(slow)])
    found = next(each for each in of(frame) if each.kind == "stall")
    assert found.text == "No write ended for 4 s in 2 pieces: one waited up to 3 s for its answer."
    assert (found.from_s, found.to_s, found.high_us) == (4.0, 10.0, 3e6)


def test_a_stall_that_an_outlier_explains_is_not_said_twice(calm):
    gap = (pl.col("phase") == "write-pool") & pl.col("time_ns").is_in([POOL + SECOND, POOL + 2 * SECOND])
    assert kinds(of(with_one(calm.filter(~gap), 3, 2500))) == ["outlier"]


def test_a_tier_that_answered_nothing(calm):
    frame = calm.filter(pl.col("tier") != "l2arc")
    manifest = synthetic.manifest(frame)
    manifest["expect"] = []
    (found,) = of(frame, manifest)
    assert found.text == "No read was answered by the tier SSD cache (L2ARC), which the workload expects."
    assert (found.kind, found.from_s, found.to_s) == ("missing", 0.0, 12.0)
    assert (found.low_us, found.high_us) == (128.0, 260.0)


def test_a_phase_that_reads_and_writes_misses_tiers_of_each(calm):
    frame = calm.filter(pl.col("tier") != "l2arc")
    manifest = synthetic.manifest(frame)
    phase = manifest["phases"][0]
    phase |= {"op": "mixed", "expected_tiers": [*phase["expected_tiers"], "slog"]}
    texts = [found.text for found in of(frame, manifest) if found.kind == "missing"]
    assert [text.partition(" answered")[0] for text in texts] == ["No read was", "No write was"]


def test_an_untraced_phase_misses_no_tier(calm):
    assert of(calm.filter(pl.col("phase") != "read")) == ()


def test_ios_in_another_tiers_band(calm):
    stray = [(4 * SECOND, "read", "nfs-server", "lab", "read", "disk", 143360, 147456, 25)]
    frame = pl.concat([calm, synthetic.table(stray)])
    (found,) = of(frame)
    assert found.text == (
        "25 of 1,225 reads of disk (2 %) took 143 to 147 µs, like those of SSD cache (L2ARC); "
        "the run does not record why."
    )
    assert (found.kind, found.from_s, found.to_s) == ("overlap", 4.0, 5.0)
    assert (found.low_us, found.high_us) == (143.36, 147.456)


def test_the_track_buffer_is_named_where_the_disks_have_one(calm):
    frame = pl.concat(
        [calm, synthetic.table([(0, "read", "nfs-server", "lab", "read", "disk", 143360, 147456, 25)])]
    )
    manifest = synthetic.manifest(frame)
    manifest["testbed"]["devices"][0]["parameters"] = {"disk": {"track_buffer": 1 << 20}}
    (found,) = of(frame, manifest)
    assert "the disks have a track buffer, whose hits the run does not record" in found.text


def dram(*modes, change=()):
    """What is said of reads from DRAM at these places (ns), of so many reads in 1000."""
    rows = [
        (at * SECOND, "read", "nfs-server", "lab", "read", "dram", *BIN[ns], count)
        for at in range(12)
        for ns, count in modes
    ]
    frame = synthetic.table(rows)
    listed = of(frame, synthetic.manifest(frame) | dict(change) | {"expect": []})
    return [each for each in listed if each.kind in ("modes", "levels")]


BIN = {ns: (ns // 128 * 128, ns // 128 * 128 + 128) for ns in (4270, 5000, 5700, 8270)}
BIN |= {60_000: (59_392, 60_416), 900_000: (884_736, 901_120)}
MEASURED = (4270, 80), (5700, 890), (8270, 30)


def test_modes_inside_a_tier():
    (found,) = dram(*MEASURED)
    modes = "The reads of DRAM (ARC) have 3 modes: 4.27 µs (8 %), 5.66 µs (89 %), 8.22 µs (3 %)"
    causes = "hits of the dbuf cache, hits of the ARC, and those after which nfsd frees pages"
    assert found.text == f"{modes}; in the lab they are {causes} (docs/decisions/0022)."
    assert (found.phase, found.from_s, found.to_s) == ("read", 0.0, 12.0)
    # It was not measured on other clocks and machines.
    for change in ({"clock": {"kind": "real", "dilation": 1}}, {"clock": None}, {"workload": "own"}):
        (found,) = dram(*MEASURED, change=change)
        assert found.text == f"{modes}."
    (found,) = dram(*MEASURED[:2])
    assert found.text.endswith("they are hits of the dbuf cache, and hits of the ARC (docs/decisions/0022).")


@pytest.mark.parametrize(
    "modes",
    [
        ((5000, 600), (60_000, 300), (900_000, 100)),
        ((4270, 800), (5700, 170), (8270, 30)),
        ((4270, 80), (5700, 880), (60_000, 40)),
        (*MEASURED, (60_000, 40)),
    ],
    ids=["three elsewhere", "other shares", "a third elsewhere", "one more"],
)
def test_the_number_of_modes_names_no_cause(modes):
    (found,) = dram(*modes)
    assert f"{len(modes)} modes" in found.text and "in the lab" not in found.text


def test_levels_in_time_are_no_modes():
    rows = [
        (at * SECOND, "read", "nfs-server", "lab", "read", "dram", *BIN[4270 if at < 8 else 8270], 100)
        for at in range(12)
    ]
    (found,) = (each for each in of(synthetic.table(rows)) if each.kind in ("modes", "levels"))
    assert found.text == (
        "The p50 of the reads of DRAM (ARC) rose from 4.29 µs to 8.26 µs at 8 s: a change in "
        "time, not two kinds of I/Os."
    )


def test_a_real_looking_run_is_described():
    listed = of(synthetic.realistic())
    assert len(listed) <= MOST and set(kinds(listed)) <= set(KINDS)


def test_of_one_kind_two_come_first(calm):
    frame = calm.filter(pl.col("tier") != "l2arc")
    for tier, phase, start in (("slog", "write-slog", 100), ("pool", "write-pool", 200)):
        frame = with_one(frame, 3, 900, tier, phase, "write", start * SECOND)
    frame = with_one(with_one(frame, 3, 900, "disk", "read", "read", 0), 3, 3, "dram", "read", "read", 0)
    stray = (0, "read", "nfs-server", "lab", "read", "disk", 6144, 6272, 25)
    listed = of(pl.concat([frame, synthetic.table([stray])]))
    assert kinds(listed) == ["missing", "outlier", "outlier", "overlap", "outlier"]
    # The worst first: 900 ms is more times 0.15 ms than 5 ms.
    assert [each.phase for each in listed[1:3]] == ["write-slog", "read"]


def test_an_import_without_times_has_no_part_of_the_phase(calm):
    frame = with_one(calm, 3, 400).with_columns(tier=pl.lit("all"), layer=pl.lit("client"))
    manifest = synthetic.manifest(frame)
    for phase in manifest["phases"]:
        events = [{"time_ns": POOL, "end_ns": None, "kind": "txg"}]
        phase |= {"expected_tiers": [], "outstanding": 1, "events": events}
    manifest |= {"import": UNTIMED}
    (found,) = (each for each in of(frame, manifest) if each.phase == "write-pool")
    assert (found.kind, found.from_s, found.to_s) == ("outlier", 0.0, 12.0) and "txg" not in found.text


def test_an_appliance_that_only_its_clients_saw(calm):
    frame = with_one(calm, 3, 400).with_columns(tier=pl.lit("all"), layer=pl.lit("client"))
    manifest = synthetic.manifest(frame)
    for phase in manifest["phases"]:
        phase |= {"expected_tiers": [], "server_ios": None, "lost_events": None}
    manifest |= {"appliance": {"export": "nas:/x", "not_seen": ["tiers"]}, "expect": []}
    summary = synthetic.summarise(frame, manifest)
    found = next(each for each in of(frame, manifest, summary) if each.kind == "outlier")
    assert found.text == "1 of 1,201 writes took 400 ms, 76 times the p99 (5.24 ms)."
    assert (found.layer, found.from_s, found.to_s) == ("client", 3.0, 4.0)


def test_an_empty_run():
    empty = pl.DataFrame(schema=LATENCY_SCHEMA)
    manifest = synthetic.manifest()
    assert of(empty, manifest) == ()
    manifest["phases"] = []
    assert of(empty, manifest) == ()
    assert findings(Latency.of(synthetic.latency()), synthetic.parsed(manifest), synthetic.summary_of()) == ()


def test_bins_that_overlap(calm):
    rows = [(0, "read", "nfs-server", "lab", "read", "dram", 1000 + n, 9000 + n, 50) for n in range(40)]
    of(pl.concat([calm, synthetic.table(rows)]))


def test_counts_beyond_64_bits(calm):
    huge = calm.with_columns(count=pl.lit((1 << 63) - 1))
    listed = findings(Latency.of(huge), synthetic.parsed(synthetic.manifest(calm)), synthetic.summary_of())
    assert listed == ()
    summary = synthetic.summarise(with_one(calm, 3, 400), synthetic.manifest(calm))
    listed = of(with_one(huge, 3, 400), synthetic.manifest(calm), summary)
    assert kinds(listed)[0] == "outlier"
