"""The tracer for a server where the kit cannot be: a person runs it there, and imports what it printed."""

from __future__ import annotations

from dataclasses import replace

from kit.core.errors import ConfigError
from kit.trace import nfsd_tracer, support
from kit.trace.support import MAP_KEYS, TracingSupport
from kit.zfs import openzfs_version

_INTERVAL_NS = 1_000_000_000
_TICK_MS = 100
_OLDEST, _NEWEST = (2, 1), (2, 4)
# The oldest bpftrace that it is for is assumed: a newer one runs its text, too.
_BPFTRACE = ".".join(map(str, support.MIN_BPFTRACE))
_USAGE = """\
/*
 * As root on the server, in bash. The second line waits until bpftrace has attached its probes.
 *
 *   export BPFTRACE_MAX_MAP_KEYS={keys} BPFTRACE_MAP_KEYS_MAX={keys}
 *   bpftrace -f json -o trace.json nfsd.bt 1 {tick} & until grep -q begins trace.json; do sleep 1; done
 *   (ulimit -r {begin}); sleep 600; (ulimit -r {end}); sleep 2; kill %1; wait
 *   zdb -C POOL | grep -E ' id: |is_log: 1'      # the id before each is_log: 1 is a log device
 *
 * Then here: hsp import trace.json --log-vdev ID (-1: the pool has none)
 */
"""


def program(version: str) -> str:
    """The program for this version of OpenZFS, with how to run it. Raises ConfigError."""
    try:
        zfs = openzfs_version.parse(version)
    except ValueError as error:
        raise ConfigError(f"--program {version}: {error}", "for example 2.3: `zfs version` says it") from None
    if not _OLDEST <= (zfs.major, zfs.minor) <= _NEWEST:
        raise ConfigError(
            f"--program {version}: the tracer is for OpenZFS 2.1 to 2.4", "`zfs version` says which it is"
        )
    usage = _USAGE.format(
        keys=MAP_KEYS, tick=_TICK_MS, begin=nfsd_tracer.mark(1, _INTERVAL_NS), end=nfsd_tracer.mark(0, 0)
    )
    tracing = replace(TracingSupport("full", support.program(zfs)), bpftrace=_BPFTRACE)
    interpreter, *rest = tracing.text.splitlines(keepends=True)
    return "".join((interpreter, usage, *rest))
