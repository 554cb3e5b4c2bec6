"""fio's plain JSON: what is known of each I/O is true of the I/Os that the percentiles were made of."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.errors import ConfigError
from kit.importers.format_detection import Imported, detect
from kit.importers.source import Source
from kit.load import fio_bins
from tests.kit.importers.samples import DATA, SUMMARIES, imported, put

# fio's own list (options.c), and one of a user's.
LISTS = (
    (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99),
    (50, 99.9, 100),
    (0.1,),
)
GOLDEN = SUMMARIES / "fio-plain.json"


def rows(run: Imported) -> list[tuple[int, int, int]]:
    return run.frame.select("lo_ns", "hi_ns", "count").sort("lo_ns", "hi_ns").rows()


def midpoint(latency_ns: int) -> int:
    return fio_bins.midpoint(fio_bins.index_of(latency_ns))


def printed(latencies_ns: list[int], percentiles: tuple[float, ...] = LISTS[0]) -> dict[str, Any]:
    """What fio prints of them: calc_clat_percentiles() of stat.c, with the sum compared exactly."""
    ordered, ios = sorted(latencies_ns), len(latencies_ns)
    shares = [Fraction(each) / 100 * ios for each in percentiles]
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": sum(ordered) / ios,
        "N": ios,
        "percentile": {
            f"{each:.6f}": midpoint(next(v for upto, v in enumerate(ordered, 1) if upto >= share))
            for each, share in zip(percentiles, shares, strict=True)
        },
    }


def document(**parts: Any) -> str:
    job = {op: {"total_ios": part["N"], "clat_ns": part} for op, part in parts.items()}
    return json.dumps({"jobs": [{"jobname": "j", "job_runtime": 5, **job}]}, indent=2)


def is_true_of(found: list[tuple[int, int, int]], latencies_ns: list[int]) -> None:
    """Each I/O, by its rank, is in the bounds of that rank, or no farther off than one of fio's bins."""
    ranked = [bounds for *bounds, count in found for _ in range(count)]
    assert len(ranked) == len(latencies_ns)
    for (low, high), latency_ns in zip(ranked, sorted(latencies_ns), strict=True):
        index = fio_bins.index_of(latency_ns)
        own_low, own_high = (int(fio_bins.lower_edge(n)) for n in (index, index + 1))
        assert low <= own_high and own_low <= high, (low, latency_ns, high)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 300), st.integers(0, 10**9)), min_size=1, max_size=400),
    st.sampled_from(LISTS),
)
def test_what_is_said_of_each_io_is_true(latencies_ns: list[int], percentiles: tuple[float, ...]) -> None:
    part = printed(latencies_ns, percentiles)
    with tempfile.TemporaryDirectory() as folder:
        run = imported(put(Path(folder), document(read=part), "j.json"))
    found = rows(run)
    is_true_of(found, latencies_ns)
    assert (found[0][0], found[-1][1]) == (part["min"], part["max"] + 1)
    # Where fio printed a value, its bin is the bound of that I/O, inside of least and largest.
    for key, value in part["percentile"].items():
        rank = math.ceil(Fraction(float(key)) * len(latencies_ns) / 100)
        low, high = [bounds for *bounds, count in found for _ in range(count)][rank - 1]
        assert low <= min(max(value, part["min"]), part["max"]) < high
        assert high - low <= max(1, value / 32)
    for each in run.phase["sums"]:
        assert abs(each["sum_ns"] - sum(latencies_ns)) <= 1


