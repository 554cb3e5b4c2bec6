"""kit.config.fio_job: job files that can only do I/O pass, everything else is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.config.fio_job import parse_fio_bytes, read_job
from kit.core.errors import ConfigError

GOOD = """\
; random reads, then synchronous writes
[global]
directory=${HSP_DIRECTORY}
size = ${HSP_SIZE}   # of each file
runtime=${HSP_RUNTIME}
time_based
ioengine=libaio
iodepth=4

[reads]
rw=randread
blocksize=8k
numjobs=10
filename=data.0
[more-reads]
readwrite=randrw:2
bs=8K
rate_iops=500,100
random_distribution=zipf:1.2
[global]
sync=dsync
[writes]
\tstonewall
rw=write
bs=1m
description=What a log device answers: 1 MiB + more
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.fio"


def refused(file: Path, content: str) -> list[str]:
    file.write_bytes(content.encode())
    with pytest.raises(ConfigError) as caught:
        read_job(file)
    assert caught.value.exit_code == 2
    return caught.value.message.replace(f"{file.parent}/", "").split("\n")


def test_a_good_job(file: Path) -> None:
    file.write_bytes(GOOD.replace("\n", "\r\n").encode())
    job = read_job(file)
    assert job.text == GOOD
    reads, more, writes = job.sections
    assert [section.name for section in job.sections] == ["reads", "more-reads", "writes"]
    assert reads.options["size"] == "${HSP_SIZE}"
    assert reads.options["time_based"] == "1"
    assert "sync" not in reads.options
    assert writes.options["sync"] == "dsync"
    assert [set(section.operations) for section in job.sections] == [{"read"}, {"read", "write"}, {"write"}]
    assert (reads.block_bytes, writes.block_bytes) == (8192, 1 << 20)
    assert (reads.is_sync_write, writes.is_sync_write) == (False, True)
    assert (reads.outstanding, more.outstanding) == (40, 4)
    assert job.operations == {"read", "write"}
    assert job.block_bytes is None
    assert job.is_sync_write
    assert job.outstanding == 44  # the writes wait behind the stonewall


def test_defaults_are_those_of_fio(file: Path) -> None:
    file.write_text("[job]\n")
    job = read_job(file)
    assert job.operations == {"read"}
    assert (job.block_bytes, job.outstanding, job.is_sync_write) == (4096, 1, False)


@pytest.mark.parametrize(
    ("option", "start"),
    [
        ("exec_prerun=rm -rf /", "exec_prerun: not allowed, runs a command through a shell"),
        ("exec_postrun=x", "exec_postrun: not allowed, runs"),
        ("EXEC_PRERUN=x", '"EXEC_PRERUN": not allowed'),
        ("${HSP_DIRECTORY}=x", '"${HSP_DIRECTORY}": not allowed'),
        (
            "ioengine=external:/tmp/foo.o",
            "ioengine: expected one of psync, sync, libaio, pvsync, io_uring, found",
        ),
        ("ioengine=libaio:x", "ioengine: expected one of"),
        ("write_lat_log=/tmp/x", "write_lat_log: not allowed, the kit sets the logs itself"),
        ("log_avg_msec=5", "log_avg_msec: not allowed, the kit sets"),
        ("include /etc/passwd", '"include /etc/passwd": not allowed, reads another file'),
        ("includex", "includex: not allowed, reads another file"),
        ("read_iolog=x", "read_iolog: not allowed"),
        ("iodetph=1", "iodetph: not allowed, did you mean 'iodepth'?"),
        ("filename=/dev/sda", "filename: expected a plain file name"),
        ("filename=../x", "filename: expected"),
        ("filename=a..b", "filename: expected"),
        ("filename=a:b", "filename: expected"),
        ("filename=-", "filename: expected"),
        (
            "filename=${HOME}",
            "filename: expected a plain file name without '/', ':' or '..', or ${HSP_DEVICE} (nothing else",
        ),
        (
            "filename",
            "filename: expected a plain file name without '/', ':' or '..', or ${HSP_DEVICE}, found no value",
        ),
        ("directory=/tmp", 'directory: expected one of ${HSP_DIRECTORY}, found "/tmp"'),
        ("directory=${HSP_DIRECTORY}/..", "directory: expected one of"),
        (
            "size=${SIZE}",
            "size: expected a size such as 512m, or ${HSP_SIZE} (nothing else is substituted), found",
        ),
        ("size=$mb_memory", "size: expected"),
        ("size=4Ki", "size: expected"),
        ("bs=4k,8k", "bs: expected one size such as 512, 8k or 1m"),
        ("bs=0", "bs: expected one size"),
        ("bs=`id`", "bs: expected one size"),
        ("runtime=${HSP_SIZE}", "runtime: expected a time"),
        ("rw=trim", "rw: expected one of"),
        ("rw=randtrim", "rw: expected one of"),
        ("description='$(id)", "description: expected text"),
        ("gtod_reduce=1", 'gtod_reduce: expected 0, found "1"'),
        ("gtod_reduce", "gtod_reduce: expected 0, found no value"),
        ("numjobs=0", "numjobs: expected a whole number from 1"),
        ("numjobs=-1", "numjobs: expected a whole number"),
        ("numjobs=٣", "numjobs: expected a whole number"),
        ("direct=yes", "direct: expected 0, 1 or no value"),
        ("bs=4k\nblocksize=8k", "blocksize: given twice in this section"),
        ("size=1\x1b[31m", "longer than 1000 characters or with control characters"),
        ("#" + " " * 4096 + "exec_prerun=id", "longer than 1000 characters"),
        ("[job]", "[job]: a second job of this name"),
        ("[../../etc/x]", '"[../../etc/x]": expected [name]'),
        ("[x] # comment", '"[x] # comment": expected [name]'),
        ("[x", '"[x": expected [name]'),
        ("[x]exec_prerun=id", '"[x]exec_prerun=id": expected [name]'),
    ],
)
def test_refused(file: Path, option: str, start: str) -> None:
    line = 2 + option.count("\n")
    (message,) = refused(file, f"[job]\n{option}\n")
    assert message.startswith(f"job.fio:{line}: {start}")
    assert message.isprintable()


