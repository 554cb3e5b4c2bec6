"""What was done to the server at set times of a phase (`schedule` of a phase in manifest.json).

Times in ns of the experiment since the run began; `at_ns` since the begin of the load.
"""

from __future__ import annotations

from typing import Literal

from kit.store.stored import Count, Many, Nanoseconds, Stored


class ScheduledAction(Stored):
    """How a fault or an event ended; what a workload asks for is in kit.config.tables.fault_table.

    `begin_ns`, `end_ns`: None if it never began, or did not end by itself.
    `error`: why it did not happen as declared; `was_cut`: the phase ended first, and it was undone. `expect`:
    of a fault. `times`: how often it was done. `lasted`: it went on until the phase ended, as declared.
    """

    kind: Literal["fault", "event"]
    what: str
    text: str
    device: str | None = None
    at_ns: Nanoseconds
    for_ns: Nanoseconds | None = None
    begin_ns: Nanoseconds | None = None
    end_ns: Nanoseconds | None = None
    times: Count = 0
    error: str = ""
    was_cut: bool = False
    lasted: bool = False
    expect: str | None = None
    recover_within_ns: Nanoseconds | None = None


class VdevErrors(Stored):
    """Errors of a device that zpool status counts."""

    vdev: str
    read: Count
    write: Count
    checksum: Count


class DataCheck(Stored):
    """What a scrub after the phase found. `data_errors`: not repaired; None: not known, and `why`."""

    data_errors: Count | None = None
    scan: str = ""
    why: str = ""


# With these the connections of clients break, and they send calls again.
_BREAKING = frozenset({"nfsd-restart", "export-import", "command"})


class Schedule(Stored):
    """`load_begun_ns`: the zero of `at_ns`; None if the load was not seen to begin.

    `client_errors`, `retransmissions`: of NFS calls, None where there is no mount to count them. `vdevs`:
    devices with errors at the end of the load. `data`: None where the kit cannot look.
    """

    load_begun_ns: Nanoseconds | None = None
    actions: Many[ScheduledAction] = ()
    client_errors: Count | None = None
    retransmissions: Count | None = None
    vdevs: Many[VdevErrors] = ()
    data: DataCheck | None = None

    @property
    def apart_ios(self) -> int:
        """By so many calls the counts of clients and server may differ, because clients sent them again."""
        breaks = any(each.what in _BREAKING for each in self.actions)
        return (self.retransmissions or 0) if breaks else 0
