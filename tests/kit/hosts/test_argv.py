"""Arguments arrive as they were sent, whatever is in them, over SSH with and without supervision.

Hypothesis makes the strings; they are sent some hundred a command, so that thousands take seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kit.config.address import parse_address
from kit.hosts.ssh import SshHost
from kit.hosts.ssh_connect import connect
from kit.hosts.sudo import SudoHost

from .conftest import Sshd

pytestmark = pytest.mark.one_python

EXAMPLES = 2500
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
ARGUMENT = st.lists(_PIECES, max_size=6).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)


def hostile(canary: Path) -> list[str]:
    """Strings that would run a program, end a quotation or be taken for an option."""
    found: list[str] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(ARGUMENT)
    def collect(text: str) -> None:
        found.append(text.replace("CANARY", str(canary)))

    collect()
    return found


@pytest.fixture
def host(sshd: Sshd, tmp_path: Path) -> Iterator[SshHost]:
    config = sshd.config(tmp_path / "config", sshd.known_hosts(tmp_path / "known_hosts"))
    with connect(parse_address("ssh://far"), config_path=config) as opened:
        yield opened.inner if isinstance(opened, SudoHost) else opened  # type: ignore[misc]


def echoed(host: SshHost | SudoHost, program: list[str], arguments: list[str]) -> list[str]:
    return host.run([*program, *arguments]).stdout.split("\0")[:-1]


@pytest.mark.parametrize("supervised", [True, False])
def test_hostile_arguments_arrive_as_they_are(host: SshHost, tmp_path: Path, supervised: bool) -> None:
    if not supervised:
        host.supervision = None
    canary = tmp_path / "canary"
    arguments = hostile(canary)
    assert len(set(arguments)) > EXAMPLES / 2
    for start in range(0, len(arguments), _BATCH):
        batch = arguments[start : start + _BATCH]
        assert echoed(host, ["printf", "%s\\0"], batch) == batch
    assert not canary.exists()


def test_a_hostile_program_is_one_that_is_not_there(host: SshHost, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in (
        f"touch {canary}",
        f"$(touch {canary})",
        f";touch {canary}",
        "-c",
        "",
        "a\nb",
        f"x=1 touch {canary}",
    ):
        assert host.run([name, str(canary)], check=False).returncode in (126, 127)
    assert not canary.exists()


def test_a_nul_byte_is_refused_here(host: SshHost) -> None:
    with pytest.raises(ValueError):
        host.run(["echo", "a\0b"])
