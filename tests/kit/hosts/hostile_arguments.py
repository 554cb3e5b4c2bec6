"""Arguments that a shell would take for something else.

Hypothesis makes the strings; they are sent some hundred a command, so that thousands take seconds.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kit.hosts.base import Host

EXAMPLES = 2500
BATCH = 250
_PIECES = st.sampled_from(
    [
        *" \t\n\r'\"\\`$;|&<>(){}[]*?!~#%=^,-+@:/.\x01\x1b\x7f",
        *("$(touch CANARY)", "`touch CANARY`", "; touch CANARY;", "| touch CANARY", "\ntouch CANARY\n"),
        *(
            "'; touch CANARY; '",
            '"; touch CANARY; "',
            "\\'; touch CANARY #",
            "&& touch CANARY",
            "$HOME",
            "${IFS}",
        ),
        *("--", "-n", "-rf", "../..", "%s", "\\0", "a", "tank", "ä", "\u2028", "\U0001f4be"),
    ]
)
ARGUMENT = st.lists(_PIECES, max_size=6).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)


def hostile(canary: Path) -> list[str]:
    """Strings that would run a program, end a quotation or be taken for an option."""
    texts: list[str] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(ARGUMENT)
    def collect(text: str) -> None:
        texts.append(text.replace("CANARY", str(canary)))

    collect()
    return texts


def echoed(host: Host, program: list[str], arguments: list[str]) -> list[str]:
    return host.run([*program, *arguments]).stdout.split("\0")[:-1]
