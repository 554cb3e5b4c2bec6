"""What a run says in one look, of every kind of run."""

from __future__ import annotations

import sys
from typing import Any

import polars as pl
import pytest

from kit.store.summary import Summary
from reports.analysis.headline import Headline, headline
from tests.reports import synthetic
from tests.reports.analysis.test_import_source import IOSTAT, manifest_of
from tests.reports.verdict.test_appliance import run as appliance_run

EMPTY = synthetic.latency()[:0]


def of(frame: pl.DataFrame, manifest: dict[str, Any]) -> Headline:
    summary = Summary.from_json(synthetic.summarise(frame, manifest), "summary.json")
    return headline(frame, synthetic.parsed(manifest), summary)


def row(phase: str, op: str, tier: str, p50_us: float | None, share: float = 0.3) -> dict[str, Any]:
    return {"phase": phase, "op": op, "tier": tier, "p50_us": p50_us, "share": share, "count": 100}


def sentence(*rows: dict[str, Any], **fields: Any) -> str:
    made = headline(EMPTY, synthetic.parsed(synthetic.manifest()), synthetic.summary_of(rows, **fields))
    return made.sentence


READS = row("read", "read", "l2arc", 178.0), row("read", "read", "disk", 5830.0)
WRITES = row("write-slog", "write", "slog", 158.0), row("write-pool", "write", "pool", 5960.0)


OF_READS = "reads: SSD cache (L2ARC) 178 µs, disk 5.83 ms, 33 times as long"
OF_WRITES = "writes: log SSD (SLOG) 158 µs, disk 5.96 ms, 38 times as long"


def test_both_ssd_tiers() -> None:
    assert sentence(*READS, *WRITES) == f"Median latency of {OF_READS}; of {OF_WRITES}."
    frame, manifest = synthetic.latency(), synthetic.manifest()
    made = of(frame, manifest)
    assert made.sentence.startswith("Median latency of ") and made.sentence.endswith(" times as long.")
    assert made.emulated and [line.name for line in made.lines] == [
        "DRAM (ARC)", "SSD cache (L2ARC)", "disk", "log SSD (SLOG)", "disk"
    ]  # fmt: skip
    assert [line.times_of and line.times_of[0] for line in made.lines] == [None, None, "l2arc", None, "slog"]
    assert [line.inside for line in made.lines] == [1, 1, 1, 1, 1]
    assert made.measured == (
        "512 B read · 512 B write-slog · 512 B write-pool. NFSv3. Closed loop, 1 outstanding. "
        "Latency at the NFS server."
    )
    total = synthetic.latency().filter(pl.col("layer") == "client")["count"].sum()
    assert made.evidence == (
        f"Complete: {total:,} of {total:,} I/Os matched. 85 of 85 checks hold, 10 of 10 expectations among "
        "them.",
    )


def test_one_ssd_tier() -> None:
    assert sentence(*READS) == f"Median latency of {OF_READS}."
    assert sentence(*WRITES) == f"Median latency of {OF_WRITES}."


@pytest.mark.parametrize(
    "change", [{"block_bytes": 131072}, {"outstanding": 4}, {"block_bytes": None}, {"outstanding": None}]
)
def test_phases_of_unlike_loads_are_not_compared(change: dict[str, Any]) -> None:
    manifest = synthetic.manifest()
    manifest["phases"][2] |= change
    summary = synthetic.summary_of([*READS, *WRITES])
    made = headline(EMPTY, synthetic.parsed(manifest), summary)
    assert made.sentence == f"Median latency of {OF_READS}."
    assert [line.times_of is not None for line in made.lines] == [False, True, False, False]


def test_no_ssd_tier() -> None:
    assert sentence(row("read", "read", "dram", 6.2), READS[1]) == (
        "Median latency: reads from DRAM (ARC) 6.2 µs, reads from disk 5.83 ms."
    )
    assert sentence(row("read", "read", "dram", None)) == "Too few I/Os for a median."


@pytest.mark.parametrize(
    ("ssd_us", "disk_us", "words"),
    [
        (10_000.0, 5000.0, "0.5 times as long"),
        (5000.0, 5000.0, "1 times as long"),
        (5000.0, 5100.0, "1 times as long"),
        (1000.0, 5250.0, "5.2 times as long"),
        (100.0, 996.0, "10 times as long"),
        (1.0, 123_456.0, "123,456 times as long"),
    ],
)
def test_an_ssd_slower_than_the_disk_is_not_called_faster(ssd_us: float, disk_us: float, words: str) -> None:
    output = sentence(row("read", "read", "l2arc", ssd_us), row("read", "read", "disk", disk_us))
    assert output.endswith(f", {words}.")


