"""The buyer's sheet with a result of `hsp size`: what an L2ARC as large would answer of a server's load."""

import json

import pytest

from kit.core.errors import ConfigError
from kit.session.sheet import buyers_sheet
from reports.output import sheet_table
from reports.page import sheet_page
from tests.reports import candidates
from tests.reports.candidates import DRIVES, column, need

MIB = 1 << 20
NEED = 'today = "today"\nread_p99 = "400us"\n'
KEYS = ("sized_disk_reads", "sized_answered", "sized_read_mean")


def part(value, reach=0.02):
    return {"value": value, "low": value - reach, "high": value + reach}


def size(mib, gain, unknown=""):
    """Disks answer half of the reads now, DRAM the other half."""
    known = {"dram": part(0.5, 0), "l2arc": part(gain / 2), "answered": part(0.5 + gain / 2)}
    known["of_disk_reads_now"] = part(gain) if gain else None
    known = dict.fromkeys(known) if unknown else known
    return {"arc_bytes": 64 * MIB, "l2arc_bytes": mib * MIB, "unknown": unknown, **known}


def result(*sizes, **changes):
    """As `hsp size --json` prints it. The candidates' cache devices have 128 MiB."""
    return {
        "format": 1, "name": "my-server", "utc": "2026-11-20T10:00:00Z", "emulated": True, "known": True,
        "headline": "Not known: why.", "now": size(0, 0), "disk_reads_now": {"simulated": 0.5},
        "sample": {"one_in": 64.0, "blocks": 900, "blocks_bytes": 512 * MIB, "reads_counted": 98764,
                   "seconds": 3600.0},
        "read_latency": {"mean_us": 2600.0, "disk_mean_us": 5000.0, "disks": 0.5},
        "l2arc": list(sizes or (size(64, 0.2), size(128, 0.4), size(256, 0.7))),
        "notes": ["OpenZFS 2.3 is taken."], **changes,
    }  # fmt: skip


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    drives = {name: {**drive, "sums": True} for name, drive in DRIVES.items()}
    return candidates.series(tmp_path_factory.mktemp("sized"), drives, {})


@pytest.fixture
def sheet(paths, tmp_path):
    def make(value, text=NEED):
        (tmp_path / "size.json").write_text(json.dumps(value))
        return buyers_sheet([*paths, str(tmp_path / "size.json")], need(tmp_path, text))

    return make


def test_a_candidate_has_the_share_of_its_capacity(sheet):
    found = sheet(result())
    values = column(found, "datacentre").values
    assert values["sized_disk_reads"].text == "38 to 42 %"
    assert values["sized_answered"].text == "68.0 to 72.0 %"
    assert "98,764 reads of one in 64 blocks" in values["sized_disk_reads"].note
    assert "2026-11-20" in values["sized_disk_reads"].note and "1 h" in values["sized_disk_reads"].note
    assert any("my-server" in note for note in found.notes)
    assert any(note == "hsp size: OpenZFS 2.3 is taken." for note in found.notes)
    [said] = [each for each in column(found, "datacentre").reasons if "my-server" in each]
    assert "would answer 38 to 42 % of the reads that disks answer now" in said


def test_the_mean_read_has_the_drives_time_instead_of_the_disks(sheet):
    """40 % of half of the reads take 0.11 ms instead of 5 ms: 2.6 - 0.2 * 4.89 = 1.62 ms."""
    values = column(sheet(result()), "datacentre").values["sized_read_mean"]
    low, high = values.range
    assert low < 2600 - 0.2 * (5000 - 110) < high < low + 2 * 0.02 * 0.5 * 5000 + 10
    assert values.text.endswith("instead of 2.6 ms") and "if reads that move" in values.note


def test_between_two_sizes_the_range_has_both(sheet):
    value = column(sheet(result(size(100, 0.2), size(200, 0.5))), "slc").values["sized_disk_reads"]
    assert value.range == pytest.approx((0.18, 0.52))


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((size(64, 0.2),), "add --l2arc"),
        ((size(200, 0.2),), "add --l2arc"),
        ((size(64, 0.2), size(256, 0, "the sample has asked for only 99 MiB")), "asked for only 99 MiB"),
        ((size(64, 0.2), size(128, 0, "it is not filled")), "it is not filled"),
    ],
)
def test_a_size_that_the_sample_does_not_know_is_not_known(sheet, sizes, said):
    found = sheet(result(*sizes))
    value = column(found, "datacentre").values["sized_disk_reads"]
    assert value.text == "not known" and said in value.note and "my-server" in value.note
    assert not any("my-server" in each for each in column(found, "datacentre").reasons)


