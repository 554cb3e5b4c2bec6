"""A run directory that goes on: its plan, a locked journal, and a recorded trace that grows in pieces."""

import json
from pathlib import Path

from kit.recovery.journal import Journal
from kit.store import under_way
from kit.store.run_directory import create_run
from kit.trace.output import Trace, parse_trace
from kit.trace.tier import Vdevs, tier_of

DATA = Path(__file__).parents[2] / "data"
READ = (DATA / "trace-read.json").read_text()
SECOND = 1_000_000_000


def going_on(folder: Path, **changes):
    """A run with its journal (close it to end the run), whose phase `read` has begun."""
    run = create_run(folder / "results", "w")
    (run.path / "plan.json").write_text(json.dumps({"workload": {"name": "w", "title": "Top speeds"}}))
    journal = Journal(run.journal)
    about = {
        "phase": "read", "part": 1, "duration_ns": 8 * SECOND, "interval_ns": SECOND, "clock": "virtual",
        "dilation": 4, "trace": "read-trace.json", "log_vdevs": (), "clients": (),
    }  # fmt: skip
    under_way.write(run, under_way.UnderWay(**{**about, **changes}))
    return run, journal


NO_VDEVS = Vdevs()


def totals(trace: Trace, vdevs=NO_VDEVS):
    """(op, tier) to counts by bin, of the last counts of a whole trace."""
    made = {}
    for (op, seen, vdev), bins in trace.snapshots[-1].counts.items():
        held = made.setdefault((op, tier_of(op, seen, vdev, vdevs)), {})
        for index, count in bins.items():
            held[index] = held.get(index, 0) + count
    return made


WHOLE = totals(parse_trace(READ))
