"""One reader of a run that goes on: what its phase has counted so far, and whether it still runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from kit.core.errors import ConfigError
from kit.recovery.journal import held_by
from kit.session.live.counts import LiveCounts
from kit.session.live.followers import ClientFollower, Follower, TraceFollower
from kit.store import under_way
from kit.store.run_directory import RunDir
from kit.store.under_way import UnderWay

State = Literal["running", "finished", "killed"]


@dataclass
class PhaseSoFar:
    """The phase that is measured now. `problems`: what was wrong with its files."""

    about: UnderWay
    counts: LiveCounts
    followers: Sequence[Follower] = field(repr=False)

    @property
    def problems(self) -> list[str]:
        return [problem for each in self.followers for problem in each.problems]

    @property
    def ended(self) -> bool:
        """Whether its load has ended; False where the files do not say so."""
        return all(each.ended for each in self.followers)

    def poll(self) -> None:
        """Raises ConfigError, OSError."""
        for each in self.followers:
            each.poll(self.counts)


class RunReader:
    """Reads `run_dir` again and again. Nothing is written there, and no host is asked."""

    def __init__(self, run_dir: RunDir) -> None:
        self._run_dir = run_dir
        self.phase: PhaseSoFar | None = None

    def poll(self) -> PhaseSoFar | None:
        """The phase with what has come since; None before the first. Raises ConfigError, OSError."""
        about = under_way.read(self._run_dir)
        if about is not None and (self.phase is None or self.phase.about != about):
            self.phase = _begun(self._run_dir, about)
        if self.phase is not None:
            self.phase.poll()
        return self.phase

    def state(self) -> State:
        """Whether the run goes on, has its report, or was ended without one. Raises ConfigError, OSError.

        A run holds the lock of its journal until its report is written.
        """
        if held_by(self._run_dir.journal) is not None:
            return "running"
        report = self._run_dir.report
        return "finished" if report.is_file() and not report.is_symlink() else "killed"


def _begun(run_dir: RunDir, about: UnderWay) -> PhaseSoFar:
    counts, followers = LiveCounts(about.interval_ns), list[Follower]()
    if about.trace is not None:
        followers.append(TraceFollower(run_dir.raw / about.trace, about))
    else:
        followers += [ClientFollower(run_dir.raw / name, about) for name in about.clients]
    if not followers:
        raise ConfigError(
            f"{under_way.path_in(run_dir)} names no file", "the run directory is damaged: copy it again"
        )
    return PhaseSoFar(about, counts, followers)
