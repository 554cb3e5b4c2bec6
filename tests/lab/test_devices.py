"""Emulated devices in the guest: content, latency, faults, power losses, and a server that dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.config.testbed_devices import EmulatedDevice, resolve_devices
from kit.core.errors import HostError
from kit.emulation import compilation
from kit.emulation.devices_file import keep_states, load_states, served_devices
from kit.emulation.served import ServedDevices, counters_command, tell_command
from kit.hosts.base import CommandFailed, Host
from tests.lab.conftest import RunningLab

PROTECTS = ("kit/emulation",)
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]

DILATION = 4
DEVICES = (
    EmulatedDevice(name="disk", size="64MiB", preset="disk-7200"),
    EmulatedDevice(name="plp", size="64MiB", preset="ssd-2009-write"),
    EmulatedDevice(name="consumer", size="64MiB", preset="nvme-consumer"),
    EmulatedDevice(name="liar", size="64MiB", preset="ssd-lying"),
)


@pytest.fixture(scope="module")
def devices() -> tuple[EmulatedDevice, ...]:
    return resolve_devices(DEVICES, Path(__file__))


@pytest.fixture
def served(running_lab: RunningLab, devices: tuple[EmulatedDevice, ...]) -> Iterator[ServedDevices]:
    served = ServedDevices(running_lab.guest)
    served.start(compilation.server(), served_devices(devices), DILATION)
    try:
        yield served
    finally:
        served.stop()


def path_of(served: ServedDevices, name: str) -> str:
    return next(device["path"] for device in served.status() if device["name"] == name)


def write(host: Host, path: str, content: bytes, sector: int, *, sync: bool) -> None:
    host.put(content, "/run/content")
    flags = "direct,dsync" if sync else "direct"
    host.run(["dd", "if=/run/content", f"of={path}", "bs=512", f"seek={sector}", f"oflag={flags}"])


def read(host: Host, path: str, sector: int, sectors: int) -> bytes:
    host.run(
        ["dd", f"if={path}", "of=/run/found", "bs=512", f"skip={sector}", f"count={sectors}", "iflag=direct"]
    )
    return host.get("/run/found")


def test_what_is_written_is_read_and_what_is_discarded_is_zero(served: ServedDevices) -> None:
    host, content = served.host, bytes(range(256)) * 64
    for device in DEVICES:
        path = path_of(served, device.name)
        write(host, path, content, 1000, sync=True)
        assert read(host, path, 1000, 32) == content
        assert read(host, path, 1032, 8) == bytes(4096)
    path = path_of(served, "consumer")
    host.run(["blkdiscard", "-o", str(1000 * 512), "-l", "4096", path])
    assert read(host, path, 1000, 32) == bytes(4096) + content[4096:]


def test_the_kernel_sees_what_kind_of_device_it_is(served: ServedDevices) -> None:
    def attribute(name: str, key: str) -> str:
        block = path_of(served, name).removeprefix("/dev/")
        return served.host.run(["cat", f"/sys/block/{block}/queue/{key}"]).stdout.strip()

    assert [attribute(device.name, "rotational") for device in DEVICES] == ["1", "0", "0", "0"]
    assert attribute("plp", "write_cache") == "write through"
    assert attribute("consumer", "write_cache") == "write back"
    assert attribute("disk", "discard_max_bytes") == "0"
    assert attribute("plp", "discard_max_bytes") != "0"


def test_a_stall_an_error_range_and_a_device_that_is_gone(served: ServedDevices) -> None:
    host, path = served.host, path_of(served, "plp")
    content = b"x" * 512
    write(host, path, content, 0, sync=True)
    # In one command: the clock of an idle guest runs ahead of the messages.
    stall = [*counters_command("plp")[:-1], "stall", str(200_000_000)]
    dd = 'dd if="$f" of=/dev/null bs=512 count=1 iflag=direct'
    script = f'f=$1; shift; "$@" >&2; cat /proc/uptime; {dd}; cat /proc/uptime'
    took = host.run(["sh", "-c", script, "sh", path, *stall]).stdout.split()
    # Experiment's 200 ms are four times as long on the guest's clock.
    assert 0.7 < float(took[2]) - float(took[0]) < 3
    served.tell("plp", "error", "8", "8", "read")
    with pytest.raises(CommandFailed, match="Input/output error"):
        read(host, path, 8, 1)
    assert read(host, path, 0, 1) == content
    write(host, path, content, 8, sync=True)
    served.tell("plp", "fail")
    with pytest.raises(CommandFailed):
        read(host, path, 0, 1)
    served.tell("plp", "heal")
    assert read(host, path, 0, 1) == content
    said = [what for _, what in served.faults()]
    assert said == ["plp stall 200000000", "plp error 8 8 read", "plp fail", "plp heal"]
    with pytest.raises(HostError, match="refuse"):
        served.tell("plp", "explode")
    with pytest.raises(HostError, match="no device 'nobody'"):
        served.tell("nobody", "fail")


def test_a_power_loss_takes_what_was_in_a_volatile_cache_and_nothing_else(served: ServedDevices) -> None:
    host = served.host
    old, new = b"o" * 512, b"n" * 512
    for name in ("plp", "consumer", "liar"):
        write(host, path_of(served, name), old, 100, sync=True)
    for name in ("plp", "consumer", "liar"):
        write(host, path_of(served, name), new, 200, sync=True)
        write(host, path_of(served, name), new, 100, sync=False)
        served.tell(name, "power-loss")
    left = {
        name: (read(host, path_of(served, name), 100, 1)[:1], read(host, path_of(served, name), 200, 1)[:1])
        for name in ("plp", "consumer", "liar")
    }
    assert left["plp"] == (b"n", b"n")
    assert left["consumer"] == (b"o", b"n"), "without a flush it is lost, with one it is kept"
    assert left["liar"] == (b"\0", b"\0"), "a device that lies about its flushes loses all of it"


def test_devices_become_what_a_power_loss_at_the_mark_would_have_left(served: ServedDevices) -> None:
    host, path = served.host, path_of(served, "consumer")
    write(host, path, b"a" * 512, 0, sync=True)
    write(host, path, b"b" * 512, 1, sync=False)
    served.mark()
    write(host, path, b"c" * 1024, 0, sync=True)
    write(host, path, b"c" * 512, 5000, sync=True)
    assert read(host, path, 0, 2) == b"c" * 1024
    served.restore()
    assert read(host, path, 0, 2) == b"a" * 512 + bytes(512)
    assert read(host, path, 5000, 1) == bytes(512)
    with pytest.raises(HostError, match="no mark"):
        served.restore()


def test_a_server_that_dies_is_followed_by_another_with_the_same_content(served: ServedDevices) -> None:
    host, path = served.host, path_of(served, "plp")
    content = bytes(range(256)) * 2
    write(host, path, content, 77, sync=True)
    assert served.crashes() == 0
    pids = host.run(["pgrep", "-f", "^/run/hsp-devices/hsp-devices serve"]).stdout.split()
    host.run(["kill", "-KILL", max(pids, key=int)])
    assert read(host, path, 77, 1) == content
    assert served.crashes() == 1
    write(host, path, content[::-1], 78, sync=True)
    assert read(host, path, 77, 2) == content + content[::-1]


def test_content_and_state_are_kept_from_one_time_to_the_next(
    running_lab: RunningLab, tmp_path: Path
) -> None:
    wanted = EmulatedDevice(name="kept", size="64MiB", preset="nvme-consumer", keep="kept.state")
    devices = resolve_devices((wanted,), tmp_path / "testbed.toml")
    served, host = ServedDevices(running_lab.guest), running_lab.guest
    content = bytes(range(256)) * 16

    def counters_after(first: bool) -> dict[str, int]:
        path = served.start(compilation.server(), served_devices(devices), DILATION)["kept"]
        load_states(served, devices)
        if first:
            write(host, path, content, 4000, sync=True)
        else:
            assert read(host, path, 4000, 8) == content
        found = served.counters("kept")
        keep_states(served, devices)
        served.stop()
        return found

    assert counters_after(first=True)["host_bytes_written"] >= len(content)
    assert (tmp_path / "kept.state").stat().st_size < 8 << 20, "only what is not zero is kept"
    counters_after(first=False)


# Arguments: device, its name in sysfs, the command.
_DURING_READS = """\
fio --name=a --filename="$1" --readonly --direct=1 --rw=randread --bs=512 --ioengine=libaio --iodepth=16 \\
    --number_ios=400 >/dev/null & n=0
