"""kit.precondition.purge: which way a device is purged, and that no sibling namespace is ever hit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError, SafetyRefusal
from kit.devices.block_device import BlockDevice
from kit.precondition.purge import Nvme, decide, look_up_nvme, parse_nvme, purge, sanitize_status
from tests.fakes import Answer, ScriptedHost

NVME = BlockDevice("/dev/disk/by-id/nvme-x", "nvme0n1", 10**9, 512, 10**9, "S1", "Model", "nvme")
SATA = BlockDevice("/dev/sda", "sda", 10**9, 512, 1 << 30, "S2", "Model", "sata")
# As nvme-cli 2 prints them (the keys that matter here).
ONE = {"nsid_list": [{"nsid": 1}]}
TWO = {"nsid_list": [{"nsid": 1}, {"nsid": 2}]}
CONTROLLER = {"oacs": 0x1F, "fna": 0x4, "sanicap": 0xA0000002, "cmic": 0, "nn": 32, "sn": "S1"}


def controller(namespaces: Any = ONE, **fields: Any) -> Nvme:
    return parse_nvme("/dev/nvme0", {**CONTROLLER, **fields}, namespaces, ONE)


@pytest.mark.parametrize(
    ("device", "nvme", "command"),
    [
        (NVME, controller(fna=0x7), "nvme format /dev/disk/by-id/nvme-x --ses=1"),
        (NVME, controller(TWO, fna=4), "nvme format /dev/disk/by-id/nvme-x --ses=1"),  # of this namespace
        (NVME, controller(oacs=0x8), "nvme sanitize /dev/nvme0 --sanact=2"),
        (NVME, controller(oacs=0x8, sanicap=0), "blkdiscard /dev/disk/by-id/nvme-x"),
        (NVME, None, "blkdiscard /dev/disk/by-id/nvme-x"),  # no nvme-cli: a discard hits no sibling
        (SATA, None, "blkdiscard /dev/sda"),
    ],
)
def test_the_best_method_of_the_device_is_chosen(
    device: BlockDevice, nvme: Nvme | None, command: str
) -> None:
    chosen = decide(device, nvme)
    assert " ".join(chosen.argv) == command and command.startswith(chosen.method)


@pytest.mark.parametrize("fna", [1, 2, 3, 7])
def test_a_format_that_takes_siblings_along_is_refused(fna: int) -> None:
    with pytest.raises(
        SafetyRefusal, match=r"has 2 namespaces \(1, 2\), and nvme format would erase"
    ) as caught:
        decide(NVME, controller(TWO, fna=fna))
    assert caught.value.exit_code == 4
    assert 'purge = "discard"' in caught.value.hint


def test_a_sanitize_always_takes_siblings_along() -> None:
    with pytest.raises(SafetyRefusal, match="nvme sanitize would erase them all"):
        decide(NVME, controller(TWO, fna=0), "sanitize")
    with pytest.raises(SafetyRefusal, match="nvme sanitize would erase them all"):
        decide(NVME, controller(TWO, oacs=0x8))


@pytest.mark.parametrize(
    "nvme",
    [
        controller(None),
        controller({"nsid_list": "garbage"}, fna=None),
        controller({"nsid_list": []}, fna=3),
        parse_nvme("/dev/nvme0", {**CONTROLLER, "fna": True}, TWO, ONE),
        # Without namespace management and with several controllers, another one may have more namespaces.
        controller(oacs=0x2, cmic=2, fna=1),
        controller(oacs=0x2, cmic=None, fna=1),
    ],
)
def test_unknown_siblings_count_as_siblings(nvme: Nvme) -> None:
    nvme = Nvme(
        nvme.controller, nvme.namespaces, nvme.oacs, 3 if nvme.fna is not None else None, nvme.sanicap
    )
    with pytest.raises(SafetyRefusal, match="would erase them all"):
        decide(NVME, nvme)
    assert decide(NVME, nvme, "discard").method == "blkdiscard"


@given(
    st.none() | st.lists(st.integers(1, 9), unique=True, max_size=4).map(tuple),
    st.none() | st.integers(0, 255),
    st.none() | st.integers(0, 255),
    st.none() | st.integers(0, 7),
    st.sampled_from(["auto", "format", "sanitize", "discard"]),
)
def test_never_more_than_one_namespace_is_erased(
    namespaces: tuple[int, ...] | None, oacs: int | None, fna: int | None, sanicap: int | None, requested: Any
) -> None:
    try:
        chosen = decide(NVME, Nvme("/dev/nvme0", namespaces, oacs, fna, sanicap), requested)
    except SafetyRefusal:
        return
    assert not any(word.startswith(("-f", "--force")) for word in chosen.argv)
    if chosen.method == "nvme sanitize":
        assert namespaces is not None and len(namespaces) == 1
    if chosen.method == "nvme format":
        alone = namespaces is not None and len(namespaces) == 1
        assert alone or (fna is not None and fna & 3 == 0)


def test_a_device_without_discard_is_refused_with_what_to_do() -> None:
    none = BlockDevice("/dev/sdb", "sdb", 10**9, 512, 0, "", "", "sata")
    with pytest.raises(SafetyRefusal, match="it has no discard") as caught:
        decide(none, None)
    assert 'precondition = "none"' in caught.value.hint


def test_an_unsupported_method_is_refused() -> None:
    with pytest.raises(SafetyRefusal, match="needs an NVMe device and nvme-cli"):
        decide(SATA, None, "format")
    with pytest.raises(SafetyRefusal, match="does not support format"):
        decide(NVME, controller(oacs=0x8), "format")


ID_CTRL, LIST_NS, LIST_ALL = "nvme id-ctrl", "nvme list-ns", "nvme list-ns /dev/nvme0 --all"
SANITIZE_LOG = "nvme sanitize-log"
REFUSED = (1, "", "NVMe status: INVALID_FIELD")


def server(answers: dict[str, Answer]) -> ScriptedHost:
    return ScriptedHost(answers, default={})


def test_namespaces_come_from_the_controller() -> None:
    host = server({ID_CTRL: CONTROLLER, LIST_ALL: TWO, LIST_NS: ONE})
    nvme = look_up_nvme(host, NVME.kernel_name)
    assert nvme == Nvme("/dev/nvme0", (1, 2), 0x1F, 0x4, 0xA0000002)
    assert look_up_nvme(host, SATA.kernel_name) is None
    assert look_up_nvme(server({"sh": 127}), NVME.kernel_name) is None


def test_a_controller_that_does_not_answer_is_not_formatted() -> None:
    host = server({ID_CTRL: REFUSED, LIST_NS: REFUSED})
    assert purge(host, NVME).method == "blkdiscard"
    assert not any("format" in command for command in host.calls)


def sanitize_log(status: str) -> dict[str, Any]:
    return {"nvme0": {"sprog": 100, "sstat": {"global_erased": 0, "no_cmplted_passes": 0, "status": status}}}


def test_a_sanitize_is_waited_for() -> None:
    log = [sanitize_log("(2) in progress"), sanitize_log("(2) in progress"), sanitize_log("(1) done")]
    able = {ID_CTRL: {**CONTROLLER, "oacs": 0x8}, LIST_NS: ONE}
    host, pauses = server({**able, SANITIZE_LOG: log}), list[float]()
    assert purge(host, NVME, pause=pauses.append).method == "nvme sanitize"
    assert len(pauses) == 2
    failed = server({**able, SANITIZE_LOG: sanitize_log("(3) failed")})
    with pytest.raises(HostError, match="the sanitize of /dev/nvme0 failed"):
        purge(failed, NVME, pause=pauses.append)


@pytest.mark.parametrize("log", [None, {}, [], {"nvme0": {}}, {"a": 1}, {"a": {"sstat": {"status": "x"}}}])
def test_a_log_that_cannot_be_read_has_no_status(log: Any) -> None:
    assert sanitize_status(log) is None
