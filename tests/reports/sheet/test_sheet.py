"""The buyer's sheet of candidates whose truth is known, and of runs that strangers could send."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from kit.core.text import NO_BREAK
from kit.session.sheet import buyers_sheet
from kit.store.json_file import write_json
from reports.output import sheet_table
from reports.page import sheet_page
from tests.reports import candidates, slog, synthetic
from tests.reports.candidates import DRIVES, FRESH, NEED, column, need, several

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sheet")
    return folder, candidates.series(folder)


@pytest.fixture(scope="module")
def sheet(made):
    folder, paths = made
    return buyers_sheet(paths, need(folder))


def one(folder, text, drive=None, **changes):
    """The column of a run alone; `drive`: what is other than of the datacentre's."""
    name = candidates.run(folder, 50, "drive", {**DRIVES["datacentre"], **(drive or {})}, **changes)
    return buyers_sheet([str(folder / name)], need(folder, text)).candidates[0]


def test_three_drives_have_three_sentences_by_their_truth(sheet):
    found = {each.name: each.decision for each in sheet.candidates}
    assert found == {"today": "today", "consumer": "too-slow", "datacentre": "buy", "slc": "no-change"}
    assert sheet.choice == "datacentre" == sheet.candidates[0].name
    assert sheet.advice.startswith("Buy datacentre (TLC with capacitors): it meets all 6 needs")
    consumer = column(sheet, "consumer")
    # The p99 of a lognormal of sigma 0.04 is 1.098 times its median.
    assert consumer.factor == pytest.approx(1100 * 1.098 / 300, rel=0.03)
    assert consumer.sentence.startswith("4.03 times too slow: p99 of synchronous writes is 1.2")
    today = "This is what you have today. It meets 5 of 6 needs; 1 not known."
    assert column(sheet, "today").sentence == today
    assert column(sheet, "slc").reasons[-1] == "It meets all 6 needs."


def test_values_are_those_of_the_runs(sheet):
    values = column(sheet, "datacentre").values
    assert values["write_p50"].value == pytest.approx(60, rel=0.02)
    assert values["write_change"].value == pytest.approx(160 / 60, rel=0.02)
    assert values["reads_answered"].value == 0.5
    # Each byte of a client is two on the device: 400 GB a day; rated for 1 PB.
    assert values["log_per_day"].value == pytest.approx(400e9)
    assert values["log_years"].value == pytest.approx(1e15 / 400e9 / 365.25)
    assert values["price"].value == 180
    assert values["log_per_gb"].value == pytest.approx(90 / (64 * 2**20 / 1e9))
    assert values["alone_write_p50"].value == pytest.approx(
        48, rel=0.03
    )  # of the last point, not of the first
    assert values["log_per_1000"].value == pytest.approx(90 * 48 / 1e3, rel=0.03)
    assert values["log_disks"].value == pytest.approx(candidates.POOL_US / 60, rel=0.02)
    assert values["log_per_us"].value == pytest.approx(90 / (1.098 * (candidates.POOL_US - 60)), rel=0.03)
    bound = "in 10 power losses, so fewer than 25.9 % of such lose data (95 % confidence)"
    assert values["power_loss"].text.endswith(bound)
    assert values["power_loss"].note.startswith("fewer than 25.9 % with 95 % confidence, if no power loss ")


def test_without_power_losses_it_cannot_be_told(made):
    folder, paths = made
    sheet = buyers_sheet(paths[:1], need(folder))
    found = column(sheet, "datacentre")
    assert found.decision == "cannot-tell" and "survives power loss: not tested" in found.sentence
    assert sheet.choice is None
    assert 'the need "survives power loss" is not known of datacentre, slc' in sheet.advice


def test_a_drive_that_loses_writes_is_not_bought(tmp_path):
    paths = candidates.series(tmp_path, cuts={"datacentre": 7})
    found = column(buyers_sheet(paths, need(tmp_path)), "datacentre")
    assert found.decision == "not-met"
    said = "Survives power loss: no: lost 70 of 1,000 records that were looked for"
    assert said in found.sentence


@pytest.mark.parametrize("what", ["torn", "old", "foreign", "gone"])
def test_no_class_of_damage_is_bought(tmp_path, what):
    paths = candidates.series(tmp_path, cuts={"datacentre": candidates.power_loss(1, what=what)})
    found = column(buyers_sheet(paths, need(tmp_path)), "datacentre")
    assert found.decision == "not-met" and "no: lost 10 of 1,000 records" in found.sentence


