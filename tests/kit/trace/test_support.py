"""kit.trace: the program for each OpenZFS, whether a server can run it, and its start."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.base import CommandResult
from kit.store.manifest import Tracing as StoredTracing
from kit.trace import nfsd_tracer, output, support
from kit.trace.support import TracingSupport, find_tracing
from kit.zfs import openzfs_version
from tests.fakes import Answer, Command, ScriptedHost, ScriptedProcess

ZFS = {text: openzfs_version.parse(text) for text in ("2.1.11", "2.2.9", "2.3.9", "2.4.4")}
NEW = ZFS["2.3.9"]
WHOLE = support.program(NEW)
OBSERVE = support.program(NEW, observe=True)
SPLIT = support.program(NEW, split=True)
FILES = sorted(support.HERE.glob("*.bt"))
EVERY_TEXT = "".join(path.read_text() for path in FILES)


def code(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


CODE = code(WHOLE.text)
FULL = TracingSupport("full", WHOLE, "0.23.2", sh="/usr/bin/dash")


def bpftrace(alive: bool = True, returncode: int = 0) -> ScriptedProcess:
    return ScriptedProcess(CommandResult("server", ("bpftrace",), returncode, "", ""), alive)


class Server(ScriptedHost):
    """A server with bpftrace. `no_function`, `no_tracepoint`: what its kernel does not have."""

    def __init__(
        self,
        version: Answer = "bpftrace v0.23.2",
        no_function: str = "",
        no_tracepoint: str = "",
        process: ScriptedProcess | None = None,
    ) -> None:
        super().__init__({"bpftrace": version, "cat": 1, "readlink": "/usr/bin/dash\n"})
        self.no_function, self.no_tracepoint = no_function, no_tracepoint
        self.process = process or bpftrace()
        self.waiting = bpftrace(alive=False)

    def answer(self, command: Command) -> Answer:
        argv = command.argv
        if command.started:
            return self.waiting if argv[2] == nfsd_tracer.WAIT else self.process
        if argv[:2] == ("test", "-d"):
            return int(bool(self.no_tracepoint) and argv[2].endswith(self.no_tracepoint))
        if argv[0] == "grep":
            names = {*SPLIT.functions, *OBSERVE.functions, "zil_commit_impl", "my_zio_read"}
            lines = [f"0000000000000000 t {name}\t[zfs]" for name in names if name != self.no_function]
            return "".join(f"{line}\n" for line in lines if re.search(argv[2], line))
        return super().answer(command)


@pytest.mark.parametrize("version", ZFS)
def test_the_probes_are_those_of_the_program(version: str) -> None:
    whole = support.program(ZFS[version])
    text = code(whole.text)
    heads = re.findall(
        # A probe that ends with a comma shares the block of the next.
        r"^((?:kprobe|kretprobe|tracepoint|fentry|kfunc|BEGIN|END|interval|profile)[^\s,]*)",
        text,
        re.M,
    )
    functions = {head.split(":")[1] for head in heads if head.startswith("k")}
    tracepoints = {"/".join(head.split(":")[1:]) for head in heads if head.startswith("tracepoint")}
    assert set(whole.functions) == functions and list(whole.functions) == sorted(functions)
    assert set(whole.tracepoints) == tracepoints
    assert {"arc_read", "zio_read", "zio_read_phys", "zil_commit", "zio_rewrite"} <= functions
    assert {"nfsd/nfsd_read_start", "nfsd/nfsd_write_done"} <= tracepoints
    # No other probe, and none twice.
    shared = len(re.findall(r"^\w+:\S+,$", text, re.M))
    assert len(heads) == len(set(heads)) == text.count("\n{\n") + shared and shared == 1
    assert {head for head in heads if head[0] not in "kt"} == {"BEGIN", "END", "interval:ms:$2"}


def test_each_version_has_its_probes() -> None:
    differing = {
        "trace_zfs_arc__iohit",
        "trace_zfs_arc__hit",
        "trace_zfs_arc__async__upgrade__sync",
        "dmu_read_abd",
    }
    observed = {version: differing & set(support.program(zfs).functions) for version, zfs in ZFS.items()}
    assert observed == {
        "2.1.11": {"trace_zfs_arc__hit", "trace_zfs_arc__async__upgrade__sync"},
        "2.2.9": {"trace_zfs_arc__iohit"},
        "2.3.9": {"trace_zfs_arc__iohit", "dmu_read_abd"},
        "2.4.4": {"trace_zfs_arc__iohit", "dmu_read_abd"},
    }


def test_a_load_without_writes_has_no_probes_that_only_they_need() -> None:
    whole, reads = support.program(NEW), support.program(NEW, writes=False)
    assert set(whole.functions) - set(reads.functions) == {"zil_commit", "zio_rewrite", "dmu_sync"}
    # All requests are counted, whoever makes them.
    assert reads.tracepoints == whole.tracepoints and "nfsd_commit" in reads.functions


@pytest.mark.parametrize("version", ZFS)
def test_only_a_pool_with_special_vdevs_costs_a_look_at_the_vdev_of_each_read(version: str) -> None:
    usual, special = (support.program(ZFS[version], observe=True, special=each) for each in (False, True))
    assert usual.functions == special.functions and len(special.text) > len(usual.text)
    assert "$vdev << 44" in special.text and "(@seen[tid] | $place) - $place" in special.text
    # The bit of a read that has issued its I/O is below the vdev.
    assert "@demand[tid] < 256" not in special.text


@pytest.mark.parametrize("local", [False, True])
def test_files_are_looked_at_where_they_are_asked_for_alone(local: bool) -> None:
    kinds = {"observe": not local, "local": local}
    usual, files = (support.program(NEW, **kinds, files=each) for each in (False, True))
    assert "@files" not in usual.text and files.text.count("@files[") == 2
    # A call has its file from its begin on; a request has the dentry of its handle.
    assert ("@dentry[tid]" in files.text) is local
    assert all(f"clear({name})" in files.text for name in ("@files", *(("@dentry",) if local else ())))


def test_the_program_has_two_parameters_and_nothing_that_only_some_bpftrace_know() -> None:
    assert set(re.findall(r"\$\d+", code(EVERY_TEXT))) == {"$1", "$2"}
    assert CODE.count("/ (uint64)$1;") == CODE.count("(nsecs - $begin)") == 2
    # split*.bt and local*.bt are for bpftrace 0.23 and later.
    newer = ("split", "local")
    everywhere = "".join(path.read_text() for path in FILES if not path.name.startswith(newer))
    assert not re.search(r"\bdelete\(|\bconfig\b|\bhist\(|\blet\b", code(everywhere))


def branches() -> list[tuple[int, int]]:
    """(threshold, places) of the binning in the program, in their order."""
    shifts = re.findall(
        r"if \(\$left >= (0x[0-9a-f]+)\) \{ \$left = \$left >> (\d+); \$places = \$places \+ (\d+); \}", CODE
    )
    assert len(shifts) == 12 and shifts[:6] == shifts[6:]
    assert all(shifted == added for _, shifted, added in shifts)
    return [(int(threshold, 16), int(places)) for threshold, places, _ in shifts[:6]]


@given(st.integers(0, 2**53 - 1) | st.integers(0, 53).map(lambda bits: 2**bits - 1))
@example(31)
@example(32)
@example(63)
@example(64)
def test_the_programs_bins_are_the_kits(latency_ns: int) -> None:
    left, places = latency_ns, 0
    for threshold, by in branches():
        if left >= threshold:
            left, places = left >> by, places + by
    assert (places << 5) + left == int(bin_index(latency_ns))
    low, high = bin_edges((places << 5) + left)
    assert low <= latency_ns < high
    assert CODE.count("($places << 5) + $left] = sum((uint64)1);") == 2


def test_the_bits_of_the_program_are_those_of_the_reader_and_of_the_marks() -> None:
    assert f"($told >> 43) == {nfsd_tracer.MAGIC:#x}" in CODE
    assert f"(($told >> 32) & {nfsd_tracer.MOST_PHASES:#x}) << {output._PHASE_SHIFT}" in CODE
    assert output._PHASE_MASK == nfsd_tracer.MOST_PHASES and "& 0xffffffff) * 1000" in CODE
    assert CODE.count(f"@counts[$seen, (uint64){output._SUM}] = sum($ns);") == 2
    started = re.findall(
        rf"\$seen = \$phase(?: \| (\d+))?;\n +@counts\[\$seen, \(uint64\){output._STARTED}\] = sum", CODE
    )
    assert started == ["", str(output._WRITE), str(output._COMMIT)]
    assert CODE.count(f"max({output._LONGEST_NS:#x} - $ns);") == 2
    assert (output._VDEV_SHIFT, 0xFFFFFF << 32) == (32, 0xFFFFFF00000000) and "0xffffff00000000" in CODE


@given(st.integers(0, nfsd_tracer.MOST_PHASES), st.integers(1, 2**32 - 1))
def test_a_mark_has_the_bits_that_the_program_reads(phase: int, interval_us: int) -> None:
    mark = nfsd_tracer.mark(phase, interval_us * 1000 + 999)
    assert mark < 2**63 - 1 and mark >> 43 == nfsd_tracer.MAGIC
    assert (mark >> 32 & 0x7FF, (mark & 0xFFFFFFFF) * 1000) == (phase, interval_us * 1000)


@pytest.mark.parametrize(("phase", "interval_ns"), [(2048, 10**6), (-1, 10**6), (1, 999), (1, 2**32 * 1000)])
def test_a_mark_that_does_not_fit_is_refused(phase: int, interval_ns: int) -> None:
    with pytest.raises(ValueError, match="no mark"):
        nfsd_tracer.mark(phase, interval_ns)


def test_what_the_program_prints_is_what_the_reader_reads() -> None:
    assert set(re.findall(r'printf\("(.*?)\\n"', CODE)) == {
        "hsp-trace begins",
        "hsp-trace at %llu",
        "hsp-trace end %llu",
        "hsp-trace ended %llu",
        "hsp-trace fed %llu",
        "hsp-trace phase %llu %llu",
    }
    trace = output.parse_trace(
        '{"type": "printf", "data": "hsp-trace begins\\n"}\n'
        '{"type": "printf", "data": "hsp-trace phase 1 5\\n"}\n'
        '{"type": "printf", "data": "hsp-trace fed 6\\n"}\n'
        '{"type": "printf", "data": "hsp-trace end 7\\n"}\n'
        '{"type": "printf", "data": "hsp-trace fed 5\\n"}\n'
    )
    assert trace.phase and trace.ended and trace.feeds_ns == (5, 6)


@pytest.mark.parametrize(
    ("clock", "intervals_ns", "parameters"),
    [
        (Clock(), [200_000_000], ("1", "50")),
        (Clock(), [200_000_000, 20_000_000, 200_000_000], ("1", "5")),
        (Clock("virtual", 4), [50_000_000], ("4", "50")),
        (Clock(), [1_000_000, 10**9], ("1", "1")),
        (Clock(), [60 * 10**9], ("1", "100")),  # a mark waits for a tick
    ],
)
def test_the_tracer_is_started_with_dilation_and_ticks_for_the_finest_interval(
    clock: Clock, intervals_ns: list[int], parameters: tuple[str, str]
) -> None:
    server = Server()
    nfsd_tracer.start(server, nfsd_tracer.TracerFiles("/run/hsp/x"), clock, intervals_ns, FULL)
    [argv] = [c.argv for c in server.commands if c.started and c.argv[2] != nfsd_tracer.WAIT]
    assert argv[-3:] == ("/run/hsp/x/nfsd.bt", *parameters)
    at = argv.index("bpftrace")
    assert argv[at + 1 : at + 3] == ("-f", "json")
    assert argv[argv.index("-c", at) + 1].startswith("/usr/bin/dash /run/hsp/x/hold ")
    assert "BPFTRACE_MAX_MAP_KEYS=65536" in argv[:at]
    text = server.files["/run/hsp/x/nfsd.bt"].decode()
    assert text.count("\nrawtracepoint:nfsd_") == 4
    assert text.replace("\nrawtracepoint:", "\ntracepoint:nfsd:") == WHOLE.text
    old = TracingSupport("full", WHOLE, "0.17.0")
    assert old.text == WHOLE.text and "\nrawtracepoint:" not in WHOLE.text
    assert server.files["/run/hsp/x/functions"].decode().split() == list(WHOLE.functions)


@pytest.mark.parametrize(
    ("version", "variable"),
    [
        ("0.17.0", "BPFTRACE_MAP_KEYS_MAX"),
        ("0.19.1", "BPFTRACE_MAP_KEYS_MAX"),
        ("0.20.0", "BPFTRACE_MAX_MAP_KEYS"),
        ("0.23.2", "BPFTRACE_MAX_MAP_KEYS"),
        ("1.0.0", "BPFTRACE_MAX_MAP_KEYS"),
    ],
)
def test_a_server_with_everything_is_traced(version: str, variable: str) -> None:
    tracing = find_tracing(Server(f"bpftrace v{version}"), NEW)
    assert (tracing.kind, tracing.bpftrace, tracing.reason) == ("full", version, "")
    assert tracing.map_keys_variable == variable
    # bpftrace before 0.19 starts no command through a symbolic link.
    assert tracing.sh == "/usr/bin/dash"


@pytest.mark.parametrize(
    ("answer", "version", "reason"),
    [
        ("bpftrace v0.16.0", "0.16.0", "has bpftrace 0.16.0; the program needs 0.17"),
        ("bpftrace v0.9.4", "0.9.4", "has bpftrace 0.9.4; the program needs 0.17"),
        (127, "", "server has no bpftrace"),
        ("v?", "", "v?"),
        ("", "", "bpftrace --version"),
    ],
)
def test_without_bpftrace_or_with_an_older_one_nothing_is_traced(
    answer: Answer, version: str, reason: str
) -> None:
    tracing = find_tracing(Server(answer), NEW)
    assert (tracing.kind, tracing.bpftrace, tracing.asked_for) == ("none", version, False)
    assert reason in tracing.reason


@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("no_function", name) for name in WHOLE.functions), ("no_tracepoint", "nfsd/nfsd_read_done")],
)
def test_a_missing_function_or_tracepoint_is_named(kind: str, name: str) -> None:
    tracing = find_tracing(Server(**{kind: name}), NEW)
    assert (tracing.kind, tracing.missing) == ("none", (name,))
    assert f"has no {name} to probe" in tracing.reason


@pytest.mark.parametrize("name", ["nfsd3_proc_rename", "nfsd4_read", "dmu_read_abd"])
def test_what_only_an_observation_needs_is_looked_for_as_well(name: str) -> None:
    tracing = find_tracing(Server(no_function=name), NEW, wanted=OBSERVE)
    assert (tracing.kind, tracing.missing) == ("none", (name,))
    assert find_tracing(Server(), NEW, wanted=OBSERVE).kind == "full"


def test_a_function_of_another_openzfs_is_not_missing() -> None:
    assert find_tracing(Server(no_function="dmu_read_abd"), ZFS["2.2.9"]).kind == "full"


def test_trace_none_of_the_testbed_is_no_defect() -> None:
    tracing = find_tracing(Server(), NEW, "none")
    assert (tracing.kind, tracing.asked_for, tracing.missing) == ("none", True, ())
    assert StoredTracing.model_validate(tracing, from_attributes=True).as_json() == {
        "kind": "none", "bpftrace": "", "reason": 'the testbed has trace = "none"', "missing": [],
        "asked_for": True,
    }  # fmt: skip


PLACE = nfsd_tracer.TracerFiles("/d")


def start(server: Server) -> nfsd_tracer.Tracer:
    return nfsd_tracer.Tracer(server, PLACE, nfsd_tracer.start(server, PLACE, Clock(), [10**9], FULL))


@pytest.mark.parametrize(("held", "killed"), [("4711", True), ("", False), ("x; reboot", False)])
def test_it_ends_with_the_command_that_it_waits_for_or_else_by_a_signal(held: str, killed: bool) -> None:
    server = Server()
    running = start(server)
    server.answers["cat"] = held or 1
    assert running.stop() == []
    assert server.called("kill") == ([("kill", "-TERM", "4711")] if killed else [])
    assert server.process.signals == ([] if killed else ["INT"])


@pytest.mark.parametrize(
    ("process", "problem"),
    [
        (bpftrace(alive=False), "the tracer died before its end"),
        (bpftrace(returncode=1), "the tracer failed"),
    ],
)
def test_a_bad_end_is_a_problem(process: ScriptedProcess, problem: str) -> None:
    problems = nfsd_tracer.Tracer(Server(process=process), PLACE, process).stop()
    assert len(problems) == 1 and problems[0].startswith(problem)


def test_a_tracer_that_ends_before_it_is_ready() -> None:
    server = Server(process=bpftrace(alive=False, returncode=1))
    server.waiting.alive, server.answers["cat"] = True, "ERROR: no kprobe"
    with pytest.raises(HostError, match=r"did not start: .*no kprobe"):
        start(server)


def test_a_server_that_cannot_wait_for_the_tracer() -> None:
    server = Server()
    server.waiting = bpftrace(alive=False, returncode=127)
    with pytest.raises(HostError, match="ended with 127"):
        start(server)


def test_a_tracer_that_never_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nfsd_tracer, "_READY_DEADLINE_S", 0.0)
    monkeypatch.setattr(nfsd_tracer, "_POLL_S", 0.001)
    server = Server()
    server.waiting.alive = True
    with pytest.raises(HostError, match="not ready within"):
        start(server)
    assert server.process.signals == ["INT"]


@pytest.mark.parametrize(
    ("version", "tracing", "missing", "words"),
    [
        ("2.3.9", FULL, "", ""),
        ("2.4.4", FULL, "", ""),
        ("2.1.11", FULL, "", "OpenZFS 2.1"),
        ("2.3.9", replace(FULL, bpftrace="0.17.0"), "", "bpftrace 0.17.0; this needs 0.23 or later"),
        ("2.3.9", replace(FULL, kind="none", reason="it has no bpftrace"), "", "it has no bpftrace"),
        ("2.3.9", FULL, "zil_lwb_write_done", "no zil_lwb_write_done to probe"),
    ],
)
def test_a_server_that_cannot_split_says_why(
    version: str, tracing: TracingSupport, missing: str, words: str
) -> None:
    server = Server(no_function=missing)
    why = support.why_no_split(server, ZFS[version], tracing)
    assert words in why and bool(why) == bool(words)


@pytest.mark.parametrize(
    ("tracing", "types", "words"),
    [
        (FULL, 0, ""),
        (FULL, 1, "has no /sys/kernel/btf/vmlinux"),
        (replace(FULL, bpftrace="0.17.0"), 0, "it has bpftrace 0.17.0; this needs 0.23 or later"),
        (replace(FULL, kind="none", reason="server has no bpftrace"), 0, "server has no bpftrace"),
    ],
)
def test_a_server_without_types_of_the_kernel_says_why(
    tracing: TracingSupport, types: int, words: str
) -> None:
    why = tracing.why_no_types(ScriptedHost({"test": types}))
    assert words in why and bool(why) == bool(words)
