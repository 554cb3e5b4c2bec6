"""docs/doctor.md has every check of the doctor, as the program has it."""

from __future__ import annotations

from pathlib import Path

from kit.doctor.checks import CHECKS, markdown
from kit.doctor.finding import WORST_FIRST

DOCUMENT = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()


def test_the_tables_are_those_of_the_program() -> None:
    begin = DOCUMENT.index("## Every host")
    expected = markdown().rstrip() + "\n"
    assert DOCUMENT[begin:] == expected, (
        "make them again: the text after the introduction is kit.doctor.checks.markdown()"
    )
    assert all(f"| `{name}` |" in expected for name in CHECKS)


def test_every_state_is_explained() -> None:
    introduction = DOCUMENT[: DOCUMENT.index("## Every host")]
    assert all(f"| `{state}` |" in introduction for state in WORST_FIRST)
