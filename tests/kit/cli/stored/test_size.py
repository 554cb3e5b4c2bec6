"""`hsp size`: of a run that sampled keys, and of a list of keys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from kit.store.run_directory import RunDir
from kit.store.sheet import Sheet
from kit.store.tables import write_keys
from tests.reports import candidates
from tests.reports.size import loads

SECOND = 10**9
BLOCK = 8192
BLOCKS, READS = 40_000, 160_000


def keys_of(kind="uniform", blocks=BLOCKS, reads=READS, seed=1):
    return loads.keys(kind, blocks, reads, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys.csv"
    path.write_text("key,time_ns\n" + "".join(f"{key},{n * 10**6}\n" for n, key in enumerate(keys_of())))
    return str(path)


@pytest.fixture
def make_sampled(make_run):
    """A run whose phase `read` has sampled one in 8 blocks; `tier`: of each read, what answered it."""

    def make(tier="all", one_in=8, change=None, phase="read", **load):
        path = make_run("20261121T053000Z-ab12cd", change=change)
        drawn = keys_of(**load)
        hashed = np.random.default_rng(9).integers(0, 2**63, BLOCKS).astype(np.uint64)
        chosen = np.arange(BLOCKS) % one_in == 0
        kept = np.flatnonzero(chosen[drawn])
        tiers = tier if isinstance(tier, str) else tier(kept.size)
        write_keys(
            RunDir(Path(path)),
            pl.DataFrame(
                {"phase": phase, "dataset": "tank/bench", "time_ns": kept * 10**5, "key": hashed[drawn[kept]],
                 "op": "read", "tier": tiers, "block_bytes": BLOCK, "one_in": one_in}
            ),
        )  # fmt: skip
        return path

    return make


def sizes(result, which):
    return {each[f"{which}_bytes"] >> 20: each for each in result[which]}


def test_a_list_of_keys_has_a_curve(hsp, key_file):
    """Uniform reads of 312 MiB: each MiB answers the same share."""
    code, out, err = hsp(
        "size", key_file, "--arc-now", "64MiB", "--block", "8KiB", "--arc", "96MiB", "--arc", "128MiB",
        "--arc", "256MiB", "--json",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    found = sizes(result, "arc")
    assert found.keys() == {96, 128, 256}
    shares = [found[size]["answered"]["value"] for size in (96, 128, 256)]
    # The metadata of the blocks, and their headers, are in the ARC as well.
    assert all(size / 312.5 * 0.8 < share < size / 312.5 for size, share in zip(found, shares, strict=True))
    assert (shares[2] - shares[1]) / (shares[1] - shares[0]) == pytest.approx(4, rel=0.1)
    assert result["known"] and "reads that disks answer now" in result["headline"]


def test_text_markdown_and_page_have_the_headline(hsp, key_file, tmp_path):
    common = ("size", key_file, "--arc-now", "64MiB", "--block", "8KiB", "--arc", "64MiB", "--arc", "128MiB")
    outputs = [word for name in ("a.txt", "a.md", "a.html") for word in ("-o", str(tmp_path / name))]
    code, _, err = hsp(*common, *outputs)
    assert code == 0, err
    for name in ("a.txt", "a.md", "a.html"):
        assert "An ARC of 128 MiB would answer" in " ".join((tmp_path / name).read_text().split()), name


def test_sampled_and_whole_list_agree(hsp, key_file, monkeypatch):
    from kit.session.sizing import key_list

    common = ("size", key_file, "--arc-now", "64MiB", "--block", "8KiB", "--arc", "128MiB", "--json")
    whole = json.loads(hsp(*common)[1])
    monkeypatch.setattr(key_list, "MOST_ACCESSES", READS // 8 + 3000)
    part = json.loads(hsp(*common)[1])
    assert whole["sample"]["one_in"] == 1 and part["sample"]["one_in"] == 8
    of_whole, of_part = (each["arc"][0]["answered"] for each in (whole, part))
    assert of_part["low"] < of_whole["value"] < of_part["high"]
    assert of_part["high"] - of_part["low"] < 0.1


def test_too_short_a_sample_says_nothing(hsp, tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("".join(f"{n % 700}\n" for n in range(3000)))
    code, out, _ = hsp("size", str(path), "--arc-now", "1GiB", "--block", "8KiB", "--arc", "2GiB")
    assert code == 0 and "the caches that are there have all" in out
    path.write_text("".join(f"{n}\n" for n in range(3000)))
    code, out, _ = hsp("size", str(path), "--arc-now", "1GiB", "--block", "8KiB")
    assert code == 3 and out.startswith("Not known: the sample has asked for only 23.44 MiB")
    code, out, _ = hsp("size", str(path), "--arc-now", "1GiB", "--block", "8KiB", "--json")
    result = json.loads(out)
    assert code == 3 and not result["known"] and result["now"]["answered"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "does not say how large the ARC is"),
        (("--arc-now", "64"), "needs a unit"),
        (("--arc-now", "1MiB"), "OpenZFS has none below 64MiB"),
        (("--arc-now", "1GiB", "--l2arc", "9000PiB"), "unknown unit"),
        (("--arc-now", "1GiB", "--l2arc", "2000000TiB"), "more than any cache or vdev has"),
        (("--arc-now", "1GiB", "--special", "2000000TiB"), "more than any cache or vdev has"),
        (("--arc-now", "1GiB", "--special", "many"), "--special"),
        (("--arc-now", "1GiB", "--tunable", "zfs_special_class_metadata_reserve_pct=-1"), "not NAME=NUMBER"),
        (("--arc-now", "1GiB", "--zfs", "new"), "is not a version of OpenZFS"),
        (("--arc-now", "1GiB", "--tunable", "l2arc_write_max"), "not NAME=NUMBER"),
        (("--arc-now", "1GiB", "--tunable", "zfs_arc_max=1"), "not NAME=NUMBER"),
    ],
)
def test_wrong_options_are_refused(hsp, key_file, words, said):
    code, out, err = hsp("size", key_file, "--block", "8KiB", *words)
    assert code == 2 and said in " ".join(err.split()) and not out


def test_a_run_says_what_its_server_has(hsp, make_sampled):
    """zfs_arc_max, the version of OpenZFS and the sampled phase are of the run."""
    code, out, err = hsp("size", make_sampled(), "--arc", "128MiB", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["now"]["arc_bytes"] == 64 << 20 and result["sample"]["one_in"] == 8
    [found] = result["arc"]
    assert found["of_disk_reads_now"]["low"] > 0.15
    assert any("OpenZFS 2.3" in note for note in result["notes"])


def test_what_the_server_counted_widens_the_ranges(hsp, make_sampled):
    """Disks answered 70 % there, and about 80 % in the simulation."""
    tiers = lambda many: np.where(np.random.default_rng(2).random(many) < 0.75, "disk", "dram")  # noqa: E731
    result = json.loads(hsp("size", make_sampled(tiers), "--arc", "128MiB", "--json")[1])
    off = abs(result["disk_reads_now"]["simulated"] - result["disk_reads_now"]["measured"])
    assert 0.02 < off < 0.1
    answered = result["arc"][0]["answered"]
    assert answered["high"] - answered["low"] > 2 * off
    assert any("on the server" in note for note in result["notes"])


def test_a_server_that_is_not_as_simulated_gets_no_figure(hsp, make_sampled):
    code, out, _ = hsp("size", make_sampled("dram"), "--arc", "128MiB")
    assert code == 3 and out.startswith("Not known: with the caches of now, disks answer")


def test_a_run_without_keys_says_how_to_get_them(hsp, make_run):
    code, _, err = hsp("size", make_run("20261121T053000Z-ab12cd"))
    assert code == 2 and "no keys.parquet" in err and "`hsp observe HOST --keys 64`" in " ".join(err.split())


def test_a_phase_without_keys_is_refused(hsp, make_sampled):
    code, _, err = hsp("size", f"{make_sampled()}:write-slog")
    assert code == 2 and "keys were sampled in read" in " ".join(err.split())


def test_two_rates_of_one_phase_are_refused(hsp, make_sampled):
    path = make_sampled()
    frame = pl.read_parquet(Path(path) / "keys.parquet")
    half = pl.int_range(frame.height) < frame.height // 2
    write_keys(RunDir(Path(path)), frame.with_columns(one_in=pl.when(half).then(8).otherwise(16)))
    code, _, err = hsp("size", path)
    assert code == 2 and "at 2 rates, one in 8 to one in 16" in " ".join(err.split())


def test_a_rate_that_no_run_has_is_refused(hsp, make_sampled):
    path = make_sampled()
    frame = pl.read_parquet(Path(path) / "keys.parquet")
    write_keys(RunDir(Path(path)), frame.with_columns(one_in=pl.lit(1 << 40)))
    code, _, err = hsp("size", path)
    assert code == 2 and "one in 1099511627776 blocks" in " ".join(err.split())


def test_the_largest_that_can_be_stored_is_said_or_refused(hsp, make_sampled):
    """Numbers of a hostile run are no traceback: all of them are within what the result may have."""
    path = make_sampled()
    frame = pl.read_parquet(Path(path) / "keys.parquet")
    large = frame.with_columns(one_in=pl.lit(1 << 20), block_bytes=pl.lit(16 << 20))
    write_keys(RunDir(Path(path)), large)
    words = ("--arc-now", "200000TiB", "--tunable", "zfs_special_class_metadata_reserve_pct=99")
    code, out, err = hsp("size", path, *words, "--special", "260000TiB", "--json")
    assert code == 3, err
    assert json.loads(out)["special"][0]["small"] is None
    assert hsp("size", path, "--arc-now", "200000TiB")[0] == 3


def test_blocks_that_no_pool_has_are_refused(hsp, make_sampled):
    path = make_sampled()
    frame = pl.read_parquet(Path(path) / "keys.parquet")
    write_keys(RunDir(Path(path)), frame.with_columns(block_bytes=pl.lit(1 << 62)))
    code, _, err = hsp("size", path)
    assert code == 2 and "blocks above 16 MiB" in " ".join(err.split())


@pytest.fixture(scope="module")
def mixed_file(tmp_path_factory):
    """A quarter of the blocks has 4 KiB, the others 16."""
    path = tmp_path_factory.mktemp("keys") / "mixed.csv"
    rows = (f"{key},{4096 if key % 4 == 0 else 16384},{n * 10**6}\n" for n, key in enumerate(keys_of()))
    path.write_text("key,bytes,time_ns\n" + "".join(rows))
    return str(path)


def special(hsp, path, *words):
    code, out, err = hsp("size", path, "--arc-now", "64MiB", "--json", *words)
    assert code in (0, 3), err
    return code, json.loads(out)


def test_a_special_vdev_has_the_blocks_that_fit_beside_the_metadata(hsp, mixed_file):
    """10 000 blocks of 4 KiB are 39 MiB. A quarter of a special vdev stays for metadata."""
    code, result = special(hsp, mixed_file, "--special", "96MiB", "--special", "40MiB")
    assert code == 0
    none, some = result["special"]
    assert none["small"] is None and "may need" in none["unknown"]
    assert some["special_bytes"] == 96 << 20 and some["small"]["limit_bytes"] == 4096
    small = some["small"]
    assert small["room_bytes"]["value"] == pytest.approx(10_000 * 4096, rel=0.05)
    # Labels, and whole metaslabs of 16 MiB, are part of it.
    assert 0 <= small["vdev_bytes"]["value"] - small["room_bytes"]["value"] / 0.75 < 24 << 20
    assert small["of_disk_reads_now"]["low"] < 0.25 < small["of_disk_reads_now"]["high"]
    assert "A special vdev of 96 MiB would answer" in result["headline"]
    assert any("all its metadata, need room as well" in note for note in result["notes"])


def test_what_stays_for_metadata_is_a_tunable(hsp, mixed_file):
    words = ("--special", "96MiB", "--tunable", "zfs_special_class_metadata_reserve_pct=80")
    code, result = special(hsp, mixed_file, *words)
    assert code == 3 and result["special"][0]["small"] is None


def test_compressed_blocks_are_smaller_on_a_special_vdev(hsp, mixed_file):
    _, result = special(hsp, mixed_file, "--special", "1GiB", "--compressratio", "4")
    # 16 KiB of data are 4 KiB on the vdev: all blocks are small.
    [small] = result["small_blocks"]
    assert small["limit_bytes"] == 4096 and small["of_disk_reads_now"]["value"] == 1


def test_the_page_of_special_vdevs_has_their_curve(hsp, mixed_file, tmp_path):
    paths = [str(tmp_path / name) for name in ("a.html", "a.md", "a.txt")]
    words = [word for path in paths for word in ("-o", path)]
    code, _, err = hsp("size", mixed_file, "--arc-now", "64MiB", "--special", "96MiB", *words)
    assert code == 0, err
    page, *texts = (Path(path).read_text() for path in paths)
    assert "Disk reads answered by a special vdev" in page
    assert all("special_small_blocks" in text.replace("\\", "") for text in (page, *texts))


def test_a_server_with_special_vdevs_is_left_alone(hsp, make_sampled):
    tiers = lambda many: np.where(np.arange(many) % 5, "disk", "special")  # noqa: E731
    code, out, _ = hsp("size", make_sampled(tiers), "--special", "1TB")
    assert code == 3 and "special vdevs answer reads of this server now" in " ".join(out.split())


@pytest.mark.slow
def test_the_result_is_evidence_of_a_sheet(hsp, make_sampled, tmp_path):
    """The server counts what the simulation says, so its latencies are known, too."""
    tiers = lambda many: np.where(np.random.default_rng(2).random(many) < 0.8, "disk", "dram")  # noqa: E731
    path = tmp_path / "size.json"
    sizes = [word for mib in (64, 128, 256) for word in ("--l2arc", f"{mib}MiB")]
    code, _, err = hsp("size", make_sampled(tiers), *sizes, "-o", str(path))
    assert code == 0, err
    drives = {name: {**drive, "sums": True} for name, drive in candidates.DRIVES.items()}
    runs = candidates.series(tmp_path, drives, {})
    need = candidates.need(tmp_path, 'today = "today"\ndisk_reads_answered_min = 0.05\n')
    code, out, err = hsp("sheet", *runs, str(path), "--need", str(need), "--json")
    assert code in (0, 1, 3), err
    sheet = json.loads(out)
    values = candidates.column(Sheet.from_json(sheet, "sheet"), "datacentre").values
    said = next(each for each in json.loads(path.read_text())["l2arc"] if each["l2arc_bytes"] == 128 << 20)
    assert values["sized_disk_reads"].value == said["of_disk_reads_now"]["value"]
    assert said["of_disk_reads_now"]["low"] > 0.05 and values["sized_disk_reads"].met
    assert "one in 8 blocks" in values["sized_disk_reads"].note
    assert values["sized_read_mean"].range or "not known" in values["sized_read_mean"].text
