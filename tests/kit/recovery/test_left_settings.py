"""kit.recovery.left_settings: after kill -9, who contacts the server next hears what is still set there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import read_testbed
from kit.core.errors import KitError
from kit.recovery import registry
from kit.recovery.journal import Journal
from kit.recovery.left_settings import left_on
from tests.conftest import Called

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml"
RUN = "20260101T000000Z-abcdef"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path / "state"))
    path = tmp_path / "results" / "w" / RUN
    path.mkdir(parents=True)
    plan = {"hosts": {"server": "ssh://nas", "client0": "ssh://c"}, "ssh_config": None}
    (path / "plan.json").write_text(json.dumps(plan))
    return path


def killed(path: Path, **settings: str) -> Journal:
    """A journal as a run leaves it that has set these, and was killed."""
    journal = Journal(path / "journal.jsonl")
    entry = registry.enter(RUN, path)
    journal.begin(RUN, "x", registry.digest(entry.token))
    for name, value in settings.items():
        arguments: dict[str, Any] = {"name": name, "value": "0", "effect": "", "set": value}
        journal.on_teardown("tunable", "server", f"set {name} back", **arguments)
    return journal


def test_what_is_for_all_pools_is_said_by_server(run: Path) -> None:
    with killed(run, zil_nocacheflush="1", zfs_txg_timeout="1"):
        # It goes on.
        assert list(left_on({"ssh://nas"})) == []
    (text,) = left_on({"ssh://nas"})
    assert text.startswith(f"zil_nocacheflush of ssh://nas was set to 1 by the run {run}")
    assert f"`hsp clean {run}`" in text
    assert list(left_on({"ssh://other", "ssh://c"})) == []
    registry.leave(RUN)
    assert list(left_on({"ssh://nas"})) == []


def test_what_is_damaged_or_not_known_says_nothing(run: Path) -> None:
    killed(run, zil_nocacheflush="1").close()
    (run / "plan.json").write_text("[]")
    assert list(left_on({"ssh://nas"})) == []
    (run / "journal.jsonl").write_text("{}\n")
    assert list(left_on({"ssh://nas"})) == []


@pytest.mark.parametrize(
    "command",
    [
        ("host", "disks"),
        (
            "host",
            "check",
        ),
        ("run", "top-speeds"),
    ],
)
def test_each_command_that_contacts_the_server_says_it(
    hsp_here: Called, run: Path, tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(run, zil_nocacheflush="1").close()
    bed = tmp_path / "bed.toml"
    bed.write_text(EXAMPLE.read_text().replace("ssh://root@nas", "ssh://nas"))
    serials = [
        word for device in read_testbed(bed).device for word in ("--erase-serial", device.serial or "")
    ]

    def refuse(*_: object, **__: object) -> None:
        raise KitError("not contacted here")

    for module in ("kit.setup.remote_site", "kit.cli.host.check"):
        monkeypatch.setattr(f"{module}.open_host", refuse)
    more = (*serials, "--results", os.fspath(tmp_path / "elsewhere")) if command[0] == "run" else ()
    done = hsp_here(*command, "--testbed", os.fspath(bed), *more)
    assert "warning: zil_nocacheflush of ssh://nas was set to 1" in done.stderr, done.stderr
