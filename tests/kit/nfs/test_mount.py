"""kit.nfs.mount: mounts have the requested options, and nothing waits for a server without a deadline."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kit.core.errors import HostError
from kit.hosts.base import DEFAULT_DEADLINE_S, DeadlineExceeded
from kit.hosts.base import Command as Planned
from kit.nfs import mount as nfs_mount
from tests.fakes import Answer, Command, ScriptedHost

MOUNTS = """\
proc /proc proc rw,nosuid 0 0
10.0.0.1:/other /mnt/other nfs rw,vers=3,soft 0 0
10.0.0.1:/x /mnt/x nfs rw,relatime,vers=3,rsize=131072,hard,proto=tcp,local_lock=all,addr=10.0.0.1 0 0
/dev/vda /mnt/disk ext4 rw 0 0
10.0.0.1:/y /mnt/y nfs4 rw,vers=4.2 0 0
"""

MOUNTED = {
    "/x": "rw,relatime,vers=3,rsize=131072,hard,proto=tcp,local_lock=all,addr=10.0.0.1",
    "/y": "rw,relatime,vers=4.2,rsize=131072,hard,proto=tcp,local_lock=none,addr=10.0.0.1",
}


class Client(ScriptedHost):
    """A client of 10.0.0.1. `stubborn`: so many tries to unmount do nothing; `hangs`: so many do not end."""

    def __init__(
        self, stubborn: int = 0, hangs: int = 0, held: bool = False, refuses: str = "", connections: int = 1
    ) -> None:
        super().__init__(name="client")
        self.mounted: dict[str, str] = {}
        self.directories: set[str] = set()
        self.stubborn, self.hangs, self.held, self.refuses = stubborn, hangs, held, refuses
        self.connections = connections

    def answer(self, command: Command) -> Answer:
        argv = command.argv
        # Whatever can touch a mount has a deadline of its own.
        assert command.deadline_s != DEFAULT_DEADLINE_S or argv[0] in ("cat", "rm"), argv
        if argv[0] == "cat":
            return self.cat(argv[1])
        if argv[0] == "mkdir":
            self.directories.add(argv[2])
        elif argv[0] == "mount":
            if self.refuses:
                return 32, "", self.refuses
            self.mounted[argv[-1]] = MOUNTED[argv[-2].partition(":")[2]]
        elif argv[0] == "umount":
            return self.umount(argv)
        elif argv[0] == "rmdir":
            if argv[1] not in self.directories:
                return 1, "", f"rmdir: failed to remove '{argv[1]}': No such file or directory"
            self.directories.remove(argv[1])
        elif argv[0] == "rm":
            del self.files[argv[-1]]
        return ""

    def cat(self, path: str) -> Answer:
        if path == "/proc/mounts":
            own = (f"10.0.0.1:/x {at} nfs {options} 0 0\n" for at, options in self.mounted.items())
            return MOUNTS + "".join(own)
        if path == "/proc/self/mountinfo":
            own = (f"49 24 0:51 / {at} rw - nfs 10.0.0.1:/x rw\n" for at in self.mounted)
            return "24 1 254:0 / / rw - ext4 /dev/vda rw\n" + "".join(own)
        if path == "/proc/self/mountstats":
            xprts = "\txprt:\ttcp 849 1 4 0 0 116\n" * self.connections
            heads = (f"device s:/x mounted on {at} with fstype nfs statvers=1.1" for at in self.mounted)
            return "".join(f"{head}\n{xprts}" for head in heads)
        if path == "/proc/fs/nfsfs/volumes":
            line = "v3 0a000001 801 0:51 4d:0 no\n" if self.held or self.mounted else ""
            return "NV SERVER   PORT DEV          FSID FSC\n" + line
        if path in self.files:
            return self.files[path].decode()
        return 1, "", f"cat: {path}: No such file or directory"

    def umount(self, argv: Sequence[str]) -> Answer:
        if self.hangs:
            self.hangs -= 1
            return DeadlineExceeded(self.name, argv, 60)
        if self.stubborn:
            self.stubborn -= 1
            return 32, "", f"umount: {argv[-1]}: target is busy."
        del self.mounted[argv[-1]]
        return ""

    @property
    def unmounts(self) -> list[tuple[str, ...]]:
        return [argv[1:] for argv in self.called("umount")]


def asked(path: str, version: str, *options: str, target: str = "/mnt/t") -> Sequence[Planned]:
    return nfs_mount.mount_commands(f"10.0.0.1:{path}", target, version, options)


def test_a_mount_has_the_requested_options() -> None:
    client = Client()
    mount = nfs_mount.mount(client, asked("/x", "3", "hard", "proto=tcp", "nolock", "rsize=131072"))
    assert mount.source == "10.0.0.1:/x" and "hard" in mount.options.split(",")
    assert client.calls[2] == (
        "mount", "-t", "nfs",
        "-o", "vers=3,hard,proto=tcp,nolock,rsize=131072,retry=1", "10.0.0.1:/x", "/mnt/t",
    )  # fmt: skip


@pytest.mark.parametrize(
    "option", ["rsize=1048576", "proto=tcp6", "sync", "rsize=13107", "noac", "actimeo=7"]
)
def test_an_option_that_is_not_in_effect_is_an_error_and_unmounted(option: str) -> None:
    client = Client()
    with pytest.raises(HostError, match=f"with {option}, in effect is rw,relatime"):
        nfs_mount.mount(client, asked("/x", "3", "hard", option))
    assert not client.mounted and not client.directories


def test_another_version_in_effect_is_an_error() -> None:
    client = Client()
    with pytest.raises(HostError, match=r"with vers=4\.1, in effect is rw,relatime,vers=4\.2"):
        nfs_mount.mount(client, asked("/y", "4.1"))
    assert not client.mounted


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        ("mount.nfs: access denied by server while mounting 10.0.0.1:/x", "showmount"),
        (
            "mount.nfs: mounting 10.0.0.1:/x failed, reason given by server: No such file or directory",
            "showmount",
        ),
        ("mount.nfs: Protocol not supported for 10.0.0.1:/x on /mnt/t", "versions"),
        ("mount: /mnt/t: bad option; for several filesystems you might need a helper program.", "nfs-common"),
        ("mount.nfs: Connection refused", "does the server run"),
    ],
)
def test_a_refused_mount_reports_the_options_and_the_reason(output: str, hint: str) -> None:
    with pytest.raises(HostError, match=r"cannot mount 10\.0\.0\.1:/x with vers=4\.1,hard") as caught:
        nfs_mount.mount(Client(refuses=output), asked("/x", "4.1", "hard"))
    assert output in caught.value.message and hint in caught.value.hint


@pytest.mark.parametrize(("found", "ends_well"), [(4, True), (3, False), (1, False)])
def test_connections_are_counted_where_they_were_asked_for(found: int, ends_well: bool) -> None:
    client = Client(connections=found)
    MOUNTED["/four"] = f"{MOUNTED['/x']},nconnect=4"
    if ends_well:
        nfs_mount.mount(client, asked("/four", "3", "hard", "nconnect=4"))
        return
    with pytest.raises(HostError, match=rf"with 4 connections .*/mountstats has {found}; it was unm"):
        nfs_mount.mount(client, asked("/four", "3", "hard", "nconnect=4"))
    assert not client.mounted and not client.directories


def test_connections_of_another_mount_are_not_taken_for_those_asked_for() -> None:
    client = Client()
    with pytest.raises(HostError, match="with nconnect=4, in effect is rw,relatime"):
        nfs_mount.mount(client, asked("/x", "3", "hard", "nconnect=4"))
    assert not client.mounted


@pytest.mark.parametrize(
    ("options", "output", "hint"),
    [
        (("nconnect=4",), "mount.nfs: an incorrect mount option was specified", "Linux 5.3 or later"),
        (("proto=rdma", "port=20049"), "mount.nfs: Protocol error", "modprobe rdma_rxe"),
        (("nconnect=4",), "mount.nfs: access denied by server", "showmount"),
    ],
)
def test_what_connections_and_rdma_need_is_said(options: tuple[str, ...], output: str, hint: str) -> None:
    with pytest.raises(HostError) as caught:
        nfs_mount.mount(Client(refuses=output), asked("/x", "3", *options))
    assert output in caught.value.message and hint in caught.value.hint


def test_an_existing_mount_point_is_refused() -> None:
    with pytest.raises(HostError, match="something is mounted at /mnt/disk already"):
        nfs_mount.mount(Client(), asked("/x", "3", target="/mnt/disk"))


@pytest.mark.parametrize("target", ["/mnt/none", "/mnt/disk", "/mnt"])
def test_another_mount_than_nfs_is_an_error(target: str) -> None:
    with pytest.raises(HostError, match=f"{target} is not an NFS mount on server"):
        nfs_mount.effective_mount(ScriptedHost({"cat": MOUNTS}), target)
    assert not nfs_mount.is_mounted(ScriptedHost({"cat": MOUNTS}), target)


def mounted(client: Client) -> Client:
    nfs_mount.mount(client, asked("/x", "3"))
    client.commands.clear()
    return client


def test_unmounting_is_plain_first_and_repeatable() -> None:
    client = mounted(Client())
    nfs_mount.unmount(client, "/mnt/t")
    # Whether it is mounted: before the umount, and after it.
    assert client.called("cat", "/proc/mounts") == [("cat", "/proc/mounts")] * 2
    for _ in range(2):
        nfs_mount.unmount(client, "/mnt/t")
    assert client.unmounts == [("/mnt/t",)]
    assert not client.directories and not client.files


def test_the_directory_of_a_failed_mount_is_removed() -> None:
    client = Client()
    client.directories.add("/mnt/t")
    nfs_mount.unmount(client, "/mnt/t")
    assert not client.unmounts and not client.directories


def test_a_hanging_mount_is_forced_then_unmounted_lazily() -> None:
    client = mounted(Client(hangs=1))
    nfs_mount.unmount(client, "/mnt/t")
    assert client.unmounts == [("/mnt/t",), ("-f", "/mnt/t")]
    client = mounted(Client(hangs=1, stubborn=2))
    nfs_mount.unmount(client, "/mnt/t")
    assert client.unmounts == [("/mnt/t",), ("-f", "/mnt/t"), ("-f", "/mnt/t"), ("-l", "/mnt/t")]
    # It was let go of: nothing is left, not even the note.
    assert not client.directories and not client.files


def test_a_mount_held_by_the_client_is_an_error_until_it_is_released() -> None:
    client = mounted(Client(stubborn=3, held=True))
    for _ in range(2):
        with pytest.raises(HostError, match="unmounted lazily, but the client still holds it") as caught:
            nfs_mount.unmount(client, "/mnt/t")
        assert "reboot" in caught.value.hint and "Pool and export stay" in caught.value.hint
    client.held = False
    nfs_mount.unmount(client, "/mnt/t")
    assert not client.directories and not client.files


def test_a_mount_that_cannot_be_unmounted_is_an_error() -> None:
    client = mounted(Client(hangs=4))
    with pytest.raises(HostError, match="/mnt/t cannot be unmounted") as caught:
        nfs_mount.unmount(client, "/mnt/t")
    assert "reboot this client" in caught.value.hint
    assert client.mounted and client.directories


def test_a_server_that_never_answers_holds_nobody_up_for_longer_than_the_deadlines() -> None:
    """Whether it is mounted is read from the client's own tables; each try to unmount ends by itself."""
    client = mounted(Client(hangs=4))
    assert nfs_mount.is_mounted(client, "/mnt/t")
    with pytest.raises(HostError, match="does not answer within 60 s"):
        nfs_mount.check_file(ScriptedHost({"stat": DeadlineExceeded("client", ["stat"], 60)}), "/mnt/t/f", 1)
    with pytest.raises(HostError, match="cannot be unmounted"):
        nfs_mount.unmount(client, "/mnt/t")
    assert [c.deadline_s for c in client.commands if c.argv[0] == "umount"] == [60.0] * 4
    assert max(c.deadline_s for c in client.commands if c.argv[0] != "cat") == 60.0


def test_the_topmost_of_stacked_mounts_is_in_effect() -> None:
    stacked = MOUNTS + "10.0.0.1:/x /mnt/x nfs rw,vers=3,rsize=4096,hard 0 0\n"
    assert "rsize=4096" in nfs_mount.effective_mount(ScriptedHost({"cat": stacked}), "/mnt/x").options


def test_a_file_of_the_expected_size_passes() -> None:
    client = ScriptedHost({"stat": "4096\n"})
    nfs_mount.check_file(client, "/mnt/t/f", 4096)
    assert client.commands[0].deadline_s <= 120


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((1, "", "stat: cannot statx '/mnt/t/f': Stale file handle"), "Stale file handle"),
        ((1, "", "stat: cannot statx '/mnt/t/f': No such file or directory"), "No such file"),
        ((0, "512\n", ""), "has 512 bytes, expected 4096"),
        (DeadlineExceeded("host", ["stat"], 120), "does not answer within"),
    ],
)
def test_an_unusable_file_is_an_error_before_the_load(answer: Answer, message: str) -> None:
    with pytest.raises(HostError, match=message) as caught:
        nfs_mount.check_file(ScriptedHost({"stat": answer}), "/mnt/t/f", 4096)
    assert caught.value.hint
