"""fio's json+ amid other text: which documents there are, and what is damaged behind the last one."""

from __future__ import annotations

import json

import pytest

from kit.load.fio_json import each_document, jobs

FIRST, LAST = ({"jobs": [{"jobname": "j", "ios": n}]} for n in (1, 2))


def test_each_of_several_documents_is_found_and_other_text_stays() -> None:
    before, after = "fio: a warning {\n{\n{}\n", "\nbye\n"
    text = before + json.dumps(FIRST) + "\n" + json.dumps(LAST, indent=1) + after
    first, last = (each for each in each_document(text) if each.value)
    assert (first.value, last.value, last.failure) == (FIRST, LAST, None)
    assert (text[: first.begin], text[last.end :]) == (before, after)


@pytest.mark.parametrize(
    ("damage", "line", "message"),
    [("{1", 3, "Expecting property name"), ('{"a": NaN}', 3, "NaN is not a number"), ('{"a":' * 9000, 3, "")],
)
def test_damage_after_the_last_document_is_named(damage: str, line: int, message: str) -> None:
    found, damaged = each_document(json.dumps(FIRST) + "\n\n" + damage)
    assert found.value == FIRST and damaged.failure
    assert damaged.failure[0] == line and message in damaged.failure[1]


@pytest.mark.parametrize("text", ["", "{}", "[]", '"jobs"', '[{"jobs": []}]', ' {"jobs": []}'])
def test_text_without_a_document(text: str) -> None:
    assert list(each_document(text)) == []


def test_the_number_of_documents_is_limited() -> None:
    text = "{}\n" * 10_001 + json.dumps(FIRST)
    [damaged] = each_document(text)
    assert damaged.failure == (10_001, "more than 10000 documents")


@pytest.mark.parametrize("listed", [None, 3, {"jobname": "j"}, [3], [{"jobname": "j"}, 3]])
def test_other_values_are_not_a_list_of_jobs(listed: object) -> None:
    assert jobs({"jobs": listed}, "jobs") is None


def test_the_sum_of_all_clients_is_no_job() -> None:
    listed = [{"jobname": "j"}, {"jobname": "All clients"}, {}]
    assert jobs({"client_stats": listed}, "client_stats") == [{"jobname": "j"}, {}]