def test_all_problems_in_line_order(file: Path) -> None:
    assert refused(file, "bs=4k\n[job]\nfoo=1\nexec_prerun=id\n[global]\nsync=2\n") == [
        'job.fio:1: "bs=4k": an option outside of a [section]',
        *refused(file, "\n[job]\nfoo=1"),
        "job.fio:4: exec_prerun: not allowed, runs a command through a shell",
        'job.fio:6: sync: expected one of none, 0, sync, 1, dsync, found "2"',
    ]
    assert refused(file, "[global]\nbs=4k\n") == [
        "job.fio:1: no job in it: expected a [section] besides [global]"
    ]


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("512", 512), ("4k", 4096), ("4K", 4096), ("4kb", 4096), ("1m", 1 << 20), ("2G", 2 << 30)],
)
def test_sizes_of_fio(text: str, size_bytes: int) -> None:
    assert parse_fio_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "4Ki", "4x", "-1", "k", "4k ", "1.5k"])
def test_no_sizes_of_fio(text: str) -> None:
    with pytest.raises(ValueError):
        parse_fio_bytes(text)


lines = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["[job]", "[global]", "bs=4k", "rw=randrw", "numjobs=3", "size=${HSP_SIZE}", "stonewall", "thread"]
    ),
    st.tuples(
        st.sampled_from(
            ["filename", "description", "size", "directory", "ioengine", "bs", "sync", "random_distribution"]
        ),
        st.text("${}HSP_DIRECTORY`'/.:ak01-", max_size=20),
    ).map("=".join),
)


@given(
    st.one_of(st.binary(max_size=100), st.lists(lines).map(lambda rows: "\n".join(["[j]", *rows]).encode()))
)
def test_whatever_passes_is_harmless(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.fio"
    file.write_bytes(data)
    try:
        job = read_job(file)
    except ConfigError as error:
        assert all(line.isprintable() for line in error.message.split("\n"))
        return
    assert job.outstanding >= 0
    assert job.operations <= {"read", "write"}
    for section in job.sections:
        for name, value in section.options.items():
            assert section.block_bytes > 0
            assert "`" not in value
            assert "$" not in value or value in ("${HSP_DIRECTORY}", "${HSP_SIZE}", "${HSP_RUNTIME}")
            assert name != "filename" or ("/" not in value and ":" not in value and ".." not in value)


@pytest.mark.parametrize(
    ("options", "span"),
    [
        ("", (0, 1000)),
        ("size=${HSP_SIZE}\n", (0, 1000)),
        ("offset=90%\nsize=10%\n", (900, 1000)),
        ("offset=512\nsize=100\n", (512, 612)),
        ("offset=50%\n", (500, 1000)),
        ("offset=30%\nsize=10%\n[b]\nrw=read\noffset=70%\nsize=20%\n", (300, 900)),
    ],
)
def test_between_which_bytes_of_a_device(tmp_path: Path, options: str, span: tuple[int, int]) -> None:
    (tmp_path / "a.fio").write_text(f"[a]\nrw=read\n{options}")
    assert read_job(tmp_path / "a.fio").span(1000) == span
