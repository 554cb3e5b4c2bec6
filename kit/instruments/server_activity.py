"""Activity of the server in a phase: NFS calls, other pools, scrubs, txgs, steal. Pure but for `read`.

Sources: /proc/net/rpc/nfsd (fs/nfsd/stats.c: `io` bytes read and written, `proc3` calls by
procedure of RFC 1813, `proc4ops` operations of NFSv4); per pool /proc/spl/kstat/zfs/POOL/iostats
and txgs (OpenZFS module/zfs/spa_stats.c), before 2.3 `reads` and `writes` of each file system and zvol in
use in objset-* (dataset_kstats.c); scans of kit.zfs.scrub_status; /proc/stat (proc(5)).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.arc_zil_counters import TOLERANCE_IOS, parse_kstat
from kit.instruments.base import (
    Instrument,
    InstrumentReport,
    MeasuredPhase,
    minus,
    read_files,
    unknown_calls,
)
from kit.store.phase import Check, Event, Missing
from kit.zfs import scrub_status
from kit.zfs.openzfs_version import ZfsVersion
from kit.zfs.scrub_status import Scan

NFSD = "/proc/net/rpc/nfsd"
_CALLS = f"{NFSD} proc3, proc4ops"
_NO_NFSD = "io 0 0"
_STAT = "/proc/stat"
_RELEASE = "/proc/sys/kernel/osrelease"
_NARROW, _WIDE_SINCE = 2**32, (5, 13)
KSTATS = "/proc/spl/kstat/zfs"
_OBJSET = re.compile(rf"^{KSTATS}/([^/]+)/(objset-0x[0-9a-f]+):(reads|writes) +4 +([0-9]+)$", re.MULTILINE)
# Numbers of procedures in RFC 1813, RFC 7530 and RFC 7862 (68: READ_PLUS, the reads of NFS 4.2). In the lists
# they stand after the length.
_V3 = {"read": (6,), "write": (7,), "commit": (21,)}
_V4 = {"read": (25, 68), "write": (38,), "commit": (5,)}
TRIM = "the workload asks for a trim"
# More steal time than this falsifies latencies.
STEAL_SHARE = 0.01
# Dataset properties that decide which tier can answer; always read back.
DECISIVE_PROPERTIES = ("recordsize", "sync", "logbias", "primarycache", "secondarycache")


Span = tuple[int, int, str, str]
"""Begin and end on the server's clock, in ns; kind and text of an event."""


@dataclass(frozen=True)
class Txg:
    """A synced transaction group: begin and end of its sync on the server's clock, in ns."""

    number: int
    begin_ns: int
    end_ns: int
    written_bytes: int


@dataclass(frozen=True)
class ServerConditions:
    """The server at one moment. `io_bytes` and `calls` are nfsd's by op; kstats are by pool."""

    uptime_ns: int
    wall_s: int
    io_bytes: dict[str, int]
    calls: dict[str, int]
    iostats: dict[str, dict[str, int]]
    scans: dict[str, Scan]
    txgs: tuple[Txg, ...]
    cpu_ticks: int
    steal_ticks: int
    # Of the kernel; "" where that is not known.
    release: str = ""


@dataclass(frozen=True)
class Expected:
    """What a workload asks for, so that it is no doubt: scans of its own pool, trims, calls sent again.

    `apart`: by so many calls nfsd may have counted more than the clients; asked after the end of the phase.
    """

    scans: frozenset[str] = frozenset()
    trims: bool = False
    apart: Callable[[], int] = int


@dataclass(eq=False)
class ServerActivity(Instrument):
    """nfsd's own counts, and other activity: other pools, scrubs, txgs, steal time.

    `local`: the load runs on the server, so nfsd, if there is one, has nothing to do. `expected`: what the
    workload has asked for.
    """

    code = "server-activity"

    server: Host
    pool: str
    zfs: ZfsVersion
    _: KW_ONLY
    local: bool = False
    expected: Expected = field(default_factory=Expected)

    def begin(self) -> None:
        self._before = read(self.server, self.pool, self.zfs, local=self.local)

    def end(self) -> None:
        self._after = read(self.server, self.pool, self.zfs, local=self.local)

    def calls(self, op: str) -> int:
        """nfsd's count of the phase, after its end."""
        return self._after.calls[op] - self._before.calls[op]

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        before, after = self._before, self._after
        ios = measured.calls(measured.ios_by_op)
        ios = dict.fromkeys(ios, 0) if self.local else ios
        made = checks(
            before, after, self.pool, ios, measured.call_bytes, self.zfs, measured.spare_bytes, self.expected
        )
        if measured.calls_per_io is None and not self.local:
            made.append(unknown_calls("NFS WRITE calls", _CALLS))
        happened = events(before, after, measured)
        return InstrumentReport(made, happened, problems(before, after, self.pool, self.expected.scans))


