"""What the files of an import are, as stored."""

from __future__ import annotations

import json

import pytest

from kit.core.errors import ConfigError
from kit.importers.base import Format
from kit.importers.format_detection import FORMATS
from kit.store.manifest import Import
from kit.store.parts.import_source import ImportSource


def read(section: dict[str, object]) -> ImportSource:
    return Import.from_json(section, "import").source


WORDS = ImportSource(files="a log", program="a program", latency="as it says", timed=False)
STORED = WORDS.as_json()


def test_stored_words_come_back_whatever_the_format() -> None:
    section = json.loads(json.dumps({"format": "fio-log", "counts": "timed", "source": STORED}))
    assert read(section) == WORDS


def test_an_unknown_format_without_words_is_an_import() -> None:
    assert read({"format": "made-up"}).files == read({}).files == "import"


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_the_words_of_each_format_can_be_stored(known: Format) -> None:
    assert read({"source": known.source.as_json()}) == known.source


@pytest.mark.parametrize(
    "damage",
    [{"files": 3}, {"files": ""}, {"program": "x" * 301}, {"latency": None}, {"timed": 1}, {"timed": None}],
)
def test_damaged_words_are_refused(damage: dict[str, object]) -> None:
    for stored in (STORED | damage, "words"):
        with pytest.raises(ConfigError, match="import: source"):
            read({"format": "fio-log", "source": stored})
