"""manifest.json as frozen values: what was stored comes back, what is damaged is refused with its place."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kit.core.errors import ConfigError
from kit.store.json_file import write_json
from kit.store.manifest import Manifest, read_manifest
from kit.store.run_directory import RunDir
from tests.kit.store.mutations import mutated

pytestmark = pytest.mark.any_python

# Written by runs: traced and resumed, untraced with power losses, an appliance, an import; sampled, with what
# its phase used (some samples and devices are left out).
STORED = {path.stem: json.loads(path.read_text()) for path in Path(__file__).parent.glob("manifests/*.json")}
PHASE = {
    "name": "read", "start_ns": 0, "end_ns": 9, "interval_ns": 1, "client_ios": 1, "server_ios": 1,
    "lost_events": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_a_stored_manifest_comes_back_whole(run: RunDir, name: str) -> None:
    write_json(run.path / "manifest.json", STORED[name])
    manifest = read_manifest(run)
    assert manifest.as_json() == STORED[name]
    assert Manifest.from_json(manifest.as_json(), "again") == manifest


def test_what_a_phase_used_is_typed_and_a_run_without_samples_has_none() -> None:
    (phase,) = Manifest.from_json(STORED["sampled"], "x").phases
    assert phase.cpu[0].cpus == 1 and phase.cpu[0].samples[-1].idle_ns > 0
    log = phase.devices[-1]
    assert log.device == "log0" and log.model is not None
    assert log.samples[-1].written_bytes == log.model.written_bytes > 0
    assert phase.arc is not None and phase.arc.data_bytes
    for name in ("traced", "untraced", "appliance", "import"):
        for older in Manifest.from_json(STORED[name], "x").phases:
            assert (older.cpu, older.devices, older.arc) == ((), (), None)


def test_the_values_are_typed_and_frozen() -> None:
    manifest = Manifest.from_json(STORED["traced"], "x")
    assert manifest.clock is not None and manifest.clock.kind == "real"
    assert all(check.ok for phase in manifest.phases for check in phase.checks)
    with pytest.raises(ValidationError, match="frozen"):
        manifest.phases[0].client_ios = 7  # type: ignore[misc]


def test_a_problem_is_a_code_and_a_text() -> None:
    for problem in ({"code": "load"}, {"text": "fio failed"}, {"code": 3, "text": "x"}, 3, "fio failed"):
        with pytest.raises(ConfigError, match=r"problems\[0\]"):
            Manifest.from_json({"format": 1, "problems": [problem]}, "x")


def test_keys_of_a_newer_version_are_kept() -> None:
    value = {"format": 1, "weather": {"wet": True}, "phases": [{**PHASE, "colour": "red"}]}
    assert Manifest.from_json(value, "x").as_json() == value


def test_keys_that_imports_and_appliances_lack_have_a_default() -> None:
    manifest = Manifest.from_json({"format": 1, "phases": [PHASE]}, "x")
    assert not manifest.ended and manifest.traced and manifest.problems == () and manifest.import_ is None
    assert manifest.phases[0].checks == () and manifest.phases[0].shares is None


@pytest.mark.parametrize("name", STORED)
@given(st.data())
def test_a_mutated_manifest_comes_back_or_is_refused_with_its_place(name: str, data: Any) -> None:
    value = data.draw(mutated(STORED[name]))
    try:
        manifest = Manifest.from_json(value, "a/manifest.json")
    except ConfigError as error:
        assert error.exit_code == 2 and error.message.startswith("a/manifest.json: ")
        assert "damaged" in error.hint and len(error.message) < 4000
    else:
        # A limit may be stored as 5 or as 5.0: both are equal.
        assert manifest.as_json() == value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phases": 7}, "phases: input should be a valid array, not 7"),
        ({"phases": [{**PHASE, "client_ios": True}]}, r"phases\[0\]\.client_ios: .* valid integer, not true"),
        ({"phases": [{**PHASE, "client_ios": 2**63}]}, r"phases\[0\]\.client_ios: .* less than or equal"),
        ({"phases": [{**PHASE, "interval_ns": 0}]}, r"phases\[0\]\.interval_ns: .* greater than 0, not 0"),
        ({"phases": [{"name": "read"}]}, r"phases\[0\]\.interval_ns: field required; .* and 1 more"),
        ({"run": "\x1b[31m", "title": 3}, "title: input should be a valid string, not 3"),
        ({"versions": {"\x1b": 3}}, r"versions\.\?: input should be a valid string"),
        ({"clock": {"kind": "real", "dilation": 0}}, r"clock\.dilation"),
        ({"testbed": {"devices": [{"price": ["EUR"]}]}}, r"devices\[0\]\.price: .* valid string"),
        ({"testbed": {"devices": [{"endurance_bytes": -1}]}}, r"devices\[0\]\.endurance_bytes"),
        ({"testbed": {"devices": [{"settings": "x"}]}}, r"devices\[0\]\.settings"),
    ],
)
def test_a_refusal_has_file_place_and_what_was_observed(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Manifest.from_json({"format": 1, **change}, "manifest.json")
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"in_order_ns": [5, 0]},
            "phases[0].in_order_ns[1]: input should be greater than or equal to 1, not 0",
        ),
        ({"array": {"level": "raid0", "chunk_bytes": 4096, "members": []}}, "phases[0].array.members: "),
        ({"array": {"level": "raid0", "chunk_bytes": 0, "members": ["a"]}}, "phases[0].array.chunk_bytes: "),
        (
            {"array": {"level": "raid0", "chunk_bytes": 4096, "members": ["a", "b", "a"]}},
            "phases[0].array.members: a device is a member once",
        ),
    ],
)
def test_an_array_and_latencies_in_order_are_what_they_can_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Manifest.from_json({"format": 1, "phases": [{**PHASE, **change}]}, "x")
    assert message in refused.value.message


@pytest.mark.parametrize(
    "value",
    [
        {"problems": [1] * 100_000},
        {"phases": [PHASE] * 10_001},
        {"phases": [{**PHASE, "checks": [{}] * 100_000}]},
        {"title": ["x" * 1_000_000]},
    ],
)
def test_a_huge_file_of_damage_is_refused_at_once(value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Manifest.from_json(value, "x")
    assert len(caught.value.message) < 1000
    # The first problem of a list ends it: there is not one for each of its items.
    assert not re.search(r" \d{2,} more", caught.value.message)


def test_what_is_nested_too_deep_is_refused() -> None:
    value: Any = {}
    for _ in range(900):
        value = {"a": value}
    with pytest.raises(ConfigError, match=r"recursion|too deep"):
        Manifest.from_json({"mount": value}, "x")


def test_the_read_value_is_no_view_of_what_was_given() -> None:
    value = copy.deepcopy(STORED["import"])
    manifest = Manifest.from_json(value, "x")
    value["phases"].clear()
    assert manifest.as_json() == STORED["import"]
