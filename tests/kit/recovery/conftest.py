"""A run of each kind, with its moments, for tests that strike at them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.kit.recovery.strikes import KINDS, Moment, Struck, new_world
from tests.machines.world import Wire, differences


@dataclass(frozen=True)
class Whole:
    """A run without a strike, and its moments. `breaks`: number of a command, and when in it.

    `sent`: its commands, by machine.
    """

    struck: Struck
    sent: list[tuple[str, list[str]]]
    moments: list[Moment]
    breaks: list[tuple[int, str]]

    @property
    def fullest(self) -> Moment:
        """All is made, and nothing is undone yet."""
        return next(
            each for each in self.moments if '"step": "undo: ' in each.text and "/run/" not in each.text
        )


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with pytest.MonkeyPatch.context() as patch:
        struck, wire = Struck(request.param, tmp_path_factory.mktemp("struck"), patch), Wire(new_world())
        with struck.watched(wire) as moments:
            outcome = struck.execute(wire)
        assert outcome and outcome.failure is None and outcome.left == [], outcome
        assert differences(struck.pristine, wire.world) == []
        lines = map(json.loads, (struck.run.raw / "commands.jsonl").read_text().splitlines())
        sent = [(line["host"], line["argv"]) for line in lines if "argv" in line]
        yield Whole(struck, sent, moments, breaks(wire))


def breaks(wire: Wire) -> list[tuple[int, str]]:
    return [(number, when) for number, listed in wire.moments.items() for when in listed]


def left_after(struck: Struck, moments: Sequence[Moment]) -> list[str]:
    """What a clean leaves, with the moment of the kill."""
    found = []
    for moment in moments:
        if problems := struck.problems(struck.put_back(moment)):
            found.append(f"killed at {moment.text}: {problems[0][:400]}")
    return found


def is_told(moment: Moment) -> bool:
    """Whether a setting of the user's has changed another, and the journal does not have that yet."""
    text = moment.files["journal.jsonl"].decode()
    return (
        moment.world.machines["nas"].settings == {"a": "on", "b": "off"}
        and '"known": {"settings"' not in text
    )