def read(server: Host, pool: str, zfs: ZfsVersion, *, local: bool = False) -> ServerConditions:
    """Read the counters. Raises HostError if one is missing; with `local` nfsd need not be there."""
    scans = scrub_status.read(server, zfs)
    pools = sorted(scans)
    files = ["/proc/uptime", NFSD, _STAT, _RELEASE, f"{KSTATS}/{pool}/txgs"]
    files += [f"{KSTATS}/{name}/iostats" for name in pools]
    # Those of another pool may vanish at any time.
    contents = read_files(server, files)
    others = [f"{KSTATS}/{name}" for name in pools if name != pool and not zfs.has_direct_io]
    try:
        found = parse(contents, scans, pool, local=local)
        return replace(found, iostats=found.iostats | _objsets(server, others)) if others else found
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise HostError(
            f"the counters of the NFS server and pools of {server.name} cannot be read ({error!r})",
            f"are {NFSD} and {KSTATS}/{pool} there, and readable?",
        ) from error


def _objsets(server: Host, directories: list[str]) -> dict[str, dict[str, int]]:
    """I/Os of the file systems and zvols of pools, as iostats of a pool; there may be many thousands."""
    grep = ["grep", "-HE", "^(reads|writes) ", "{}", "+"]
    argv = ["find", *directories, "-name", "objset-*", "-exec", *grep]
    found: dict[str, dict[str, int]] = {}
    for pool, objset, op, value in _OBJSET.findall(server.run(argv, check=False).stdout):
        found.setdefault(pool, {})[f"{objset} {op}"] = int(value)
    return found


def parse(
    files: Mapping[str, str], scans: Mapping[str, Scan | None], pool: str, *, local: bool = False
) -> ServerConditions:
    """From the files' contents and `zpool status`. Raises KeyError or ValueError for missing values."""
    stat = {line.split()[0]: line.split()[1:] for line in files[_STAT].splitlines() if line.strip()}
    ticks = [int(value) for value in stat["cpu"]]
    uptime_s = float(files["/proc/uptime"].split()[0])
    io_bytes, calls = nfsd_counts(files.get(NFSD, _NO_NFSD) if local else files[NFSD])
    pools = [name for name in sorted(scans) if f"{KSTATS}/{name}/iostats" in files]
    return ServerConditions(
        uptime_ns=int(uptime_s * 1e9),
        wall_s=int(stat["btime"][0]) + int(uptime_s),
        io_bytes=io_bytes,
        calls=calls,
        iostats={name: parse_kstat(files[f"{KSTATS}/{name}/iostats"]) for name in pools},
        scans={name: scan for name, scan in scans.items() if scan},
        txgs=tuple(txgs_of(files[f"{KSTATS}/{pool}/txgs"])),
        # user nice system idle iowait irq softirq steal; user includes guest time.
        cpu_ticks=sum(ticks[:8]),
        steal_ticks=ticks[7],
        release=files.get(_RELEASE, ""),
    )


