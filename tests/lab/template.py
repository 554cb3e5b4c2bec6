"""`hsp` as often as tests call it, without the start of an interpreter each time.

A process imports the kit and then forks for each call: the child goes on as `python -m kit.cli` would, with
files of its own for stdout and stderr, and ends as an interpreter ends.

    python -m tests.lab.template        a line of JSON for each call on stdin, and one for its end on stdout
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from kit.cli.main import TARGETS, main

# Mode and place of tests.lab.interrupted.
Strike = tuple[str, str]

_ROOT = Path(__file__).parents[2]
_END_S = 10.0
# Polars starts threads when it is imported, and a fork would not have them: each child imports it itself.
_THREADED = "polars"
# OpenBLAS (numpy) would, too.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
_LIBRARIES = ("asyncssh", "numpy", "plotly", "jinja2", "zstandard", "rich.console", "rich.live")


def hsp(
    words: Sequence[str], deadline_s: float, strike: Strike | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `hsp` from the kit's root, in this process's environment. A signal's exit code is negative.

    Raises TimeoutExpired; the call is ended then.
    """
    with tempfile.TemporaryDirectory(prefix="hsp-call-") as folder:
        out, err = Path(folder, "stdout"), Path(folder, "stderr")
        request = {
            "words": [*words],
            "strike": strike,
            "env": dict(os.environ),
            "files": [str(out), str(err)],
        }
        code = _template().call(request, deadline_s)
        # As text in subprocess: every end of a line is "\n".
        return subprocess.CompletedProcess(["hsp", *words], code, out.read_text(), err.read_text())


@functools.cache
def _template() -> Template:
    """One for this process, and as long as it."""
    template = Template()
    atexit.register(template.close)
    return template


class Template:
    def __init__(self) -> None:
        argv = [sys.executable, "-m", "tests.lab.template"]
        env = os.environ | _NO_THREADS
        # Without buffers: a second line that came with the first one would wait in it, unseen by select.
        self._process = subprocess.Popen(
            argv, cwd=_ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def call(self, request: dict[str, Any], deadline_s: float) -> int:
        self._stdin.write(json.dumps(request).encode() + b"\n")
        end = time.monotonic() + deadline_s
        child = self._answer(end)
        try:
            return self._answer(end)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self._answer(time.monotonic() + _END_S)
            raise subprocess.TimeoutExpired(["hsp", str(request["words"])], deadline_s) from None

    def close(self) -> None:
        self._stdin.close()
        self._process.wait(_END_S)

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin
        return self._process.stdin

    def _answer(self, end: float) -> int:
        """A line of one number. Raises TimeoutError."""
        stdout = self._process.stdout
        assert stdout
        if not select.select([stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            raise TimeoutError
        line = stdout.readline()
        assert line, f"the template of hsp has ended with {self._process.wait(_END_S)}"
        return int(line)


def _import_kit() -> None:
    """What a run needs, without what starts threads."""
    sys.modules[_THREADED] = None  # type: ignore[assignment]
    commands = (target.partition(":")[0] for target in TARGETS.values())
    for name in (*_LIBRARIES, "tests.lab.interrupted", "reports.page.report_page", *commands):
        # As far as it comes: the modules that it could import stay.
        with contextlib.suppress(ImportError):
            import_module(name)
    del sys.modules[_THREADED]


def _requests() -> Iterator[dict[str, Any]]:
    """In a child: its own request. The parent returns when stdin ends."""
    for line in sys.stdin:
        threads = os.listdir("/proc/self/task")
        assert len(threads) == 1, f"a fork would lose threads: {len(threads)}"
        child = os.fork()
        if not child:
            yield json.loads(line)
            return
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(request: dict[str, Any]) -> None:
    """This process gets what a new interpreter would have."""
    os.environ.clear()
    os.environ.update(request["env"])
    for number, (path, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), *((path, os.O_WRONLY | os.O_CREAT) for path in request["files"])]
    ):
        file = os.open(path, flags, 0o600)
        os.dup2(file, number)
        os.close(file)


if __name__ == "__main__":
    _import_kit()
    # Only a child comes out of here with a request, and ends like any interpreter.
    for call in _requests():
        _become(call)
        if call["strike"]:
            from tests.lab import interrupted

            interrupted.install(*call["strike"])
        sys.argv = ["hsp", *call["words"]]
        main()
