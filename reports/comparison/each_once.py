"""Runs that are given twice: one measurement would count as two."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from kit.core.errors import ConfigError
from kit.store.manifest import Fingerprint


class EachOnce:
    """The runs of a command, as they are named."""

    def __init__(self) -> None:
        self._named: dict[Hashable, str] = {}

    def add(self, name: str, identities: Iterable[str], fingerprint: Fingerprint) -> None:
        """`fingerprint`: of Manifest. Raises ConfigError for a run that is there, and for a copy of one."""
        known = set(identities)
        for identity in known & self._named.keys():
            raise ConfigError(f"{name} and {self._named[identity]} are the same run", "give each run once")
        self._named.update(dict.fromkeys(known, name))
        if fingerprint and (other := self._named.setdefault(fingerprint, name)) != name:
            raise ConfigError(
                f"{name} and {other} are copies of one measurement: the number, the exact sum, the smallest "
                "and the largest of their latencies are the same",
                "give each measurement once: a log that was imported twice is one measurement",
            )
