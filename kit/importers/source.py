"""A file to import, as blocks of whole lines. Plain, gzip or zstd, recognised by its first bytes.

Memory stays at a few blocks whatever the size of the file, also where little input inflates to much.
"""

from __future__ import annotations

import functools
import gzip
import re
import stat
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, TypeVar

import numpy as np

from kit.core.errors import ConfigError
from kit.core.own_file import is_of_kernel

# Large enough that a call of polars is little beside it (at 512 KiB 8 % more of the time is that), small
# enough that the few blocks that are worked on at once stay below 50 MiB.
BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
_INPUT_BYTES = 1 << 16
# A zstd block of 4 bytes can become 128 KiB: what goes in at once bounds what comes out (32 MiB).
_ZSTD_INPUT_BYTES = 1 << 10
_MAX_WINDOW_BYTES = 128 << 20
_THREADS = 2
# Blocks that wait: enough that no thread does, few enough that memory stays small.
_AHEAD = 4
Done = TypeVar("Done")
Given = TypeVar("Given")


@dataclass(frozen=True)
class Block:
    """Whole lines, each with its newline; `first_line` counts from 1, `lines` is how many there are.

    `cut` marks what follows the last newline of the file: a line that may have been truncated.
    """

    data: bytes
    first_line: int
    lines: int
    cut: bool = False


_LOG_NAME = re.compile(
    r"_(?P<kind>clat_hist|clat|slat|lat|bw|iops)(?:\.(?P<job>\d+))?\.log(?:\.(?P<host>[^/]+))?$"
)
_COMPRESSED = re.compile(r"\.(gz|zst)$")
_SUFFIXES = re.compile(r"(?:\.log|\.json|\.txt|\.csv)+$")


STANDARD_INPUT = Path("-")
_MOST_PIPED_BYTES = 16 << 30


@functools.cache
def _spooled() -> IO[bytes]:
    """Standard input as a file: it is read more than once. It is gone when the program ends."""
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("standard input is a terminal", "pipe a file into it, as in `... | hsp import -`")
    try:
        file = tempfile.NamedTemporaryFile(prefix="hsp-import-")
        while piece := sys.stdin.buffer.read(BLOCK_BYTES):
            file.write(piece)
            if file.tell() > _MOST_PIPED_BYTES:
                raise ConfigError(
                    f"standard input: more than {_MOST_PIPED_BYTES >> 30} GiB", "save it as a file"
                )
        file.flush()
    except OSError as error:
        raise ConfigError(
            f"standard input cannot be kept in {tempfile.gettempdir()}: {error.strerror}", "save it as a file"
        ) from error
    return file