def test_a_result_without_an_answer_says_nothing(sheet):
    value = column(sheet(result(known=False)), "datacentre").values["sized_disk_reads"]
    assert value.text == "not known" and "Not known: why." in value.note


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"read_latency": None}, "does not know the latencies"),
        ({"emulated": False}, "emulated drives say nothing"),
        ({"now": size(32, 0)}, "has an L2ARC now"),
    ],
)
def test_a_mean_that_would_be_a_guess_is_not_known(sheet, changes, said):
    values = column(sheet(result(**changes)), "datacentre").values
    assert values["sized_read_mean"].text == "not known" and said in values["sized_read_mean"].note
    assert values["sized_disk_reads"].text == "38 to 42 %"


def test_without_evidence_there_is_no_line_and_a_need_of_it_is_not_known(paths, tmp_path):
    found = buyers_sheet(paths, need(tmp_path, NEED))
    assert not {line.key for line in found.lines} & {*KEYS}
    asked = buyers_sheet(paths, need(tmp_path, NEED + "disk_reads_answered_min = 0.3\n"))
    value = column(asked, "datacentre").values["sized_disk_reads"]
    assert value.met is None and value.note == "no result of hsp size was named"
    assert column(asked, "datacentre").decision == "cannot-tell"


@pytest.mark.parametrize(("least", "met"), [(0.3, True), (0.4, None), (0.5, False)])
def test_a_need_is_judged_by_the_whole_range(sheet, least, met):
    found = sheet(result(), f"{NEED}disk_reads_answered_min = {least}\n")
    assert column(found, "datacentre").values["sized_disk_reads"].met is met
    assert (column(found, "datacentre").decision == "not-met") == (met is False)


def test_text_and_page_have_it(sheet):
    found = sheet(result(name="<b>x</b>\x1b[31m", notes=["<script>1</script>"]))
    text = "\n".join(sheet_table.plain(found, 120))
    assert "38 to 42 %" in text and "\x1b" not in text
    page = sheet_page.render(found)
    assert "38 to 42" in page.replace("\xa0", " ") and "<b>x" not in page and "<script>1" not in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"l2arc": [{"arc_bytes": 1}]}, "l2arc[0]"),
        ({"l2arc": [{**size(128, 0.4), "of_disk_reads_now": {**part(0.4), "low": 0.9}}]}, "not between"),
        ({"l2arc": [{**size(128, 0.4), "unknown": "both"}]}, "not the reason"),
        ({"l2arc": [{**size(128, 0.4), "l2arc_bytes": -1}]}, "l2arc_bytes"),
        ({"read_latency": {"mean_us": 1e300, "disk_mean_us": 1.0, "disks": 0.5}}, "mean_us"),
        ({"name": "x" * 20_000}, "name"), ({"notes": ["x" * 20_000]}, "notes[0]"),
        ({"sample": 3}, "sample"), ({"known": "yes"}, "known"), ({"format": 2}, "format 2"),
    ],
)  # fmt: skip
def test_a_damaged_result_is_refused(sheet, change, said):
    with pytest.raises(ConfigError) as error:
        sheet(result() | change)
    assert said in error.value.message and "size.json" in error.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "forces": 3}', "[" * 99999])
def test_a_file_of_something_else_is_refused(paths, tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ConfigError, match=r"a\.json"):
        buyers_sheet([*paths, str(tmp_path / "a.json")], need(tmp_path, NEED))


def test_two_results_are_refused(paths, tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(result()))
    with pytest.raises(ConfigError, match="another result of `hsp size`"):
        buyers_sheet([*paths, *(str(tmp_path / name) for name in ("a.json", "b.json"))], need(tmp_path, NEED))


def test_a_drive_without_an_l2arc_has_no_share(tmp_path):
    name = candidates.run(tmp_path, 70, "log-only", DRIVES["datacentre"])
    path = tmp_path / name / "manifest.json"
    manifest = json.loads(path.read_text())
    devices = manifest["testbed"]["devices"]
    manifest["testbed"]["devices"] = [each for each in devices if each["role"] == "log"]
    path.write_text(json.dumps(manifest))
    (tmp_path / "size.json").write_text(json.dumps(result()))
    text = 'budget = "600 EUR"\ndisk_reads_answered_min = 0.3\n'
    found = buyers_sheet([str(tmp_path / name), str(tmp_path / "size.json")], need(tmp_path, text))
    assert found.candidates[0].values["sized_disk_reads"].text == "-"
    # What is needed of an L2ARC is not asked of it.
    assert found.candidates[0].decision == "buy"
