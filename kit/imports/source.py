"""Files as chunks of whole lines: plain, gzip or zstd, in bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from kit.errors import ConfigError

_CHUNK_BYTES = 8 << 20
MAX_LINE_BYTES = 1 << 20
_HEAD_BYTES = 64 << 10
# What has to be held as a whole (JSON documents, a trace, a table).
MAX_WHOLE_BYTES = 64 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Chunk:
    """Whole lines of a file, each with its newline; `line` is the number of the first (from 1).

    `cut`: this is the end of the file, which has no newline.
    """

    data: bytes
    line: int
    cut: bool = False


@dataclass(frozen=True)
class Source:
    """A file to import."""

    path: Path

    def chunks(self, told: Callable[[int], object] = lambda done: None) -> Iterator[Chunk]:
        """The file in order; `told` hears how many bytes of the file have been read.

        Raises ConfigError for a line over MAX_LINE_BYTES and for a damaged or cut-off compression.
        """
        line, rest = 1, b""
        for block in self._blocks(told):
            end = block.rfind(b"\n") + 1
            if len(rest) + (end or len(block)) > _CHUNK_BYTES + MAX_LINE_BYTES:
                raise self.error(line, f"is longer than {MAX_LINE_BYTES >> 20} MiB")
            if not end:
                rest += block
                continue
            data = rest + block[:end]
            rest = block[end:]
            yield Chunk(data, line)
            line += data.count(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise self.error(line, f"is longer than {MAX_LINE_BYTES >> 20} MiB")
        if rest:
            yield Chunk(rest, line, cut=True)

    def head(self) -> bytes:
        """The first bytes. Raises ConfigError."""
        found = b""
        for block in self._blocks(lambda done: None, _HEAD_BYTES):
            found += block
            if len(found) >= _HEAD_BYTES:
                break
        return found

    def whole(self, told: Callable[[int], object] = lambda done: None) -> bytes:
        """All of it. Raises ConfigError if it is larger than MAX_WHOLE_BYTES."""
        found = io.BytesIO()
        for block in self._blocks(told, 1 << 20):
            if found.tell() + len(block) > MAX_WHOLE_BYTES:
                raise ConfigError(
                    f"{self.path}: larger than {MAX_WHOLE_BYTES >> 20} MiB",
                    "such a file has to be read as a whole; import a part of it",
                )
            found.write(block)
        return found.getvalue()

    def size_bytes(self) -> int:
        return self.path.stat().st_size

    def error(self, line: int, what: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self.path}:{line}: the line {what}", hint)

    def _blocks(self, told: Callable[[int], object], size: int = _CHUNK_BYTES) -> Iterator[bytes]:
        try:
            if not self.path.is_file():
                raise ConfigError(f"{self.path}: no such file, or not a file", "give the file's name")
            with open(self.path, "rb") as raw:
                opened = _opened(raw, self.path)
                while block := opened.read(size):
                    yield block
                    told(raw.tell())
        except EOFError:
            raise ConfigError(
                f"{self.path}: the compressed file ends too early", "copy it again: a part of it is missing"
            ) from None
        except (OSError, zlib.error, _zstd_error()) as error:
            raise ConfigError(f"{self.path}: cannot be read ({error})") from error


def _zstd_error() -> type[Exception]:
    try:
        import zstandard
    except ImportError:
        return EOFError
    return cast(type[Exception], zstandard.ZstdError)


def _opened(raw: IO[bytes], path: Path) -> Any:
    magic = raw.read(4)
    raw.seek(0)
    if magic.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)
    if magic == _ZSTD:
        return _Zstd(raw, path)
    return raw


class _Zstd:
    """A zstd file with any number of frames. A frame that does not end is an error, not an end."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise ConfigError(
                f"{path}: zstd needs the Python package zstandard", "install it, or unpack the file first"
            ) from None
        self._raw, self._whole = raw, zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._pending = b""

    def read(self, size: int) -> bytes:
        """About `size` bytes: input is taken in small pieces, so a bomb swells one piece at a time."""
        parts, held = [], 0
        while held < size:
            piece = self._pending or self._raw.read(16 << 10)
            self._pending = b""
            if not piece:
                if self._frame is not None:
                    raise EOFError
                break
            if self._frame is None:
                self._frame = self._whole.decompressobj()
            part = self._frame.decompress(piece)
            if self._frame.eof:
                self._pending, self._frame = self._frame.unused_data, None
            parts.append(part)
            held += len(part)
        return b"".join(parts)


def same_file(first: Path, second: Path) -> bool:
    """Whether two names are one file."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False
