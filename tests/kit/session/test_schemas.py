"""The published JSON Schemas against what the kit stores, and against the files that it reads."""

import functools
import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

import reports
from kit.core.errors import ConfigError
from kit.session import schemas
from kit.session.sheet import buyers_sheet
from tests.reports import candidates, synthetic, synthetic_series
from tests.reports.slog import slog_test

pytestmark = pytest.mark.any_python

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "docs/schemas"


@functools.cache
def validator(name):
    schema = json.loads((PUBLISHED / schemas.file_name(name)).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def mistakes(name, value):
    """Where `value` is not as the published schema says."""
    found = validator(name).iter_errors(json.loads(json.dumps(value)))
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def toml(path):
    return tomllib.loads(path.read_text())


@pytest.mark.parametrize("name", schemas.names())
def test_published_schemas_are_those_of_the_models(name):
    published = json.loads((PUBLISHED / schemas.file_name(name)).read_text())
    assert published == json.loads(json.dumps(schemas.schema(name))), (
        "run: hsp help schema --all docs/schemas"
    )


def test_nothing_else_is_published():
    assert {path.name for path in PUBLISHED.iterdir()} == {
        schemas.file_name(each) for each in schemas.names()
    }


@pytest.mark.parametrize(
    "path", [*(ROOT / "workloads").rglob("*.toml"), *(ROOT / "tests/lab/own_workloads").glob("[!r]*.toml")],
    ids=lambda path: path.name,
)  # fmt: skip
def test_workloads(path):
    if "phase" in (document := toml(path)) or "base" in document:
        assert mistakes("workload", document) == []


@pytest.mark.parametrize(
    "path", [*(ROOT / "kit/lab").glob("*.toml"), *(ROOT / "docs/examples").glob("[mlc]*.toml")],
    ids=lambda path: path.name,
)  # fmt: skip
def test_testbeds(path):
    assert mistakes("testbed", toml(path)) == []


@pytest.mark.parametrize(
    "path", [*(ROOT / "kit/emulation/presets").glob("*.toml")], ids=lambda path: path.name
)
def test_device_files(path):
    assert mistakes("device", toml(path)) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[pool]\nlogg = ['log']", "$.pool"),
        ("[working_set]\nfile = 'x'\nsize = 96", "$.working_set"),
        ("[[phase]]\nname = 'a'\ntiers = ['tape']", "$.phase[0].tiers[0]"),
        ("[sweep.a]\nset = 'job.bs'", "$.sweep.a"),
    ],
)
def test_mistakes_are_found(text, place):
    found = mistakes("workload", {"format": 1, "name": "x", "title": "x", "base": "y", **tomllib.loads(text)})
    assert any(each.startswith(f"{place}: ") for each in found), found


def test_a_workload_without_base_is_whole():
    found = " ".join(mistakes("workload", {"format": 1, "name": "x", "phase": [{"name": "a"}]}))
    assert "'title' is a required property" in found and "$.phase[0]" in found


def test_a_run(tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    reports.analyse(run)
    for name in ("manifest", "summary"):
        assert mistakes(name, json.loads((run.path / f"{name}.json").read_text())) == []
    assert mistakes("manifest", {"format": 3}) and mistakes("manifest", {"format": "1"})


def test_a_series(tmp_path):
    path = synthetic_series.series(tmp_path)
    reports.analyse_series(path)
    assert mistakes("series", json.loads((path / "series.json").read_text())) == []


def test_a_test_of_forced_writes():
    test = slog_test("write back", lambda size: 60 + size / 500, lambda size: 900)
    assert mistakes("slog", test.as_json()) == []
    assert mistakes("slog", {**test.as_json(), "utc": 3})


def test_a_sheet_and_its_need(tmp_path):
    need = ROOT / "docs/examples/need.toml"
    assert mistakes("need", toml(need)) == [] and mistakes("need", {"years": "5"})
    sheet = buyers_sheet(candidates.series(tmp_path), need)
    assert mistakes("sheet", sheet.as_json()) == []


def test_command(tmp_path, hsp_here):
    assert hsp_here("help", "schema", "--all", str(tmp_path)).returncode == 0
    assert len(list(tmp_path.iterdir())) == len(schemas.names())
    done = hsp_here("help", "schema", "summary")
    assert json.loads(done.stdout)["title"] == "hsp: summary.json of a run"
    assert "testbed" in hsp_here("help", "schema").stdout
    refused = hsp_here("help", "schema", "nope")
    assert refused.returncode == 2 and "there are: manifest" in refused.stderr
    assert hsp_here("help", "schema", "--all", str(tmp_path / "none")).returncode == 2
    with pytest.raises(ConfigError):
        schemas.schema("nope")
