"""Kinds of runs, and what the kit can know of each. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Known:
    """`drives_load`: the kit's own clients issued the I/Os, and their counts are in the phases.

    `counts_twice`: two instruments counted the same I/Os, so that there are sums to judge.
    `sees_server`: the kit read the pool, the counters and the tracer of the server. `serves_nfs`: the I/Os
    came over NFS, so that nfsd counted them, too.
    """

    drives_load: bool = True
    counts_twice: bool = True
    sees_server: bool = True
    serves_nfs: bool = True


class RunKind(Enum):
    """Who issued the I/Os, and who counted them."""

    HOSTS = Known()
    APPLIANCE = Known(sees_server=False)
    OBSERVED = Known(drives_load=False)
    LOCAL = Known(drives_load=False, serves_nfs=False)
    IMPORT = Known(drives_load=False, counts_twice=False, sees_server=False)
