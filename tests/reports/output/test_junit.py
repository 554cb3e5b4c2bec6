"""The JUnit file of a run."""

from hypothesis import given
from hypothesis import strategies as st

from tests.reports import synthetic
from tests.reports.synthetic import junit_suite as parsed
from tests.reports.synthetic import summarise
from tests.reports.verdict.test_expectations import WISH, limited
from tests.reports.verdict.test_few_ios import seen


def test_junit_of_a_valid_run():
    result = limited()[2]
    suite = parsed(result)
    asked = [each for each in result["outcomes"] if each.get("open") != "not asked for"]
    assert suite.attrib == {
        "name": "top-speeds", "failures": "0", "errors": "0", "skipped": "0", "tests": str(1 + len(asked)),
    }  # fmt: skip
    assert len(asked) > 40 and not any(list(case) for case in suite)


def test_junit_of_an_unmet_limit():
    suite = parsed(limited(p99_us_max=1.0)[2])
    (failure,) = suite.findall("testcase/failure")
    assert suite.get("failures") == "1" and "p99 of reads" in failure.get("message")
    assert "limit 1 µs" in failure.text


def test_junit_of_an_unknown_verdict():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["problems"] = synthetic.problems("the server rebooted")
    manifest["expect"][0]["p99_us_max"] = 1.0
    suite = parsed(summarise(frame, manifest))
    verdict, problem = suite.findall("testcase/error")
    assert "the server rebooted" in verdict.text and problem.text == "the server rebooted"
    assert (suite.get("errors"), suite.get("failures")) == ("2", "1")
    # No requirement of an unknown run is met.
    skipped = [each for each in suite if each.get("name").startswith("EXPECT:")]
    assert sum(each.find("skipped") is not None for each in skipped) == len(skipped) - 1 == 10


@given(st.text())
def test_junit_of_any_text(text):
    words = {"phase": text, "subject": text, "text": text, "holds": False}
    # An id that is not known: one that is, such as "APPLIANCE", has rules of its own.
    unmet = f"EXPECT:{text}"
    outcomes = [{"id": "LOAD", "makes": "unknown", **words}, {"id": unmet, "makes": "invalid", **words}]
    result = synthetic.summary_of(workload=text, verdict="unknown", reasons=[text], outcomes=outcomes)
    suite = parsed(result.as_json())
    assert len(suite) == 3 and suite.get("errors") == "2" and suite.get("failures") == "1"


def test_junit_text_is_no_markup():
    attack = "\x00\x1b[31m\ufffe</failure><testcase name='x'/>]]>&\"<"
    outcome = {"id": "EXPECT:p:read:x", "holds": False, "makes": "invalid", "text": attack}
    suite = parsed(synthetic.summary_of(workload="w", verdict="invalid", outcomes=[outcome]).as_json())
    assert len(suite) == 2
    assert suite.find("testcase/failure").text == "[31m</failure><testcase name='x'/>]]>&\"<"


def test_junit_of_too_few_ios():
    """The other expectations are met: that the numbers are too few does not make them wrong."""

    def also_met(manifest):
        manifest["expect"] = [*manifest["expect"], WISH]

    suite = parsed(seen(1201, also_met).as_json())
    cases = {case.get("name"): [part.tag for part in case] for case in suite}
    assert cases["FEW-IOS: write/slog"] == ["error"] and cases["EXPECT:read:read:l2arc:min_count"] == []
    assert cases["EXPECT:write-slog:write:slog:min_count"] == ["skipped"]
    (_, error) = suite.findall("testcase/error")
    assert error.get("type") == "too little was measured"
