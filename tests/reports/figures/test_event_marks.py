import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import ConfigError
from kit.store.phase import Event
from reports.figures import event_marks
from tests.reports import drawn, synthetic

AXIS = (1000, 2000)


def of(*listed):
    return event_marks.marks([Event.from_json(event, "x") for event in listed], *AXIS)


def test_times_are_relative_to_the_phase_and_kept_inside_it():
    marks, ignored = of(
        {"time_ns": 1500, "end_ns": None, "kind": "txg", "text": "txg 12"},
        {"time_ns": 500, "end_ns": 1200, "kind": "scrub", "text": "before it too"},
        {"time_ns": 1900, "end_ns": 9000, "kind": "trim", "text": "after it too"},
    )
    assert ignored == 0
    assert [(e.kind, e.from_s * 1e9, e.to_s and e.to_s * 1e9) for e in marks] == [
        ("scrub", 0, pytest.approx(200)),
        ("txg sync", pytest.approx(500), None),
        ("trim", pytest.approx(900), pytest.approx(1000)),
    ]


def test_what_does_not_touch_the_phase_is_no_mark():
    outside = [{"time_ns": 900, "end_ns": 999, "kind": "a"}, {"time_ns": 2000, "end_ns": None, "kind": "b"},
               {"time_ns": 10, "end_ns": None, "kind": "c"}]  # fmt: skip
    assert of(*outside) == ([], 0)


def test_an_event_that_ends_before_it_begins_is_counted():
    assert of({"time_ns": 1500, "end_ns": 1400, "kind": "scrub"}) == ([], 1)


@pytest.mark.parametrize(
    "entry",
    [3, None, "txg", [], {}, {"time_ns": "1500"}, {"time_ns": True}, {"time_ns": 1500.5},
     {"time_ns": 1500, "end_ns": "x"}, {"time_ns": 1500, "text": 3},
     *({"time_ns": 1500, "kind": kind} for kind in (3, None, [], {}, True))],
)  # fmt: skip
def test_damaged_events_are_refused(entry):
    event = {"kind": "txg", **entry} if isinstance(entry, dict) else entry
    with pytest.raises(ConfigError):
        of(event)


@given(st.text(), st.text())
def test_foreign_words_are_plain(kind, text):
    marks, _ = of({"time_ns": 1500, "end_ns": None, "kind": kind, "text": text})
    assert not set(marks[0].kind + marks[0].text) & set("<>&\"'{}\\$`\x1b\n")
    assert marks[0].kind


def test_there_is_an_end_to_marks():
    many = [{"time_ns": 1500, "end_ns": None, "kind": "txg"}] * (event_marks.MOST + 7)
    marks, ignored = of(*many)
    assert (len(marks), ignored) == (event_marks.MOST, 7)
    kinds = [{"time_ns": 1500, "end_ns": None, "kind": f"k{n}"} for n in range(50)]
    marks, ignored = of(*kinds)
    assert 0 < len(marks) < 50 and len(marks) + ignored == 50


def test_events_of_the_run_are_marks_of_each_phase_they_touch():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    at = manifest["phases"][0]["start_ns"] + 5
    manifest["events"] = [{"time_ns": at, "kind": "fault", "text": "data0 fails"}]
    html = synthetic.render(frame, manifest, synthetic.summarise(frame, manifest))
    marked = [t for spec in drawn.specs(html) for t in spec["data"] if t.get("name") == "fault"]
    # At the server and at the clients.
    assert [mark["text"][0] for mark in marked] == ["0.000 s: data0 fails"] * 2


def test_a_fault_is_not_pushed_out_by_others():
    crowd = [{"time_ns": 1000 + n % 900, "kind": f"k{n % 40}"} for n in range(event_marks.MOST * 2)]
    marks, ignored = of(*crowd, {"time_ns": 1999, "kind": "fault"}, {"time_ns": 1998, "kind": "l2arc-feed"})
    assert {"fault", "L2ARC feed"} <= {e.kind for e in marks}
    assert len(marks) + ignored == len(crowd) + 2 and len(marks) <= event_marks.MOST
    assert [e.from_s for e in marks] == sorted(e.from_s for e in marks)


def test_a_kind_without_a_word_has_a_name():
    assert of({"time_ns": 1500, "kind": ""})[0][0].kind == "event"
