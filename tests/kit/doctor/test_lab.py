"""Checks for the lab, judged from facts without QEMU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from kit.core.errors import HostError
from kit.doctor import lab
from kit.doctor.checks import LAB
from kit.doctor.lab import LabFacts, gather_lab, judge_lab
from kit.lab.image.image import NEEDED_BYTES, ImageInputs

READY = LabFacts(
    qemu="/usr/bin/qemu-system-x86_64",
    qemu_img="/usr/bin/qemu-img",
    image="/cache/images/0a1b",
    image_fault="",
    tools_fault="",
    free_bytes=NEEDED_BYTES,
    available_bytes=8 << 30,
    kvm="",
)
Clock = Literal["virtual", "real"]


def states(facts: LabFacts, clock: Clock = "virtual") -> dict[str, str]:
    return {finding.check: finding.state for finding in judge_lab(facts, 4 << 30, clock)}


def test_every_check_of_the_lab_has_a_finding() -> None:
    assert states(READY) == {
        "lab-qemu": "ok", "lab-image": "ok", "lab-space": "ok", "lab-memory": "ok", "lab-kvm": "note",
    }  # fmt: skip
    assert set(states(READY)) == {check.name for check in LAB}


@pytest.mark.parametrize(
    ("check", "state", "changes"),
    [
        ("lab-qemu", "fail", {"qemu": None}),
        ("lab-qemu", "fail", {"qemu_img": None}),
        ("lab-image", "note", {"image": None}),
        ("lab-image", "fail", {"image": None, "tools_fault": "mmdebstrap is not installed"}),
        ("lab-image", "ok", {"tools_fault": "mmdebstrap is not installed"}),
        ("lab-image", "fail", {"image": None, "image_fault": "root.img has 0 bytes"}),
        ("lab-space", "fail", {"image": None, "free_bytes": NEEDED_BYTES - 1}),
        ("lab-space", "ok", {"free_bytes": 1 << 30}),
        ("lab-space", "fail", {"free_bytes": 1 << 20}),
        ("lab-space", "warn", {"free_bytes": None}),
        ("lab-memory", "warn", {"available_bytes": 1 << 30}),
        ("lab-memory", "warn", {"available_bytes": None}),
        ("lab-kvm", "note", {"kvm": "there is no /dev/kvm"}),
    ],
)
def test_a_check_with_changed_facts(check: str, state: str, changes: dict[str, Any]) -> None:
    observed = states(replace(READY, **changes))
    # Without an image also lab-image is not ok.
    assert observed == states(READY) | {"lab-image": observed["lab-image"], check: state}


def test_a_real_clock_needs_kvm() -> None:
    assert states(READY, "real")["lab-kvm"] == "note"
    assert states(replace(READY, kvm="there is no /dev/kvm"), "real")["lab-kvm"] == "fail"


def test_facts_of_a_machine_without_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise HostError("mmdebstrap is not installed")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "made" / "yet"))
    monkeypatch.setattr(lab, "check_tools", fails)
    monkeypatch.setattr(lab, "_KVM", tmp_path / "kvm")
    monkeypatch.setattr(lab, "_MEMINFO", tmp_path / "meminfo")
    facts = gather_lab(ImageInputs())
    assert (facts.qemu, facts.image, facts.available_bytes) == (None, None, None)
    assert facts.free_bytes and "no " in facts.kvm and "mmdebstrap" in facts.tools_fault
    assert not (tmp_path / "not").exists()
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert gather_lab(ImageInputs()).available_bytes == 2048 << 10
