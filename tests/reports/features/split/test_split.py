"""Where the time of requests goes: shares, bounds for faster devices, and what is withheld."""

from __future__ import annotations

import pytest

from kit.store.parts.split import PhaseSplit, SplitPhase, SplitRow
from reports.features.split import judge as split
from reports.features.split import section as split_section
from tests.reports.synthetic import summary_of

MS = 1_000_000


def row(op: str, tier: str, ios: int, unjoined: int = 0, **parts: int) -> SplitRow:
    return SplitRow(op=op, tier=tier, ios=ios, unjoined=unjoined, sum_ns=sum(parts.values()), parts=parts)  # type: ignore[arg-type]


class Phase:
    def __init__(self, name: str, made: PhaseSplit | None) -> None:
        self.name, self.split = name, made


class Manifest:
    def __init__(self, *phases: Phase) -> None:
        self.phases = phases


def described(*rows: SplitRow, why: str = "", p50: float = 1.0) -> list[SplitPhase]:
    made = PhaseSplit(of="model", why=why, rows=rows)
    summary = summary_of(
        {"phase": name, "op": each.op, "tier": each.tier,
         "interpolated": {"p50": {"us": us, "bound_us": [us, us], "error_us": 0.0}}}
        for name, us in (("model", 100.0), ("why", 100.0 * p50))
        for each in rows
    )  # fmt: skip
    return split.describe(Manifest(Phase("model", None), Phase("why", made)), summary.rows)  # type: ignore[arg-type]


WRITES = row("write", "slog", 90, nfs=9 * MS, zil=9 * MS, log_wait=18 * MS, log_write=36 * MS, flush=18 * MS)
SHARED = row("write", "shared", 10, nfs=1 * MS, log_wait=9 * MS)


def test_shares_are_of_the_mean_request_and_parts_come_in_their_order() -> None:
    [tier] = described(WRITES)[0].tiers
    assert [part.part for part in tier.parts] == ["nfs", "zil", "log_wait", "log_write", "flush"]
    assert sum(part.share for part in tier.parts) == pytest.approx(1)
    assert tier.mean_us == pytest.approx(1000) and tier.parts[3].mean_us == pytest.approx(400)


def test_a_log_device_could_save_all_that_it_causes_of_its_own_writes_and_of_those_that_shared_blocks() -> (
    None
):
    [saving] = described(WRITES, SHARED)[0].savings
    assert saving.device == "log device"
    assert saving.own_share == pytest.approx(54 / 100)
    assert saving.share == saving.of_all == pytest.approx((81 + 9) / 100)
    assert saving.saved_us == pytest.approx(900) and saving.mean_us == pytest.approx(1000)


def test_each_tier_of_reads_has_its_device() -> None:
    reads = [
        row("read", "dram", 80, nfs=1 * MS, zfs=1 * MS),
        row("read", "l2arc", 10, nfs=1 * MS, read=6 * MS, verify=1 * MS),
        row("read", "disk", 10, nfs=2 * MS, read=88 * MS),
    ]
    found = {each.device: each for each in described(*reads)[0].savings}
    assert found["cache device"].share == found["cache device"].own_share == pytest.approx(6 / 8)
    assert found["pool disk"].of_all == pytest.approx(0.88)
    texts = list(split.sentences(described(*reads)))
    assert texts[0].endswith(" it saves at most 88.0 % of the time.")
    assert texts[2] == (
        "Reads wait for the cache device: a faster one saves at most 600 µs of the 800 µs of a read "
        "that waits for it (mean). Over all reads, those from other tiers too, it saves at most "
        "6.0 % of the time."
    )
    assert texts[3] == "why, cache device: at the server, without the wait for an nfsd thread."


