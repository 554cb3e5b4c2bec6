"""What hosts answer: how much of it is kept, and how it reaches the terminal."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.config.address import parse_address
from kit.core.errors import HostError
from kit.hosts.base import OUTPUT_LIMIT_BYTES, CommandFailed, Host, OutputTooLarge
from kit.hosts.connect import connect
from kit.hosts.local import LocalHost
from kit.hosts.wrapped import NetnsHost, RecordedHost, Recorder
from tests.kit.hosts.conftest import Sshd, sshd

pytestmark = pytest.mark.slow

__all__ = ["sshd"]

ROOT = Path(__file__).parents[2]

# All that writes to the terminal. Text goes through safe_text there, or is the kit's own or the user's shell.
WRITERS = {
    "kit/core/output.py": "say, emit_text; emit (data: escaped JSON; tables and exports made safe before)",
    "kit/core/progress.py": "steps and notes",
    "kit/core/table.py": "nothing: rich renders the lines, each cell made safe before",
    "kit/cli/main.py": "the version",
    "kit/cli/result.py": "results in each format, as reports.output and reports.page made them",
    "kit/cli/help.py": "helps, names of schemas, the manual page",
    "kit/cli/clean.py": "names of runs and files",
    "kit/cli/new.py": "paths of new files",
    "kit/cli/reproduce.py": "claims of the kit, and figures of a run",
    "kit/cli/stored/pack.py": "the path of the new file",
    "kit/cli/stored/tag.py": "names and paths of runs",
    "kit/store/trial/reader.py": "nothing: what is wrong with a file goes to a socket",
    "kit/cli/slog.py": "reports.output.slog_table",
    "kit/cli/host/check.py": "kit.doctor.report",
    "kit/cli/observe.py": "a program of the kit",
    "kit/cli/stored/list_.py": "what is in a results directory",
    "kit/cli/plan.py": "lines of the plan",
    "kit/cli/host/disks.py": "kit.devices.listing",
    "kit/cli/lab.py": "labs that are up; the output of a command of the user's own, as ssh shows it",
    "kit/session/presentation.py": "reports.output.result_table",
    "kit/session/sweep_runs.py": "verdict and directory of a run",
    "kit/session/repeated_runs.py": "reports.output.comparison_table, the spread over runs",
    "kit/cli/stored/watch.py": "the address of the page",
    "kit/session/live/terminal.py": "names of tiers; phases are made safe",
    "kit/lab/shell.py": "a terminal and commands in the lab, as ssh shows them",
    "kit/lab/supervisor.py": "JSON for the kit",
}
_STREAMS = (
    *("emit", "emit_text", "sys.stdout", "sys.stderr", "print", "typer.echo", "typer.secho", "Console"),
    "os.dup",
)


def writes(path: Path) -> bool:
    text = path.read_text()
    if not any(name.rpartition(".")[2] in text for name in _STREAMS):
        return False
    names = {
        ast.unparse(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute | ast.Name)
    }
    return bool(names & set(_STREAMS))


def test_everything_that_writes_to_the_terminal_is_known() -> None:
    # Programs for hosts and for the image write for the kit, which reads it.
    modules = [
        path
        for folder in ("kit", "reports")
        for path in (ROOT / folder).rglob("*.py")
        if not {"remote", "image"} & set(path.parts)
    ]
    observed = {str(path.relative_to(ROOT)) for path in modules if writes(path)}
    assert observed == set(WRITERS)


# ---- how much is kept ----

FLOOD = ["head", "-c", "300000000", "/dev/zero"]
# Growth of the process while a host answers with 300 MB; 872 MiB before there was a bound.
_GROWTH_BYTES = 150 << 20
MEASURE = """
import resource, sys
from pathlib import Path
from kit.config.address import parse_address
from kit.core.errors import HostError
from kit.hosts.connect import connect
from kit.hosts.local import LocalHost

config, *words = sys.argv[1:]
host = connect(parse_address("ssh://far"), config_path=Path(config)) if config else LocalHost()
host.run(["true"])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    if words[0] == "get":
        host.get(words[1])
    elif words[0] == "start":
        print(len(host.start(words[1:]).wait(120).stdout))
    else:
        host.run(words[1:])
except HostError as error:
    print(error.message)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


@pytest.fixture(params=["local", "ssh", "netns", "recorded"])
def host(request: pytest.FixtureRequest, sshd: Sshd, tmp_path: Path) -> Iterator[Host]:
    if request.param == "local":
        yield LocalHost()
    elif request.param == "netns":
        # Enters no namespace, which would need root.
        (tmp_path / "nsenter").write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
        (tmp_path / "nsenter").chmod(0o755)
        yield NetnsHost(LocalHost(env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}), "client0")
    elif request.param == "recorded":
        yield RecordedHost(LocalHost(), Recorder(tmp_path / "commands.jsonl"))
    else:
        with connect(parse_address("ssh://far"), config_path=sshd.config(tmp_path)) as opened:
            yield opened


@pytest.mark.parametrize("where", ["local", "ssh"])
@pytest.mark.parametrize(
    "words", [["run", *FLOOD], ["start", *FLOOD], ["get", "/dev/zero"]], ids=lambda w: w[0]
)
def test_the_memory_of_300_mb_of_output_is_bounded(
    sshd: Sshd, tmp_path: Path, where: str, words: list[str]
) -> None:
    config = os.fspath(sshd.config(tmp_path)) if where == "ssh" else ""
    argv = [sys.executable, "-c", MEASURE, config, *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=110, check=True)
    said, grown_bytes = done.stdout.splitlines()
    assert int(grown_bytes) < _GROWTH_BYTES
    if words[0] == "start":
        assert OUTPUT_LIMIT_BYTES < int(said) < OUTPUT_LIMIT_BYTES + (1 << 20)
    else:
        assert f"gave more than {OUTPUT_LIMIT_BYTES} bytes" in said and words[1] in said


def test_a_command_with_too_much_output_runs_to_its_end(host: Host, tmp_path: Path) -> None:
    """It may change things: half of it would be worse than all."""
    script = 'head -c 20000000 /dev/zero; touch "$1"; exit 3'
    with pytest.raises(OutputTooLarge, match="ended with 3") as caught:
        host.run(["sh", "-c", script, "sh", str(tmp_path / "done")], check=False)
    assert (tmp_path / "done").exists() and caught.value.exit_code == 5


def test_the_caller_can_have_more_or_less(host: Host) -> None:
    argv = ["head", "-c", "20000000", "/dev/zero"]
    assert len(host.run(argv, limit_bytes=20_000_000).stdout) == 20_000_000
    with pytest.raises(OutputTooLarge):
        host.run(argv, limit_bytes=10_000_000)


def test_of_long_messages_the_begin_and_the_end_are_kept(host: Host) -> None:
    script = "echo first >&2; head -c 9000000 /dev/zero | tr '\\0' x >&2; echo last >&2; exit 1"
    with pytest.raises(CommandFailed) as caught:
        host.run(["sh", "-c", script])
    text = caught.value.result.stderr
    assert text.startswith("first\n") and text.endswith("last\n") and len(text) < 2 << 20
    cut = 9_000_000 + len("first\nlast\n") - (1 << 20) - (64 << 10)
    assert f"\n[... {cut} bytes cut ...]\n" in text


def test_a_file_is_whole_or_refused(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (20 << 20))
    with pytest.raises(HostError, match=f"{path}.*gave more than {16 << 20} bytes"):
        host.get(str(path))
    assert len(host.get(str(path), limit_bytes=20 << 20)) == 20 << 20
