"""`tox -e truth`: the share of false sentences, and the power, beside what the documents promise."""

from __future__ import annotations

import sys
import time

from tests.truth.areas import AREAS
from tests.truth.trials import Share, share


def line_of(found: Share) -> str:
    trial, (low, high) = found.trial, found.range
    limit = f"<= {trial.at_most:.1%}" if trial.at_most < 1 else f">= {trial.at_least:.1%}"
    verdict = "" if found.holds else "  NOT SO"
    return (
        f"{found.said / found.cases:7.1%} [{low:.1%}, {high:.1%}] of {found.cases}, promised {limit:9} "
        f"{trial.claim} | {trial.data}{f' ({trial.promise})' if trial.promise else ''}{verdict}"
    )


def main(names: list[str]) -> int:
    """`names`: of areas; all without any. Returns 1 if a promise does not hold."""
    unknown = [name for name in names if name not in AREAS]
    if unknown:
        sys.stderr.write(f"no area {', '.join(unknown)}: there are {', '.join(AREAS)}\n")
        return 2
    broken = 0
    for name in names or AREAS:
        sys.stdout.write(f"{name}\n")
        begun, held = time.monotonic(), 0
        for trial in AREAS[name]:
            found = share(trial, trial.cases)
            held += found.holds
            sys.stdout.write(f"  {line_of(found)}\n")
            sys.stdout.flush()
        every = len(AREAS[name])
        broken += every - held
        sys.stdout.write(f"{name}: {held} of {every} hold, {time.monotonic() - begun:.0f} s\n")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
