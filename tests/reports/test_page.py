import json
import re

import pytest

import reports
from kit.store import ConfigError, read_summary
from reports import page, summary


def drawn(synthetic, tmp_path, manifest, frame):
    run = synthetic.write(tmp_path / "run", manifest, frame)
    reports.analyse(run)
    return reports.draw(run).read_text("utf-8")


def test_analyse_writes_what_it_returns(synthetic, tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    returned = reports.analyse(run)
    assert read_summary(run) == returned
    assert reports.draw(run) == run.report


def test_draw_needs_a_summary(synthetic, tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    with pytest.raises(ConfigError):
        reports.draw(run)
    assert not run.report.exists()


def test_page_stands_alone(synthetic, tmp_path):
    html = drawn(synthetic, tmp_path, synthetic.manifest(), synthetic.latency())
    assert "default-src 'none'" in html and "unsafe-eval" not in html
    assert not re.search(r"<(script|img|iframe|link)[^>]+(src|href)=[\"']?https?:", html)
    blocks = re.findall(r'<script type="application/json" id="(figure-\d+)-data">(.*?)</script>', html, re.S)
    # summary, and per phase: one logarithmic, one per tier, one of the clients
    assert len(blocks) == 1 + 3 * 2 + 5
    for name, text in blocks:
        json.loads(text)
        assert f'id="{name}"' in html
    assert html.index("Verdict: valid") < html.index("How to read this")
    assert "Closed loop, 1 outstanding" in html
    assert "not what your hardware does" in html
    for word in ("arcstats", "zfs_arc_max", "recordsize", "vers=3", "null_blk", "2.3.9", "Brendan Gregg"):
        assert word in html
    assert " - verdict unknown" not in html


def test_unknown_marks_every_map(synthetic, tmp_path):
    manifest = synthetic.manifest()
    manifest["problems"] = ["the server rebooted"]
    html = drawn(synthetic, tmp_path, manifest, synthetic.latency())
    assert html.count(" - verdict unknown") == 3 * 2 + 5
    assert "the server rebooted" in html


def test_withheld_percentiles_say_so(synthetic, tmp_path):
    frame = synthetic.latency(1)
    html = drawn(synthetic, tmp_path, synthetic.manifest(frame, 1), frame)
    assert "n too small" in html


@pytest.mark.parametrize("missing", ["testbed", "versions", "tunables", "pool", "mount", "clock", "expect"])
def test_a_manifest_that_lacks_something_is_drawn(synthetic, missing):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    del manifest[missing]
    assert "Verdict: valid" in page.render(frame, manifest, summary.summarise(frame, manifest))


def test_foreign_text_is_escaped(synthetic):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    attack = "</script><img src=x onerror=alert(1)>{{ 7*7 }}"
    manifest["title"] = manifest["phases"][0]["title"] = attack
    manifest["versions"][attack] = attack
    html = page.render(frame, manifest, summary.summarise(frame, manifest))
    assert "<img src=x" not in html
    assert "{{ 7*7 }}" in html


@pytest.mark.parametrize(("value", "text"), [(None, "n too small"), (5012.8, "5.01 ms"), (0.5, "0.5 µs")])
def test_microseconds_for_people(value, text):
    assert page._us(value) == text
