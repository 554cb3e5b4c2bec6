"""Stable ids of what a verdict rests on: the closed list, with meaning and remedy (docs/verdict.md).

An id never changes its meaning. A sum that must close carries its id from the instrument that makes it; a
problem that an instrument reports has its code in capitals; an expectation has `EXPECT:phase:op:tier:limit`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

EXPECT = "EXPECT"
UNKNOWN_ID = "UNCLASSIFIED"
# Asked for by a limit, fault or probe, each of which has an outcome of its own.
EACH = "each"


@dataclass(frozen=True)
class CheckId:
    """Two sentences. `makes`: what a run is for which it does not hold; `decisive`: whatever else is unknown.

    `asked_by`: the key of the summary of a workload that asks for it, or EACH; "": it is always tried.

    `of_imports`: an import, which has one count alone, is judged by it. `traced`: an appliance has none.
    `by_nature`: no run of its kind is without it. `of_amount`: what was measured can be used, but is too
    little.
    """

    id: str
    meaning: str
    remedy: str
    makes: Literal["unknown", "invalid"] = "unknown"
    decisive: bool = False
    asked_by: str = ""
    of_imports: bool = False
    traced: bool = False
    by_nature: bool = False
    of_amount: bool = False


# An import is judged by it, too.
_any_run = partial(CheckId, of_imports=True)
# An appliance cannot be judged by it.
_at_server = partial(CheckId, traced=True)
# A run that does not keep it has failed.
_limit = partial(CheckId, asked_by=EACH, makes="invalid")
_fault = partial(CheckId, asked_by="faults")
_power_loss = partial(CheckId, asked_by="power_loss")
_lost_write = partial(_power_loss, makes="invalid")
_COPY = "Copy the run directory again."

_WHOLE_RUN = (
    CheckId("NOT-ENDED", "The run was killed, still goes on, or could not store more.",
        "`hsp run --resume RUN`."),
    _any_run("NO-PHASES", "The run has no phases.", "Measure again; the journal says where it ended."),
    CheckId("NOT-MEASURED", "Phases of which something is expected were not measured.",
        "See the other reasons; `hsp run --resume RUN`."),
    CheckId("NO-IO", "A phase has no I/O.", "Look at the phase's output of fio in `raw/`."),
    CheckId("APPLIANCE", "The server could not be looked into.",
        "By nature: use a server with a login for tiers.", by_nature=True),
    CheckId("IMPORTED", "The run is made of another program's logs.",
        "By nature: measure with `hsp run` instead.", by_nature=True),
    CheckId("NO-CLOCK", "`manifest.json` lacks the clock.", _COPY),
    CheckId("NO-HOSTS", "`manifest.json` lacks the server or the clients.", _COPY),
    CheckId("NO-AGEING", "`ageing.parquet` of preconditioned devices is missing.", "Copy it again."),
    CheckId("MANIFEST-VALUES", "Values of `manifest.json` contradict one another, or the counts.",
        "Copy the run directory again; ask who changed it."),
    _any_run("REFERENCE-UNREADABLE", "The published ranges cannot be read.",
        "Install the kit again, or mend them."),
)  # fmt: skip
_PHASE = (
    _any_run("STRAY-IOS", "I/Os are of a phase that the manifest lacks.", _COPY),
    CheckId("PHASE-TIMES", "I/Os lie outside of their phase's time.", "Report it with the run directory."),
    _at_server("COUNTS-MISSING", "The server's I/Os or lost events were not stored.",
        "Measure the phase again."),
    _at_server("CLIENT-SERVER-IOS", "Clients issued other I/Os than the server saw.",
        "Look for other clients of the export, caches, and lost events."),
    _at_server("LOST-EVENTS", "The tracer lost events.", "Lower the load, or free the server's CPUs."),
    CheckId("STORED-IOS", "`latency.parquet` holds other I/Os than the manifest says.", _COPY),
    CheckId("INJECTED-FAULTS", "Faults were injected, and the phase does not close.", "See the other ids."),
    _at_server("EXPECTED-TIERS", "No I/O of a phase is of a tier that the workload expects.",
        "Look at the tier's device, and at `hsp plan`; or correct `tiers` of the phase.", asked_by=EACH),
    _any_run("BINS-OVERLAP", "Bins of latencies overlap.", _COPY),
    _any_run("EXTREMES", "The exact extremes are not those of the counts.", _COPY),
    _any_run("SUMS", "The exact sums are not those of the counts.", _COPY),
    _any_run("CLIENTS-ALIKE", "Clients cannot be told apart.", "Give each client another name."),
    CheckId("FEW-IOS", "I/Os are too few for a statistic that is asked for; what was measured can be used.",
        "Make the phase as long as the reason says.", asked_by=EACH, of_amount=True),
    _power_loss("POWER-LOSS-UNKNOWN", "No write was acknowledged before a power loss.",
        "Let it write for longer."),
    _limit("FAULT-RECOVERY", "Latency did not recover in time.", "Look at the heat map from the fault on."),
    _limit("FAULT-DEGRADED", "No I/O ended while a fault lasted.", "As FAULT-RECOVERY."),
    _limit("FAULT-AFFECTED", "A fault that should not matter did.", "As FAULT-RECOVERY."),
    _fault("FAULT-ERRORS", "Clients saw errors while faults were declared.",
        "Look at mount options (hard) and redundancy.", makes="invalid", decisive=True),
    _fault("FAULT-DATA", "The scrub after faults found errors that no copy could repair.",
        "Restore the data; look at the devices.", makes="invalid", decisive=True),
    _fault("FAULT-MISSING", "A declared fault did not happen as declared.", "Look at its error."),
    _fault("EVENT-MISSING", "An expected event did not happen.", "Look at its error."),
    _fault("FAULT-UNJUDGED", "Too few quiet intervals, or I/Os in them, are before or after a fault.",
        "Begin it later, let it last longer, or make more I/Os."),
    _fault("FAULT-UNVERIFIED", "Data could not be read back after faults.", "Look at the scrub."),
    _power_loss("POWER-STOPPED", "There were fewer power losses than asked for.",
        "Let it go on: `hsp run --resume`."),
    _power_loss("POWER-UNPROVEN", "No count of the devices, or write verifier, proves a power loss.",
        "Look whether the power really goes, and for smartctl and nvme on the server."),
    _power_loss("POWER-CONTROL", "The control lost nothing: a loss might not be seen.",
        "Choose another control or scope ([power-loss.md](power-loss.md))."),
    _lost_write("POWER-LOSS-LOST", "Acknowledged writes were gone after a power loss.",
        "Device or export does not keep what it acknowledges: no log, and no appliance, to use."),
    _lost_write("POWER-LOSS-TORN", "They were there in part.", "As POWER-LOSS-LOST."),
    _lost_write("POWER-LOSS-OLD", "They were older ones again.", "As POWER-LOSS-LOST."),
    _lost_write("POWER-LOSS-FOREIGN", "Something was there that was never written.", "As POWER-LOSS-LOST."),
    _lost_write("POWER-LOSS-GONE", "They could not be read, or the device was gone.",
        "As POWER-LOSS-LOST; the device may be damaged."),
    _limit("SOAK-DRIFT", "A row of a soak is too far from the first; *unknown* where the run cannot tell.",
        "Look at the soak's rows: heat, garbage collection, a log that fills; longer rows where it is open."),
    _limit("SOAK-STOPPED", "A limit of a soak stopped its load.", "Spare the device, or raise the limit."),
    _limit("IMPACT", "Another load slows the I/Os of a phase too much; *unknown* where the run cannot tell.",
        "Give the loads devices of their own, or raise the limit; more phases of each where it is open."),
    CheckId("FLUSHES",
        "A write cache that may be volatile got no FLUSH, or too few, for acknowledged writes.",
        "Set zil_nocacheflush and zfs_nocacheflush to 0.", asked_by=EACH),
    CheckId("CAPACITY", "Up to which rate a limit of the p99 is kept is not known.",
        "The sentence says why: a client that is too slow, too few I/Os a look, a server that changes.",
        asked_by=EACH),
    _limit("FORCES-LOST", "Acknowledged forced writes are lost or damaged.",
        "Do not trust the device or its path with data."),
)  # fmt: skip
_SUMS = (
    CheckId("DATASET-CALLS", "Reads and writes of a dataset, by its kstat and the tracer.",
        "Look for `zfs rewrite`, and for more calls at a time than twice the CPUs."),
    CheckId("NFS-OPERATIONS", "Calls and operations of NFS, by nfsd, the tracer, and what a load needs.",
        "Look for the tracer's lost events, and for other clients."),
    CheckId("NFS-CALLS", "READs, WRITEs of NFS = I/Os of fio.", "Look for other clients, and client caches."),
    CheckId("NFS-BYTES", "Bytes of NFS = I/Os x block size.", "Look at rsize, wsize and the job's bs."),
    CheckId("NFS-RETRANSMISSIONS", "No call was sent twice.", "Look at the network, and the server's load."),
    CheckId("ARC-MISSES", "Reads that missed the ARC, by arcstats and tracer.", "Look for other readers."),
    CheckId("SPECIAL-READS",
        "Blocks read from special vdevs, by the tracer and the counters of their devices.",
        "Report the run: a tier was told wrong."),
    CheckId("L2ARC-HITS", "Reads from L2ARC, by arcstats and tracer.", "Look for other readers."),
    CheckId("ARC-HITS", "Reads from DRAM, by arcstats and tracer.", "Look for other readers."),
    CheckId("L2ARC-ERRORS", "The L2ARC had no error and enough memory.", "Look at the cache device."),
    CheckId("ZIL-COMMITS", "Synchronous writes = commits of the ZIL.",
        "Look at `sync` and the job's options."),
    CheckId("ZIL-ASYNC-BYTES", "Asynchronous writes hardly use the log.", "Look at `sync`, and for COMMITs."),
    CheckId("ZIL-SLOG-BLOCKS", "Log blocks on the log device, by ZIL and tracer.", "Look at `logbias`."),
    CheckId("ZIL-POOL-BLOCKS", "Log blocks in the pool, by ZIL and tracer.",
        "Look at the log device's state."),
    CheckId("ZIL-INDIRECT", "No write is indirect.", "Look at zfs_immediate_write_sz."),
    CheckId("ZIL-ERRORS", "The ZIL had no stall and no error.", "Look at the log device."),
    CheckId("TRIM", "Nothing was trimmed.", 'Set `autotrim = "off"`.'),
    CheckId("DIRECT-IO", "No I/O passed the ARC.", "Remove direct I/O."),
    CheckId("OTHER-POOL", "No other pool was used.", "Stop what uses it, or export it."),
    CheckId("CPU-STEAL", "A hypervisor took at most 1 % of the CPUs.", "Use dedicated CPUs."),
    CheckId("ARRAY-BYTES", "Members' bytes = what the level makes of fio's.",
        "Look for other users of them."),
    CheckId("DEVICE-BYTES", "Bytes of fio, kernel and model agree.", "Look for other users of the device."),
    CheckId("THERMAL", "CPUs throttled for at most 1 % of the phase.", "Cool the machine."),
    CheckId("DRIVE-THROTTLED", "No drive made itself slower because of heat, by its own counters.",
        "Cool the drive; give it pauses, or measure for so long that this is its usual speed."),
    CheckId("LINK-DEGRADED", "Links of drives are as fast as both ends can be, and had no error.",
        "Look at slot, riser, cable and backplane, and at the kernel's log."),
    CheckId("CLOCK-STEP", "The wall clock was not set.", "Use NTP that slews."),
    CheckId("TIERS-TRACED", "I/Os by tier are the tracer's.", "`hsp host check` says what the tracer lacks."),
    CheckId("SERVER-LATENCY", "Latencies at the server are the tracer's.",
        "`hsp host check` says what the tracer lacks."),
    CheckId("PART-COUNTERS", "Each part of a resumed phase has its counters.",
        "Measure the phase again in one part."),
    CheckId("USE-SAMPLES", "Use of CPUs and devices was sampled.", "Look at the server's load."),
)  # fmt: skip
_PROBLEMS = (
    CheckId("ARC-ZIL-COUNTERS", "Counters of ARC or ZIL cannot be judged.", "Read the reason's text."),
    CheckId("ARRAY", "A member of an md array failed.", "Replace it."),
    CheckId("CLOCK-OFFSETS", "Clocks of clients could not be aligned.", "Look at the connections."),
    CheckId("DEVICE-DRAM", "DRAM inside a device may answer reads that count as its own.",
        'Use a larger working set; give `dram` of the device, for sizes that are "auto".', asked_by=EACH),
    CheckId("ERROR", "A host or a tool failed.", "Read the reason's text; `hsp host check`."),
    CheckId("FAULT-EVENTS", "The server of emulated devices failed.", "Report it with the run directory."),
    CheckId("HOST-HEALTH", "A host slept, or its health is unknown.", "Disable suspend."),
    CheckId("INTERRUPTED", "The run was interrupted.", "`hsp run --resume RUN`."),
    CheckId("LATE-CLIENTS", "Clients did not start together.", "Look at their load and connections."),
    CheckId("LOAD", "fio failed, or logged other I/Os than it did.", "Look at `raw/`."),
    CheckId("MOUNT-STATISTICS", "The clients' mountstats cannot be judged.", "Read the reason's text."),
    CheckId("NOT-UNDONE", "A setting could not be restored.", "`hsp clean RUN`."),
    CheckId("PRECONDITION", "Devices are not in the state asked for.", "Give it a larger budget."),
    CheckId("PROPERTIES", "Properties with which an expected tier cannot answer.", "Correct the workload."),
    CheckId("READ-HISTORY", "The pool's list of reads overflowed.", "Shorten the phase."),
    CheckId("RECORD", "The phase could not be stored whole.", "Free space in the results directory."),
    CheckId("RESOURCE-USE", "Nothing counted the I/Os of a device.", "Look at the server's load."),
    CheckId("SCHEDULE", "The program that makes faults and events failed.", "Look at its error."),
    CheckId("SCRUB", "The scrub after power losses failed.", "Look at `zpool status`."),
    CheckId("SERVER-ACTIVITY", "A scrub, a resilver or other activity.", "Wait until it is over."),
    CheckId("SETTINGS-CHANGED", "A setting changed during the run.", "Find what sets it."),
    CheckId("STOP-RULES", "The limits of a soak could not be watched.",
        "Look at the server's load.", asked_by="soak"),
    _at_server("TIER-TRACER", "The tracer failed or its output is damaged.",
        "`hsp host check`; lower the load."),
    CheckId("UNTRACED", "The server could not be traced.", "`hsp host check` says what the tracer lacks."),
    CheckId("WARM-UP", "The L2ARC is not warm.", "Lengthen the warm-up."),
    CheckId(UNKNOWN_ID, "A reason of a newer version.", "Read the reason's text."),
)  # fmt: skip
_STORED = (
    CheckId("RUN-FILES", "The files of the run directory can be read and are of a known format.", _COPY),
    CheckId("PLAN-DIGEST", "`plan.json` has the digest of its content.", _COPY),
    CheckId("STORED-SUMMARY", "`summary.json` says what the counts and the manifest say.",
        "`hsp show RUN` makes it anew; ask who changed it."),
)  # fmt: skip
_SECTIONS = {
    "The run": _WHOLE_RUN, "Each phase": _PHASE, "Sums that must close": _SUMS, "Problems": _PROBLEMS,
    "A stored run (`hsp show --checks`)": _STORED,
}  # fmt: skip
IDS: dict[str, CheckId] = {each.id: each for part in _SECTIONS.values() for each in part}
SUM_IDS = frozenset(each.id for each in _SUMS)
_PROBLEM_IDS = frozenset(each.id for each in _PROBLEMS)
# Those of stored files, which `hsp show --checks` alone makes.
STORED_IDS = frozenset(each.id for each in _STORED)
_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+){0,5}")


def id_of_problem(code: str) -> str:
    """The id of a problem by its code, which may be one of a newer version, but no other check's id."""
    id_ = code.upper()
    is_code = _CODE.fullmatch(code) and len(code) <= 40
    return id_ if is_code and (id_ in _PROBLEM_IDS or id_ not in IDS) else UNKNOWN_ID


