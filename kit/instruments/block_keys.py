"""The sample of blocks of a phase as rows of keys.parquet. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from kit.core.clock import Clock
from kit.core.text import commas
from kit.store.tables import KEYS_SCHEMA
from kit.trace import keys
from kit.trace.output import Class, Trace, classes_of_keys
from kit.trace.tier import Vdevs, tier_of

# The dataset of a class of requests, and the vdevs of its pool; None: it is left out.
PlaceOf = Callable[[Class], tuple[str, Vdevs] | None]


def rows(
    trace: Trace, one_in: int, phase: str, place_of: PlaceOf, origin_ns: int, clock: Clock
) -> tuple[pl.DataFrame, list[str]]:
    """Rows by the begin of their requests, and notes: what is not in it because it would be too much.

    `origin_ns`: where the phase begins, on the server's monotonic clock.

    Raises ValueError for lines that the program does not print.
    """
    labels: dict[int, tuple[str, str, str]] = {}
    for seen, (op, bits, vdev) in classes_of_keys(trace).items():
        if place := place_of((op, bits, vdev)):
            labels[seen] = place[0], op, tier_of(op, bits, vdev, place[1])
    wanted = np.array(sorted(labels), np.uint64)
    names = pl.DataFrame([(seen, *labels[seen]) for seen in sorted(labels)], _LABELS, orient="row")
    frames, total, notes = [pl.DataFrame(schema=KEYS_SCHEMA)], 0, []
    for lines in trace.keys.of(wanted):
        blocks = keys.blocks_of(lines, one_in)
        begin_ns = lines[blocks.line, 0].astype(np.int64)
        frame = pl.DataFrame({
            "time_ns": np.maximum(begin_ns - origin_ns, 0) // clock.to_host_ns(1),
            "key": blocks.key, "block_bytes": blocks.block_bytes, "seen": lines[blocks.line, 1],
        }).join(names, on="seen", maintain_order="left")  # fmt: skip
        constant = {"phase": pl.lit(phase), "one_in": pl.lit(one_in, pl.Int64())}
        frame = frame.with_columns(**constant).select(list(KEYS_SCHEMA))
        frames.append(frame.head(keys.MOST_ROWS - total))
        total += frame.height
        if total > keys.MOST_ROWS:
            notes.append(_ended(f"{commas(keys.MOST_ROWS)} rows", one_in))
            break
    if trace.keys.left_out:
        of = trace.keys.printed + trace.keys.left_out
        notes.append(_ended(f"{commas(trace.keys.printed)} of {commas(of)} sampled requests", one_in))
    return pl.concat(frames), notes


_LABELS = {"seen": pl.UInt64(), "dataset": pl.String(), "op": pl.String(), "tier": pl.String()}


def _ended(after: str, one_in: int) -> str:
    return (
        f"The sample of blocks, one in {commas(one_in)}, ended after {after}, which are as many as are kept: "
        "one in more blocks makes it smaller."
    )
