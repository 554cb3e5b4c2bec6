"""kit.nfs.restarted_by_others: what somebody else did to the NFS server is named, and nothing else is."""

from __future__ import annotations

import pytest

from kit.core.errors import HostError
from kit.nfs import restarted_by_others
from tests.fakes import Answer, ScriptedHost

PATH = "/run/hsp/x/pool/bench"
THERE = f"{PATH}\n\t\t10.0.0.2(rw,sync)\n/tank 10.0.0.9(rw)\n"
FIRST = "  812 Thu Nov 26 09:00:01 2026\n  813 Thu Nov 26 09:00:01 2026\n"
LATER = " 4711 Thu Nov 26 21:00:19 2026\n"
# Threads before and after, exports after, and what is said: of an error, or of a note.
CASES: dict[str, tuple[Answer, Answer, str, str, str]] = {
    "nothing": (FIRST, FIRST, THERE, "", ""),
    "fewer threads": (FIRST, FIRST[:31], THERE, "", ""),
    "service restarted": (FIRST, LATER, "/tank 10.0.0.9(rw)\n", "restarted at 2026-11-26 21:00:19 UTC", ""),
    "threads restarted": (FIRST, LATER, THERE, "", "was restarted at 2026-11-26 21:00:19 UTC, by somebody"),
    "stopped": (FIRST, "", "", "was stopped by somebody else", ""),
    "unexported": (FIRST, FIRST, "", "somebody else has taken back", ""),
    "no ps, restarted": (127, 127, "", "somebody else has taken back", ""),
    "no ps": (127, 127, THERE, "", ""),
    "another ps": ("PID TIME\n", "PID TIME\n", THERE, "", ""),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("failing", [False, True])
def test_what_somebody_did_is_named(case: str, failing: bool) -> None:
    before, after, exports, error, note = CASES[case]
    host = ScriptedHost({"env": [before, after], "exportfs -v": exports}, name="nas")
    notes: list[str] = []
    expected = error or ("Stale file handle" if failing else "")
    raised = ""
    try:
        with restarted_by_others.named(host, PATH, notes.append):
            if failing:
                raise HostError("find: Stale file handle")
    except HostError as found:
        raised = found.message
    assert expected in raised and bool(raised) == bool(expected)
    assert note in "".join(notes) and bool(notes) == bool(note)
