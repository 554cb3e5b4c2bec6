"""kit.trace.nfsd: the probes are those of nfsd.bt, and the program is started with its parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from kit.clock import Clock
from kit.errors import HostError
from kit.hosts.base import Result
from kit.trace import nfsd

TEXT = nfsd.PROGRAM.read_text()
CODE = re.sub(r"/\*.*?\*/", "", TEXT, flags=re.DOTALL)


class Running:
    argv: tuple[str, ...] = ("bpftrace",)

    def __init__(self, alive: bool = True, returncode: int = 0, stderr: str = "") -> None:
        self.alive, self.result = alive, Result("server", self.argv, returncode, "", stderr)

    def running(self) -> bool:
        return self.alive

    def wait(self, deadline_s: float) -> Result:
        return self.result

    def stop(self, deadline_s: float, signal: str = "INT") -> Result:
        return self.result


class Server:
    name = "server"

    def __init__(
        self,
        version: str = "bpftrace v0.23.2",
        no_function: str = "",
        no_tracepoint: str = "",
        process: Running | None = None,
    ) -> None:
        self.version, self.no_function, self.no_tracepoint = version, no_function, no_tracepoint
        self.files: dict[str, bytes] = {}
        self.started: list[tuple[str, ...]] = []
        self.process = process or Running()
        self.ready, self.waiting_code = True, 0

    def run(self, argv: Sequence[str], *, check: bool = True, **_: Any) -> Result:
        code, out = 0, ""
        if argv[0] == "bpftrace":
            out = f"{self.version}\n"
        elif argv[:2] == ["test", "-d"]:
            code = int(bool(self.no_tracepoint) and argv[2].endswith(self.no_tracepoint))
        elif argv[0] == "grep":
            pattern = re.compile(argv[2])
            functions = [*nfsd.probes().functions, "zil_commit_impl", "my_zio_read"]
            lines = [f"0000000000000000 t {name}\t[zfs]" for name in functions if name != self.no_function]
            out = "".join(f"{line}\n" for line in lines if pattern.search(line))
        return Result(self.name, tuple(argv), code, out, "")

    def start(self, argv: Sequence[str]) -> Running:
        self.started.append(tuple(argv))
        if argv[0] == "sh":
            return Running(alive=not self.ready, returncode=self.waiting_code)
        return self.process

    def put(self, content: bytes, path: str, **_: Any) -> None:
        self.files[path] = content

    def get(self, path: str, **_: Any) -> bytes:
        return self.files.get(path, b"out \xff")


def test_the_probes_are_those_of_the_program() -> None:
    heads = re.findall(
        r"^((?:kprobe|kretprobe|tracepoint|fentry|kfunc|BEGIN|END|interval|profile)\S*)", CODE, re.M
    )
    functions = {head.split(":")[1] for head in heads if head.startswith("k")}
    tracepoints = {"/".join(head.split(":")[1:]) for head in heads if head.startswith("tracepoint")}
    found = nfsd.probes()
    assert set(found.functions) == functions and list(found.functions) == sorted(functions)
    assert set(found.tracepoints) == tracepoints
    assert {"arc_read", "zio_read", "zio_read_phys", "zil_commit", "zio_rewrite"} <= functions
    assert {"nfsd/nfsd_read_start", "nfsd/nfsd_write_done"} <= tracepoints
    # Nothing else is attached, that probes() would not know of.
    assert len(heads) == CODE.count("\n{\n")
    assert {head for head in heads if head[0] not in "kt"} == {"BEGIN", "END", "interval:ms:$2"}


def test_the_program_has_two_parameters() -> None:
    assert set(re.findall(r"\$\d+", CODE)) == {"$1", "$2", "$3"}
    assert CODE.count("/ (uint64)$1;") == CODE.count("(nsecs - @begin[tid])") == 3


def test_what_the_program_prints_is_what_the_reader_reads() -> None:
    from kit.trace.output import parse_trace

    assert set(re.findall(r'printf\("(.*?)\\n"', CODE)) == {
        "hsp-trace begins",
        "hsp-trace at %llu",
        "hsp-trace end %llu",
    }
    trace = parse_trace(
        '{"type": "printf", "data": "hsp-trace begins\\n"}\n'
        '{"type": "printf", "data": "hsp-trace end 7\\n"}\n'
    )
    assert trace.began and trace.ended


@pytest.mark.parametrize(
    ("clock", "interval_ns", "parameters"),
    [
        (Clock(), 200_000_000, ("1", "50", "200000000")),
        (Clock("virtual", 4), 50_000_000, ("4", "50", "200000000")),
        (Clock(), 1_000_000, ("1", "1", "1000000")),
    ],
)
def test_the_tracer_is_started_with_dilation_and_the_hosts_interval(
    clock: Clock, interval_ns: int, parameters: tuple[str, str, str]
) -> None:
    server = Server()
    nfsd.Tracer(server, "/run/hsp/x", clock, interval_ns)
    [argv] = server.started
    assert argv[-4:] == ("/run/hsp/x/nfsd.bt", *parameters)
    at = argv.index("bpftrace")
    assert argv[at + 1 : at + 3] == ("-f", "json")
    assert server.files["/run/hsp/x/nfsd.bt"] == TEXT.encode()
    assert server.files["/run/hsp/x/functions"].decode().split() == list(nfsd.probes().functions)


def test_a_server_with_everything_is_accepted() -> None:
    assert nfsd.check_server(Server()) == "bpftrace v0.23.2"
    assert nfsd.check_server(Server("bpftrace v0.20.0")) == "bpftrace v0.20.0"


@pytest.mark.parametrize("version", ["bpftrace v0.19.1", "bpftrace v0.9.4", "", "v?"])
def test_an_old_bpftrace_is_refused(version: str) -> None:
    with pytest.raises(HostError, match=r"0\.20") as caught:
        nfsd.check_server(Server(version))
    assert (version or "no bpftrace") in caught.value.message


@pytest.mark.parametrize("function", nfsd.probes().functions)
def test_a_missing_function_is_named(function: str) -> None:
    with pytest.raises(HostError, match=f"has no {function} to probe"):
        nfsd.check_server(Server(no_function=function))


def test_a_missing_tracepoint_is_named() -> None:
    with pytest.raises(HostError, match="has no nfsd/nfsd_read_done to probe"):
        nfsd.check_server(Server(no_tracepoint="nfsd_read_done"))


def tracer(process: Running) -> tuple[Server, nfsd.Tracer]:
    server = Server(process=process)
    return server, nfsd.Tracer(server, "/d", Clock(), 10**9)


def test_a_good_end_has_no_problems() -> None:
    server, running = tracer(Running())
    running.wait_ready()
    assert running.stop() == ("out \ufffd", [])
    assert running.running()
    assert server.started


@pytest.mark.parametrize(
    ("process", "problem"),
    [
        (Running(alive=False), "the tracer died during the load"),
        (Running(returncode=1), "the tracer failed"),
        (Running(stderr="WARNING: map full\n\n"), "the tracer warned: WARNING: map full"),
    ],
)
def test_a_bad_end_is_a_problem(process: Running, problem: str) -> None:
    _, problems = tracer(process)[1].stop()
    assert len(problems) == 1 and problems[0].startswith(problem)


def test_a_tracer_that_ends_before_it_is_ready() -> None:
    server, running = tracer(Running(alive=False, returncode=1, stderr="ERROR: no kprobe"))
    server.ready = False
    with pytest.raises(HostError, match=r"did not start: .*no kprobe"):
        running.wait_ready()


def test_a_server_that_cannot_wait_for_the_tracer() -> None:
    server, running = tracer(Running())
    server.waiting_code = 127
    with pytest.raises(HostError, match="ended with 127"):
        running.wait_ready()


def test_a_tracer_that_never_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nfsd, "_READY_DEADLINE_S", 0.0)
    monkeypatch.setattr(nfsd, "_POLL_S", 0.001)
    server, running = tracer(Running())
    server.ready = False
    with pytest.raises(HostError, match="not ready within"):
        running.wait_ready()