def makes_of(id_: str) -> Literal["unknown", "invalid"]:
    """What a run is for which the check does not hold; of an id of a newer version: unknown."""
    if id_.startswith(f"{EXPECT}:"):
        return "invalid"
    return IDS[id_].makes if id_ in IDS else "unknown"


def id_of_expectation(row: Mapping[str, Any], limit: str = "", to: Mapping[str, Any] | None = None) -> str:
    """`EXPECT:phase:op:tier`, and the limit; of a ratio the other row, too."""
    parts = [EXPECT, row["phase"], row["op"], row["tier"], limit]
    if to:
        parts += [to["phase"], to["op"], to["tier"]]
    return ":".join(filter(None, parts))


def id_of_ratio(wish: Mapping[str, Any]) -> str:
    """Of an expectation on an axis: `EXPECT:phase:op:tier:axis:from:to`."""
    return ":".join([id_of_expectation(wish), *(str(wish[key]) for key in ("axis", "from", "to"))])


def markdown() -> str:
    """The tables of docs/verdict.md."""
    lines: list[str] = []
    for title, ids in _SECTIONS.items():
        lines += [f"### {title}", "", "| id | what it means | what to do |", "|---|---|---|"]
        for each in ids:
            invalid = " (*failed*)" if each.makes == "invalid" else ""
            lines.append(f"| `{each.id}` | {each.meaning[:-1]}{invalid}. | {each.remedy} |")
        lines.append("")
    return "\n".join(lines)
