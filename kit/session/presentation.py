"""Output of a summary: text, exit code, JUnit file."""

from __future__ import annotations

from pathlib import Path

from kit.core.errors import EXIT_EXPECTATION, EXIT_OK, EXIT_UNKNOWN
from kit.core.output import say, write_target
from kit.store.summary import Summary
from reports.output.junit import junit

VERDICT_CODES = {"valid": EXIT_OK, "invalid": EXIT_EXPECTATION, "unknown": EXIT_UNKNOWN}


def say_summary(summary: Summary) -> None:
    """Print the verdict and the table of the server's rows, or the clients' if the server was not traced."""
    layer = "nfs-server" if summary.rows_of("nfs-server") else "client"
    say(f"\nverdict: {summary.verdict}")
    for text in (*summary.notes, *summary.reasons):
        say(f"  - {text}")
    say(f"\n{'phase':12} {'op':6} {'tier':9} {'I/Os':>7} {'p50 us':>10} {'range us':>21} {'published':>13}")
    for row in summary.rows_of(layer):
        low, high = row.range_us
        p50 = f"{row.p50_us:.1f}" if row.p50_us is not None else "n too small"
        shown, inside = "", ""
        if row.published:
            shown = "{:g}-{:g}".format(*row.published.range_us)
            inside = " inside" if row.published.inside else " OUTSIDE"
        say(
            f"{row.phase:12} {row.op:6} {row.tier:9} {row.count:7} {p50:>10} "
            f"{low:10.1f}-{high:<10.1f} {shown:>13}{inside}"
        )
    for phase in summary.accounting.phases:
        if phase.shares:
            for tier, count in phase.shares.counts.items():
                say(f"{phase.phase}: {count} {phase.shares.unit} from {tier}, by counters")
    for entry in summary.bands:
        for warning in (entry["kernel"] or {}).get("warnings", []):
            say(f"{entry['phase']}, {entry['op']}: {warning}")
    say("")


def write_junit(path: Path | None, summary: Summary) -> None:
    """Write the summary as a JUnit file if there is a path. Raises HostError."""
    if path:
        write_target(path, junit(summary))
