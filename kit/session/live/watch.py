"""`hsp show --live`: reads a run that goes on, sends its counts to browsers, and becomes its report."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import reports
from kit.core.errors import ConfigError
from kit.core.text import commas, safe_text
from kit.core.units import format_latency, format_percent
from kit.session.live.run_reader import PhaseSoFar, RunReader, State
from kit.session.live.watch_server import Channel, WatchServer, paused
from kit.store import json_file
from kit.store.labels import op_name, tier_name
from kit.store.run_directory import RunDir
from kit.store.tables import CLIENT, SERVER
from reports.figures.heat_map import TimeSpan
from reports.figures.phase_maps import DrawnPhase
from reports.page import live_page

# Descriptors of this process or machine are used up: by the next round some may be free.
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)


class Watch:
    """A run in a browser. `state`: as it was seen last. Raises ConfigError, OSError."""

    def __init__(self, run_dir: RunDir) -> None:
        self._run_dir, self._reader, self._channel = run_dir, RunReader(run_dir), Channel()
        self.state: State = self._reader.state()
        self._sent: tuple[str, int, bool] | None = None
        self._report, self._drawing = b"", threading.Lock()

    @contextmanager
    def serving(self, port: int) -> Iterator[WatchServer]:
        """The server, which answers until the block ends. Raises ConfigError."""
        server = WatchServer(port, self.page, self._channel)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            self._channel.end(self.state)
            server.shutdown()
            server.server_close()

    def follow(self) -> None:
        """Until the run has ended: send what is new, once a second at most. Raises ConfigError, OSError."""
        while True:
            began = time.monotonic()
            try:
                # First the state: what came before the end is read after it.
                self.state = self._reader.state()
                self._send()
            except OSError as error:
                if error.errno not in _NO_MORE_FILES:
                    raise
            else:
                if self.state != "running":
                    break
            paused(time.monotonic() - began)
        self._channel.end(self.state)

    def page(self) -> bytes:
        """The report once it is there, drawn anew: scripts of a stored report are not served.

        Raises ConfigError, OSError.
        """
        if self.state == "finished":
            with self._drawing:
                self._report = self._report or reports.page(self._run_dir)
            return self._report
        return live_page.page(workload_of(self._run_dir), self._run_dir.path.name).encode()

    def _send(self) -> None:
        phase = self._reader.poll()
        if phase is None or phase.counts.last < 0:
            return
        now = phase.about.phase, phase.counts.last, phase.ended
        if now != self._sent:
            self._sent = now
            self._channel.send(message_of(phase))


def message_of(phase: PhaseSoFar) -> str:
    """The phase as live.js shows it."""
    counts, about = phase.counts, phase.about
    lines = counts.lines(ended=phase.ended)
    layer, op = SERVER if about.trace else CLIENT, " + ".join(sorted({line.op for line in lines}))
    times = TimeSpan(0, max(counts.measured_ns, 1), about.interval_ns, about.interval_ns * counts.merged)
    subject = DrawnPhase(about.phase, layer, op, counts.frame(), about.phase, times, {})
    done_s = min(counts.measured_ns, about.duration_ns) / 1e9
    progress = f"{done_s:.1f} of {about.duration_ns / 1e9:.1f} s" + (", ended." if phase.ended else ".")
    rows = [
        (
            f"{tier_name(line.tier)}, {op_name(line.op)}", commas(line.ios),
            "" if line.op == "commit" else format_percent(line.share, 1), commas(line.per_s),
            *("n too small" if v is None else format_latency(v / 1e3) for v in (line.p50_ns, line.p99_ns)),
        )
        for line in lines
    ]  # fmt: skip
    problems = [safe_text(each) for each in phase.problems]
    return live_page.message(subject, progress, rows, problems)


def workload_of(run_dir: RunDir) -> str:
    """The name of the workload in the plan. Raises ConfigError."""
    plan = json_file.read_json(run_dir.path / "plan.json")
    workload = plan.get("workload") if isinstance(plan, dict) else None
    name = workload.get("title") or workload.get("name") if isinstance(workload, dict) else None
    if not isinstance(name, str):
        raise ConfigError(f"{run_dir.path / 'plan.json'} has no workload", json_file.DAMAGED)
    return name
