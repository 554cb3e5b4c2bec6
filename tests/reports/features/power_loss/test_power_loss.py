"""The verdict on power losses: one judge for the lab and for real hardware."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import reports
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.store.checks.outcome import Outcome
from kit.store.manifest import Manifest, PowerLoss
from kit.store.summary import Summary
from reports.features.power_loss import judge as power_loss
from reports.features.power_loss.section import bars, section
from reports.output.junit import junit
from tests.reports import synthetic

Json = dict[str, Any]
PROOF = [{"device": "log0", "counter": "unsafe_shutdowns", "before": 3, "after": 4}]
LOST = {"acknowledged": 50, "looked_at": 12, "lost": 9, "first_lost": 42, "first_worker": 0, "proof": PROOF}


def moment(**changes: Any) -> Json:
    known = {"looked_at": 3, "after_ns": 20_000_000, "written_bytes": 504 << 10}
    return {"at_ns": 1, "acknowledged": 10, "lost": 0, "proof": PROOF, **known, **changes}


def losses(*moments: Json, **changes: Any) -> PowerLoss:
    value = {
        "moments": list(moments), "scope": "device", "asked": len(moments), "control": "no-sync",
        "control_moments": [LOST], **changes,
    }  # fmt: skip
    return PowerLoss.from_json(value, "power_loss")


def ids(judged: power_loss.JudgedLosses) -> tuple[list[str], list[str]]:
    return [each.id for each in found(judged, "unknown")], [each.id for each in found(judged, "invalid")]


def found(judged: power_loss.JudgedLosses, makes: str) -> list[Outcome]:
    return [each for each in judged.outcomes if each.makes == makes]


def test_a_run_without_power_losses_says_nothing() -> None:
    assert power_loss.judge(None) == power_loss.JudgedLosses()


def test_everything_kept_and_what_twenty_power_losses_say() -> None:
    judged = power_loss.judge(losses(*[moment()] * 20))
    assert ids(judged) == ([], [])
    kept = "20 power losses lost none of 60 records looked for (200 acknowledged writes)"
    assert kept in judged.kept and judged.told and judged.told.looked_at == 60
    like = "each at most 20 ms after the first write, with at most 504 KiB written until then, 1 device, one "
    assert like + "session" in judged.kept
    assert "fewer than 13.9 %" in judged.kept
    assert "lost 9 of 12 records looked for (50 ack" in judged.kept
    assert judged.told and judged.told.proven == 20 and judged.told.control and judged.told.control.lost == 9
    bound = judged.told.bound
    assert bound and bound.as_json() == {"of": 20, "low": 0.0, "high": pytest.approx(0.1391, abs=1e-4)}


VERIFIER = [{"device": "export", "counter": "write verifier", "before": 1, "after": 2}]
SAME = [{**VERIFIER[0], "after": 1}]
OF_EXPORT: Json = {
    "scope": "appliance",
    "control": "unstable",
    "control_moments": [{**LOST, "proof": VERIFIER}],
}


def test_an_export_that_kept_its_word_is_said_with_its_conditions() -> None:
    judged = power_loss.judge(losses(*[moment(proof=VERIFIER)] * 20, **OF_EXPORT))
    assert ids(judged) == ([], [])
    kept = "The export kept its word: 60 of 60 records looked for (200 acknowledged writes) survived 20 power"
    assert kept in judged.kept and "fewer than 13.9 %" in judged.kept
    assert "one export, written by one client, one session" in judged.kept
    assert "The control (unstable writes without a COMMIT) lost 9 of 12 records" in judged.kept


@pytest.mark.parametrize(("changes", "proof", "id_", "words"), [
    ({}, SAME, "POWER-UNPROVEN", "not proven by another NFS write verifier (number 1)"),
    ({}, [], "POWER-UNPROVEN", "it changes with each start"),
    ({"control_moments": [{**LOST, "lost": 0}]}, VERIFIER, "POWER-CONTROL", "or a battery keeps that"),
    ({"control_moments": []}, VERIFIER, "POWER-CONTROL", "of unstable writes, too, that they are stable"),
    ({"control_moments": [], "control": "none"}, VERIFIER, "POWER-CONTROL", "no positive control"),
])  # fmt: skip
def test_an_export_of_which_a_proof_is_missing_is_not_called_honest(
    changes: Json, proof: list[Json], id_: str, words: str
) -> None:
    judged = power_loss.judge(losses(moment(proof=proof), **{**OF_EXPORT, **changes}))
    assert ids(judged) == ([id_], []) and not judged.kept
    assert words in judged.outcomes[0].text


def test_an_export_that_lies_needs_no_proof() -> None:
    judged = power_loss.judge(losses(moment(proof=SAME, lost=2), **{**OF_EXPORT, "control_moments": []}))
    assert ids(judged) == ([], ["POWER-LOSS-LOST"])
    assert "The export lies: 2 of 3 records looked for" in found(judged, "invalid")[0].text


@pytest.mark.parametrize("name", ["lost", "torn", "old", "foreign", "gone"])
def test_each_class_of_loss_breaks_the_promise(name: str) -> None:
    lost = moment(**{name: 2}, first_lost=7, first_worker=1)
    judged = power_loss.judge(losses(moment(), lost))
    assert ids(judged) == ([], [f"POWER-LOSS-{name.upper()}"])
    assert "2 of 6 records looked for (20 ack" in found(judged, "invalid")[0].text and not judged.kept
    assert "write 7 of worker 1 of power loss 2" in found(judged, "invalid")[0].text
    assert "1.3 to 98.7 %" in found(judged, "invalid")[0].text


def test_what_is_lost_only_after_one_more_power_cycle_counts() -> None:
    judged = power_loss.judge(losses(moment(again={"torn": 3})))
    assert ids(judged) == ([], ["POWER-LOSS-TORN"])
    assert "found after one more power cycle" in found(judged, "invalid")[0].text


def test_a_loss_is_one_without_proof_and_without_control() -> None:
    judged = power_loss.judge(losses(moment(lost=1, proof=[]), control="none", control_moments=[]))
    assert ids(judged) == ([], ["POWER-LOSS-LOST"])


@pytest.mark.parametrize(
    "changes",
    [
        {"control_moments": [moment()]},
        {"control": "no-flush", "control_moments": [moment()]},
        {"control": "none", "control_moments": []},
    ],
)
def test_without_a_control_that_loses_data_nothing_is_known(changes: Json) -> None:
    judged = power_loss.judge(losses(*[moment()] * 20, **changes))
    assert ids(judged) == (["POWER-CONTROL"], [])
    assert "no teeth" in found(judged, "unknown")[0].text


UNGROWN = {"device": "data0", "counter": "unsafe_shutdowns", "before": 4, "after": 4}


@pytest.mark.parametrize(
    "proof", [[], [UNGROWN], [*PROOF, UNGROWN], [{"device": "a", "counter": "none", "before": 0, "after": 0}]]
)
def test_a_power_loss_that_no_device_counted_does_not_count(proof: list[Json]) -> None:
    judged = power_loss.judge(losses(moment(), moment(proof=proof)))
    assert ids(judged) == (["POWER-UNPROVEN"], [])
    text = found(judged, "unknown")[0].text
    assert "1 of 2 power losses are not proven" in text and "number 2" in text
    assert judged.told and judged.told.bound and judged.told.bound.of == 1


def test_one_of_several_counts_of_a_device_is_enough() -> None:
    both = [*PROOF, {**PROOF[0], "counter": "plp_start_count", "after": 3}]
    assert ids(power_loss.judge(losses(moment(proof=both)))) == ([], [])


def test_fewer_power_losses_than_asked_for_are_unknown() -> None:
    judged = power_loss.judge(losses(moment(), asked=20, stopped="it was interrupted"))
    assert ids(judged) == (["POWER-STOPPED"], [])


@pytest.mark.parametrize("key", ["scope", "looked_at"])
def test_what_a_verdict_rests_on_cannot_be_left_out(key: str) -> None:
    stored = losses(moment()).as_json()
    (stored if key == "scope" else stored["moments"][0]).pop(key)
    with pytest.raises(ConfigError, match=f"{key}: field required"):
        PowerLoss.from_json(stored, "power_loss")


def test_the_summary_is_invalid_unknown_or_tells_the_bound() -> None:
    def found(power_losses: PowerLoss) -> Json:
        manifest = {**synthetic.manifest(), "power_loss": power_losses.as_json()}
        return dict(synthetic.summarise(synthetic.latency(), manifest))

    kept = found(losses(*[moment()] * 20))
    assert kept["verdict"] == "valid" and "fewer than 13.9 %" in kept["reasons"][0]
    assert found(losses(moment(old=1)))["verdict"] == "invalid"
    unknown = found(losses(moment(proof=[])))
    assert unknown["verdict"] == "unknown" and "not proven" in unknown["reasons"][0]


def test_a_power_loss_without_a_write_says_nothing() -> None:
    for moments in ((), (moment(acknowledged=0, looked_at=0),)):
        with pytest.raises(MeasurementUnknown, match="no write was acknowledged"):
            power_loss.judge(losses(*moments))
    manifest = {**synthetic.manifest(), "power_loss": {"moments": [], "scope": "lab"}}
    found = synthetic.summarise(synthetic.latency(), manifest)
    assert found["verdict"] == "unknown" and "no write was acknowledged" in found["reasons"][0]


@pytest.mark.parametrize("damaged", [{}, {"moments": 3}, {"moments": [{"acknowledged": -1, "lost": 0}]}])
def test_damaged_moments_are_refused(damaged: Any) -> None:
    with pytest.raises(ConfigError, match=r"power_loss\.moments"):
        synthetic.parsed({"power_loss": damaged})


def test_the_page_has_a_row_for_each_power_loss_and_the_control() -> None:
    table = power_loss.table(losses(moment(idle_ns=5, again={"old": 2}), moment(proof=[])))
    assert [row["name"] for row in table["rows"]] == ["1", "2", "control"]
    assert table["rows"][0]["classes"] == [0, 0, 2, 0, 0]
    assert [row["proof"] for row in table["rows"][:2]] == ["log0 unsafe_shutdowns 3 to 4", "not proven"]
    assert "5.0 to 100.0 %" in table["sentence"]
    for without in (None, losses()):
        assert section(Manifest(power_loss=without), synthetic.summary_of()) is None


@pytest.mark.parametrize(
    ("power_losses", "id_", "outcome"),
    [
        (losses(*[moment()] * 20), "POWER-LOSS-LOST: power losses", "system-out"),
        (losses(moment(torn=1)), "POWER-LOSS-TORN", "failure"),
        (losses(moment(proof=[])), "POWER-LOSS-LOST", "skipped"),
    ],
)
def test_ci_has_a_case_with_the_bound(power_losses: PowerLoss, id_: str, outcome: str) -> None:
    manifest = {**synthetic.manifest(), "power_loss": power_losses.as_json()}
    found = synthetic.summarise(synthetic.latency(), manifest)
    suite = ElementTree.fromstring(junit(Summary.from_json(found, "summary"))).find("testsuite")
    assert suite is not None
    cases = [each for each in suite if str(each.get("name")).startswith(id_)]
    assert outcome in [part.tag for case in cases for part in case]
    if outcome == "system-out":
        (text,) = suite.iterfind("testcase/system-out")
        assert "fewer than 13.9 % of power losses like these lose data" in (text.text or "")


def test_the_figure_has_a_bar_for_each_power_loss_and_apart_for_the_control() -> None:
    drawn = bars(losses(moment(acknowledged=9, looked_at=9), moment(acknowledged=7, looked_at=7, torn=2)))
    assert drawn
    there, lost, control = drawn.data
    assert (there["y"], lost["y"]) == ([9, 5, LOST["looked_at"] - LOST["lost"]], [0, 2])
    # The place between the two is empty, and what the control loses is no loss.
    assert (there["x"], lost["x"], control["x"]) == ([1, 2, 4], [1, 2], [4])
    assert control["y"] == [LOST["lost"]] and control["marker"]["color"] != lost["marker"]["color"]
    assert drawn.csv[1:] == [
        ["power loss 1", 9, 9, 0, 0, 0, 0, 0], ["power loss 2", 7, 7, 0, 0, 2, 0, 0],
        ["control", 50, 12, 0, 9, 0, 0, 0],
    ]  # fmt: skip
    assert bars(losses(moment(acknowledged=9, looked_at=0))) is None


def test_the_figure_stands_on_the_page_once_also_where_a_limit_comes_first(tmp_path: Path) -> None:
    manifest = {**synthetic.manifest(), "power_loss": losses(*[moment()] * 2).as_json()}
    wish = {"phase": "write-slog", "op": "write", "tier": "slog", "min_count": 1, "p99_us_max": 1}
    title = "Records looked for after each power loss"
    for expect, lead in (([], title), ([wish], "512 B write-slog: log SSD (SLOG)")):
        path = tmp_path / str(len(expect))
        run = synthetic.write(path, {**manifest, "expect": expect}, synthetic.latency())
        reports.analyse(run)
        headings = re.findall(r'<figure class="[^"]*"><h\d>([^<]*)</h\d>', run.report.read_text("utf-8"))
        assert headings[0] == lead and headings.count(title) == 1
