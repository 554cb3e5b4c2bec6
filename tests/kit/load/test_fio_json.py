"""fio's json+ amid other text: which documents there are, and what is damaged behind the last one."""

from __future__ import annotations

import json

import pytest

from kit.load.fio_json import documents, jobs

FIRST, LAST = ({"jobs": [{"jobname": "j", "ios": n}]} for n in (1, 2))


def test_the_last_of_several_documents_counts_and_other_text_has_its_place() -> None:
    before, after = "fio: a warning {\n{\n{}\n", "\nbye\n"
    text = before + json.dumps(FIRST) + "\n" + json.dumps(LAST, indent=1) + after
    found = documents(text)
    assert (found.last, found.number, found.failure) == (LAST, 2, None)
    assert (text[: found.begin], text[found.end :]) == (before, after)


@pytest.mark.parametrize(
    ("damage", "line", "words"),
    [("{1", 3, "Expecting property name"), ('{"a": NaN}', 3, "NaN is not a number"), ('{"a":' * 9000, 3, "")],
)
def test_damage_behind_the_last_document_is_named(damage: str, line: int, words: str) -> None:
    found = documents(json.dumps(FIRST) + "\n\n" + damage)
    assert found.last == FIRST and found.failure
    assert found.failure[0] == line and words in found.failure[1]


@pytest.mark.parametrize("text", ["", "{}", "[]", '"jobs"', '[{"jobs": []}]', ' {"jobs": []}'])
def test_what_is_no_document(text: str) -> None:
    found = documents(text)
    assert (found.last, found.number, found.begin, found.end) == (None, 0, 0, 0)


def test_more_documents_than_fio_writes_are_not_gone_through() -> None:
    text = "{}\n" * 10_001 + json.dumps(FIRST)
    assert documents(text).failure == (10_001, "more than 10000 documents")


@pytest.mark.parametrize("listed", [None, 3, {"jobname": "j"}, [3], [{"jobname": "j"}, 3]])
def test_what_is_no_list_of_jobs(listed: object) -> None:
    assert jobs({"jobs": listed}, "jobs") is None


def test_the_sum_of_all_clients_is_no_job() -> None:
    listed = [{"jobname": "j"}, {"jobname": "All clients"}, {}]
    assert jobs({"client_stats": listed}, "client_stats") == [{"jobname": "j"}, {}]
