"""kit.nfs.export_directory: a run's directory in an export, and nothing else of it is changed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.nfs import export_directory
from tests.fakes import Answer, Command, ScriptedHost

RUN = "20261121T061754Z-ba55f9"
DIRECTORY = export_directory.name_of(RUN)
TARGET = f"/mnt/hsp-{RUN}"
WAY = {"source": "nas:/x", "version": "3", "options": ["hard"]}


class Client(ScriptedHost):
    def __init__(
        self, mounted: bool = True, files: Sequence[str] = (), room: str = "Avail\n1000000\n"
    ) -> None:
        super().__init__({"df": room}, name="client")
        self.mounted = mounted
        self.looks_until_closed = 0
        self.exported = {f"{TARGET}/{DIRECTORY}", *(f"{TARGET}/{DIRECTORY}/{file}" for file in files)}

    def answer(self, command: Command) -> Answer:
        program, *_, path = command.argv
        if program == "cat":
            mounts = f"nas:/x {TARGET} nfs rw,vers=3,hard 0 0\n" if self.mounted else ""
            return mounts if path == "/proc/mounts" else (1, "", "No such file")
        if program in ("mount", "umount"):
            self.mounted = program == "mount"
        if program == "rm" and self.looks_until_closed and path in self.exported:
            self.exported.add(f"{TARGET}/{DIRECTORY}/.nfs0001")
        if program == "rm":
            self.exported -= set(command.argv)
        if program == "find" and path == ".nfs*":
            self.looks_until_closed -= 1
            renamed = [each for each in self.exported if "/.nfs" in each]
            if not self.looks_until_closed:
                self.exported -= {*renamed}
            return "\n".join(renamed)
        if program == "rmdir" and path == f"{TARGET}/{DIRECTORY}":
            if path not in self.exported:
                return 1, "", "rmdir: failed to remove: No such file or directory"
            if len(self.exported) > 1:
                return 1, "", "rmdir: failed to remove: Directory not empty"
            self.exported.clear()
        return super().answer(command)


def remove(client: Client, directory: str = DIRECTORY, file: str = "data") -> None:
    export_directory.remove(client, TARGET, directory, file, **WAY)


def test_removal_can_be_repeated() -> None:
    client = Client(files=["data", export_directory.RECORDS])
    remove(client)
    remove(client)
    assert not client.exported and client.mounted


def test_a_file_that_is_still_open_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_directory, "_POLL_S", 0.0)
    client = Client(files=["data"])
    client.looks_until_closed = 3
    remove(client)
    assert not client.exported and not client.looks_until_closed


def test_files_of_others_stay() -> None:
    client = Client(files=["data", "thesis.tex"])
    with pytest.raises(HostError, match="Directory not empty") as caught:
        remove(client)
    assert f"{TARGET}/{DIRECTORY}/thesis.tex" in client.exported and "somebody else" in caught.value.hint


def test_after_a_client_reboot_the_export_is_mounted_for_the_removal() -> None:
    client = Client(mounted=False, files=["data"])
    remove(client)
    assert not client.exported and not client.mounted
    assert any(call[0] == "mount" for call in client.calls)


@pytest.mark.parametrize(
    ("directory", "file"),
    [("..", "data"), ("hsp-x", "data"), ("", "data"), (DIRECTORY, "../x"), (DIRECTORY, ""), (DIRECTORY, "-r"),
     (f"{DIRECTORY}/..", "data"), ("/etc", "passwd")],
)  # fmt: skip
def test_nothing_else_is_removed(directory: str, file: str) -> None:
    client = Client()
    with pytest.raises(SafetyRefusal, match="was not removed"):
        remove(client, directory, file)
    assert not client.calls


@pytest.mark.parametrize("room", ["Avail\n1000\n", "", "Avail\n-\n", "Avail\n1050000\n"])
def test_an_export_without_room_is_not_filled(room: str) -> None:
    client = Client(room=room)
    fill = export_directory.fill_command(f"{TARGET}/{DIRECTORY}", "data", 1_000_000, 4096)
    with pytest.raises(HostError, match="free, the working set of"):
        export_directory.fill(client, TARGET, fill, 1_000_000)
    assert [call[0] for call in client.calls] == ["df"]


def test_an_export_that_cannot_be_written_says_what_to_do() -> None:
    client = ScriptedHost({"mkdir": (1, "", "mkdir: Permission denied")})
    with pytest.raises(HostError, match="Permission denied") as caught:
        export_directory.make(client, export_directory.make_command(f"{TARGET}/{DIRECTORY}"))
    assert "squashed" in caught.value.hint