def test_a_special_vdev_that_has_the_log_is_what_shared_writes_wait_for() -> None:
    on_special = WRITES.model_copy(update={"tier": "special"})
    reads = row("read", "special", 10, nfs=1 * MS, read=6 * MS, verify=1 * MS)
    found = {(each.op, each.device): each for each in described(on_special, SHARED, reads)[0].savings}
    assert {*found} == {("write", "special vdev"), ("read", "special vdev")}
    assert found["write", "special vdev"].share == pytest.approx((81 + 9) / 100)
    assert found["read", "special vdev"].own_share == pytest.approx(6 / 8)


# Of a request: 5 us of nfsd, software of the ZIL, the wait of its timer (a share of the last block's
# latency), the device. A device without any time leaves nfsd and software alone.
@pytest.mark.parametrize("device_us", [100, 800])
@pytest.mark.parametrize("timeout", [0.0, 0.05, 0.1])
@pytest.mark.parametrize("software_us", [0, 30, 300])
def test_what_a_device_without_any_time_saves_lies_between_both_shares(
    device_us: int, timeout: float, software_us: int
) -> None:
    waits = software_us + timeout * device_us
    parts = {"nfs": 5, "zil": waits, "log_write": device_us}
    [saving] = described(row("write", "slog", 1, **{k: int(v * 1000) for k, v in parts.items()}))[0].savings
    truth = 1 - (5 + software_us) / (5 + waits + device_us)
    assert saving.own_share is not None and saving.share is not None
    assert saving.own_share <= truth + 1e-9 and truth <= saving.share


def test_writes_without_a_log_device_wait_for_the_pool_and_its_throttle() -> None:
    [saving] = described(
        row("write", "pool", 9, nfs=MS, zfs=MS, log_write=8 * MS), row("write", "shared", 1, log_wait=MS)
    )[0].savings
    assert saving.device == "pool disk" and saving.share == pytest.approx(10 / 11)
    assert saving.own_share == pytest.approx(8 / 11)
    [text, rest] = split.sentences(described(row("write", "pool", 1, nfs=MS, zfs=MS, log_write=8 * MS)))
    assert text == (
        "Writes wait for the pool disk: a faster one saves at most 9 ms of the 10 ms of a write that waits "
        "for it (mean)."
    )
    assert "8 ms is its own time, the rest may shrink with it" in rest


def test_with_too_many_requests_that_could_not_be_followed_nothing_is_said() -> None:
    found = described(row("write", "slog", 100, unjoined=6, nfs=MS, log_write=MS, unknown=MS))
    [phase] = found
    assert phase.tiers[0].parts == () and phase.savings[0].share is None
    text = " ".join(split.sentences(found))
    assert "not known" in text and "only 94.0 % of 100 requests could be followed" in text
    assert split_section.bars([phase], {}) is None


def test_probes_that_cost_much_are_pointed_out() -> None:
    said = " ".join(split.sentences(described(WRITES, p50=1.12)))
    assert "was 12 % longer than in model, by the probes of the split or by its moment" in said
    assert "longer" not in " ".join(split.sentences(described(WRITES, p50=1.05)))


def test_a_phase_that_was_not_split_says_why() -> None:
    [text] = split.sentences(described(why="server has bpftrace 0.17.0; this needs 0.23 or later"))
    assert text == (
        "why: where the time goes was not measured: server has bpftrace 0.17.0; this needs 0.23 or later."
    )


def test_the_figure_has_a_bar_a_tier_whose_parts_make_one() -> None:
    figure = split_section.bars(described(WRITES, SHARED), {"model": "O_DSYNC writes"})
    assert figure is not None
    totals = [sum(column) for column in zip(*(trace["x"] for trace in figure.data), strict=True)]
    assert totals == pytest.approx([1, 1])
    assert figure.data[0]["name"] == "NFS server" and len(figure.data) == 5
    # The first tier is the upper bar, and its words are above it.
    upper = figure.layout["annotations"][-1]
    assert figure.data[0]["x"][-1] == pytest.approx(0.1) and "1 ms" in upper["text"] and upper["y"] > 1
    assert upper["text"].endswith("<br>O_DSYNC writes (why)")
    assert len(figure.csv) == 1 + 5 + 2
