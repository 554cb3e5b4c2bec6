"""The kit's own tracer output (raw/*-trace.json of a run): what kit.trace.output reads, tiers kept."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kit.importers.base import Format, Options, one_by_one
from kit.importers.histogram_accumulator import Account, Accumulator
from kit.importers.source import Source
from kit.store.parts.import_source import ImportSource
from kit.trace.output import Trace, differences, parse_trace
from kit.trace.tier import LOG_WRITE, Vdevs, tier_of

_MAX_BYTES = 256 << 20
_MAX_LINES = 1_000_000
_MAX_COUNT = 1 << 50
_OPS = ("read", "write", "commit")


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether the first line begins as each line of bpftrace -f json does."""
    return re.match(rb'\{"type": ?"', lines[0].lstrip()) is not None


def read(source: Source, options: Options, tally: Accumulator) -> Account:
    """Add one tracer's counts to `tally`, whose bins are kit.core.bins. Raises ConfigError for damage."""
    account = Account(str(source.path))
    trace = _trace(source)
    account.warnings += trace.problems
    _check(source, trace, options.log_vdevs)
    host, vdevs = options.host_of(source), Vdevs(options.log_vdevs or frozenset())
    before = trace.begin_ns
    try:
        changes = list(differences(trace.snapshots))
    except ValueError as error:
        raise source.fail(None, f"{error}", "the tracer was started again inside the file?") from None
    for change in changes:
        # The counts of a snapshot are those since the one before. Its timer is a little late each time.
        start_ns = before - trace.begin_ns + tally.interval_ns // 20
        before = change.at_ns
        for key, counts in change.counts.items():
            if key[0] not in _OPS or max(counts.values(), default=0) > _MAX_COUNT or start_ns < 0:
                raise source.fail(None, f"requests of class {key} are impossible")
            total = sum(counts.values())
            account.read(total)
            group = tally.group(host, key[0], tier_of(*key, vdevs))
            tally.add_at(start_ns, group, [*counts], [*counts.values()])
            account.rows_counted += total
    for key, sum_ns in trace.sums.items():
        group = tally.group(host, key[0], tier_of(*key, vdevs))
        tally.sum(group, sum(trace.counts.get(key, {}).values()), sum_ns)
    return account


def _trace(source: Source) -> Trace:
    data = source.whole(_MAX_BYTES)
    if data.count(b"\n") + data.count(b"\r") > _MAX_LINES:
        raise source.fail(None, f"more than {_MAX_LINES} lines", "the kit's tracer writes a few each second")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise source.fail(data.count(b"\n", 0, error.start) + 1, "not UTF-8") from None
    trace = parse_trace(text)
    last = len(text.splitlines())
    for number, problem in trace.damaged.items():
        # A tracer that died leaves half a line at the end: a warning, not a refusal.
        if number != last or text.endswith("\n"):
            raise source.fail(number, problem, "copy the file again; nothing was imported")
    return trace


def _check(source: Source, trace: Trace, log_vdevs: frozenset[int] | None) -> None:
    """Raises ConfigError where `log_vdevs` (ids of the pool's log vdevs) is None and the ZIL was written."""
    if not trace.phase:
        raise source.fail(None, "not the output of the kit's tracer: it never says that it begins")
    used = sorted({vdev for _, seen, vdev in trace.counts if seen & LOG_WRITE})
    if used and log_vdevs is None:
        raise source.fail(
            None,
            f"log blocks went to the top-level vdevs {', '.join(map(str, used))}; the file does not say "
            "whether these are log devices",
            "give --log-vdev ID for each log vdev of the pool, or --log-vdev -1 if it has none",
        )


_SOURCE = ImportSource(
    files="trace of the kit", program="the kit's tracer", timed=True,
    latency="from a request's start to its end in nfsd",
)  # fmt: skip
FORMAT = Format(
    "bpftrace", "nfs-server", _SOURCE, recognises, one_by_one(read), frozenset({"host", "log_vdevs"})
)