def nfsd_counts(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes and calls by op, from /proc/net/rpc/nfsd. Raises KeyError, ValueError, IndexError."""
    rows = [line.split() for line in text.splitlines() if line]
    lines = {row[0]: [int(value) for value in row[1:] if value.isdigit()] for row in rows}
    calls = dict.fromkeys(_V3, 0)
    for key, procedures in (("proc3", _V3), ("proc4ops", _V4)):
        counts = lines.get(key, [0])
        for op, numbers in procedures.items():
            calls[op] += sum(counts[1 + number] for number in numbers if number < counts[0])
    return {"read": lines["io"][0], "write": lines["io"][1]}, calls


def nfsd_totals(text: str) -> dict[str, int]:
    """All calls of NFSv3 but NULL and all operations of NFSv4, from /proc/net/rpc/nfsd. Raises ValueError."""
    rows = [line.split() for line in text.splitlines() if line]
    # The first number says how many there are; NULL is the first of NFSv3.
    first = {"proc3": 3, "proc4ops": 2}
    return {row[0]: sum(map(int, row[first[row[0]] :])) for row in rows if row[0] in first}


def txgs_of(text: str) -> Iterator[Txg]:
    """The committed txgs (state C): birth, then the times open, quiescing, waiting and syncing.

    Raises StopIteration for a file without its heading, ValueError, KeyError.
    """
    rows = [line.split() for line in text.splitlines()]
    start = next(number for number, row in enumerate(rows) if row[:2] == ["txg", "birth"])
    for row in rows[start + 1 :]:
        named = dict(zip(rows[start], row, strict=False))
        if named.get("state") == "C":
            begin = sum(int(named[column]) for column in ("birth", "otime", "qtime", "wtime"))
            yield Txg(int(named["txg"]), begin, begin + int(named["stime"]), int(named["nwritten"]))


def checks(
    before: ServerConditions,
    after: ServerConditions,
    pool: str,
    ios: Mapping[str, int],
    block_bytes: Mapping[str, int],
    zfs: ZfsVersion,
    spare_bytes: int = 0,
    expected: Expected | None = None,
) -> list[Check | Missing]:
    """Check the clients' I/Os (`ios`, by op) against nfsd's own count, and other activity against zero.

    `block_bytes`: of an I/O of each op; the bytes of others are not checked. `spare_bytes`: see Measured.
    """
    made: list[Check | Missing] = []
    expected = expected or Expected()
    apart = expected.apart()
    for op, count in ios.items():
        name, calls = f"NFS {op.upper()} calls", after.calls[op] - before.calls[op]
        made.append(Check.of_counts("NFS-CALLS", name, _CALLS, count, calls, apart, op=op))
        if op in block_bytes:
            spare = count * spare_bytes + apart * block_bytes[op]
            issued = count * block_bytes[op]
            moved = _moved(before.io_bytes[op], after.io_bytes[op], issued, after.release)
            made.append(
                Check.of_counts("NFS-BYTES", f"bytes of {name}", f"{NFSD} io", issued, moved, spare, op=op)
            )
    change = {key: minus(now, before.iostats.get(key, {})) for key, now in after.iostats.items()}
    trimmed = sum(value for key, value in change.get(pool, {}).items() if key.endswith("_extents_written"))
    name, source = "trimmed extents", "iostats *trim_extents_written"
    made.append(
        Missing(id="TRIM", name=name, source=source, why=TRIM)
        if expected.trims
        else Check.of_counts("TRIM", name, source, 0, trimmed)
    )
    made += _pool_checks(change, pool, zfs)
    # The server's clock may run faster than this machine's: a guest of an emulator that is idle.
    ticks, steal = after.cpu_ticks - before.cpu_ticks, after.steal_ticks - before.steal_ticks
    name, most = "CPU steal time, in 10 ms", int(ticks * STEAL_SHARE) + 1
    made.append(Check.of_counts("CPU-STEAL", name, f"{_STAT} steal", 0, steal, most, out_of=max(ticks, 0)))
    return made


def _moved(before: int, after: int, issued: int, release: str) -> int:
    """Bytes between two values of nfsd's `io`, which before Linux 5.13 begins anew at 4 GiB.

    How often it did is what comes nearest to the bytes that were `issued`.
    """
    version = tuple(int(part) for part in re.findall(r"[0-9]{1,9}", release)[:2])
    is_narrow = max(before, after) < _NARROW and (after < before or () < version < _WIDE_SINCE)
    if not is_narrow:
        return after - before
    moved = (after - before) % _NARROW
    return moved + max(issued - moved + _NARROW // 2, 0) // _NARROW * _NARROW


def _pool_checks(change: dict[str, dict[str, int]], pool: str, zfs: ZfsVersion) -> Iterator[Check | Missing]:
    """Checks of I/O by pool, which iostats count since OpenZFS 2.3; before, only that of files and zvols."""
    rows = [("DIRECT-IO", "direct I/O, past the ARC", pool, "direct_", 0, ", which has no direct I/O")]
    for other in sorted(set(change) - {pool}):
        why = ", and no file system or zvol of it is in use"
        rows.append(("OTHER-POOL", f"I/Os of another pool, {other}", other, "arc_", TOLERANCE_IOS, why))
    for id_, name, of, kind, tolerance, why in rows:
        counted, source = change.get(of, {}), f"iostats {kind}*_count"
        if not zfs.has_direct_io and any(key.startswith("objset-") for key in counted):
            kind, source = "objset-", "objset-* reads, writes"
        if zfs.has_direct_io or kind == "objset-":
            ios = sum(n for key, n in counted.items() if key.startswith(kind) and not key.endswith("_bytes"))
            yield Check.of_counts(id_, name, source, 0, ios, tolerance, of=of)
        else:
            yield Missing(id=id_, name=name, source=source, of=of, why=f"not available on {zfs}{why}")


def problems(
    before: ServerConditions, after: ServerConditions, own: str = "", expected: frozenset[str] = frozenset()
) -> list[str]:
    """Scrubs, resilvers, evacuations and expansions of any pool: they use the measured devices, ARC and CPU.

    Not those that are `expected` of the pool `own`.
    """
    return [
        f"{'an' if _word(scan)[0] in 'aeiou' else 'a'} {_word(scan)} of the pool {pool} ran during the phase "
        f"(zpool status: {scan.function} {scan.state})"
        for pool, scan in after.scans.items()
        if (scan.running or before.scans.get(pool) != scan)
        and not (pool == own and scan.function in expected)
    ]


def _word(scan: Scan) -> str:
    return scrub_status.WORDS.get(scan.function, scan.function.lower())


def events(before: ServerConditions, after: ServerConditions, measured: MeasuredPhase) -> list[Event]:
    """Syncs of txgs and scrubs in the phase. Times of a scrub have a resolution of a second."""
    booted_s = after.wall_s - after.uptime_ns // 1_000_000_000
    spans = (*map(txg_span, after.txgs), *scan_spans(after.scans, booted_s, after.uptime_ns))
    at = measured.experiment_ns
    return [
        Event(time_ns=at(begin_ns), end_ns=at(end_ns), kind=kind, text=text)
        for begin_ns, end_ns, kind, text in spans
        if end_ns >= before.uptime_ns and begin_ns <= after.uptime_ns
    ]


def txg_span(txg: Txg, pool: str = "") -> Span:
    return txg.begin_ns, txg.end_ns, "txg", f"txg {txg.number}{pool}: sync, {txg.written_bytes} bytes"


def scan_spans(scans: Mapping[str, Scan], booted_s: int, now_ns: int) -> Iterator[Span]:
    """Of scrubs and the like of each pool. `booted_s`: seconds since 1970; `now_ns`: since then."""
    for pool, scan in scans.items():
        end_ns = now_ns if scan.running else (scan.end_s - booted_s) * 1_000_000_000
        kind = "scrub" if scan.function == "ERRORSCRUB" else _word(scan)
        yield (scan.start_s - booted_s) * 1_000_000_000, end_ns, kind, f"{kind} of the pool {pool}"


def property_problems(properties: dict[str, str], tiers: set[str]) -> list[str]:
    """Dataset properties with which an expected tier cannot answer (zfsprops(7))."""
    required: dict[str, dict[str, tuple[str, ...]]] = {
        "dram": {"primarycache": ("all",)},
        "l2arc": {"primarycache": ("all",), "secondarycache": ("all",)},
        "slog": {"sync": ("standard", "always"), "logbias": ("latency",)},
        "pool": {"sync": ("standard", "always")},
    }
    return [
        f"the tier {tier} is expected, but the dataset has {name}={properties[name]} "
        f"(zfs get {name}; it takes {' or '.join(good)})"
        for tier in sorted(tiers & set(required))
        for name, good in required[tier].items()
        if name in properties and properties[name] not in good
    ]


def changed(before: dict[str, str], after: dict[str, str], of: str) -> list[str]:
    """Problems: settings of `of` that changed since the start of the run."""
    return [
        f"{of}: {name} was {before[name]} and is {after.get(name, 'gone')} at the end of the run"
        for name in before
        if after.get(name) != before[name]
    ]
