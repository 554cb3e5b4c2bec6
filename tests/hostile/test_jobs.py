"""fio jobs and workloads that are crafted or cannot be measured: the plan refuses them, with the line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError, HostError
from kit.plan.plan import Plan, make_plan
from kit.rules import measurable

DATA = Path(__file__).parents[1] / "kit" / "data" / "plan"
APPLIANCE = """\
name = "nas"
[server]
host = "none"
export = "nas:/pool/export"
[[client]]
host = "local"
"""
BOTH = ("lab", "appliance")


class Crafted:
    """A copy of a workload and its jobs, and the two kinds of testbed."""

    def __init__(self, folder: Path) -> None:
        for file in DATA.iterdir():
            shutil.copy(file, folder)
        self.folder, self.workload = folder, folder / "top-speeds.toml"
        self.appliance = folder / "appliance.toml"
        self.appliance.write_text(APPLIANCE)

    def change(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    def plan(self, kind: str = "lab") -> Plan:
        testbed = self.folder / "testbed.toml" if kind == "lab" else self.appliance
        return make_plan(read_workload(self.workload), read_testbed(testbed), self.workload, testbed)

    def refusal(self, kind: str = "lab") -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.plan(kind)
        assert caught.value.exit_code == 2 and caught.value.hint
        return caught.value.message.replace(f"{self.folder}/", "").split("\n")


@pytest.fixture
def crafted(tmp_path: Path) -> Crafted:
    return Crafted(tmp_path)


@pytest.mark.parametrize("kind", BOTH)
def test_the_jobs_as_they_are_are_accepted(crafted: Crafted, kind: str) -> None:
    assert crafted.plan(kind)


READ = "top-speeds-read.fio"
# What is changed in the read job (line 2 is its heading), the line of the refusal, and its text.
JOBS = {
    "no directory": ("directory=${HSP_DIRECTORY}\n", "", 2, "directory is missing, so fio would make"),
    "numjobs": ("bs=512", "bs=512\nnumjobs=999999", 6, "numjobs=999999: 999999 jobs"),
    "just too many jobs": ("bs=512", "bs=512\nnumjobs=1025", 6, "1025 jobs, the kit can run 1024"),
    "iodepth": ("bs=512", "bs=512\niodepth=99999", 6, "99999 I/Os on the way"),
    "buffers": ("bs=512", "bs=512k\niodepth=4096", 6, "4096 I/Os on the way with buffers of 2GiB"),
    "larger than the working set": ("size=${HSP_SIZE}", "size=1t", 9, "size=1t: fio would use more"),
    "percentage": ("size=${HSP_SIZE}", "size=101%", 9, "size=101%: fio would use more than its"),
    "filesize": ("norandommap", "filesize=73m", 10, "filesize=73m: fio would use more than its"),
    "runtime": ("runtime=${HSP_RUNTIME}", "runtime=901", 13, "runtime=901: the duration of the phase"),
    "runtime with its unit": ("runtime=${HSP_RUNTIME}", "runtime=1h", 13, "runtime=1h: the duration"),
    "ramp_time": ("norandommap", "ramp_time=1s", 10, "ramp_time=1s: the server answers its I/Os"),
}  # fmt: skip
WRITER = """\
time_based
runtime=${HSP_RUNTIME}
directory=${HSP_DIRECTORY}
filename=working-set
rw=write
direct=1
bs=512
"""
MEASURED = {
    "above rsize": ("bs=512", "bs=256k", 5, "bs: 262144 bytes, but rsize of nfs.options is 131072"),
    "second section, other size": (
        "runtime=${HSP_RUNTIME}",
        "runtime=10s\n[other]\nrw=randread\ndirectory=${HSP_DIRECTORY}\nfilename=working-set\nbs=4k",
        18,
        "[other] bs: 4096 bytes, [read] has 512",
    ),
    "second section, default size": (
        "[read]",
        "[global]\ndirectory=${HSP_DIRECTORY}\nfilename=working-set\n[first]\nrw=read\n[read]",
        10,
        "bs: 512 bytes, [first] has 4096",
    ),
    "second writer, not synchronous": (
        "runtime=${HSP_RUNTIME}",
        f"runtime=${{HSP_RUNTIME}}\n[first]\nsync=dsync\n{WRITER}[other]\n{WRITER}",
        23,
        "[other] writes asynchronously while [first] writes synchronously",
    ),
    "second writer, other size": (
        "runtime=${HSP_RUNTIME}",
        f"runtime=${{HSP_RUNTIME}}\n[first]\nsync=dsync\n{WRITER}[other]\nsync=dsync\n{WRITER}".replace(
            "512\n[other]", "1k\n[other]"
        ),
        31,
        "[other] bs: 512 bytes, [first] has 1024: writes of unlike size in one phase cannot be measured",
    ),
}


# The same rules for both kinds of testbed.
@pytest.mark.parametrize(
    ("case", "kind"),
    [(each, "lab") for each in sorted(JOBS | MEASURED)]
    + [(each, "appliance") for each in ("numjobs", "above rsize")],
)
def test_a_job_that_cannot_be_measured_is_refused(crafted: Crafted, case: str, kind: str) -> None:
    old, new, line, text = (JOBS | MEASURED)[case]
    crafted.change(READ, old, new)
    problems = crafted.refusal(kind)
    assert any(problem.startswith(f"{READ}:{line}: ") and text in problem for problem in problems), problems


@pytest.mark.parametrize("case", ["no directory", "numjobs", "larger than the working set"])
def test_a_warm_up_job_is_held_to_what_is_safe(crafted: Crafted, case: str) -> None:
    shutil.copy(crafted.folder / READ, crafted.folder / "warm.fio")
    crafted.change("top-speeds.toml", f'job = "{READ}"', 'job = "warm.fio"')
    old, new, _, text = JOBS[case]
    crafted.change("warm.fio", old, new)
    assert any(text in problem for problem in crafted.refusal())


def test_a_warm_up_may_mix_what_a_phase_may_not(crafted: Crafted) -> None:
    shutil.copy(crafted.folder / READ, crafted.folder / "warm.fio")
    crafted.change("top-speeds.toml", f'job = "{READ}"', 'job = "warm.fio"')
    crafted.change("warm.fio", "rw=randread", "rw=randrw")
    assert crafted.plan()


@pytest.mark.parametrize("rw", ["rw=randrw", "rw=rw", "readwrite=readwrite:8"])
def test_reads_and_writes_in_one_phase_need_a_tier_each(crafted: Crafted, rw: str) -> None:
    crafted.change(READ, "rw=randread", f"{rw}\nrwmixread=70\nsync=dsync")
    assert crafted.plan("appliance")
    assert crafted.refusal() == [
        f"top-speeds.toml:55: phase[0].tiers: phase 'read': its job {READ} reads and writes, but no tier is "
        "one of its writes: add slog or pool"
    ]
    crafted.change("top-speeds.toml", '"disk"]', '"disk", "slog"]')
    plan = crafted.plan()
    assert plan.jobs[READ].op == "mixed" and plan.jobs[READ].block_bytes_by_op == {"read": 512, "write": 512}
    crafted.change("top-speeds.toml", '"dram", "l2arc", "disk", "slog"', '"slog"')
    assert crafted.refusal()[0].endswith("no tier is one of its reads: add dram or l2arc or disk")


def test_a_reader_and_a_writer_may_have_other_sizes_if_whole_records_are_written(crafted: Crafted) -> None:
    writer = f"[writer]\nsync=dsync\n{WRITER}"
    crafted.change(READ, "runtime=${HSP_RUNTIME}", f"runtime=${{HSP_RUNTIME}}\n{writer}")
    crafted.change("top-speeds.toml", '"disk"]', '"disk", "slog"]')
    assert crafted.plan().jobs[READ].block_bytes == 512
    crafted.change("top-speeds.toml", "recordsize = 512", "recordsize = 4096")
    problem, *_ = crafted.refusal()
    assert problem.startswith(f"{READ}:22: [writer] bs: 512 bytes, but dataset.properties.recordsize is 4096")
    assert "reads it first" in problem and crafted.plan("appliance")
    crafted.change(READ, "direct=1\nbs=512\n", "direct=1\nbs=4k\n")
    assert crafted.plan("appliance").jobs[READ].block_bytes_by_op == {"read": 512, "write": 4096}
    assert "recordsize is" not in crafted.refusal()[0]


def asynchronous(crafted: Crafted, engine: str = "libnfs") -> None:
    """The phases with a log device write asynchronously; the last phase is gone."""
    crafted.change("top-speeds-write.fio", "sync=dsync\n", "")
    crafted.change("top-speeds.toml", 'tiers = ["slog"]', 'tiers = ["dram"]')
    text = crafted.workload.read_text()
    nfs, rest = text.index("[nfs]"), text.index("[tunables]")
    text = f'{text[:nfs]}[nfs]\nengine = "{engine}"\n\n{text[rest:]}'
    last, expect = text.index('[[phase]]\nname = "write-pool"'), text.index("[[expect]]")
    assert last < expect
    crafted.workload.write_text(text[:last])


def test_asynchronous_writes_are_planned_through_libnfs(crafted: Crafted) -> None:
    asynchronous(crafted)
    assert crafted.plan() and crafted.plan("appliance")
    crafted.change("top-speeds.toml", 'sync = "standard"', 'sync = "always"')
    assert (
        "dataset.properties.sync: always: it makes the asynchronous writes of phase 'write-slog'"
        in (crafted.refusal()[0])
    )
    crafted.change("top-speeds.toml", 'sync = "always"', 'sync = "standard"')
    crafted.change("top-speeds.toml", '"dram"]\nduration = "1500ms"', '"slog"]\nduration = "1500ms"')
    assert crafted.refusal()[0].endswith('no log is written: write tiers = ["dram"], or remove the tier')


@pytest.mark.parametrize(
    ("direct", "text"),
    [("1", "sends each write as a stable one all the same"), ("0", "the page cache of the client")],
)
def test_asynchronous_writes_of_the_kernels_client_are_refused(
    crafted: Crafted, direct: str, text: str
) -> None:
    asynchronous(crafted, "kernel")
    crafted.change("top-speeds-write.fio", "\ndirect=1\n", f"\ndirect={direct}\n")
    [problem] = crafted.refusal()
    assert problem.startswith("top-speeds-write.fio:") and text in problem
    assert '[nfs] engine = "libnfs"' in problem


def test_an_io_of_several_records_is_refused_where_the_kit_sets_the_recordsize(crafted: Crafted) -> None:
    crafted.change(READ, "bs=512", "bs=4k")
    text = "bs: 4096 bytes, but dataset.properties.recordsize is 512: one I/O would become several"
    assert crafted.refusal() == [
        f"{READ}:5: [read] {text}, which cannot be compared: make bs smaller, or that larger"
    ]
    assert crafted.plan("appliance")


def test_an_io_of_several_calls_is_refused(crafted: Crafted) -> None:
    crafted.change("top-speeds-write.fio", "bs=512", "bs=256k")
    assert "but wsize of nfs.options is 131072" in crafted.refusal("appliance")[0]
    crafted.change("top-speeds.toml", "wsize=131072", "wsize=262144")
    assert crafted.plan("appliance")
    # Without them the client asks for 1 MiB.
    crafted.change("top-speeds.toml", ', "rsize=131072", "wsize=262144"', "")
    assert crafted.plan("appliance")
    crafted.change("top-speeds-write.fio", "bs=256k", "bs=2m")
    assert any("but wsize of nfs.options is 1048576" in problem for problem in crafted.refusal("appliance"))


def test_an_io_of_several_calls_is_refused_once_the_mount_shows_it(crafted: Crafted) -> None:
    """Without rsize and wsize the server chooses."""
    plan = crafted.plan()
    shown = "rw,vers=3,rsize={},wsize={},hard"
    measurable.check_mount(plan.workload, plan.jobs, "client", shown.format(512, 512))
    for sizes, name in (((256, 512), "rsize=256"), ((512, 256), "wsize=256")):
        with pytest.raises(HostError, match=rf"client: {name} is in effect, but .* have 512 bytes"):
            measurable.check_mount(plan.workload, plan.jobs, "client", shown.format(*sizes))


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('duration = "6s"', 'duration = "901s"', "phase[0].duration: 901s"),
        ('duration = "1500ms"', 'duration = "16min"', "phase[1].duration: 16min"),
    ],
)
def test_a_phase_with_a_log_of_every_io_of_more_than_15_minutes_is_refused(
    crafted: Crafted, kind: str, old: str, new: str, key: str
) -> None:
    crafted.change("top-speeds.toml", old, f'{new}\nlog = "every-io"')
    line = crafted.workload.read_text().split(new)[0].count("\n") + 1
    (problem,) = crafted.refusal(kind)
    assert problem.startswith(f"top-speeds.toml:{line}: {key} is longer than 15min, the longest phase")
    assert problem.endswith('remove log = "every-io" from this phase, or measure several shorter ones')
    crafted.change("top-speeds.toml", new, 'duration = "15min"')
    assert crafted.plan(kind)
    crafted.change("top-speeds.toml", '"15min"\nlog = "every-io"', '"16min"')
    assert crafted.plan(kind)


@pytest.mark.parametrize("kind", BOTH)
def test_with_histograms_a_phase_may_be_long_but_not_have_intervals_without_end(
    crafted: Crafted, kind: str
) -> None:
    crafted.change("top-speeds.toml", 'duration = "6s"', 'duration = "24h"\nlog = "histograms"')
    (problem,) = crafted.refusal(kind)
    assert problem.startswith("top-speeds.toml:") and "phase[0].interval: 24h are 432000 intervals" in problem
    assert problem.endswith('write interval = "1s"')
    crafted.change("top-speeds.toml", 'interval = "200ms"', 'interval = "1s"')
    assert crafted.plan(kind)


def test_histograms_need_a_dilation_whose_octaves_are_those_of_fio(crafted: Crafted) -> None:
    crafted.change("top-speeds.toml", 'duration = "6s"', 'duration = "6s"\nlog = "histograms"')
    assert crafted.plan()
    crafted.change("testbed.toml", "dilation = 4", "dilation = 6")
    (problem,) = crafted.refusal()
    assert problem.startswith('top-speeds.toml:57: phase[0].log: "histograms" where the lab\'s dilation is 6')
    assert problem.endswith('write log = "every-io" (15 minutes at most), or lab.dilation = 4 in the testbed')


def test_a_warm_up_may_be_long(crafted: Crafted) -> None:
    crafted.change("top-speeds.toml", 'duration = "1s"', 'duration = "24h"')
    assert crafted.plan()


DATASET = (
    "sharenfs=on", "sharesmb=on", "mountpoint=legacy", "canmount=on", "setuid=on", "hsp:run=x", "hsp:x=1",
    "exec=on", "devices=on", "overlay=on", "zoned=on", "readonly=on", "keylocation=prompt", "version=3",
    "volsize=1", "userquota@root=1", "org.openzfs.systemd:ignore=on", "unheard-of=1",
)  # fmt: skip
POOL = (
    "altroot=x", "cachefile=etc", "bootfs=x", "delegation=on", "hsp:run=x", "readonly=on", "failmode=panic",
    "mountpoint=x", "canmount=on", "sharenfs=on", "multihost=on", "com.sun:x=1", "unheard-of=1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "kind"),
    [(f"dataset {one}", "lab") for one in DATASET]
    + [(f"pool {one}", "lab") for one in POOL]
    + [("dataset sharenfs=on", "appliance"), ("pool altroot=x", "appliance")],
)
def test_what_a_workload_may_not_set_is_refused(crafted: Crafted, setting: str, kind: str) -> None:
    table, _, text = setting.partition(" ")
    name, _, value = text.partition("=")
    line = f'"{name}" = "{value}"'
    # A table of its own: each property has its own line.
    old = "properties = { recordsize = 512" if table == "dataset" else "properties = { ashift = 9"
    head, _, rest = crafted.workload.read_text().partition(old)
    kept = old.partition("{ ")[2]
    crafted.workload.write_text(f"{head}\n[{table}.properties]\n{kept}\n{line}\n{rest.partition(chr(10))[2]}")
    number = crafted.workload.read_text().split(line)[0].count("\n") + 1
    (problem,) = crafted.refusal(kind)
    assert problem.startswith(f"top-speeds.toml:{number}: {table}.properties.")
    assert name in problem and ("remove it" in problem or "wait or continue" in problem)


def test_what_changes_how_the_pool_stores_may_be_set(crafted: Crafted) -> None:
    crafted.change(
        "top-speeds.toml",
        'atime = "off"',
        'atime = "off", "com.sun:auto-snapshot" = "false", checksum = "on"',
    )
    crafted.change("top-speeds.toml", "ashift = 9", 'ashift = 9, "feature@lz4_compress" = "enabled"')
    assert crafted.plan()