def test_one_ssd_faster_and_one_slower() -> None:
    slow = row("write-slog", "write", "slog", 11_920.0)
    assert sentence(*READS, slow, WRITES[1]).endswith(
        "log SSD (SLOG) 11.9 ms, disk 5.96 ms, 0.5 times as long."
    )


def test_a_tier_is_compared_within_its_phase_where_it_can_be() -> None:
    later = row("read-2", "read", "l2arc", 583.0), row("read-2", "read", "disk", 5830.0)
    assert sentence(*READS, *later) == (
        "Median latency of reads (512 B read): SSD cache (L2ARC) 178 µs, disk 5.83 ms, 33 times as long; "
        "of reads (read-2): SSD cache (L2ARC) 583 µs, disk 5.83 ms, 10 times as long."
    )


def test_a_tier_without_a_median_has_no_ratio() -> None:
    assert "times" not in sentence(row("read", "read", "l2arc", None), READS[1])
    assert "times" not in sentence(READS[0], row("read", "read", "disk", None))


def test_no_io_and_nothing_to_trust() -> None:
    assert sentence() == "No I/O was measured."
    assert sentence(*READS, verdict="unknown") == "The numbers of this run cannot be trusted."
    # An import is unknown by nature: its numbers are what they are.
    assert "times as long" in sentence(*READS, verdict="unknown", by_nature="an import")
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["problems"] = synthetic.problems("the server rebooted")
    made = of(frame, manifest)
    assert made.sentence == "Unknown: the server rebooted"
    assert "the server rebooted" not in made.evidence


def test_a_limit_that_fails_leaves_the_measurement_complete() -> None:
    frame, manifest = synthetic.latency(), synthetic.manifest()
    wish = {"phase": "write-slog", "op": "write", "tier": "slog", "min_count": 1, "inside": False}
    made = of(frame, manifest | {"expect": [wish | {"p50_us_max": 1.0}]})
    assert made.sentence.startswith("Failed: ")
    assert made.evidence[-1].startswith("The measurement is complete: ")
    assert made.evidence[-1].endswith("76 of 77 checks hold, 1 of 2 expectations among them.")
    # Beside something that is not known it is not said.
    manifest["problems"] = synthetic.problems("the server rebooted")
    made = of(frame, manifest | {"expect": [wish | {"p50_us_max": 1.0}]})
    assert not [text for text in made.evidence if "complete" in text]


def test_an_empty_run() -> None:
    frame, manifest = synthetic.latency(), synthetic.manifest()
    for phase in manifest["phases"]:
        phase |= {"client_ios": 0, "server_ios": 0}
    made = of(frame[:0], manifest)
    assert made.lines == () and made.sentence in ("No I/O was measured.",)


def test_an_import_names_its_bands() -> None:
    frame = synthetic.realistic().filter((pl.col("layer") == "nfs-server") & (pl.col("phase") == "read"))
    frame = frame.with_columns(
        pl.lit("client").alias("layer"), pl.lit("all").alias("tier"), pl.lit("import").alias("phase")
    )
    made = of(frame, manifest_of(frame, "fio-log"))
    assert made.sentence.startswith("Reads have 3 bands of latency: ") and made.sentence.count("%") == 4
    assert not made.emulated and made.measured.startswith("Imported fio latency logs; latency: ")


@pytest.mark.parametrize(("slow", "named"), [(1, " (h3)"), (2, ""), (0, None)])
def test_the_band_of_one_client_has_its_name(slow: int, named: str | None) -> None:
    """Four clients; a band of two of them is nobody's."""
    rows = [
        (at * synthetic.SECOND, "import", "client", f"h{n}", "read", "all", low, low + 4096, 100)
        for at in range(30)
        for n in range(4)
        for low in (700_416 if n > 3 - slow else 159_744,)
    ]
    frame = synthetic.table(rows)
    bars = [bar.name for bar in of(frame, manifest_of(frame, "fio-log")).bars]
    assert bars == (["all tiers"] if named is None else ["band 1 of 2", f"band 2 of 2{named}"])