@pytest.mark.parametrize(("lost", "decision", "words"), [
    (9, "buy", "none lost of 1,000 records that were looked for in 10"),
    (0, "cannot-tell", "power losses show nothing: The test has no teeth: the control"),
])  # fmt: skip
def test_power_losses_count_if_their_control_lost_data(tmp_path, lost, decision, words):
    control = candidates.power_loss(lost, 1)["moments"]
    told = candidates.power_loss(0, control_moments=control)
    found = column(
        buyers_sheet(candidates.series(tmp_path, cuts={"datacentre": told}), need(tmp_path)), "datacentre"
    )
    value = found.values["power_loss"]
    assert (found.decision, words in f"{value.text} {value.note}") == (decision, True), value


def test_without_today_the_pool_without_a_device_is_the_baseline(made):
    folder, paths = made
    sheet = buyers_sheet(paths, need(folder, 'sync_write_p99 = "300us"'))
    assert sheet.baseline == "the same pool without such a drive"
    assert {each.name: each.decision for each in sheet.candidates} == {
        "today": "buy", "consumer": "too-slow", "datacentre": "buy", "slc": "buy",
    }  # fmt: skip
    # Not all prices are known, so the fastest is advised.
    assert sheet.advice.startswith("Buy datacentre (TLC with capacitors), the one with the lowest p99")


@pytest.mark.parametrize(
    ("text", "changes", "decision", "said"),
    [
        ('budget = "100 USD"', {}, "cannot-tell", "the budget is in USD"),
        ('budget = "100 EUR"', {}, "not-met", "180.00 EUR, you need at most 100 EUR"),
        ('budget = "100 EUR"', {"price": None}, "cannot-tell", "no price"),
        ('budget = "100 EUR"', {"price": "nan EUR"}, "cannot-tell", "no price"),
        ('budget = "100 EUR"', {"price": "-1 EUR"}, "cannot-tell", "no price"),
        ('budget = "100 EUR"', {"price": "1e308 EUR"}, "cannot-tell", "no price"),
        # All day at the rate of the test is more than anybody wrote: that it wears out is not shown.
        ("years = 100", {"endurance_bytes": 10**6}, "cannot-tell", "went on all day"),
        ('years = 100\nwritten_per_day = "1000TB"', {}, "not-met", "you need at least 100"),
        ('log_size = "1TB"', {}, "not-met", "67.11 MB, you need at least 1 TB"),
        ('cache_size = "100MB"', {}, "buy", "what you need"),
        ("reads_answered_min = 0.9", {}, "not-met", "50.0 %, you need at least 90 %"),
    ],
)
def test_lines_that_exclude_or_are_not_known(tmp_path, text, changes, decision, said):
    found = one(tmp_path, text, changes)
    assert (found.decision, said in f"{found.sentence} {found.reasons}") == (decision, True), found.sentence


def test_an_unknown_run_is_not_judged(tmp_path):
    found = one(tmp_path, 'sync_write_p99 = "1us"', problems=synthetic.problems("the clocks differ"))
    assert found.decision == "cannot-tell" and "the clocks differ" in found.sentence


def test_no_i_o_at_all_and_too_few_for_p99(tmp_path, monkeypatch):
    monkeypatch.setattr(candidates, "IOS", 50)
    found = one(tmp_path, 'sync_write_p99 = "300us"')
    assert found.decision == "cannot-tell" and "p99 needs" in found.sentence


def test_a_limit_inside_of_what_is_known_is_not_judged(tmp_path):
    found = one(tmp_path, 'sync_write_p99 = "66us"')
    low, high = found.values["write_p99"].range
    assert low < 66 < high and found.decision == "cannot-tell"


def test_a_zero_rate_wears_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(candidates, "use", lambda name, start, writes: [])
    assert one(tmp_path, "years = 5").decision == "cannot-tell"
    monkeypatch.setattr(candidates, "use", lambda name, start, writes: USE(name, start, 0))
    assert one(tmp_path / "more", "years = 5").values["log_years"].text == "more than 1,000"
    # What clients wrote went elsewhere.
    found = one(tmp_path / "load", 'years = 5\nwritten_per_day = "1GB"')
    assert found.decision == "cannot-tell" and "less than all" in found.values["log_years"].note


@pytest.mark.parametrize("reads", [0, 4000, 16_000])
def test_reads_of_a_phase_are_not_written(tmp_path, reads):
    """800 GB a day, each byte two on the device, rated for 2 PB: 3.42 years, however much is read beside."""
    text = 'years = 5\nwritten_per_day = "800GB"'
    found = one(tmp_path, text, {"reads": reads, "endurance_bytes": 2 * 10**15})
    assert found.values["log_years"].value == pytest.approx(3.42, abs=0.01)
    assert found.decision == "not-met", found.sentence


LIMIT, TODAY = 'sync_write_p99 = "900us"', 'today = "a"\nsync_write_p99 = "900us"'
EUR, USD = {"price": "45 EUR"}, {"price": "45 USD"}


