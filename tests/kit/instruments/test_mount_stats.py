"""kit.instruments.mount_stats: the statistics of a mount, checked against fio's counts."""

from __future__ import annotations

import pytest

from kit.core.errors import HostError
from kit.instruments import mount_stats
from tests.fakes import ScriptedHost

HEAD = """\
device proc mounted on /proc with fstype proc
device 10.0.0.1:/x mounted on /mnt/other with fstype nfs statvers=1.1
\tbytes:\t9 9 9 9 9 9 9 9
\tper-op statistics
\t        READ: 9 9 0 9 9 0 9 9 0
\t       WRITE: 9 9 0 9 9 0 9 9 0
"""


def mount(read: str, write: str, plus: str = "", moved: str = "0 0 0 0 0 0 0 0", at: str = "/mnt/t") -> str:
    more = f"\t   READ_PLUS: {plus}\n" if plus else ""
    return (
        f"device 10.0.0.1:/y mounted on {at} with fstype nfs4 statvers=1.1\n"
        f"\topts:\trw,vers=4.2\n\tbytes:\t{moved}\n\txprt:\ttcp 849 1 4 0 0 116\n\tper-op statistics\n"
        f"\t        NULL: 1 1 0 44 24 5 0 5 0\n\t        READ: {read}\n\t       WRITE: {write}\n{more}"
    )


ZERO = "0 0 0 0 0 0 0 0 0"


def test_the_mount_at_the_target_is_read() -> None:
    text = HEAD + mount("5 6 1 1 1 1 1 1 0", "7 7 0 1 1 1 1 1 0", moved="0 0 100 200 300 400 0 0") + HEAD
    stats = mount_stats.parse(text, "/mnt/t")
    assert stats.calls == {"read": 5, "write": 7}
    assert stats.transmissions["read"] == 6 and stats.timeouts["read"] == 1
    assert stats.server_bytes == {"read": 300, "write": 400}


def test_reads_of_version_4_2_are_read_plus() -> None:
    assert mount_stats.parse(mount(ZERO, ZERO, "50 50 0 1 1 1 1 1 0"), "/mnt/t").calls["read"] == 50


def test_a_blank_in_a_mount_point_is_written_as_the_kernel_does() -> None:
    assert mount_stats.parse(mount(ZERO, ZERO, at=r"/mnt/a\040b"), "/mnt/a b").calls["read"] == 0


@pytest.mark.parametrize("text", ["", HEAD, mount("x", ZERO), mount(ZERO, ZERO).split("\tper-op")[0]])
def test_missing_statistics_are_an_error(text: str) -> None:
    with pytest.raises(HostError, match="on client has no statistics of the mount /mnt/t"):
        mount_stats.read(ScriptedHost(default=text, name="client"), "/mnt/t")


def stats(read: str = ZERO, write: str = ZERO, moved: str = "0 0 0 0 0 0 0 0") -> mount_stats.MountStats:
    return mount_stats.parse(mount(read, write, moved=moved), "/mnt/t")


CALLS, BYTES = "NFS READ calls answered", "bytes of NFS READ calls"


@pytest.mark.parametrize(
    ("after", "reads", "writes", "names"),
    [
        (stats("3 3 0 0 0 0 0 0 0", "2 2 0 0 0 0 0 0 0", "0 0 1536 1024 1536 1024 0 0"), 3, 2, set()),
        # The client's cache answered the others.
        (stats("1 1 0 0 0 0 0 0 0", moved="0 0 0 0 4096 0 0 0"), 100, 0, {CALLS, BYTES}),
        (stats(), 100, 0, {CALLS, BYTES}),
        # Calls without an I/O.
        (stats(write="2 2 0 0 0 0 0 0 0", moved="0 0 0 0 0 1024 0 0"), 0, 0,
         {"NFS WRITE calls answered", "bytes of NFS WRITE calls"}),
        (stats("3 4 0 0 0 0 0 0 0", moved="0 0 0 0 1536 0 0 0"), 3, 0,
         {"NFS READ retransmissions and timeouts"}),
    ],
)  # fmt: skip
def test_each_io_must_be_one_answered_call(
    after: mount_stats.MountStats, reads: int, writes: int, names: set[str]
) -> None:
    change = after.since(stats())
    checks = mount_stats.checks(change, {"read": reads, "write": writes}, {"read": 512, "write": 512}, "c")
    assert {check.name for check in checks if not check.ok} == names
