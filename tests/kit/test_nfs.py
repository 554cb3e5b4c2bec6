"""kit.nfs: an export is synchronous and for one client; a mount is what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kit import nfs
from kit.errors import HostError
from kit.hosts.base import CommandFailed, Result

OPTIONS = "sync,wdelay,hide,no_subtree_check,fsid=20090608,sec=sys,rw,secure,root_squash,no_all_squash"
LONG = "/run/hsp/20261121T061754Z-ba55f9/data"
MOUNTS = """\
proc /proc proc rw,nosuid 0 0
10.0.0.1:/other /mnt/other nfs rw,vers=3,soft 0 0
10.0.0.1:/x /mnt/x nfs rw,relatime,vers=3,rsize=131072,hard,proto=tcp,local_lock=all,addr=10.0.0.1 0 0
/dev/vda /mnt/disk ext4 rw 0 0
10.0.0.1:/y /mnt/y nfs4 rw,vers=4.2 0 0
"""


class Host:
    name = "host"

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.calls: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], **_: Any) -> Result:
        self.calls.append(tuple(argv))
        return Result(self.name, tuple(argv), 0, self.answers.get(argv[0], ""), "")


def test_an_export_is_for_one_client_synchronous_and_squashed() -> None:
    host = Host()
    nfs.export(host, "/x", "10.0.0.2")
    [argv] = host.calls
    assert argv[:2] == ("exportfs", "-o") and argv[3] == "10.0.0.2:/x"
    options = argv[2].split(",")
    assert {"sync", "root_squash"} <= set(options)
    assert not {"async", "no_root_squash", "insecure"} & set(options)


class Flushes(Host):
    """nfsd's caches let go of the path at the n-th look."""

    def __init__(self, path: str, looks: int) -> None:
        super().__init__()
        self.path, self.looks = path, looks

    def run(self, argv: Sequence[str], **_: Any) -> Result:
        self.calls.append(tuple(argv))
        said = "#path domain(flags)\n"
        if argv == ["cat", "/proc/net/rpc/nfsd.fh/content"] and self.looks > 0:
            self.looks -= 1
            said += f"# 10.0.0.2 1 0x01328ef0 {self.path}\n"
        return Result(self.name, tuple(argv), 0, said if argv[0] == "cat" else "", "")

    @property
    def changes(self) -> list[tuple[str, ...]]:
        return [call for call in self.calls if call[0] != "cat"]


TAKEN_BACK = ("exportfs", "-u", "10.0.0.2:/x y")
AGAIN = [("sleep", "2"), ("exportfs", "-f")]


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_an_export_is_taken_back_until_nfsd_has_let_go(looks: int) -> None:
    host = Flushes(r"/x\040y", looks)
    nfs.unexport(host, "/x y", "10.0.0.2")
    assert host.changes == [TAKEN_BACK, *AGAIN * looks]


@pytest.mark.parametrize(
    ("said", "passes"),
    [("exportfs: Could not find '10.0.0.2:/x' to unexport.\n", True), ("exportfs: no permission\n", False)],
)
def test_an_export_that_somebody_else_took_back(said: str, passes: bool) -> None:
    class Gone(Flushes):
        def run(self, argv: Sequence[str], **options: Any) -> Result:
            result = super().run(argv, **options)
            return Result(self.name, tuple(argv), 1, "", said) if argv[:2] == ["exportfs", "-u"] else result

    host = Gone("/x", 0)
    if passes:
        nfs.unexport(host, "/x", "10.0.0.2")
    else:
        with pytest.raises(CommandFailed, match="no permission"):
            nfs.unexport(host, "/x", "10.0.0.2")


def test_another_path_in_the_caches_is_not_waited_for() -> None:
    host = Flushes("/x/y", 99)
    nfs.unexport(host, "/x", "10.0.0.2")
    assert len(host.changes) == 1


def test_an_export_that_stays_is_an_error() -> None:
    host = Flushes("/x", 99)
    with pytest.raises(HostError, match="still holds /x after 15 flushes"):
        nfs.unexport(host, "/x", "10.0.0.2")