@pytest.mark.parametrize(
    ("text", "drives", "advice"),
    [
        # Ties in price: the faster; where both are as fast, either.
        (LIMIT, {"a": {**EUR, "write": 160.0}, "b": {**EUR, "write": 60.0}},
         "Buy b (TLC), the one with the lowest p99 of synchronous writes of 2 that have all you need: a and "
         "b both cost 90.00 EUR. This is from 1 run of each"),
        (LIMIT, {"a": EUR, "b": EUR}, "cannot be told apart"),
        (LIMIT, {"a": {**EUR, "write": 60.0}, "b": {"price": "40 EUR"}}, "Buy b (TLC), the cheapest"),
        (LIMIT, {"a": EUR, "b": {**USD, "write": 60.3}}, "either of 2 that have all you need: their p99"),
        (LIMIT, {"a": EUR, "b": {**USD, "write": 110.0}}, "Buy a (TLC), the one with the lowest p99"),
        # What decides is p99 where the medians are the same.
        (TODAY, {"a": {"tail": 7}, "b": {}}, "p99 of synchronous writes 6.37 times shorter"),
    ],
)  # fmt: skip
def test_which_of_several_to_buy(tmp_path, text, drives, advice):
    found = several(tmp_path, text, {}, **drives)
    assert advice in found.advice, found.advice


@pytest.mark.parametrize(
    ("text", "drive", "changes", "decision", "words"),
    [
        ('read_p99 = "400us"\ntoday = "a"', {"read": None}, {}, "cannot-tell", "no run has such a read"),
        ("budget = '900 EUR'", {}, {"length": "smoke"}, "buy", "a run of smoke length"),
        ('sync_write_p99 = "300us"', {}, {"precondition": FRESH}, "cannot-tell", "aged ones are slower"),
        ("budget = '900 EUR'", {}, {"precondition": FRESH}, "buy", "drives that were not aged"),
        # 65.9 us in one run.
        ('sync_write_p99 = "300us"', {}, {}, "buy", "From 1 run of each."),
        ('sync_write_p99 = "70us"', {}, {}, "cannot-tell", "a limit within 10 % of it is not judged"),
        ('sync_write_p99 = "62us"', {}, {}, "cannot-tell", "a limit within 10 % of it is not judged"),
        ('sync_write_p99 = "58us"', {}, {}, "too-slow", "From 1 run of each."),
        ("reads_answered_min = 0.49", {}, {}, "cannot-tell", "50.0 %"),
    ],
)  # fmt: skip
def test_what_a_sentence_rests_on(tmp_path, text, drive, changes, decision, words):
    drives = {"a": {}, "b": drive} if "today" in text else {"b": drive}
    found = column(several(tmp_path, text, changes, **drives), "b")
    assert (found.decision, words in f"{found.sentence} {found.reasons}") == (decision, True), found.sentence


@pytest.mark.parametrize(("writes", "limit", "decision"), [
    ((60, 61, 62), "90us", "buy"), ((60, 61, 62), "69us", "cannot-tell"),
    ((50, 60, 75), "90us", "cannot-tell"),
])  # fmt: skip
def test_of_three_runs_what_they_differ_in_decides(tmp_path, writes, limit, decision):
    names = [candidates.run(tmp_path, 60 + n, "a", {**DRIVES["datacentre"], "write": us})
             for n, us in enumerate(writes)]  # fmt: skip
    paths = [str(tmp_path / name) for name in names]
    (found,) = buyers_sheet(paths, need(tmp_path, f'sync_write_p99 = "{limit}"')).candidates
    assert found.decision == decision and "From " not in found.sentence
    assert "95 %, over 3 runs: " in found.values["write_p99"].note


@pytest.mark.parametrize(("asked", "decision"), [("", "cannot-tell"), ("power_losses_min = 1", "buy")])
def test_one_power_loss_shows_little(tmp_path, asked, decision):
    cuts = {"datacentre": candidates.power_loss(0, 1)}
    paths = candidates.series(tmp_path, {"datacentre": DRIVES["datacentre"]}, cuts)
    found = buyers_sheet(paths, need(tmp_path, f"survives_power_loss = true\n{asked}")).candidates[0]
    assert (
        found.decision == decision
        and "in 1 power loss, so fewer than 95.0 %" in found.values["power_loss"].text
    )


USE = candidates.use


def test_results_of_hsp_slog_are_evidence_and_no_proof(made):
    folder, paths = made
    test = slog.slog_test(
        "write through", lambda size: 20.0, lambda size: 0.0, emulated="TLC with capacitors"
    )
    sheet = buyers_sheet([paths[0], slog.write_run(folder / "slog", test)], need(folder))
    value = column(sheet, "datacentre").values["power_loss"]
    assert value.met is None and "Consistent with power-loss protection" in value.note
    assert "no run cut" in column(sheet, "consumer").values["power_loss"].note


