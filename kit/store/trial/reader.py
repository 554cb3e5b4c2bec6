"""A program of its own: reads whole Parquet files whose descriptors come over its standard input, a socket.

Where a file has damaged lengths, polars asks for exbibytes of memory and then ends its process (Rust's
handle_alloc_error aborts), which no code of Python can hinder. So kit.store.trial.readable has this process
read a file first. It answers with a line for each file: what polars says is wrong with it, or nothing.
"""

from __future__ import annotations

import os
import socket

import polars as pl

_ROWS = 1 << 18


def fault_of(handle: int, most_rows: int) -> str:
    """What is wrong with the file of the descriptor, in one line; "" if all of its columns can be read.

    Also "" for a file that says it has more than `most_rows`: the caller refuses it.
    """
    try:
        scan = pl.scan_parquet(f"/dev/fd/{handle}", glob=False)
        rows = scan.select(pl.len()).collect().item()
        for first in range(0, rows if rows <= most_rows else 0, _ROWS):
            scan.slice(first, _ROWS).collect(engine="in-memory")
    # A panic of polars is a BaseException.
    except (Exception, pl.exceptions.PanicException) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def main() -> None:
    """Until the other side closes the connection."""
    with socket.socket(fileno=os.dup(0)) as connection:
        while True:
            content, handles, _, _ = socket.recv_fds(connection, 20, 1)
            if not content:
                return
            connection.sendall(fault_of(handles[0], int(content)).encode()[:4000] + b"\n")
            os.close(handles[0])


if __name__ == "__main__":
    main()
