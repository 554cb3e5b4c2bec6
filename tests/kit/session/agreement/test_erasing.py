"""kit.session.agreement.erasing: each device is named by itself, or nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.core.errors import EXIT_SAFETY, SafetyRefusal
from kit.session.agreement.erasing import confirm_erasing

HEAD = """\
name = "t"
[server]
host = "ssh://root@nas"
[[client]]
host = "ssh://client"
"""
DEVICE = """\
[[device]]
name = "{0}"
role = "{1}"
path = "/dev/disk/by-id/ata-{2}"
serial = "{2}"
size = "1GiB"
"""


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    path = tmp_path / "t.toml"
    path.write_text(HEAD + DEVICE.format("data0", "data", "S1") + DEVICE.format("log0", "log", "S2"))
    return read_testbed(path)


def answers(*given: str) -> Callable[[str], str]:
    left = list(given)

    def ask(question: str) -> str:
        assert "/dev/disk/by-id/" in question
        if not left:
            raise EOFError
        return left.pop(0)

    return ask


def test_every_serial_on_the_command_line(testbed: Testbed) -> None:
    confirm_erasing(testbed, ["S2", "S1"], None)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["S1"], "log0, serial S2"),
        (["S1", "S1"], "log0, serial S2"),
        (["S1", "S2", "S3"], "no device with the serial S3"),
        (["S1", "s2"], "no device with the serial s2"),
        (["all"], "no device with the serial all"),
        (["*"], r"no device with the serial \*"),
    ],
)
def test_one_too_few_or_another_is_refused(testbed: Testbed, named: Sequence[str], said: str) -> None:
    with pytest.raises(SafetyRefusal, match=said) as refused:
        confirm_erasing(testbed, named, answers("S1", "S2"))
    assert refused.value.exit_code == EXIT_SAFETY


def test_namespaces_of_one_controller_are_agreed_to_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    first = DEVICE.format("data0", "data", "S1")
    second = DEVICE.format("log0", "log", "S1").replace("ata-S1", "nvme-S1_2")
    path.write_text(HEAD + first + second + DEVICE.format("data1", "data", "S2"))
    both = read_testbed(path)
    with pytest.raises(SafetyRefusal) as refused:
        confirm_erasing(both, ["S1", "S2"], None)
    assert "ata-S1;" in refused.value.message and "nvme-S1_2" in refused.value.message
    assert "data1" not in refused.value.message and "once for each" in refused.value.hint
    confirm_erasing(both, ["S1", "S2", "S1"], None)
    with pytest.raises(SafetyRefusal, match="not the serial number of log0"):
        confirm_erasing(both, [], answers("S1", "S2"))


def test_nobody_to_ask_is_refused_and_says_what_to_add(testbed: Testbed) -> None:
    with pytest.raises(SafetyRefusal, match="not a terminal") as refused:
        confirm_erasing(testbed, [], None)
    assert "--erase-serial S1 --erase-serial S2" in refused.value.hint


def test_a_person_types_each(testbed: Testbed) -> None:
    confirm_erasing(testbed, [], answers("S1\n", " S2 \n"))


@pytest.mark.parametrize("given", [("S1",), ("S1", "y"), ("yes",), ("",), ("S2", "S1"), ("S1", "S1")])
def test_anything_else_is_a_no(testbed: Testbed, given: Sequence[str]) -> None:
    with pytest.raises(SafetyRefusal, match="not the serial number"):
        confirm_erasing(testbed, [], answers(*given))


def test_emulated_devices_need_no_word(testbed: Testbed) -> None:
    confirm_erasing(read_testbed(LAB_TESTBED), [], None)
    with pytest.raises(SafetyRefusal, match="no device with the serial S1"):
        confirm_erasing(read_testbed(LAB_TESTBED), ["S1"], None)
