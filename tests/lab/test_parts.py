"""Parts of the lab on one shared guest: deadlines, devices, clients, pool and dataset."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from kit.config.testbed_devices import Device
from kit.core.bins import bin_index
from kit.core.clock import Clock
from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import DeadlineExceeded, Host
from kit.importers.base import Options
from kit.importers.format_detection import read_files
from kit.instruments import server_activity
from kit.instruments.machine import clock_steps, thermal_throttling
from kit.instruments.machine.clock_steps import ClockChange
from kit.lab.clients import make_client
from kit.lab.guest import running_labs
from kit.lab.site import make_devices
from kit.nfs import export as nfs_export
from kit.nfs import mount as nfs_mount
from kit.store.phase import Check
from kit.trace import nfsd_tracer
from kit.trace.output import Trace, parse_trace
from kit.trace.support import find_tracing
from kit.zfs import datasets, openzfs_version, pool, zil
from kit.zfs.tunables import write_tunable
from tests.lab.conftest import ROOT, RunningLab
from tests.lab.pools import create_dataset, create_pool, dataset, mount, mounted

PROTECTS = ("kit/nfs", "kit/zfs", "kit/lab", "kit/emulation")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]


def test_a_deadline_of_host_time_ends_the_command(running_lab: RunningLab) -> None:
    # Guest time runs ahead of the host's: only a loop that works takes host time.
    with pytest.raises(DeadlineExceeded):
        running_lab.guest.run(["sh", "-c", "while :; do :; done"], deadline_s=2)
    assert "while :" not in running_lab.guest.run(["ps", "-e", "-o", "args"]).stdout


# As `hsp lab shell -- WORDS` does, which is for labs that are left up.
SHELL = """\
import sys
from pathlib import Path
from kit.lab.guest import free_port, open_host
from kit.lab.shell import run_command
with open_host(Path(sys.argv[1]), free_port()) as guest:
    sys.exit(run_command(guest, sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("words", "stdin", "code", "stdout", "stderr"),
    [
        (["echo a b | tr a-z A-Z; exit 7"], b"", 7, b"A B\n", b""),
        (["cat; echo end >&2"], b"one\ntwo\n", 0, b"one\ntwo\n", b"end\n"),
        (["printf", "[%s]", "a  b", "$HOME", "|", "it's"], b"", 0, b"[a  b][$HOME][|][it's]", b""),
        (
            ["sha256sum"],
            bytes(3 << 20),
            0,
            hashlib.sha256(bytes(3 << 20)).hexdigest().encode() + b"  -\n",
            b"",
        ),
        (["kill -TERM $$"], b"", 143, b"", b""),
    ],
    ids=["line", "stdin", "arguments", "much", "signal"],
)
def test_a_command_in_the_guest_is_as_in_a_shell(
    running_lab: RunningLab, words: list[str], stdin: bytes, code: int, stdout: bytes, stderr: bytes
) -> None:
    argv = [sys.executable, "-c", SHELL, str(running_lab.lab.state), *words]
    done = subprocess.run(argv, input=stdin, capture_output=True, cwd=ROOT, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (code, stdout, stderr)


def test_a_command_ends_with_the_program_that_reads_it(running_lab: RunningLab) -> None:
    argv = [sys.executable, "-c", SHELL, str(running_lab.lab.state), "yes"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout and process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(300) == 141


# adjtimex(2) with ADJ_FREQUENCY, in 1/65536 ppm.
SLEW = """\
import ctypes, sys
timex = (ctypes.c_long * 64)(2, 0, int(sys.argv[1]) << 16)
sys.exit(ctypes.CDLL(None).adjtimex(timex) < 0)
"""


def test_a_clock_that_is_set_is_told_from_one_that_is_slewed(running_lab: RunningLab) -> None:
    guest = running_lab.guest
    was = clock_steps.read(guest)
    read = clock_steps.parse_readings(guest.run(clock_steps._PYTHON).stdout)
    assert read and clock_steps.change(was, read) == ClockChange(0, 0)
    # As fast as the kernel slews, by much more in that time than the readings may be wrong.
    guest.run(["python3", "-c", SLEW, "500"])
    guest.run(["sleep", "20"])
    assert clock_steps.change(was, clock_steps.read(guest)) == ClockChange(0, 0)
    guest.run(["python3", "-c", SLEW, "0"])
    guest.run(["date", "--set", "+2 seconds"])
    now, again = clock_steps.read(guest), clock_steps.parse_readings(guest.run(clock_steps._PYTHON).stdout)
    guest.run(["date", "--set", "-2 seconds"])
    change = clock_steps.change(was, now)
    assert 1_900_000_000 < change.step_ns <= 2_000_000_000 and change.slept_ns == 0
    assert again and clock_steps.change(now, again) == ClockChange(0, 0)
    assert thermal_throttling.read(guest).counts == {}


def test_a_long_running_command_is_stopped_by_a_signal(running_lab: RunningLab) -> None:
    guest = running_lab.guest
    trap = "trap 'echo bye; exit 3' INT; touch /run/trapped; while :; do sleep 1; done"
    process = guest.start(["sh", "-c", trap])
    guest.run(["sh", "-c", "until rm /run/trapped 2>/dev/null; do sleep 0.1; done"])
    assert process.running()
    result = process.stop(60)
    assert (result.returncode, result.stdout) == (3, "bye\n")


def test_a_second_shell_beside_the_first(running_lab: RunningLab) -> None:
    with running_lab.lab.host(1) as other:
        assert other.run(["echo", "both"]).stdout == "both\n"
        assert running_lab.guest.run(["echo", "here"]).stdout == "here\n"
    with running_lab.lab.host(1) as again:
        assert again.run(["echo", "again"]).stdout == "again\n"


def test_status_knows_the_lab(running_lab: RunningLab) -> None:
    assert str(running_lab.lab.state) in [lab["state"] for lab in running_labs()]


def test_pool_dataset_and_export_on_emulated_devices(running_lab: RunningLab) -> None:
    """From devices to a mount, each step as the run does it, and taken down again."""
    guest = running_lab.guest
    devices = tuple(
        Device(name=name, role=role, model="null_blk", size=size, latency="100us")  # type: ignore[arg-type]
        for name, role, size in (
            ("pdata", "data", "128MiB"),
            ("plog", "log", "64MiB"),
            ("pcache", "cache", "64MiB"),
        )
    )
    make_devices(guest, devices, Clock("virtual", 4))
    period = guest.run(["cat", "/sys/kernel/config/nullb/plog/completion_nsec"]).stdout
    assert int(period) == 400_000

    spec = pool.PoolSpec(
        "hsp-parts",
        "run-1",
        "stripe",
        ("/dev/pdata",),
        ("/dev/plog",),
        ("/dev/pcache",),
        {"ashift": 9},
        "/run/parts",
    )
    built = create_pool(guest, spec)
    assert pool.properties_of(guest, "zpool", built.name, ["ashift"]) == {"ashift": "9"}
    assert zil.vdev_ids(guest, ("/dev/plog",)) == {1}

    properties = {"recordsize": 512, "atime": "off", "sync": "always"}
    create_dataset(guest, built, "hsp-parts/bench", properties)
    assert pool.properties_of(guest, "zfs", "hsp-parts/bench", list(properties)) == {
        "recordsize": "512", "atime": "off", "sync": "always",
    }  # fmt: skip
    datasets.with_pyzfs(guest, datasets.snapshot_command("hsp-parts/bench@one", "run-1"))
    tags = guest.run(["zfs", "get", "-j", "-r", "hsp:run", "hsp-parts"]).stdout
    found = {name: entry["properties"]["hsp:run"] for name, entry in json.loads(tags)["datasets"].items()}
    assert found["hsp-parts/bench"]["source"]["type"] == "LOCAL"
    assert found["hsp-parts/bench@one"]["value"] == "run-1"

    client = make_client(guest, 7)
    path = datasets.mountpoint(guest, "hsp-parts/bench")
    nfs_export.export_command(path, client.address).run(guest)
    assert client.address in nfs_export.effective_export(guest, path)[0]
    mounted = mount(client.host, f"{client.server_address}:{path}", "/mnt/parts", 3, ("hard", "nolock"))
    assert "vers=3" in mounted.options.split(",")
    assert client.host.run(["ls", "-d", "/mnt/parts"]).stdout == "/mnt/parts\n"
    nfs_mount.unmount(client.host, "/mnt/parts")
    nfs_export.unexport(guest, path, client.address)
    # Again within the same second: nfsd's caches must be found empty all the same.
    for _ in range(2):
        nfs_export.export_command(path, client.address).run(guest)
        mounted = mount(client.host, f"{client.server_address}:{path}", "/mnt/parts", 3, ("hard", "nolock"))
        nfs_mount.unmount(client.host, mounted.target)
        nfs_export.unexport(guest, path, client.address)

    pool.remove_command(built.name, ("/dev/plog",)).run(guest)
    pool.check_removed(guest, built, ("/dev/plog",))
    assert pool.vdev_paths(guest, built) == ["/dev/pdata", "/dev/pcache"]
    with pytest.raises(SafetyRefusal, match="carries the run id 'run-1'"):
        pool.remove(guest, "hsp-parts", "run-2", str(built.guid), ())
    with pytest.raises(SafetyRefusal, match="has GUID"):
        pool.remove(guest, "hsp-parts", "run-1", str(built.guid + 1), ())
    pool.remove(guest, "hsp-parts", "run-1", str(built.guid), ())
    assert "hsp-parts" not in guest.run(["zpool", "list", "-H", "-o", "name"]).stdout


def test_what_else_goes_on_at_the_server_is_seen(running_lab: RunningLab) -> None:
    """The counters behind the gates move as the gates expect, each for its own cause."""
    guest = running_lab.guest
    zfs = openzfs_version.read(guest)
    with (
        dataset(guest, "other", latency="1us") as (other, other_path),
        dataset(guest, "ours", recordsize=4096, latency="1us", file="bs=4k count=200") as (ours, path),
        mounted(guest, path, 9, "/mnt/other") as client,
    ):

        def broken(act: Callable[[], object], ios: int = 0, block_bytes: int = 512) -> set[str]:
            before = server_activity.read(guest, ours.name, zfs)
            act()
            after = server_activity.read(guest, ours.name, zfs)
            asked = {"read": ios}, {"read": block_bytes}
            checks = server_activity.checks(before, after, ours.name, *asked, zfs)
            names = {check.name for check in checks if not (isinstance(check, Check) and check.ok)}
            return names | {problem.split(" of ")[0] for problem in server_activity.problems(before, after)}

        def read(*options: str) -> None:
            client.host.run(["dd", "if=/mnt/other/file", "of=/dev/null", "bs=512", "count=100", *options])

        # What is still to be written of the new pools is no activity of anybody's.
        guest.run(["zpool", "sync"])
        calls, moved = "NFS READ calls", "bytes of NFS READ calls"
        assert broken(lambda: read("iflag=direct"), ios=100) == set()
        assert broken(lambda: read("iflag=direct"), ios=100, block_bytes=4096) == {moved}
        # Through the client's page cache: fewer calls, of whole pages, and at last none at all.
        assert broken(read, ios=100) == {calls, moved}
        assert broken(read, ios=100) == {calls, moved}
        write_tunable(guest, "zfs_dio_enabled", "1")  # off in OpenZFS 2.3 (zfs(4))
        local = ["dd", "if=/dev/zero", f"of={path}/file", "bs=4k", "oflag=direct", "conv=notrunc", "count=10"]
        assert broken(lambda: guest.run(local)) == {"direct I/O, past the ARC"}
        write_tunable(guest, "zfs_dio_enabled", "0")
        assert broken(lambda: guest.run(["zpool", "scrub", "-w", ours.name])) == {"a scrub"}
        elsewhere = ["dd", "if=/dev/zero", f"of={other_path}/x", "bs=4k", "count=99", "conv=fsync"]
        assert broken(lambda: guest.run(elsewhere)) == {f"I/Os of another pool, {other.name}"}


TRACE_CLOCK = Clock("virtual", 4)


@pytest.fixture(scope="module")
def traced_mount(running_lab: RunningLab) -> Iterator[tuple[Host, Host]]:
    """The guest, and a client with a file of 200 blocks of 512 B under /mnt/traced."""
    guest = running_lab.guest
    with (
        dataset(guest, "traced", file="bs=512 count=200") as (_, path),
        mounted(guest, path, 13, "/mnt/traced") as client,
    ):
        yield guest, client.host


def read_blocks(client: Host, count: int) -> None:
    client.run(["dd", "if=/mnt/traced/file", "of=/dev/null", "bs=512", f"count={count}", "iflag=direct"])


def write_blocks(client: Host, count: int) -> None:
    to_file = ["of=/mnt/traced/file", "conv=notrunc", "oflag=direct,dsync"]
    client.run(["dd", "if=/dev/zero", *to_file, "bs=512", f"count={count}"])


def counted(trace: Trace) -> dict[str, int]:
    """Requests by operation, in the last cumulative counts."""
    found: dict[str, int] = {}
    for (op, _, _), bins in trace.snapshots[-1].counts.items():
        found[op] = found.get(op, 0) + sum(bins.values())
    return found


def test_one_tracer_counts_each_phase_by_itself(traced_mount: tuple[Host, Host]) -> None:
    """Each phase has what the client did in it; what was done in between is nobody's."""
    guest, client = traced_mount
    tracing = find_tracing(guest, openzfs_version.read(guest))
    place = nfsd_tracer.TracerFiles("/run/traced")
    intervals_ns = [200_000_000, 20_000_000, 100_000_000]
    process = nfsd_tracer.start(guest, place, TRACE_CLOCK, intervals_ns, tracing)
    tracer = nfsd_tracer.Tracer(guest, place, process)
    loads: list[tuple[Callable[[Host, int], None], str, int]] = [
        (read_blocks, "read", 150), (write_blocks, "write", 40), (read_blocks, "read", 77)
    ]  # fmt: skip
    traces = []
    for (load, op, blocks), interval_ns in zip(loads, intervals_ns, strict=True):
        read_blocks(client, 33)
        write_blocks(client, 5)
        tracer.begin(TRACE_CLOCK.to_host_ns(interval_ns))
        load(client, blocks)
        text, problems = tracer.end()
        trace = parse_trace(text)
        assert (problems, trace.problems, trace.lost_events) == ([], [], 0), text
        assert trace.started == trace.done == counted(trace) == {op: blocks}
        # One end of each class in both maps of extremes, in the bins of its own counts; and its sum.
        assert set(trace.sums) == set(trace.lowest) == set(trace.highest) == set(trace.snapshots[-1].counts)
        for of, bins in trace.snapshots[-1].counts.items():
            assert bin_index(trace.lowest[of]) == min(bins) and bin_index(trace.highest[of]) == max(bins)
        traces.append(trace)
    assert [trace.phase for trace in traces] == [1, 2, 3]
    # Phases do not overlap, and each prints at its own interval.
    times = [[snapshot.at_ns for snapshot in trace.snapshots] for trace in traces]
    assert all(earlier[-1] < later[0] for earlier, later in itertools.pairwise(times))
    # A phase without a request closes as well.
    tracer.begin(TRACE_CLOCK.to_host_ns(10**9))
    text, problems = tracer.end()
    assert (problems, parse_trace(text).problems, counted(parse_trace(text))) == ([], [], {})
    # It dies: this phase and any later one say so.
    tracer.begin(TRACE_CLOCK.to_host_ns(10**9))
    read_blocks(client, 10)
    guest.run(["sh", "-c", "kill -KILL $(pgrep -x bpftrace)"])
    text, problems = tracer.end()
    assert problems == ["the tracer died during the load"] and not tracer.running()
    assert any("died before its end" in problem for problem in parse_trace(text).problems)
    with pytest.raises(HostError, match="died before the phase"):
        tracer.begin(10**9)
    assert tracer.stop()


def test_a_tracer_whose_map_is_full_says_how_full(
    traced_mount: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    guest, client = traced_mount
    monkeypatch.setattr(nfsd_tracer, "MAP_KEYS", 8)
    place = nfsd_tracer.TracerFiles("/run/full")
    tracing = find_tracing(guest, openzfs_version.read(guest))
    process = nfsd_tracer.start(guest, place, TRACE_CLOCK, [10**9], tracing)
    tracer = nfsd_tracer.Tracer(guest, place, process)
    tracer.begin(TRACE_CLOCK.to_host_ns(10**9))
    read_blocks(client, 200)
    text, _ = tracer.end()
    trace = parse_trace(text, 8)
    assert "a map of the tracer was full: 8 of 8 keys; new ones were not counted" in trace.problems
    assert trace.started == {"read": 200} and 0 < trace.done["read"] < 200
    assert f"the tracer saw 200 read requests start and {trace.done['read']} end" in trace.problems
    # Nor does a reader that does not know the size take it for complete.
    assert (
        f"the tracer saw 200 read requests start and {trace.done['read']} end" in parse_trace(text).problems
    )
    tracer.stop()


def test_a_tracer_that_does_not_read_its_events_says_how_many_it_lost(
    traced_mount: tuple[Host, Host],
) -> None:
    guest, client = traced_mount
    place = nfsd_tracer.TracerFiles("/run/stalled")
    tracing = find_tracing(guest, openzfs_version.read(guest))
    process = nfsd_tracer.start(guest, place, TRACE_CLOCK, [4_000_000], tracing)
    tracer = nfsd_tracer.Tracer(guest, place, process)
    tracer.begin(1_000_000)
    read_blocks(client, 50)
    # Two events a millisecond fill its buffer of 256 KiB in seconds.
    stopped = "kill -STOP $(pgrep -x bpftrace); sleep 20; kill -CONT $(pgrep -x bpftrace)"
    guest.run(["sh", "-c", stopped], deadline_s=300)
    text, _ = tracer.end()
    trace = parse_trace(text)
    assert trace.lost_events > 100
    assert f"the tracer lost {trace.lost_events} events" in trace.problems
    tracer.stop()


def test_a_tracer_that_was_left_is_ended(running_lab: RunningLab) -> None:
    guest = running_lab.guest
    tracing = find_tracing(guest, openzfs_version.read(guest))
    place = nfsd_tracer.TracerFiles("/run/left")
    process = nfsd_tracer.start(guest, place, TRACE_CLOCK, [10**9], tracing)
    nfsd_tracer.end_left(guest, "/run/lef")
    assert process.running()
    for _ in range(2):
        nfsd_tracer.end_left(guest, place.directory)
        assert guest.run(["pgrep", "-x", "bpftrace"], check=False).stdout == ""
    process.wait(60)
    assert guest.run(["pgrep", "-f", "/run/left/hold"], check=False).returncode


def test_what_zpool_iostat_prints_is_imported(running_lab: RunningLab, tmp_path: Path) -> None:
    """Counts since the load, intervals with and without times, as the installed zpool prints them."""
    guest = running_lab.guest
    with dataset(guest, "iostat", recordsize=4096) as (built, path):
        guest.run(["zfs", "set", "sync=always", f"{built.name}/bench"])
        writes = guest.start(["sh", "-c", f"while :; do dd if=/dev/zero of={path}/file bs=4k count=20; done"])
        every_second = ("hsp-iostat", "1", "3")
        said = [
            # What zpool itself needs for a report is a part of a guest's second.
            (kind, guest.run(["zpool", "iostat", "-w", *options, *every_second], deadline_s=120).stdout)
            for kind, options in (
                ("timed", ["-p", "-y", "-T", "u"]), ("timed", ["-y", "-T", "d"]), ("intervals", ["-H", "-p"])
            )
        ]  # fmt: skip
        writes.stop(30)
        said.append(("since-load", guest.run(["zpool", "iostat", "-wHp", "hsp-iostat"]).stdout))
    for number, (kind, text) in enumerate(said):
        log = tmp_path / f"{number}.txt"
        log.write_text(text)
        imported = read_files([log], Options())
        ios = dict(imported.frame.group_by("op").agg(pl.col("count").sum()).iter_rows())
        assert imported.section["counts"] == kind, text
        assert ios["write"] > 0, text
        assert imported.frame["time_ns"].n_unique() == (3 if kind == "timed" else 1), text
    # A line has the pool's name, the others a bucket's end and then, first of all, total_wait.
    rows = [fields for line in said[-1][1].splitlines() if len(fields := line.split()) > 2]
    assert ios == {"read": sum(int(r[1]) for r in rows), "write": sum(int(r[2]) for r in rows)}
