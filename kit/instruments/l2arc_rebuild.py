"""How an L2ARC was read in again after a restart of its server, beside the phase that follows it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kit.core.errors import HostError, KitError
from kit.core.text import json_lines, safe_text
from kit.hosts.base import Host, Process
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase, minus
from kit.store.parts.resource_use import Restarted
from kit.zfs.rebuild_watch import PROGRAM, watch_argv

_DEADLINE_S = 120.0
_POLL_S = 0.05
_FAILURES = ("dh_errors", "unsupported", "io_errors", "lowmem")


class L2arcRebuild(Instrument):
    """Started before the import of the pool; ends with the phase. `restarted`: what is known by then.

    `devices`: cache devices of the pool; `output`: a new file.
    """

    code = "resource-use"

    def __init__(self, server: Host, devices: int, output: Path) -> None:
        """Raises HostError: the counters cannot be read."""
        self._devices, self._output = devices, output
        self.restarted: Restarted | None = None
        # Of a run that was interrupted and goes on.
        output.unlink(missing_ok=True)
        self._process: Process = server.start(watch_argv(str(devices)), output, PROGRAM.read_bytes())
        end = time.monotonic() + _DEADLINE_S
        while not self._rows():
            if not self._process.running() or time.monotonic() > end:
                if self._rows():
                    return
                said = self._process.stop(_DEADLINE_S).describe()
                raise HostError(f"{server.name}: its L2ARC cannot be watched: {safe_text(said)[:300]}")
            time.sleep(_POLL_S)

    def _rows(self) -> list[dict[str, Any]]:
        with suppress(FileNotFoundError, ValueError):
            return json_lines(self._output.read_text(errors="replace"))
        return []

    def end(self) -> None:
        if self._process.running():
            self._process.stop(_DEADLINE_S, "TERM")
        else:
            self._process.wait(_DEADLINE_S)

    def abandon(self) -> None:
        with suppress(KitError):
            self._process.stop(_DEADLINE_S, "TERM")

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        rows, made = self._rows(), self.restarted
        assert made, "it is known before the phase"
        if len(rows) < 2:
            return InstrumentReport(
                problems=["how the L2ARC was read in after the restart is not known: its watch ended early"],
                entry={"restarted": made},
            )
        change = minus(rows[-1]["arc"], rows[0]["arc"])
        is_whole = change.get("l2_rebuild_success", 0) >= self._devices
        told = {
            "rebuilt_ns": measured.experiment_ns(rows[-1]["at_ns"]) - made.import_ns if is_whole else None,
            "rebuilt_bytes": max(0, change.get("l2_rebuild_size", 0)),
            "failures": sum(change.get(f"l2_rebuild_{name}", 0) for name in _FAILURES),
        }
        return InstrumentReport(entry={"restarted": made.model_copy(update=told)})
