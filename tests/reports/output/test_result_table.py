"""reports.output.result_table: what a person reads in the terminal."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from kit.core.text import encoded
from kit.store.summary import Summary
from reports.analysis.headline import headline
from reports.output.result_table import result_lines
from tests.reports import synthetic

Json = dict[str, Any]
DASH = "\N{EN DASH}"


def lines_of(
    manifest: Json | None = None, frame: pl.DataFrame | None = None, width: int = 80, *findings: str
) -> list[str]:
    """The lines of a run, the synthetic one if there is none."""
    frame = synthetic.latency() if frame is None else frame
    manifest = manifest or synthetic.manifest()
    summary = Summary.from_json(synthetic.summarise(frame, manifest), "summary")
    shown = headline(frame, synthetic.parsed(manifest), summary)
    return list(result_lines(summary, shown, width, findings))


def row_of(lines: list[str], name: str) -> str:
    """The one line of the table that begins with `name`."""
    (row,) = (line for line in lines if line.startswith(f" {name} "))
    return row


@pytest.mark.parametrize(("idle_s", "said"), [(6, False), (1, True)])
def test_a_phase_bound_by_cpu_is_said(idle_s: int, said: bool) -> None:
    manifest = synthetic.manifest()
    nothing = {"at_ns": 0, "idle_ns": 0, "user_ns": 0, "system_ns": 0, "softirq_ns": 0}
    times = {"idle_ns": idle_s * synthetic.SECOND, "user_ns": (12 - idle_s) * synthetic.SECOND}
    later = {**nothing, "at_ns": 12 * synthetic.SECOND, **times}
    manifest["phases"][0]["cpu"] = [{"host": "lab", "cpus": 1, "samples": [nothing, later]}]
    lines = [line for line in lines_of(manifest) if line.startswith("! ")]
    assert [line.startswith("! read was bound by CPU: lab was 92 % busy") for line in lines] == [True] * said


def test_a_valid_run() -> None:
    lines = lines_of(synthetic.manifest(), None, 80, "one write took 323 ms")
    assert lines[0] == "VALID  4,284 of 4,284 I/Os matched, 55/55 checks, emulated lab"
    assert lines[1].startswith("The SSDs answer in ")
    cells = re.split(r"  +", row_of(lines, "SSD cache (L2ARC)").strip())
    assert cells[:4] == ["SSD cache (L2ARC)", "141 µs", "145 µs", f"139{DASH}147 µs"]
    assert cells[4:] == [f"128{DASH}260 µs 100 %"]
    disks = [line for line in lines if line.startswith(" disk")]
    assert [re.findall(r"[0-9]+x .*$", line) for line in disks] == [["36x L2ARC"], ["36x SLOG"]]
    assert "published: Sun Storage 7410, 2009" in lines
    # What the first line says is not said again, and no warning stands unexplained.
    assert not [line for line in lines if line.startswith("- ")]
    assert lines[-1] == "! one write took 323 ms"


@pytest.mark.parametrize("width", [*range(36, 101, 4), 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Nor is a figure cut, or torn from its unit."""
    long = "random reads of a working set that is larger than the cache device and the memory together"
    manifest = synthetic.manifest()
    manifest["phases"][0]["title"] = long
    manifest["problems"] = ["the server rebooted while the working set was being written to the pool"]
    frame = synthetic.latency().with_columns(pl.col("tier").replace("disk", "indirect"))
    lines = lines_of(manifest, frame, width, "a finding that is longer than a narrow terminal is wide")
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert " ".join(text.split()).count(long) == 1
    for figure in ("141 µs", f"128{DASH}260 µs", "36x SLOG", "5.05 ms"):
        assert figure in text, figure


def test_many_phases() -> None:
    manifest, frames = synthetic.manifest(), []
    phase = manifest["phases"][0]
    manifest["phases"] = [{**phase, "name": f"p{n}", "title": f"phase {n}"} for n in range(60)]
    read = synthetic.latency().filter(pl.col("phase") == "read")
    frames = [read.with_columns(pl.lit(f"p{n}").alias("phase")) for n in range(60)]
    lines = lines_of(manifest, pl.concat(frames))
    assert [line for line in lines if line.startswith("phase ")] == [f"phase {n}" for n in range(60)]
    assert len([line for line in lines if line.startswith(" DRAM (ARC)")]) == 60