@pytest.mark.parametrize(
    ("names", "text", "said"),
    [
        (["twice", "twice"], NEED, "are the same run"),
        (["series"], NEED.replace('"today"', '"mine"'), 'need.toml:3: today: no candidate is called "mine"'),
        (["nowhere"], NEED, "no such run directory"),
        (["file"], NEED, "format"),
    ],
)
def test_what_cannot_be_a_sheet_is_refused(made, tmp_path, names, text, said):
    paths = made[1]
    (tmp_path / "file").write_text('{"format": "x"}')
    known = {"series": paths[0], "twice": paths[1], "nowhere": "/nowhere", "file": str(tmp_path / "file")}
    with pytest.raises(ConfigError) as refused:
        buyers_sheet([known[name] for name in names], need(tmp_path, text))
    assert said in refused.value.message


def test_texts_of_strangers_are_inert(tmp_path):
    evil = "</td><script>alert(1)</script>\x1b[31m|`"
    paths = candidates.series(tmp_path, {**DRIVES, "slc": {**DRIVES["slc"], "model": evil}}, {}, title=evil)
    sheet = buyers_sheet(paths, need(tmp_path))
    page, text = sheet_page.render(sheet), "\n".join(sheet_table.plain(sheet, 80))
    assert "<script>alert" not in page and "\x1b" not in page + text + sheet_table.markdown(sheet)
    assert all(part not in sheet_table.markdown(sheet) for part in ("<script>", "|`"))


def test_the_page_has_the_sentences(sheet):
    page = sheet_page.render(sheet).replace(NO_BREAK, " ")
    assert sheet.advice in page and all(each.sentence in page for each in sheet.candidates)


def test_the_command_prints_and_ends_with_its_code(made, hsp_here):
    folder, paths = made
    command = [sys.executable, "-m", "kit.cli", "sheet", *paths, "--need", str(need(folder))]
    root = Path(__file__).parents[3]
    ran = subprocess.run(
        [*command, "--json", "-o", str(folder / "sheet.html")], capture_output=True, cwd=root, check=False
    )
    assert ran.returncode == 0, ran.stderr
    printed = json.loads(ran.stdout)
    assert (printed["format"], printed["choice"]) == (1, "datacentre")
    assert all(set(each["values"]["price"]) == {"text", "value", "range", "met", "note"}
               for each in printed["candidates"])  # fmt: skip
    assert "Buy datacentre (TLC with capacitors)" in (folder / "sheet.html").read_text()
    told = hsp_here(*command[3:5], *command[-2:])
    assert told.returncode == 3, told.stderr  # without power losses


def test_results_of_hsp_slog_alone_are_candidates(tmp_path):
    """A drive that is too slow alone is too slow; one that is not, cannot be told."""
    for name, us in (("log-fast", 20.0), ("log-slow", 900.0)):
        test = slog.slog_test(
            "write back", lambda size: 10.0, lambda size, us=us: us, name=name, serial=f"S-{name}"
        )
        slog.write_run(tmp_path / name, test.model_copy(update={"run": name}))
    wanted = tmp_path / "need.toml"
    wanted.write_text('sync_write_p99 = "300us"\n')
    runs = [str(tmp_path / f"log-{name}") for name in ("fast", "slow")]
    sheet = buyers_sheet(runs, wanted)
    found = {each.name: each for each in sheet.candidates}
    assert found["slow"].decision == "too-slow" and "on the drive alone" in found["slow"].sentence
    assert found["fast"].decision == "cannot-tell" and sheet.choice is None
    alone = found["fast"].values["alone_write_p99"]
    assert alone.value == pytest.approx(30, rel=0.04) and "as found, not aged" in alone.note
    # Two presets in the lab have one name and no serial number.
    for preset in ("TLC", "SLC"):
        unlike = {"name": "log0", "serial": "", "emulated": preset}
        test = slog.slog_test("write back", lambda size: 10.0, lambda size: 20.0, **unlike)
        slog.write_run(tmp_path / preset, test.model_copy(update={"run": preset}))
    both = buyers_sheet([str(tmp_path / "TLC"), str(tmp_path / "SLC")], wanted)
    assert [each.name for each in both.candidates] == ["log0", "SLC (2)"]
    with pytest.raises(ConfigError, match="there are: fast, slow"):
        wanted.write_text('sync_write_p99 = "300us"\ntoday = "none"\n')
        buyers_sheet(runs, wanted)
    write_json(tmp_path / "printed.json", test.as_json())
    with pytest.raises(ConfigError, match="found what `hsp slog` prints") as refused:
        buyers_sheet([str(tmp_path / "printed.json")], wanted)
    assert "the run of `hsp slog`" in refused.value.hint
