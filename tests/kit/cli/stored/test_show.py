"""`hsp show` with a reference of its own, and for a CI server."""

import json
import xml.etree.ElementTree as ET

from tests.reports import drawn, synthetic


def test_a_report_of_what_is_unknown_is_an_error_only_to_a_ci_server(hsp, make_run, tmp_path):
    run = make_run("a", 1, lambda m: m.update(problems=synthetic.problems("the server rebooted")))
    assert hsp("show", run)[0] == 0
    assert hsp("show", run, "--junit", str(tmp_path / "j.xml"))[0] == 3


def test_report_with_ones_own_reference_and_junit(hsp, make_run, tmp_path):
    run, junit = make_run("a"), tmp_path / "junit.xml"
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'title = "my <SSD>"\nsource = "me"\n[[ranges]]\nop="read"\ntier="l2arc"\nrange_us=[1, 2]\n'
    )
    code, out, _ = hsp("show", run, "--json", "--reference", str(mine), "--junit", str(junit))
    assert code == 1
    result = json.loads(out)
    assert result["reference"]["name"] == "mine" and result["verdict"] == "invalid"
    published = [r["published"] for r in result["rows"] if r["published"]]
    assert published == [{"reference": "mine", "range_us": [1, 2], "inside": False}]
    suite = ET.parse(junit).getroot().find("testsuite")
    assert int(suite.get("failures")) == 5
    html = (tmp_path / "a" / "report.html").read_text("utf-8")
    figures = str(drawn.specs(html))
    assert "my SSD" in figures and "<SSD>" not in html + figures
    assert 'id="bands"' in html
    # Without the option it is the workload's again.
    assert json.loads(hsp("show", run, "--json")[1])["reference"]["name"] == "sun-7410-2009"


def test_report_refuses_a_bad_reference_and_a_bad_place(hsp, make_run, tmp_path):
    run = make_run("a")
    bad = tmp_path / "bad.toml"
    bad.write_text('title = "x"\nsource = "x"\n[[ranges]]\nop = "read"\ntier = "l2ark"\nrange_us = [1, 2]\n')
    code, _, err = hsp("show", run, "--reference", str(bad))
    assert code == 2 and "bad.toml:5" in err and "tier" in err
    assert hsp("show", run, "--reference", str(tmp_path / "none.toml"))[0] == 2
    assert hsp("show", run, "--junit", str(tmp_path))[0] == 2
    assert hsp("show", run, "--junit", str(tmp_path / "no" / "j.xml"))[0] == 2
    assert not (tmp_path / "a" / "summary.json").exists()