def test_the_file_of_fio_itself_is_shown_with_its_figures() -> None:
    assert detect(Source(GOLDEN)).name == "fio-percentiles"
    run, (job,) = imported(GOLDEN), json.loads(GOLDEN.read_text())["jobs"]
    assert run.frame["phase"].unique(maintain_order=True).to_list() == ["j read", "j write"]
    for op in ("read", "write"):
        timed = job[op]["clat_ns"]
        found = run.frame.filter(op=op)
        assert found["count"].sum() == timed["N"] == job[op]["total_ios"]
        assert (found["lo_ns"].min(), found["hi_ns"].max()) == (timed["min"], timed["max"] + 1)
        narrow = found.filter(found["hi_ns"] - found["lo_ns"] <= found["lo_ns"] // 32)
        held = [(low, high) for low, high in narrow.select("lo_ns", "hi_ns").rows()]
        for value in timed["percentile"].values():
            assert any(low <= min(value, timed["max"]) < high for low, high in held)
        assert [each["sum_ns"] for each in run.phases[op == "write"]["sums"]] == [
            round(timed["mean"] * timed["N"])
        ]
    assert any("percentiles and no bins" in each for each in run.section["warnings"])


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_of_one_run_of_fio_the_percentiles_say_what_the_bins_say(tmp_path: Path) -> None:
    """json+ has both: it is imported as such, and without its bins as what plain JSON is."""
    job = ["--name=j", "--filename=data", "--size=1m", "--bs=4k", "--rw=randrw", "--ioengine=psync"]
    command = ["fio", *job, "--number_ios=777", "--output-format=json+", "--output=out.json"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "data").unlink()
    path = tmp_path / "out.json"
    assert detect(Source(path)).name == "fio-json"
    stored = json.loads(path.read_text())
    held: dict[str, list[int]] = {}
    for op in ("read", "write"):
        bins = stored["jobs"][0][op]["clat_ns"].pop("bins")
        held[op] = [int(middle) for middle, count in bins.items() for _ in range(count)]
    for each in ("slat_ns", "lat_ns"):
        for op in ("read", "write", "trim", "sync"):
            stored["jobs"][0].get(op, {}).pop(each, None)
    stored["jobs"][0]["trim"].pop("clat_ns")
    path.write_text(json.dumps(stored, indent=2))
    run = imported(path)
    assert run.section["format"] == "fio-percentiles"
    for op, latencies_ns in held.items():
        frame = run.frame.filter(op=op).select("lo_ns", "hi_ns", "count").sort("lo_ns", "hi_ns")
        is_true_of(frame.rows(), latencies_ns)


GOOD = printed([1000, 2000, 3000, 90_000], (50, 99))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"percentile": {"50.000000": 1001}}, "percentile '50.000000' is '1001'"),
        ({"percentile": {"50.000000": -1000}}, "percentile '50.000000' is '-1000'"),
        ({"percentile": {"50.000000": "1000"}}, "percentile '50.000000'"),
        ({"percentile": {"half": midpoint(1000)}}, "percentile 'half'"),
        ({"percentile": {"101.000000": midpoint(1000)}}, "percentile '101.000000'"),
        ({"percentile": {"50.000000": midpoint(9000), "99.000000": 1004}}, "percentile '99.000000'"),
        ({"percentile": {"98.000000": 1004, "99.000000": midpoint(9000)}}, "two percentiles are one I/O"),
        ({"percentile": ["50.000000"]}, "percentile ''"),
        ({"N": 0}, "N, min and max are 0, 1000 and 90000"),
        ({"N": "4"}, "total_ios is '4'"),
        ({"min": 100_000}, "N, min and max are 4, 100000 and 90000"),
        ({"max": 10**20}, "N, min and max are"),
        ({"min": 80_000}, "a bin from"),
    ],
)  # fmt: skip
def test_what_does_not_add_up_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        imported(put(tmp_path, document(read=GOOD | changes), "j.json"), format="fio-percentiles")


def test_a_mean_that_cannot_be_is_not_used(tmp_path: Path) -> None:
    for mean in (5, 1e9, "x", -1, None):
        assert imported(put(tmp_path, document(read=GOOD | {"mean": mean}), "j.json")).phase["sums"] == []


def test_trims_and_ios_without_latency_are_counted_and_left_out(tmp_path: Path) -> None:
    text = document(read=GOOD, trim=GOOD).replace('"total_ios": 4', '"total_ios": 9', 1)
    (file,) = imported(put(tmp_path, text, "j.json")).section["files"]
    assert (file["rows_read"], file["rows_counted"]) == (13, 4)
    assert sorted(file["left_out"].values()) == [4, 5]


def test_a_job_without_percentiles_beside_others_is_refused(tmp_path: Path) -> None:
    text = document(read=GOOD, write={"N": 4, "min": 1, "max": 9, "mean": 4.0})
    with pytest.raises(ConfigError, match="job 'j', write: 4 I/Os but no bins"):
        imported(put(tmp_path, text, "j.json"))
    assert detect(Source(DATA / "plain.json")).name == "fio-json", "json+ has both, and its bins count"