def test_short_and_long_lines_of_exportfs() -> None:
    text = f"/x            \t10.0.0.2({OPTIONS})\n{LONG}\n\t\t10.0.0.3({OPTIONS})\n"
    assert nfs.effective_export(Host(exportfs=text), "/x") == [f"/x 10.0.0.2({OPTIONS})"]
    assert nfs.effective_export(Host(exportfs=text), LONG) == [f"{LONG} 10.0.0.3({OPTIONS})"]


def test_every_client_of_a_path_is_found_and_no_other_path() -> None:
    text = f"/x\n\t\t10.0.0.2({OPTIONS})\n/x\n\t\t10.0.0.3({OPTIONS})\n/x/y\n\t\t<world>({OPTIONS})\n"
    assert len(nfs.effective_export(Host(exportfs=text), "/x")) == 2


@pytest.mark.parametrize(
    "line",
    [
        f"/x \t<world>({OPTIONS})",
        f"/x \t*({OPTIONS})",
        f"/x\n\t\t<world>({OPTIONS})",
        "/x \t10.0.0.2(async,wdelay,rw)",
        "/x \t10.0.0.2(rw,async)",
        f"/x \t10.0.0.2({OPTIONS})\n/x \t10.0.0.3(rw,async)",
    ],
)
def test_open_and_asynchronous_exports_are_errors(line: str) -> None:
    with pytest.raises(HostError, match="exports /x as") as caught:
        nfs.effective_export(Host(exportfs=line + "\n"), "/x")
    assert "asynchronous" in caught.value.hint


@pytest.mark.parametrize("text", ["", "/xy 10.0.0.2(rw)\n", "/x/y 10.0.0.2(rw)\n"])
def test_what_is_not_exported_is_an_error(text: str) -> None:
    with pytest.raises(HostError, match="/x is not exported by host"):
        nfs.effective_export(Host(exportfs=text), "/x")


def test_a_mount_is_what_was_asked_for() -> None:
    host = Host(cat=MOUNTS)
    found = nfs.mount(host, "10.0.0.1:/x", "/mnt/x", 3, ("hard", "proto=tcp", "nolock", "rsize=131072"))
    assert found.source == "10.0.0.1:/x" and "hard" in found.options.split(",")
    assert host.calls[1] == (
        "mount", "-t", "nfs", "-o", "vers=3,hard,proto=tcp,nolock,rsize=131072", "10.0.0.1:/x", "/mnt/x",
    )  # fmt: skip


@pytest.mark.parametrize("option", ["rsize=1048576", "proto=tcp6", "soft", "rsize=13107"])
def test_an_option_that_is_not_in_effect_is_an_error(option: str) -> None:
    with pytest.raises(HostError, match=f"with {option}, in effect is rw,relatime"):
        nfs.mount(Host(cat=MOUNTS), "10.0.0.1:/x", "/mnt/x", 3, ("hard", option))


def test_another_version_in_effect_is_an_error() -> None:
    with pytest.raises(HostError, match=r"with vers=3, in effect is rw,vers=4\.2"):
        nfs.mount(Host(cat=MOUNTS), "10.0.0.1:/y", "/mnt/y", 3, ())


@pytest.mark.parametrize("target", ["/mnt/none", "/mnt/disk", "/mnt"])
def test_what_is_not_an_nfs_mount_is_an_error(target: str) -> None:
    with pytest.raises(HostError, match=f"{target} is not an NFS mount on host"):
        nfs.effective_mount(Host(cat=MOUNTS), target)


def test_unmounting_is_never_forced_or_lazy() -> None:
    host = Host()
    nfs.unmount(host, "/mnt/x")
    assert host.calls == [("umount", "/mnt/x"), ("rmdir", "/mnt/x")]


def test_of_mounts_on_top_of_each_other_the_topmost_is_in_effect() -> None:
    stacked = MOUNTS + "10.0.0.1:/x /mnt/x nfs rw,vers=3,rsize=4096,hard 0 0\n"
    assert "rsize=4096" in nfs.effective_mount(Host(cat=stacked), "/mnt/x").options