until read -r reads _ <"/sys/block/$2/inflight" && [ "$reads" -ge 8 ]; do
    n=$((n + 1)); [ $n -lt 600 ] || exit 1; sleep 0.05
done
shift 2; "$@" && wait $!
"""


def test_requests_that_wait_while_a_state_is_loaded_are_answered(served: ServedDevices) -> None:
    """A disk decides later which of several it serves; the new model knew nothing of them."""
    path, state = path_of(served, "disk"), served.state_path("disk")
    served.tell("disk", "save", state)
    load = tell_command("disk", "load", state)
    served.host.run(["sh", "-c", _DURING_READS, "sh", path, path[len("/dev/") :], *load], deadline_s=60)
    served.host.run(["rm", state])


def test_requests_take_the_models_time_and_little_else(served: ServedDevices) -> None:
    """Unwritten reads are answered from the map at a constant time: what varies is the server.

    Other work of the guest only adds to it: the best of three attempts counts.
    """
    command = [
        "fio", "--name=a", f"--filename={path_of(served, 'consumer')}", "--direct=1", "--rw=randread",
        "--bs=4096", "--number_ios=1500", "--ioengine=psync", "--output-format=json",
        "--percentile_list=1:50:99",
    ]  # fmt: skip
    spreads_ns = []
    for _ in range(3):
        answer = served.host.run(command)
        observed = json.loads(answer.stdout)["jobs"][0]["read"]["clat_ns"]["percentile"]
        spreads_ns.append(observed["99.000000"] - observed["1.000000"])
        if spreads_ns[-1] < 40_000:
            return
    raise AssertionError(f"p99 is {spreads_ns} ns (guest's clock) above p1")


def test_as_many_devices_as_a_testbed_may_have_start_together(running_lab: RunningLab) -> None:
    """More than five never did: entries of the ring were used again before the kernel had read them."""
    many = resolve_devices(
        tuple(EmulatedDevice(name=f"ssd{n}", size="64MiB", preset="nvme-consumer") for n in range(12)),
        Path(__file__),
    )
    served = ServedDevices(running_lab.guest)
    try:
        paths = served.start(compilation.server(), served_devices(many), DILATION)
        assert len(paths) == len(many)
        for path in paths.values():
            served.host.run(["dd", f"if={path}", "of=/dev/null", "bs=4096", "count=4", "iflag=direct"])
    finally:
        served.stop()


def test_a_second_set_of_devices_is_told_apart(served: ServedDevices) -> None:
    assert served.is_running()
    assert {device["name"] for device in served.status()} == {device.name for device in DEVICES}
