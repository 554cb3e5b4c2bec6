"""A guest that was saved once, and the labs that resume it."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from kit.core.clock import Clock
from kit.core.progress import Progress
from kit.hosts.ssh import SshHost
from kit.lab import warm
from kit.lab.guest import RunningLab
from kit.lab.image.image import Image
from kit.lab.qemu import LabSpec

PROTECTS = ("kit/lab",)
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]

# What a lab must have for itself, each printed on a line.
_OWN = """\
cat /proc/sys/kernel/random/boot_id
head -c 32 /dev/urandom | sha256sum
cut -d" " -f2 /etc/ssh/hsp_authorized_keys
sha256sum </etc/ssh/hsp_host_ed25519
cat /proc/sys/kernel/random/uuid
"""


@pytest.fixture(scope="module")
def spec(image: Image) -> LabSpec:
    return LabSpec(image.path, Clock("virtual", 4), memory_mib=2048)


def own(guest: SshHost) -> list[str]:
    return guest.run(["sh", "-c", _OWN]).stdout.splitlines()


def test_two_labs_resume_one_guest_at_once_and_share_no_secret(spec: LabSpec, image: Image) -> None:
    with ExitStack() as stack:
        labs = [stack.enter_context(warm.open_lab(spec, image, Progress())) for _ in range(2)]
        for lab in labs:
            lab.wait_ready()
        guests = [stack.enter_context(lab.host()) for lab in labs]
        one, other = (own(guest) for guest in guests)
        assert len(one) == len(other) == 5
        assert [same for same in one if same in other] == []
        # What one writes, neither the other nor the next one has.
        guests[0].run(["touch", "/root/mine"])
        assert guests[1].run(["test", "-e", "/root/mine"], check=False).returncode == 1
        versions = [guest.run(["zfs", "version", "-j"]).stdout for guest in guests]
        assert versions[0] == versions[1]
    # It had booted before it was saved: nothing of a boot is in a resumed lab's console.
    with warm.open_lab(spec, image, Progress()) as lab:
        lab.wait_ready()
        assert [line for line in lab.console().splitlines() if line.strip()] == ["hsp-guest: ready"]
        with lab.host() as guest:
            assert guest.run(["test", "-e", "/root/mine"], check=False).returncode == 1


def test_a_half_written_one_is_found_out_and_made_anew(
    spec: LabSpec,
    image: Image,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A copy: other labs may resume from the saved guest at this moment.
    place = warm.saved(spec, image, Progress()).memory.parent
    shutil.copytree(place, tmp_path / "warm" / place.name)
    monkeypatch.setattr(warm, "cache_dir", lambda: tmp_path)
    found = warm.saved(spec, image, Progress())
    with found.memory.open("r+b") as file:
        file.truncate(found.memory.stat().st_size // 2)
    (found.memory.parent.parent / f".build-{found.memory.parent.name}-1").mkdir()
    with warm.open_lab(spec, image, Progress()) as lab:
        lab.wait_ready()
        with lab.host() as guest:
            assert guest.run(["true"]).returncode == 0
    assert "the saved guest cannot be used and is made again" in capsys.readouterr().err
    assert warm.damage(found.memory.parent) == ""
    assert not list(found.memory.parent.parent.glob(f".build-{found.memory.parent.name}-*"))


def test_one_that_does_not_resume_is_not_kept(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first is saved while it stands still: QEMU resumes it so, and it never becomes ready."""
    spec = LabSpec(image.path, Clock("virtual", 4), memory_mib=1024)
    real, stopped = warm.monitor, []

    def monitor(state: Path, command: str, **arguments: object) -> object:
        if command == "migrate" and not stopped:
            stopped.append(real(state, "stop"))
        return real(state, command, **arguments)

    monkeypatch.setattr(warm, "monitor", monitor)
    monkeypatch.setattr(warm, "RESUME_DEADLINE_S", 15.0)
    monkeypatch.setattr(warm, "cache_dir", lambda: tmp_path)
    warm.saved(spec, image, Progress())
    assert stopped and "saved in a state that does not resume" in capsys.readouterr().err
    [kept] = tmp_path.glob("warm/*/memory-*")
    assert warm.damage(kept.parent) == ""
    with warm.open_lab(spec, image, Progress()) as lab:
        lab.wait_ready()


def test_a_stream_that_qemu_does_not_take_is_named(spec: LabSpec, image: Image, tmp_path: Path) -> None:
    found = warm.saved(spec, image, Progress())
    broken = tmp_path / "memory"
    broken.write_bytes(found.memory.read_bytes()[:100_000])
    with (
        pytest.raises(warm.HostError, match="QEMU ended with"),
        RunningLab(spec, resume=warm.SavedGuest(found.root, broken)) as lab,
    ):
        lab.wait_ready(60)
