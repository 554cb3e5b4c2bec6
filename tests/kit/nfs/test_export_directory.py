"""A directory of our own in somebody else's export, and nothing else of it touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import CommandFailed, Result
from kit.nfs import export_directory

RUN = "20261121T061754Z-ba55f9"
DIRECTORY = export_directory.name_of(RUN)
TARGET = f"/mnt/hsp-{RUN}"
WAY = {"source": "nas:/x", "version": "3", "options": ["hard"]}


class Client:
    name = "client"

    def __init__(
        self, mounted: bool = True, files: Sequence[str] = (), room: str = "Avail\n1000000\n"
    ) -> None:
        self.mounted, self.room = mounted, room
        self.there = {f"{TARGET}/{DIRECTORY}", *(f"{TARGET}/{DIRECTORY}/{file}" for file in files)}
        self.calls: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], check: bool = True, deadline_s: float = 120, **_: Any) -> Result:
        self.calls.append(tuple(argv))
        code, out, err = self.do(list(argv))
        result = Result(self.name, tuple(argv), code, out, err)
        if code and check:
            raise CommandFailed(result)
        return result

    def do(self, argv: list[str]) -> tuple[int, str, str]:
        mount = f"nas:/x {TARGET} nfs rw,vers=3,hard 0 0\n" if self.mounted else ""
        if argv == ["cat", "/proc/mounts"]:
            return 0, mount, ""
        if argv[0] == "cat":
            return 1, "", "No such file"
        if argv[0] in ("mount", "umount"):
            self.mounted = argv[0] == "mount"
        if argv[0] == "df":
            return 0, self.room, ""
        if argv[0] == "rm":
            self.there.discard(argv[-1])
        if argv[0] == "rmdir" and argv[-1] == f"{TARGET}/{DIRECTORY}":
            if argv[-1] not in self.there:
                return 1, "", "rmdir: failed to remove: No such file or directory"
            if len(self.there) > 1:
                return 1, "", "rmdir: failed to remove: Directory not empty"
            self.there.clear()
        return 0, "", ""


def remove(client: Client, directory: str = DIRECTORY, file: str = "data") -> None:
    export_directory.remove(client, TARGET, directory, file, **WAY)  # type: ignore[arg-type]


def test_it_is_removed_twice() -> None:
    client = Client(files=["data"])
    remove(client)
    remove(client)
    assert not client.there and client.mounted


def test_what_somebody_else_put_there_stays() -> None:
    client = Client(files=["data", "thesis.tex"])
    with pytest.raises(HostError, match="Directory not empty") as caught:
        remove(client)
    assert f"{TARGET}/{DIRECTORY}/thesis.tex" in client.there and "somebody else" in caught.value.hint


def test_after_a_reboot_of_the_client_it_is_mounted_for_that_and_unmounted_again() -> None:
    client = Client(mounted=False, files=["data"])
    remove(client)
    assert not client.there and not client.mounted
    assert any(call[0] == "mount" for call in client.calls)


@pytest.mark.parametrize(
    ("directory", "file"),
    [("..", "data"), ("hsp-x", "data"), ("", "data"), (DIRECTORY, "../x"), (DIRECTORY, ""), (DIRECTORY, "-r"),
     (f"{DIRECTORY}/..", "data"), ("/etc", "passwd")],
)  # fmt: skip
def test_anything_else_is_left_alone(directory: str, file: str) -> None:
    client = Client()
    with pytest.raises(SafetyRefusal, match="left alone"):
        remove(client, directory, file)
    assert not client.calls


@pytest.mark.parametrize("room", ["Avail\n1000\n", "", "Avail\n-\n", "Avail\n1050000\n"])
def test_an_export_without_room_is_not_filled(room: str) -> None:
    client = Client(room=room)
    with pytest.raises(HostError, match="free, the working set of"):
        export_directory.fill(client, TARGET, DIRECTORY, "data", 1_000_000, 4096)  # type: ignore[arg-type]
    assert [call[0] for call in client.calls] == ["df"]


def test_an_export_that_cannot_be_written_says_what_to_do() -> None:
    class Denied(Client):
        def do(self, argv: list[str]) -> tuple[int, str, str]:
            return (1, "", "mkdir: Permission denied") if argv[0] == "mkdir" else super().do(argv)

    with pytest.raises(HostError, match="Permission denied") as caught:
        export_directory.make(Denied(), TARGET, DIRECTORY)  # type: ignore[arg-type]
    assert "squashed" in caught.value.hint
