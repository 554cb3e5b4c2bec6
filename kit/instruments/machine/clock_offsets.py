"""Offsets of the clients' clocks from the reference clock, before and after the load."""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.errors import HostError
from kit.hosts.base import Host, HostLost
from kit.hosts.clock_offset import Clocks, Offset, combined
from kit.instruments.base import Instrument


class ClockOffsets(Instrument):
    """`between` gives the offset that moves a client's I/Os to the reference's time axis."""

    code = "clock-offsets"

    def __init__(self, clocks: Clocks, clients: Sequence[Host]) -> None:
        self._clocks, self._clients = clocks, clients
        self._after: dict[str, Offset | HostError] = {}

    def begin(self) -> None:
        self._before = self._clocks.offsets(self._clients)

    def end(self) -> None:
        for client in self._clients:
            try:
                self._after |= self._clocks.offsets([client])
            except HostLost:
                raise
            except HostError as error:
                self._after[client.name] = error

    def before(self, client: str) -> Offset:
        """The offset before the load."""
        return self._before[client]

    def between(self, client: str) -> Offset:
        """One offset for the whole load. Raises HostError if the clock could not be read."""
        after = self._after[client]
        if isinstance(after, HostError):
            raise after
        return combined(self._before[client], after)
