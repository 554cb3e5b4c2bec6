"""The parts of a request's time, as split_request.bt counts them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kit.store.parts.split import Part

PARTS: Mapping[int, Part] = {
    4010: "nfs",
    4011: "zfs",
    4012: "zil",
    4013: "log_wait",
    4014: "log_write",
    4015: "flush",
    4016: "wake_up",
    4017: "read",
    4018: "verify",
    4019: "unknown",
}
"""Keys of @counts with a sum of ns, and the names of the parts in results (docs/why-slow.md)."""

UNJOINED = 4020
"""Key of @counts with the requests of which not all parts are known; what is not is in "unknown"."""

K = TypeVar("K")


def add(parts: dict[K, dict[Part, int]], unjoined: dict[K, int], key: K, number: int, value: int) -> None:
    """Add one entry of @counts: a part, or requests."""
    if number == UNJOINED:
        unjoined[key] = value
    else:
        parts.setdefault(key, {})[PARTS[number]] = value
