"""Each message replaced by its id: verdict, exit code, JUnit, checks, known and trend are the same."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

from kit.session.presentation import code_of
from kit.store.checks.known_failures import Known
from kit.store.checks.outcome import Outcome
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.analysis.summary import summarise
from reports.output.junit import junit
from reports.trend.check_history import outcomes_of
from tests.kit.store.stored_runs import Json, counts_of, stored

RUNS = ("traced", "untraced", "sampled", "mixed", "appliance", "import", "dataset", "asynchronous")
KNOWN = (Known(check="EXPECT:*", reason="slow"), Known(check="NFS-*", reason="another client"))


def whole(manifest: Json) -> Json:
    """As the run is."""
    return manifest


def open_sums(manifest: Json) -> Json:
    """Each third sum does not close."""
    for phase in manifest["phases"]:
        for check in phase.get("checks", ())[::3]:
            check["found"] += 1000 + 2 * check["tolerance"]
    return manifest


def problems(manifest: Json) -> Json:
    """The run has a problem, and its last phase two others."""
    manifest["problems"] = [{"code": "warm-up", "text": "a"}, {"code": "of-a-newer-version", "text": "b"}]
    manifest["phases"][-1]["problems"] = [{"code": "load", "text": "c"}, {"code": "fault-data", "text": "d"}]
    return manifest


def strict(manifest: Json) -> Json:
    """Expectations that are not met."""
    for wish in manifest.get("expect", ()):
        wish |= {"min_count": 1 << 40, "p50_us_max": 0.001}
    return manifest


def without_words(manifest: Json) -> Json:
    """Sums are called by their ids, and problems by their codes."""
    for phase in manifest["phases"]:
        for each in (*phase["checks"], *phase.get("unavailable", ())):
            each |= {"name": each["id"], "source": ""} | ({"why": "x"} if "why" in each else {})
    for part in (manifest, *manifest["phases"]):
        part["problems"] = [{**each, "text": each["code"]} for each in part.get("problems", ())]
    return manifest


def seen(summary: Summary) -> dict[str, Any]:
    """What people and programs act on."""
    suites = ET.fromstring(junit(summary))
    cases = [(case.get("classname"), [part.tag for part in case]) for case in suites.iter("testcase")]
    return {
        "verdict": (summary.verdict, code_of(summary), bool(summary.by_nature), summary.is_known),
        "junit": [(name, [tag for tag in tags if tag != "system-out"]) for name, tags in cases],
        "check": [(each.id, each.phase, each.state) for each in summary.outcomes],
        "known": [(each.check, each.state) for each in summary.known],
        "trend": [(name, each.state) for name, each in outcomes_of(summary).items()],
        "expect": [(each.phase, each.op, each.tier, each.ok) for each in summary.expect],
        "tally": summary.tally,
    }


@pytest.mark.parametrize("change", [whole, open_sums, problems, strict], ids=lambda each: each.__name__)
@pytest.mark.parametrize("name", RUNS)
def test_the_same_without_words(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Json], Json]
) -> None:
    manifest = change(copy.deepcopy(stored(name)))
    latency = Latency.of(counts_of(manifest))

    def judged(value: Json) -> dict[str, Any]:
        made = summarise(latency, Manifest.from_json(value, "manifest.json"), with_bands=False, known=KNOWN)
        return seen(made)

    with_words = judged(manifest)
    init = Outcome.__init__

    def wordless(self: Any, **values: Any) -> None:
        # A subject or text that is there stays there.
        words = {key: values["id"] for key in ("subject", "text") if values.get(key)}
        init(self, **{**values, **words})

    monkeypatch.setattr(Outcome, "__init__", wordless)
    assert judged(without_words(manifest)) == with_words
