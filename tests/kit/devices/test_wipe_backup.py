"""kit.devices.wipe_backup: copies of real bytes, whatever the size; nothing is wiped without them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import ConfigError, SafetyRefusal
from kit.devices import wipe_backup
from kit.devices.check import Checked, judge
from kit.devices.tool_output import Signature
from kit.devices.wipe import plan_wipe, wipe
from kit.devices.wipe_backup import Region, regions, save
from kit.hosts.local import LocalHost
from tests.fakes import Answer, Command, ScriptedHost
from tests.kit.devices.facts import parse, recorded, spec_of

KIB = 1 << 10


def checked(disk: str = "vd5") -> Checked:
    return judge(parse("server", recorded("pools")), [spec_of(disk)])[0]


@given(st.integers(64 << 11, 1 << 33), st.lists(st.integers(0, 1 << 33), max_size=4))
def test_every_label_and_signature_is_copied_whatever_the_size(sectors: int, offsets: list[int]) -> None:
    size = sectors * 512
    node = dataclasses.replace(checked().node, size_bytes=size)  # type: ignore[type-var]
    assert node is not None
    found = [Signature(node.kernel_name, "ext4", offset % size, "") for offset in offsets]
    spans = [(r.offset_bytes, r.offset_bytes + r.length_bytes) for r in regions([node], found)]
    aligned = size // (256 * KIB) * (256 * KIB)
    wanted = [(n * 256 * KIB, (n + 1) * 256 * KIB) for n in (0, 1)]
    wanted += [(aligned - n * 256 * KIB, aligned - (n - 1) * 256 * KIB) for n in (1, 2)]
    # Both GPTs of disks with sectors of 4 KiB, and the begin of each signature.
    wanted += [(0, 24 * KIB), (size - 24 * KIB, size)]
    wanted += [(s.offset_bytes, min(s.offset_bytes + 4 * KIB, size)) for s in found]
    for start, end in wanted:
        assert any(first <= start and end <= last for first, last in spans), (start, end, spans)
    assert all(0 <= first < last <= size for first, last in spans)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))


def test_copies_are_dated_private_and_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    content = os.urandom(3 << 20)
    disk.write_bytes(content)
    monkeypatch.setattr(wipe_backup, "_READ", wipe_backup._READ.replace('if="$1"', f"if={disk}"))
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0)))
    copied = [Region("vdh", 0, 1 << 20), Region("vdh1", 2000000, 1145728)]
    folders = [save(LocalHost("server"), checked(), [], copied, tmp_path / "results") for _ in range(3)]
    assert [str(folder.relative_to(tmp_path)) for folder in folders] == [
        f"results/wiped/20260102T030405Z-HSPVD5{suffix}" for suffix in ("", "-2", "-3")
    ]
    for folder in folders:
        assert (folder / "vdh-at-0.bin").read_bytes() == content[: 1 << 20]
        assert (folder / "vdh1-at-2000000.bin").read_bytes() == content[2000000:]
        entry = json.loads((folder / "wipe.json").read_text())
        assert entry["device"]["serial"] == "HSPVD5" and len(entry["files"]) == 2
        assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}


class Server(ScriptedHost):
    """Has the disks of a recorded guest, all bytes of which are zero; `short` gives fewer."""

    short = False

    def answer(self, command: Command) -> Answer:
        if "base64" in " ".join(command.argv):
            # base64 of three zero bytes; the pad is right because 3 divides what is asked below.
            length = int(command.argv[-1]) - 3 * self.short
            return "AAAA" * (length // 3) + ("", "AA==", "AAA=")[length % 3]
        if command.argv[:2] == ("/usr/bin/python3", "-I"):
            return recorded("pools")
        return super().answer(command)

    def writes(self) -> list[str]:
        return [c.argv[0] for c in self.commands if c.argv[0] in ("zpool", "wipefs", "blockdev")]


def test_nothing_is_wiped_without_its_copy(tmp_path: Path) -> None:
    host = Server()
    planned = plan_wipe(host, spec_of("vd5"))
    host.short = True
    with pytest.raises(SafetyRefusal, match=r"is not touched: of \d+ bytes of /dev/vdh"):
        wipe(host, planned, tmp_path)
    host.short = False
    (tmp_path / "wiped").write_text("a file is in the way")
    with pytest.raises(ConfigError, match="wiped is not a directory"):
        wipe(host, planned, tmp_path)
    assert host.writes() == []
    # The copies come first; the recorded disk is as before afterwards, so the check at the end refuses it.
    with pytest.raises(SafetyRefusal):
        wipe(host, planned, tmp_path / "results")
    assert host.writes()[:1] == ["zpool"]
    assert len(list((tmp_path / "results" / "wiped").glob("*-HSPVD5/*.bin"))) == len(planned.copied) >= 5
