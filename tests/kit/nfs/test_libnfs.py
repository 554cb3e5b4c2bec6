"""kit.nfs.libnfs: no synchronous writes; the job is otherwise unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.config.fio_job import read_job
from kit.config.toml import placed_refusal
from kit.config.workload import read_workload
from kit.config.workload_base import read_source
from kit.core.errors import ConfigError, HostError
from kit.nfs import libnfs
from tests.fakes import ScriptedHost

JOB = """\
; a comment
[global]
ioengine=psync   ; how
directory=${HSP_DIRECTORY}
bs=512
[read]
rw=randread
filename=data # which
direct=1
runtime=${HSP_RUNTIME}
"""


def job(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "job.fio"
    path.write_text(text)
    return read_job(path)


def test_only_engine_and_place_are_replaced(tmp_path: Path) -> None:
    before = job(tmp_path, JOB)
    after = libnfs.through(before, "nfs://nas/x?version=3")
    lines = after.text.splitlines()
    assert lines[:3] == ["[global]", "ioengine=nfs", "nfs_url=nfs://nas/x?version=3"]
    gone = {"ioengine=psync   ; how", "directory=${HSP_DIRECTORY}"}
    assert lines[3:] == [line for line in JOB.splitlines() if line not in gone]
    assert after.sections == before.sections
    in_directory = libnfs.through(before, "nfs://nas/x", "hsp-1")
    assert "filename=hsp-1/data" in in_directory.text.splitlines()


@pytest.mark.parametrize(
    ("address", "path", "begins"),
    [
        ("10.0.0.1", "/run/hsp/a.b/c", "nfs://10.0.0.1/run/hsp/a.b/c?"),
        ("nas.lan", "/x", "nfs://nas.lan/x?"),
        ("fd00::1", "/x", "nfs://[fd00::1]/x?"),
    ],
)
def test_a_url_asks_for_version_3_and_no_read_ahead(address: str, path: str, begins: str) -> None:
    url = libnfs.url(address, path)
    assert url.startswith(begins)
    assert {"version=3", "readahead=0"} <= set(url.partition("?")[2].split("&"))


def test_special_characters_in_a_url_are_refused() -> None:
    for path in ("", "/", "x", "/a b", "/a?uid=0", "/a;b", "/$HOME", "/a\nexec_prerun=id", "/a%20b", "//a"):
        with pytest.raises(ConfigError, match="cannot be named in an NFS URL"):
            libnfs.url("nas", path)
    for address in ("", "a b", "a/b", "a?x", "user@nas", "nas:2049", "-nas"):
        with pytest.raises(ConfigError, match="cannot be the server"):
            libnfs.url(address, "/x")


WORKLOAD = """\
format = 1
name = "w"
title = "w"
reference = "sun-7410-2009"
[dataset]
properties = {{ recordsize = 512 }}
[nfs]
engine = "libnfs"
{nfs}
[working_set]
file = "data"
size = "1MiB"
{more}
[[phase]]
name = "read"
title = "read"
job = "job.fio"
tiers = ["dram"]
duration = "1s"
"""


def checked(tmp_path: Path, text: str, nfs: str = "", more: str = "") -> None:
    path = tmp_path / "w.toml"
    path.write_text(WORKLOAD.format(nfs=nfs, more=more))
    read, source = read_workload(path), read_source(path)
    if problems := libnfs.problems(read, {"job.fio": job(tmp_path, text)}, source):
        raise placed_refusal(problems)


@pytest.mark.parametrize("line", ["rw=randread", "rw=randwrite", "rw=write\nsync=none", "rw=randrw\nfsync=0"])
def test_reads_and_asynchronous_writes_are_accepted(tmp_path: Path, line: str) -> None:
    checked(tmp_path, JOB.replace("rw=randread", line))


@pytest.mark.parametrize(
    "line",
    ["rw=write\nsync=dsync", "rw=randrw\nsync=sync", "rw=randread\nsync=dsync", "rw=read\nsync=1",
     "rw=write\nfsync=8", "rw=write\nfdatasync=1", "rw=write\nend_fsync=1"],
)  # fmt: skip
def test_unsupported_features_of_libnfs_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=r"job\.fio:[0-9]: \[read\].*no O_DSYNC, O_SYNC or fsync") as caught:
        checked(tmp_path, JOB.replace("rw=randread", line))
    assert caught.value.exit_code == 2 and 'engine = "kernel"' in caught.value.message


def test_all_sections_of_a_job_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[second\].*sync=dsync: fio has no O_DSYNC"):
        checked(tmp_path, JOB + "[second]\nrw=write\nsync=dsync\nfilename=data\n")


def test_no_power_loss_through_libnfs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"w\.toml:[0-9]+: power_loss: .*cannot be with it.*O_DSYNC"):
        checked(tmp_path, JOB, more="[power_loss]\nmoments = 1")


@pytest.mark.parametrize(
    "nfs",
    ["version = 4.2", 'version = "4.0"', 'options = ["hard", "proto=tcp"]', 'proto = "tcp"', "nconnect = 2"],
)
def test_no_other_version_and_no_mount_options(tmp_path: Path, nfs: str) -> None:
    with pytest.raises(ConfigError, match="libnfs"):
        checked(tmp_path, JOB, nfs=nfs)


def test_a_fio_without_the_engine_is_named() -> None:
    libnfs.check_client(ScriptedHost(default="nfs_url                 : URL in libnfs format"))
    with pytest.raises(
        HostError, match=r"fio on client has no engine for libnfs .fio: engine nfs not"
    ) as caught:
        libnfs.check_client(ScriptedHost(default=(1, "", "fio: engine nfs not loadable\n"), name="client"))
    assert "built with libnfs" in caught.value.hint
