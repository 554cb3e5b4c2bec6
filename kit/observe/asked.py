"""What an observation is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from kit.observe.probe_cost import COST_MAX


@dataclass(frozen=True)
class Asked:
    """`datasets`: names of pools or datasets; requests to others are counted together. Empty: all.

    `local`: calls of all processes of the server, in the place of the requests of NFS clients. `files`: by
    file, too. `split`: where the time of each NFS request goes, too. `cost_max`: the part of the mean latency
    that the tracer's probes may take (0 to 1); above it the observation ends. `keys`: a sample of one in so
    many blocks, too; 0: none. `captured`: so many requests at most, one by one; 0: none.
    """

    datasets: tuple[str, ...] = ()
    local: bool = False
    files: bool = False
    split: bool = False
    cost_max: float = COST_MAX
    keys: int = 0
    captured: int = 0
