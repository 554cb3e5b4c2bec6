"""Arguments that a shell would take for something else.

Hypothesis makes the strings; they are sent some hundred a command, so that thousands take seconds.
"""

from __future__ import annotations

import functools
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kit.hosts.base import Host

_EXAMPLES = 1000
_BATCH = 250
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
_ARGUMENT = st.lists(_PIECES, max_size=6).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)


@functools.cache
def arguments() -> tuple[str, ...]:
    """Made once; CANARY stands for the file that none may touch."""
    texts: list[str] = []

    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_ARGUMENT)
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    assert len(set(texts)) > _EXAMPLES / 2
    return tuple(texts)


def check_hostile_arguments(host: Host, directory: Path, *program: str) -> None:
    """Send strings that would run a program, end a quotation or be taken for an option.

    `program` prints its arguments, each with a NUL byte behind it; by default printf.
    """
    canary = directory / "canary"
    texts = [text.replace("CANARY", str(canary)) for text in arguments()]
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        assert host.run([*(program or ("printf", "%s\\0")), *batch]).stdout.split("\0")[:-1] == batch
    assert not canary.exists()