def test_an_import_that_became_slower_names_the_step() -> None:
    rows = [
        (at * synthetic.SECOND, "import", "client", "h", "read", "all", lo, lo + 4096, 100)
        for at in range(90)
        for lo in (159_744 if at < 60 else 237_568,)
    ]
    frame = synthetic.table(rows)
    made = of(frame, manifest_of(frame, "fio-log"))
    assert made.sentence == "The p50 of the reads rose from 162 µs to 240 µs at 60 s."
    assert len(made.bars) == 1
    # At the same times they are bands.
    both = synthetic.table(
        [(at * synthetic.SECOND, *row[1:]) for row in rows for at in range(row[6] > 2 * 10**5, 90, 2)]
    )
    assert of(both, manifest_of(both, "fio-log")).sentence.startswith("Reads have 2 bands of latency: ")


def test_an_import_without_bands() -> None:
    made = of(IOSTAT, manifest_of(IOSTAT, "zpool-iostat"))
    assert made.sentence == "Median latency: reads 131 to 262 µs."


def test_an_appliance() -> None:
    frame, manifest = appliance_run()
    made = of(frame, manifest)
    # Rows of one name are told apart.
    assert made.sentence == (
        "Median latency: reads 26.7 µs, writes (512 B write-slog) 162 µs, writes (512 B write-pool) 5.07 ms."
    )
    assert made.measured.endswith("Latency at the clients.")
    assert "could not be looked into" in made.evidence[0]
    frame = synthetic.realistic().filter(pl.col("layer") == "client")
    assert of(frame, manifest).sentence.startswith("Unknown: ")
    for phase in manifest["phases"]:
        total = int(frame.filter(pl.col("phase") == phase["name"])["count"].sum())
        phase |= {"checks": [], "clients": []}
        phase |= {"client_ios": total, "end_ns": phase["start_ns"] + 60 * synthetic.SECOND}
    assert of(frame, manifest).sentence.startswith("Reads have 3 bands of latency: ")


def test_many_rows_are_counted() -> None:
    rows = [row("read", "read", f"t{number}", 5.0) for number in range(7)]
    assert sentence(*rows) == (
        "Median latency: reads from t0 5 µs, reads from t1 5 µs, reads from t2 5 µs, "
        "reads from t3 5 µs and 3 more."
    )


def test_an_unexpected_tier_with_few_ios_is_not_listed() -> None:
    rows = [*READS, row("read", "read", "shared", 90.0, share=0.0009)]
    summary = synthetic.summary_of([{**r, "layer": "nfs-server"} for r in rows])
    listed = headline(EMPTY, synthetic.parsed(synthetic.manifest()), summary).lines
    assert [line.row.tier for line in listed] == ["l2arc", "disk"]


def test_ten_times_as_many_phases_take_about_ten_times_as_many_steps() -> None:
    def headline_of(count: int) -> tuple[Headline, int]:
        """Of so many phases, and the lines of Python that it runs."""
        names = [f"p{number}" for number in range(count)]
        manifest = synthetic.manifest()
        first = manifest["phases"][0]
        manifest["phases"] = [{**first, "name": name, "title": name} for name in names]
        published = {"reference": "sun-7410-2009", "range_us": [128, 260], "inside": True}
        rows = [
            {**row(name, "read", tier, us), "published": published}
            for name in names
            for tier, us in (("disk", 5830.0), ("dram", 6.0))
        ]
        frame = synthetic.latency().filter(pl.col("phase") == "read").drop("phase")
        frame = frame.join(pl.DataFrame({"phase": names}), how="cross").select(synthetic.latency().columns)
        summary, parsed = synthetic.summary_of(rows), synthetic.parsed(manifest)
        steps = 0

        def step(*_: object) -> object:
            nonlocal steps
            steps += 1
            return step

        before = sys.gettrace()
        sys.settrace(step)
        try:
            return headline(frame, parsed, summary), steps
        finally:
            sys.settrace(before)

    few, many = headline_of(30), headline_of(300)
    assert len(many[0].lines) == 600 and len(many[0].sentence) < 200 and len(many[0].measured) < 400
    # A hundred times, if each phase looked at all the others.
    assert many[1] < 15 * few[1], (few[1], many[1])
