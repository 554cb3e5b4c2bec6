"""kit.core.output: files, devices, pipes, and full disks."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kit.core.errors import HostError
from kit.core.output import MessageStream, write_target
from kit.core.progress import Progress
from kit.core.signals import ignore_interrupts

pytestmark = pytest.mark.any_python

PRINT = (
    "from kit.cli import main; from kit.core import output; "
    "main.app = lambda **_: output.emit_json({'a': 1}); main.main()"
)


class Unwritable(io.StringIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error

    def flush(self) -> None:
        raise self.error

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "error", [OSError(5, "EIO"), BrokenPipeError(), RuntimeError("reentrant call"), ValueError("closed")]
)
def test_a_message_that_cannot_be_written_stops_nothing(error: Exception) -> None:
    """Reentrant: a signal arrives while a message is written, and its handler writes one."""
    stream = Unwritable(error)
    assert MessageStream(stream).write("text") == 4
    progress, done = Progress(stream=stream), []
    with progress.step("cleaning up"), ignore_interrupts(progress.note):
        os.kill(os.getpid(), signal.SIGTERM)
        done.append(1)
    assert done


def test_devices_and_links_are_written_through(tmp_path: Path) -> None:
    pipe, link, real = tmp_path / "pipe", tmp_path / "link", tmp_path / "real"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_target(pipe, b"content")
    reader.join(10)
    assert received == [b"content"] and pipe.is_fifo()
    real.write_bytes(b"what was there before, and longer")
    link.symlink_to("real")
    write_target(link, b"new")
    assert link.is_symlink() and real.read_bytes() == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_another_user_is_not_followed(tmp_path: Path) -> None:
    link, real = tmp_path / "out.csv", tmp_path / "shadow"
    real.write_bytes(b"secret")
    link.symlink_to(real)
    os.lchown(link, 12345, 12345)
    with pytest.raises(HostError, match="a link of another user"):
        write_target(link, b"new")
    assert real.read_bytes() == b"secret"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no /dev/full")
def test_a_full_standard_output_is_a_host_error() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", PRINT]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 5 and "No space left" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("words", "full", "code"), [("--version", "stdout", 5), ("plan no-such", "stderr", 2)]
)
def test_what_cannot_be_written_does_not_become_exit_code_120(words: str, full: str, code: int) -> None:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with open("/dev/full", "wb") as target:
        command = [sys.executable, "-m", "kit.cli", *words.split()]
        done = subprocess.run(command, text=True, timeout=60, **{**streams, full: target})
    assert done.returncode == code and "Exception" not in f"{done.stdout}{done.stderr}"


def test_an_unexpected_error_is_not_a_failed_expectation() -> None:
    code = "from kit.cli import main; main.app = lambda **_: {}['foreign\\x1b[2J']; main.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5 and "Traceback" in done.stderr
    assert "error: a defect of hsp" in done.stderr and "KeyError" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_cpu_that_is_too_old_is_no_defect() -> None:
    """As Polars says it, and crashes after that."""
    said = "Missing required CPU features.\\n\\n    sse4.2"
    code = f"""
import os, warnings
from kit.cli import main
def app(**_):
    warnings.warn("{said}", RuntimeWarning, stacklevel=1)
    os.abort()
main.app = app
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5 and "Traceback" not in done.stderr
    assert "error: the CPU of this machine is too old" in done.stderr and "x86-64-v2" in done.stderr
