"""`hsp lab up --here` around the devices' server, which is played here: this needs neither root nor ublk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.cli import emulated_device
from kit.core.errors import ConfigError, HostError
from kit.emulation.served import ServedDevices
from tests.fakes import ScriptedHost

TEXT = '[[device]]\nname = "ssd0"\nsize = "64MiB"\npreset = "nvme-consumer"\nkeep = "ssd0.state"\n'


class Server(ServedDevices):
    """Whether it runs, and the commands that it got."""

    def __init__(self, refuses: str) -> None:
        self.refuses, self.running, self.commands = refuses, False, list[str]()
        super().__init__(ScriptedHost())

    def start(self, *_: Any, **__: Any) -> dict[str, str]:
        self.running = True
        return {"ssd0": "/dev/ublkb0"}

    def tell(self, name: str, word: str, path: str) -> None:
        self.commands.append(word)
        if word == self.refuses:
            raise HostError("not its state")
        if word == "save":
            self.host.put(b"new state", path)

    def stop(self) -> None:
        self.running = False

    def is_running(self) -> bool:
        return self.running


def emulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str = "") -> Server:
    server = Server(refuses)
    (tmp_path / "devices.toml").write_text(TEXT)
    (tmp_path / "ssd0.state").write_bytes(b"old state")
    monkeypatch.setattr(emulated_device, "ServedDevices", lambda host: server)
    monkeypatch.setattr(emulated_device.os, "geteuid", lambda: 0)
    monkeypatch.setattr(emulated_device, "_wait", lambda served: None)
    try:
        emulated_device.serve(tmp_path / "devices.toml", json_output=False)
    finally:
        assert not server.running
    return server


def test_the_state_is_kept_when_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert emulate(tmp_path, monkeypatch).commands == ["load", "save"]
    assert (tmp_path / "ssd0.state").read_bytes() == b"new state"


def test_a_state_that_cannot_be_loaded_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="not its state"):
        emulate(tmp_path, monkeypatch, refuses="load")
    assert (tmp_path / "ssd0.state").read_bytes() == b"old state"


@pytest.mark.parametrize(("sudo", "advice"), [("/usr/bin/sudo", "sudo hsp"), (None, "as root: hsp")])
def test_sudo_is_advised_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sudo: str | None, advice: str
) -> None:
    (tmp_path / "devices.toml").write_text(TEXT)
    monkeypatch.setattr(emulated_device.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(emulated_device.shutil, "which", lambda program: sudo)
    with pytest.raises(HostError, match="only root") as caught:
        emulated_device.serve(tmp_path / "devices.toml", json_output=False)
    assert caught.value.hint.startswith(f"{advice} lab up --here")
