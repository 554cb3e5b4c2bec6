"""kit.nfs.export: exports are synchronous and for one client."""

from __future__ import annotations

import pytest

from kit.core.errors import ConfigError, HostError
from kit.nfs import export as nfs_export
from tests.fakes import Answer, ScriptedHost

OPTIONS = "sync,wdelay,hide,no_subtree_check,fsid=20090608,sec=sys,rw,secure,root_squash,no_all_squash"
LONG = "/run/hsp/20261121T061754Z-ba55f9/data"


@pytest.mark.parametrize(
    ("address", "written"),
    [("10.0.0.2", "10.0.0.2"), ("fd00::2", "[fd00::2]"), ("nas-client.lan", "nas-client.lan")],
)
def test_an_export_is_for_one_client_synchronous_and_squashed(address: str, written: str) -> None:
    host = ScriptedHost()
    nfs_export.export_command("/x", address).run(host)
    [argv] = host.calls
    assert argv[:2] == ("exportfs", "-o") and argv[3] == f"{written}:/x"
    options = argv[2].split(",")
    assert {"sync", "root_squash"} <= set(options)
    assert not {"async", "no_root_squash", "insecure"} & set(options)
    assert f"fsid={nfs_export.fsid('/x')}" in options


@pytest.mark.parametrize(
    "address", ["*", "10.0.0.0/24", "@group", "10.0.0.?", "", "a b", "-o", "10.0.0.2:/etc", "<world>", "a,b"]
)
def test_an_address_of_several_clients_is_refused(address: str) -> None:
    host = ScriptedHost()
    with pytest.raises(ConfigError, match="is not one client"):
        nfs_export.export_command("/x", address).run(host)
    assert not host.calls


def test_exports_of_two_runs_have_different_fsids() -> None:
    numbers = {nfs_export.fsid(f"/run/hsp/20261121T0000{n:02}Z-abcdef/pool/bench") for n in range(60)}
    assert len(numbers) == 60 and all(0 < number < 2**32 for number in numbers)


HANDLES = "cat /proc/net/rpc/nfsd.fh/content"


def flushed_server(path: str, looks: int, **answers: Answer) -> ScriptedHost:
    """nfsd's caches hold the path for that many looks."""
    held = f"#path domain(flags)\n# 10.0.0.2 1 0x01328ef0 {path}\n"
    return ScriptedHost({HANDLES: [*[held] * looks, "#path domain(flags)\n"], **answers})


def changes(server: ScriptedHost) -> list[tuple[str, ...]]:
    return [argv for argv in server.calls if argv[0] != "cat"]


TAKEN_BACK = ("exportfs", "-u", "10.0.0.2:/x y")
AGAIN = [("sleep", "2"), ("exportfs", "-f")]


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_an_export_is_removed_when_nfsd_has_no_reference(looks: int) -> None:
    host = flushed_server(r"/x\040y", looks)
    nfs_export.unexport(host, "/x y", "10.0.0.2")
    assert changes(host) == [TAKEN_BACK, *AGAIN * looks]


def test_an_export_that_is_removed_already_and_another_path_in_the_caches() -> None:
    gone = (1, "", "exportfs: Could not find '10.0.0.2:/x' to unexport.\n")
    for host in (flushed_server("/x", 0, **{"exportfs -u": gone}), flushed_server("/x/y", 99)):
        nfs_export.unexport(host, "/x", "10.0.0.2")
        assert len(changes(host)) == 1


@pytest.mark.parametrize(
    ("looks", "answer", "message"),
    [(0, (1, "", "exportfs: no permission\n"), "no permission"), (99, "", "still holds /x after 15 flushes")],
)
def test_an_export_that_cannot_be_removed_is_an_error(looks: int, answer: Answer, message: str) -> None:
    with pytest.raises(HostError, match=message):
        nfs_export.unexport(flushed_server("/x", looks, **{"exportfs -u": answer}), "/x", "10.0.0.2")


def exporting(text: str) -> ScriptedHost:
    return ScriptedHost({"exportfs": text})


def test_short_and_long_lines_of_exportfs() -> None:
    text = f"/x            \t10.0.0.2({OPTIONS})\n{LONG}\n\t\t10.0.0.3({OPTIONS})\n"
    assert nfs_export.effective_export(exporting(text), "/x") == [f"/x 10.0.0.2({OPTIONS})"]
    assert nfs_export.effective_export(exporting(text), LONG) == [f"{LONG} 10.0.0.3({OPTIONS})"]


def test_every_export_of_a_path_is_listed() -> None:
    text = f"/x\n\t\t10.0.0.2({OPTIONS})\n/x\n\t\t10.0.0.3({OPTIONS})\n/x/y\n\t\t<world>({OPTIONS})\n"
    assert len(nfs_export.effective_export(exporting(text), "/x")) == 2


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
        nfs_export.effective_export(exporting(line + "\n"), "/x")
    assert "asynchronous" in caught.value.hint


@pytest.mark.parametrize("text", ["", "/xy 10.0.0.2(rw)\n", "/x/y 10.0.0.2(rw)\n"])
def test_a_missing_export_is_an_error(text: str) -> None:
    with pytest.raises(HostError, match="/x is not exported by server"):
        nfs_export.effective_export(exporting(text), "/x")
