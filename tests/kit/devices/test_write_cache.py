"""Write caches: output and arguments of the tools, and what a run makes of them."""

from __future__ import annotations

import pytest

from kit.core.errors import HostError
from kit.devices.inventory import Node
from kit.devices.write_cache import ToolName, WriteCache, argv_of, tool_of
from tests.fakes import Answer, Command, ScriptedHost

HDPARM = "\n/dev/sda:\n write-caching =  1 (on)\n"
SDPARM = "    /dev/sdb: SEAGATE   ST9500620SS       0004\nWCE           1  [cha: y, def:  1, sav:  1]\n"
# nvme-cli 1.12, 2.4 and 2.8.
NVME = (
    "get-feature:0x6 (Volatile Write Cache), Current value:0x000001\n",
    "get-feature:0x06 (Volatile Write Cache), Current value:0x00000001\n",
    "get-feature:0x06 (Volatile Write Cache), Current value:00000001\n",
)


def cache(tool: ToolName) -> WriteCache:
    return WriteCache("ssd", "/dev/disk/by-id/x", tool, "S")


def host(tool: str, answer: Answer, kernel: str = "/dev/nvme0n1", state: str = "write back") -> ScriptedHost:
    name = kernel.rpartition("/")[2]
    files = {f"/sys/class/block/{name}/queue/write_cache": f"{state}\n"}
    program = "hsp-devices" if tool == "model" else tool
    return ScriptedHost({program: answer, "readlink": f"{kernel}\n"}, files=files)


@pytest.mark.parametrize(
    ("tool", "text", "value"),
    [
        ("hdparm", HDPARM, "on"),
        ("hdparm", HDPARM.replace("1 (on)", "0 (off)"), "off"),
        ("hdparm", "\n/dev/sda:\n write-caching = not supported\n", None),
        ("hdparm", "", None),
        ("sdparm", SDPARM, "on"),
        ("sdparm", SDPARM.replace("WCE           1", "WCE           0"), "off"),
        ("sdparm", "    /dev/sdb: X Y 1\nWCE           1\n", "on"),
        ("sdparm", SDPARM.replace("cha: y", "cha: n"), None),
        ("sdparm", "    /dev/sdb: X Y 1\nWCE field in Caching mode page not supported\n", None),
        *(("nvme", text, "on") for text in NVME),
        *(("nvme", text.replace("01\n", "00\n"), "off") for text in NVME),
        ("nvme", "NVMe status: Invalid Field in Command(0x4002)\n", None),
        ("model", "on\n", "on"),
        ("model", "off\n", "off"),
        ("model", "none\n", None),
    ],
)
def test_what_the_tools_print(tool: ToolName, text: str, value: str | None) -> None:
    assert cache(tool).read(host(tool, text)) == value


def test_what_the_tools_are_told() -> None:
    assert argv_of("hdparm", "/dev/x", "off") == ["hdparm", "-W0", "/dev/x"]
    assert argv_of("hdparm", "/dev/x") == ["hdparm", "-W", "/dev/x"]
    assert argv_of("sdparm", "/dev/x", "off") == ["sdparm", "--clear=WCE", "/dev/x"]
    assert argv_of("sdparm", "/dev/x", "on") == ["sdparm", "--set=WCE", "/dev/x"]
    assert argv_of("nvme", "/dev/nvme0", "off") == [
        "nvme",
        "set-feature",
        "/dev/nvme0",
        "--feature-id=6",
        "--value=0",
    ]
    assert argv_of("model", "ssd", "on")[-3:] == ["ssd", "write-cache", "on"]


def test_an_nvme_device_is_that_of_its_controller() -> None:
    answers = iter(["set-feature:0x06\n", NVME[1].replace("01\n", "00\n")])
    found = host("nvme", lambda _: next(answers), "/dev/nvme3n1")
    cache("nvme").write(found, "off")
    assert [argv[2] for argv in found.called("nvme")] == ["/dev/nvme3", "/dev/nvme3"]
    with pytest.raises(HostError, match="is not an NVMe device any more"):
        cache("nvme").read(host("nvme", NVME[0], "/dev/sda"))


def test_a_cache_that_does_not_read_back_is_an_error() -> None:
    with pytest.raises(HostError, match="switched off but reads on") as caught:
        cache("hdparm").write(host("hdparm", HDPARM, "/dev/sda"), "off")
    assert caught.value.hint == "hdparm ended with 0:  write-caching =  1 (on)"
    with pytest.raises(HostError, match="but reads nothing"):
        cache("sdparm").write(host("sdparm", (5, "", "sdparm: not permitted"), "/dev/sda"), "on")


def test_a_cache_that_is_on_must_be_flushed_by_the_kernel() -> None:
    """A disk whose cache was off at boot is not flushed, until the kernel has read it again."""
    found = host("hdparm", HDPARM, "/dev/sda", "write through")
    with pytest.raises(HostError, match="the kernel takes it to be off"):
        cache("hdparm").write(found, "on")
    assert found.called("tee") == [("tee", "/sys/class/block/sda/device/rescan")]


def test_without_its_tool_it_is_said_which_is_missing() -> None:
    with pytest.raises(HostError, match="sdparm is not installed"):
        cache("sdparm").read(host("sdparm", (127, "", "not found"), "/dev/sda"))


def test_a_model_is_waited_for_until_its_cache_is_written_out() -> None:
    def answer(command: Command) -> str:
        return "1500000000\n" if command.argv[-1] == "off" else "off\n"

    found = host("model", answer)
    cache("model").write(found, "off")
    assert found.called("sleep") == [("sleep", "1.500000")]


@pytest.mark.parametrize(
    ("name", "transport", "tool"),
    [
        ("nvme0n1", "nvme", "nvme"), ("sda", "sata", "hdparm"), ("sda", "sas", "sdparm"),
        ("sdb", "", "sdparm"),
        ("sdc", "usb", None), ("vda", "virtio", None), ("dm-0", "", None), ("md0", "", None),
    ],
)  # fmt: skip
def test_the_tool_is_chosen_by_the_kind_of_the_device(name: str, transport: str, tool: str | None) -> None:
    values = dict.fromkeys(Node.__dataclass_fields__, "") | {"kernel_name": name, "transport": transport}
    assert tool_of(Node(**values)) == tool  # type: ignore[arg-type]