def test_too_few_io() -> None:
    frame = synthetic.latency(1).with_columns(pl.lit(1, pl.Int64).alias("count"))
    for width in (80, 40):
        assert "n too small" in "\n".join(lines_of(None, frame, width))


def test_no_io() -> None:
    lines = lines_of(None, synthetic.latency().clear())
    assert lines[:2] == ["UNKNOWN  4,284 of 4,284 I/Os matched, 43/54 checks, emulated lab", lines[1]]
    assert "cannot be trusted" in lines[1]
    assert not [line for line in lines if "p50" in line]


def test_what_does_not_close_is_said() -> None:
    manifest = synthetic.manifest()
    manifest["phases"][0]["server_ios"] += 5
    manifest["phases"][0]["checks"][0]["ok"] = False
    lines = lines_of(manifest)
    assert lines[0].startswith("UNKNOWN  4,289 I/Os at the server, 4,284 of the clients, 52/55 checks")
    assert any(line.startswith("- read: the clients issued") for line in lines)


def imported() -> tuple[Json, pl.DataFrame]:
    """Reads of three modes, of which no tier is known."""
    frame = synthetic.latency().filter(pl.col("layer") == "client", pl.col("phase") == "read")
    manifest = synthetic.manifest()
    manifest["phases"] = [manifest["phases"][0] | {"server_ios": 0, "checks": []}]
    return manifest | {"import": {"format": "fio-log"}, "expect": [], "reference": None}, frame


def test_an_import_has_its_bands() -> None:
    lines = lines_of(*imported())
    assert lines[0] == "UNKNOWN  2,316 I/Os, 7/7 checks"
    assert "- Imported: nothing says which tier answered, nor that all I/Os are here." in lines
    row = row_of(lines, "read")
    bands = [re.split(r"  +", line.strip()) for line in lines if line.startswith("  band ")]
    assert [band[0] for band in bands][::2] == ["band 1 (21 %)", "band 3 (3 %)", "band 5 (17 %)"]
    assert bands[3][1:] == ["660", f"160{DASH}168 µs"]
    assert "published" not in "".join(lines) and row.split()[1] == "2,316"


def test_the_clients_of_an_appliance() -> None:
    frame = synthetic.latency().filter(pl.col("layer") == "client")
    manifest = synthetic.manifest() | {"expect": []}
    manifest["appliance"] = {"export": "nas:/x", "not_seen": [], "not_done": [], "skipped": []}
    for phase in manifest["phases"]:
        phase |= {"server_ios": None, "lost_events": None, "expected_tiers": [], "tiers": []}
    lines = lines_of(manifest, frame)
    assert lines[0] == "UNKNOWN  4,284 I/Os, 41/41 checks, emulated lab"
    assert [line for line in lines if line.startswith("512 B")] == [
        "512 B read",
        "512 B write-slog",
        "512 B write-pool",
    ]
    assert len([line for line in lines if line.startswith("  band ")]) == 5


def test_shares_by_counters_and_what_was_not_judged() -> None:
    """The first line cannot say that a valid run has expectations that nobody could judge."""
    frame = synthetic.latency()
    manifest = synthetic.manifest(frame)
    for phase in manifest["phases"]:
        phase["shares"] = {"unit": "requests", "source": "x", "counts": {"dram": phase["client_ios"]}}
    manifest["tracing"] = {"kind": "none", "asked_for": True, "reason": "the testbed says so"}
    lines = lines_of(manifest, frame.filter(pl.col("layer") == "client"))
    assert lines[0].startswith("VALID")
    assert "read: 2,316 requests from DRAM (ARC), by counters" in lines
    assert "could not be judged: the server was not traced" in " ".join(" ".join(lines).split())


def test_without_utf8_a_microsecond_is_us() -> None:
    text = "\n".join(lines_of())
    for encoding in ("ascii", "latin-1", "cp437"):
        shown = encoded(text, encoding).decode(encoding)
        assert "141 us" in shown and "128-260 us" in shown and shown.isascii()
    assert encoded(text, "UTF-8").decode() == text == encoded(text, "utf8").decode()
