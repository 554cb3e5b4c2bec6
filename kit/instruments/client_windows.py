"""Counts of fio's windows as rows of latency.parquet: each in the interval that has its middle. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kit.core.bins import bin_index
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.core.text import commas
from kit.instruments.histograms import CLIENT, Cells, IntervalGrid, counted
from kit.load.fio_bins import BINS, IntArray, lower_edge
from kit.load.fio_windows import OPS, ClientWindows
from kit.store.phase import ClientLog, Slowest

_LAST = BINS - 1


def cells(windows: ClientWindows, grid: IntervalGrid) -> Cells:
    """The I/Os of all rows. Raises MeasurementUnknown if a bin of fio is not inside one of ours."""
    # The slowest I/O is known exactly, also where it is beyond fio's bins: it moves to its own bin.
    moved = np.array(_beyond(windows, grid.clock), dtype=np.int64).reshape(-1, 4)
    columns = (_middle(windows), windows.direction, _bins(windows, grid.clock), windows.count)
    end_ns, *others = (np.concatenate(both) for both in zip(columns, moved.T, strict=True))
    return counted(grid, CLIENT, end_ns, *others)


def _middle(windows: ClientWindows) -> IntArray:
    return (windows.begin_ns + windows.end_ns) // 2


def _bins(windows: ClientWindows, clock: Clock) -> IntArray:
    """Our bin (kit.core.bins) of each row, in the experiment's time."""
    low, high = (lower_edge(windows.column + more) - more for more in (0, 1))
    ours, upper = (bin_index(edge // clock.dilation) for edge in (low, high))
    if not np.array_equal(ours, upper):
        raise MeasurementUnknown(f"fio's bins do not fit into the kit's with a dilation of {clock.dilation}")
    return ours


def _beyond(windows: ClientWindows, clock: Clock) -> list[tuple[int, int, int, int]]:
    """Of each op whose slowest I/O is in fio's last bin: one I/O less there, one more in its own bin.

    Rows of end, direction, our bin and count. Of several there it is taken to be the last.
    """
    found = []
    for direction, (_, most_ns) in sorted(windows.extremes_ns.items()):
        rows = np.flatnonzero((windows.direction == direction) & (windows.column == _LAST))
        if rows.size:
            end_ns = int(_middle(windows)[rows].max())
            last, ours = bin_index(np.array([int(lower_edge(_LAST)), most_ns]) // clock.dilation).tolist()
            found += [(end_ns, direction, last, -1), (end_ns, direction, ours, 1)]
    return found


def problems(windows: ClientWindows, host: str) -> list[str]:
    """I/Os whose latency fio does not tell: its last bin has no upper edge."""
    texts = []
    for direction, (_, most_ns) in sorted(windows.extremes_ns.items()):
        ios = int(windows.count[(windows.direction == direction) & (windows.column == _LAST)].sum())
        if ios > 1:
            texts.append(
                f"{commas(ios)} {OPS[direction]}s of {host} took longer than "
                f"{int(lower_edge(_LAST)) / 1e9:.1f} s, which fio's histograms do not tell apart; the "
                f"slowest took {most_ns / 1e9:.1f} s"
            )
    return texts


def client_log(clients: Sequence[tuple[str, ClientWindows]], grid: IntervalGrid) -> ClientLog:
    """What is known of the times of `clients`, in the experiment's time. At least one client."""
    to_experiment = grid.clock.from_host_ns
    slowest, errors_ns = [], [0]
    for host, windows in clients:
        begin = grid.phase_origin_ns + grid.numbers_of(_middle(windows)) * grid.interval_ns
        outside = np.maximum(begin - windows.begin_ns, windows.end_ns - begin - grid.interval_ns)
        errors_ns.append(int(outside.max(initial=0)))
        for direction, (_, most_ns) in sorted(windows.extremes_ns.items()):
            # fio rounds nothing: the slowest is in the highest bin that holds I/Os.
            mine = windows.direction == direction
            rows = np.flatnonzero(mine & (windows.column == windows.column[mine].max()))
            slowest.append(
                Slowest(
                    host=host,
                    op=OPS[direction],
                    latency_ns=to_experiment(most_ns),
                    from_ns=to_experiment(int(windows.begin_ns[rows].min()) - grid.run_origin_ns),
                    to_ns=to_experiment(int(windows.end_ns[rows].max()) - grid.run_origin_ns),
                )
            )
    return ClientLog(
        kind="histograms",
        latency="completion",
        window_ns=to_experiment(clients[0][1].window_ms * 10**6),
        time_error_ns=to_experiment(max(errors_ns)),
        ios_guessed=sum(windows.guessed for _, windows in clients),
        slowest=tuple(slowest),
    )
