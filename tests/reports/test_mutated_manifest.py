"""A manifest that was damaged or made up: a summary and a page, or a refusal; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kit.core.errors import ConfigError
from tests.kit.store.mutations import mutated
from tests.reports import synthetic

pytestmark = pytest.mark.slow

FRAME = synthetic.latency(3)
MANIFEST = synthetic.manifest(FRAME, 3)
_SAMPLED = Path(__file__).parents[1] / "kit" / "store" / "manifests" / "sampled.json"
USED = {key: json.loads(_SAMPLED.read_text())["phases"][0][key] for key in ("cpu", "devices", "arc")}
COUNTED = ("client_ios", "server_ios", "lost_events")


@given(mutated(MANIFEST))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_it_is_judged_and_drawn_or_refused(manifest: dict[str, Any]) -> None:
    try:
        summary = synthetic.summarise(FRAME, manifest)
        assert synthetic.render(FRAME, manifest, summary)
    except ConfigError as error:
        assert error.message
    else:
        closes = len(manifest.get("phases", [])) == 3 and all(
            [phase[key] for key in COUNTED] == [stored[key] for key in COUNTED]
            and all(check["ok"] for check in phase.get("checks", []))
            and not phase.get("problems")
            for phase, stored in zip(manifest["phases"], MANIFEST["phases"], strict=True)
        )
        assert summary["verdict"] == "unknown" or closes


@given(mutated(USED))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_a_phase_used_is_drawn_or_refused(phase: dict[str, Any]) -> None:
    manifest = {**MANIFEST, "phases": [{**MANIFEST["phases"][0], **phase}, *MANIFEST["phases"][1:]]}
    try:
        summary = synthetic.summarise(FRAME, manifest)
        assert synthetic.render(FRAME, manifest, summary)
    except ConfigError as error:
        assert error.message


@pytest.mark.parametrize("key", COUNTED)
@pytest.mark.parametrize("value", [None, 1, -1, 2**62, 2**64, True, "9", 1.0])
def test_a_count_that_was_changed_is_never_valid(key: str, value: Any) -> None:
    phases = [{**phase, key: value} for phase in MANIFEST["phases"]]
    try:
        assert synthetic.summarise(FRAME, {**MANIFEST, "phases": phases})["verdict"] == "unknown"
    except ConfigError as error:
        assert f"{key}: " in error.message