class Source:
    """One input file. `tell` gets the bytes of the file on disk that have been read so far.

    `log_kind`: such as `clat` or `bw` as fio names its logs; None for another name. `is_of_all_jobs`: such a
    log without the number of a job. `is_of_server`: it has the name of a host, so a fio server has sent it.
    `host`: of the file's name, with the job: "nodeA/read.1" of read_clat.1.log.nodeA.
    """

    def __init__(self, path: Path, tell: Callable[[int], None] = lambda done: None) -> None:
        self._opened = Path(_spooled().name) if path == STANDARD_INPUT else path
        self.path = Path("standard input") if path == STANDARD_INPUT else path
        self._tell = tell
        try:
            status = self._opened.stat()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}", "check the name") from error
        except ValueError:  # a NUL in the name
            raise ConfigError(
                f"{str(path)!r}: not the name of a file", "give a path that the shell can list"
            ) from None
        if not stat.S_ISREG(status.st_mode) or is_of_kernel(status):
            raise ConfigError(
                f"{path}: not a regular file", "give the log itself, or - for what comes through a pipe"
            )
        self.size_bytes = status.st_size
        self.identity = (status.st_dev, status.st_ino)
        name = _COMPRESSED.sub("", self.path.name)
        log = _LOG_NAME.search(name)
        self.log_kind = log["kind"] if log else None
        self.is_of_all_jobs = log is not None and log["job"] is None
        self.is_of_server = log is not None and log["host"] is not None
        self.host = _SUFFIXES.sub("", name) or name
        if log:
            job = name[: log.start()] + (f".{log['job']}" if log["job"] else "")
            self.host = f"{log['host']}/{job}" if log["host"] else job

    def fail(self, line: int | None, found: str, hint: str = "") -> ConfigError:
        """The error for damage in this file; `line` counts from 1."""
        where = f"{self.path}, line {line}" if line else f"{self.path}"
        return ConfigError(f"{where}: {found}", hint)

    def head(self, most_bytes: int = 1 << 16) -> bytes:
        """The first bytes of the content, decompressed."""
        content = b""
        for piece in self._pieces():
            content += piece[: most_bytes - len(content)]
            if len(content) >= most_bytes:
                break
        return content

    def whole(self, most_bytes: int) -> bytes:
        """The whole content. Raises ConfigError if it is longer than `most_bytes`."""
        return next(self.segments(b"\n", most_bytes + 1, most_bytes))

    def segments(self, end: bytes, least_bytes: int, most_bytes: int) -> Iterator[bytes]:
        """The content, cut after the last `end` of every `least_bytes` or more.

        Raises ConfigError where none comes within `most_bytes`.
        """
        content = bytearray()
        cut = 0
        for piece in self._pieces():
            looked = max(len(content) - len(end), 0)
            content += piece
            if (at := content.rfind(end, looked)) >= 0:
                cut = at + len(end)
            if len(content) > most_bytes:
                raise self.fail(None, f"more than {most_bytes >> 20} MiB", "no tool writes that much here")
            if len(content) >= least_bytes and cut:
                yield bytes(content[:cut])
                del content[:cut]
                cut = 0
        yield bytes(content)

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
        """The content, cut at newlines. Raises ConfigError for a line without end and damaged compression."""
        line, tail_bytes = 1, 0
        held: list[bytes | memoryview] = []
        held_bytes = 0
        for piece in self._pieces(block_bytes):
            end = piece.rfind(b"\n") + 1
            if end and held_bytes + end >= block_bytes:
                data = b"".join([*held, memoryview(piece)[:end]])
                block = Block(data, line, _lines(data))
                yield block
                line += block.lines
                held, held_bytes = [], 0
                piece = piece[end:]
                tail_bytes = 0
            elif end:
                tail_bytes = -end
            held.append(piece)
            held_bytes += len(piece)
            tail_bytes += len(piece)
            if tail_bytes > MAX_LINE_BYTES:
                number = line + _lines(b"".join(held))
                raise self.fail(number, f"longer than {MAX_LINE_BYTES >> 20} MiB", "this is not a log")
        data = b"".join(held)
        end = data.rfind(b"\n") + 1
        lines = _lines(data)
        if end:
            yield Block(data[:end], line, lines)
        if end < len(data):
            yield Block(data[end:], line + lines, 1, cut=True)

    def _pieces(self, plain_bytes: int = _INPUT_BYTES) -> Iterator[bytes]:
        done = 0
        try:
            with self._opened.open("rb") as file:
                start = file.read(4)
                file.seek(0)
                make = _gunzip if start[:2] == _GZIP else _unzstd if _is_zstd(start) else None
                for piece in make(file) if make else iter(lambda: file.read(plain_bytes), b""):
                    yield piece
                    if (at := file.tell()) != done:
                        done = at
                        self._tell(done)
        except (zlib.error, EOFError, gzip.BadGzipFile) as error:
            raise self.fail(
                None,
                f"damaged compression: {error}",
                "copy the file again, or decompress what can be saved and import that",
            ) from error
        except OSError as error:
            raise self.fail(None, f"cannot be read: {error.strerror}") from error


def _is_zstd(start: bytes) -> bool:
    # A skippable frame may come first: parallel compressors put sizes into one.
    return start == _ZSTD or (start[1:] == _SKIPPABLE and start[0] >> 4 == 5)


def _lines(data: bytes) -> int:
    # bytes.count takes ten times as long where lines are short.
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")))


def _gunzip(file: BinaryIO) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as content:
        # read() would lose what comes before damage.
        yield from iter(lambda: content.read1(_INPUT_BYTES * 4), b"")


def _unzstd(file: BinaryIO) -> Iterator[bytes]:
    # Here, so that every other command also starts where the package is not installed yet.
    import zstandard

    try:
        data = file.read(_ZSTD_INPUT_BYTES)
        while data:
            frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
            while not frame.eof:
                if not data and not (data := file.read(_ZSTD_INPUT_BYTES)):
                    raise EOFError("the file ends inside its zstd frame")
                if piece := frame.decompress(data):
                    yield piece
                data = b""
            data = frame.unused_data or file.read(_ZSTD_INPUT_BYTES)
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from error


def in_order(work: Callable[[Given], Done], items: Iterator[Given]) -> Generator[Done, None, None]:
    """`work` of each item, in their order. Arrays are worked on side by side: that needs no interpreter lock.

    Raises what `work` or `items` raise, and the first of these in the order of the items. Close it: its
    threads must not be joined by the garbage collector.

    polars reads a block with all cores, but what comes before and after that is NumPy's. Without these
    threads 10 M rows of a latency log took 1.08 times as long and histogram logs 1.11 times: medians of 20
    and 25 runs side by side in November 2026 on two cores. There the kit was 1.06 times as fast as DuckDB
    (P6, `tox -e bench -- tests/bench/test_import.py`).
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
