"""Work on blocks, in order, a few at a time.

polars reads a block with all cores, but what comes before and after that is NumPy's. Without these
threads 10 M rows of a latency log took 1.08 times as long and histogram logs 1.11 times: medians of 20
and 25 runs side by side in November 2026 on two cores. There the kit was 1.06 times as fast as DuckDB
(P6, `tox -e bench -- tests/bench/test_import.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Done = TypeVar("Done")
Given = TypeVar("Given")
_THREADS = 2
# Blocks that wait: enough that no thread does, few enough that memory stays small.
_AHEAD = 4


def in_order(work: Callable[[Given], Done], items: Iterator[Given]) -> Iterator[Done]:
    """`work` of each item, in their order. Arrays are worked on side by side: that needs no interpreter lock.

    Raises what `work` or `items` raise, and the first of these in the order of the items.
    """
    waiting: deque[Future[Done]] = deque()
    failure: Exception | None = None
    with ThreadPoolExecutor(_THREADS) as pool:
        while True:
            try:
                item = next(items)
            except StopIteration:
                break
            except Exception as error:
                # What is before it comes first, and may fail itself.
                failure = error
                break
            waiting.append(pool.submit(work, item))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    if failure:
        raise failure
