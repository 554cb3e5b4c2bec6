"""Operations of NFS in a phase with `metadata`: by nfsd, by the tracer, and as the load needs them."""

from __future__ import annotations

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase, minus
from kit.instruments.server_activity import NFSD
from kit.instruments.tier_tracer import TierTracer
from kit.store.phase import Check
from kit.trace.operations import nfsd_operations


class NfsCounts(Instrument):
    """nfsd's count of each operation. `change`: of the phase, after its end."""

    code = "server-activity"

    def __init__(self, server: Host) -> None:
        self._server = server
        self.change: dict[str, int] = {}

    def begin(self) -> None:
        self._before = self._read()

    def end(self) -> None:
        self.change = minus(self._read(), self._before)

    def _read(self) -> dict[str, int]:
        text = self._server.run(["cat", NFSD]).stdout
        try:
            return nfsd_operations(text)
        except ValueError as error:
            raise HostError(
                f"{NFSD} of {self._server.name} cannot be read ({error})", "is nfsd loaded there?"
            ) from error


class NfsOperations(NfsCounts):
    """Nearer to the load than the tracer, and `outer` is farther: its count is between these two.

    They differ by what comes while it begins and ends, such as the renewal of a lease (SEQUENCE).
    """

    def __init__(self, server: Host, tracer: TierTracer, outer: NfsCounts) -> None:
        super().__init__(server)
        self._tracer, self._outer = tracer, outer

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        inner, outer = self.change, self._outer.change
        counted: dict[str, int] = dict.fromkeys(inner, 0)
        for (op, _), ios in (self._tracer.ios or {}).items():
            if op in counted:
                counted[op] += ios
        source = f"{NFSD} proc3, proc4ops"
        made = [
            ("by the tracer", op, count, min(max(count, inner[op]), outer[op]))
            for op, count in counted.items()
            if count or inner[op]
        ]
        by_load = measured.metadata.expected if measured.metadata else {}
        made += [("by the load", op, count, inner[op]) for op, count in by_load.items()]
        return InstrumentReport([
            Check.of_counts("NFS-OPERATIONS", f"{op.upper()} {by}", source, count, found, op=op)
            for by, op, count, found in made
        ])  # fmt: skip
