"""The table of the slowest test files."""

from __future__ import annotations

from pathlib import Path

from tests.durations import table

REPORT = """<testsuites><testsuite name="pytest">
<testcase classname="tests.test_durations" name="test_a" time="1.5"/>
<testcase classname="tests.test_durations.TestClass" name="test_b" time="2.25"/>
<testcase classname="tests.test_changed" name="test_c" time="3.25"/>
<testcase classname="gone.test_file" name="test_d" time="0.25"/>
</testsuite></testsuites>"""


def test_files_by_their_time_with_what_they_protect(tmp_path: Path) -> None:
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "junit.xml").write_text(REPORT)
    (tmp_path / "lint").mkdir()
    lines = table(tmp_path, 2)
    head, of_environments = lines[:4], lines[5:]
    assert head[2:] == [
        "| 4 | unit | tests/test_durations.py | 2 | The table of the slowest test files. |",
        "| 3 | unit | tests/test_changed.py | 1 |"
        " Which tests `./hsp test --changed` selects, on a small checkout and on this one. |",
    ]
    assert of_environments[2:] == ["| unit | 7 | 4 |"]
    assert len(table(tmp_path)) == len(lines) + 1
