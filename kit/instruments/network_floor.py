"""What the network takes at least: each client calls NULL, right before and after the load."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from kit.config.tables.nfs_options import value_of
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.sample_size import sample_needed
from kit.core.text import json_value, safe_text
from kit.hosts.base import Host, HostLost
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.nfs import mount as nfs_mount
from kit.nfs.null_calls import CALLS, PROGRAM, command, unlike_null
from kit.store.parts.split import ClientNetwork, NullCalls

_MOST = 4 * CALLS


class NetworkFloor(Instrument):
    """One client after the other, so that none waits for another. What cannot be measured is said.

    `stem`: paths of files in raw/ begin so.
    """

    # It has no problems: without it a phase is as good as before.
    code = "mount-statistics"

    def __init__(self, clients: Sequence[Host], target: str, clock: Clock, stem: Path) -> None:
        self._clients, self._target, self._clock, self._stem = clients, target, clock, stem
        self._found: dict[str, ClientNetwork] = {}
        self._raw: dict[str, dict[str, object]] = {}

    def begin(self) -> None:
        for client in self._clients:
            self._measure(client, "before")

    def end(self) -> None:
        for client in self._clients:
            self._measure(client, "after")

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        Path(f"{self._stem}-null.json").write_text(json.dumps(self._raw))
        return InstrumentReport(entry={"network": tuple(self._found.values())})

    def _measure(self, client: Host, when: str) -> None:
        found = self._found.get(client.name) or ClientNetwork(host=client.name)
        try:
            mounted = nfs_mount.effective_mount(client, self._target).options
            transports = nfs_mount.transports(client, self._target)
            named = {"transport": ", ".join(sorted({*transports})), "connections": len(transports)}
            found = found.model_copy(update=named)
            if why := unlike_null(mounted):
                found = found.model_copy(update={"why": why})
            else:
                found = found.model_copy(update={when: self._calls(client, mounted, when)})
        except HostLost:
            raise
        except HostError as error:
            found = found.model_copy(update={"why": safe_text(error.message)[:300]})
        self._found[client.name] = found

    def _calls(self, client: Host, mounted: str, when: str) -> NullCalls:
        """Raises HostError without an answer, or if the answer is not the program's."""
        address, version = value_of("addr", mounted) or "", value_of("vers", mounted) or "3"
        argv = command(address, value_of("port", mounted) or "2049", version)
        answered = client.run(argv, stdin=PROGRAM.read_bytes(), check=False)
        try:
            if answered.returncode:
                raise ValueError(answered.stderr.strip()[-200:])
            value = json_value(answered.stdout)
            calls, own = ([int(each) for each in value[name]] for name in ("calls", "own"))
            if not (calls and own and len(calls) <= _MOST and 0 <= min(calls + own) <= max(calls) < 1 << 40):
                raise ValueError("it took no time that can be")
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise HostError(f"NULL could not be called from {client.name}: {error}") from error
        self._raw.setdefault(client.name, {})[when] = {"calls": calls, "own": own}
        return summed(calls, own, self._clock)


def summed(calls: Sequence[int], own: Sequence[int], clock: Clock) -> NullCalls:
    """Of latencies in ns of the host's clock."""
    calls, to_experiment = sorted(calls), clock.from_host_ns
    enough = len(calls) >= sample_needed(0.99)
    return NullCalls(
        calls=len(calls),
        mean_ns=to_experiment(round(statistics.fmean(calls))),
        least_ns=to_experiment(calls[0]),
        p50_ns=to_experiment(round(statistics.median(calls))),
        p99_ns=to_experiment(calls[len(calls) * 99 // 100]) if enough else None,
        own_ns=to_experiment(round(statistics.median(own))),
    )
