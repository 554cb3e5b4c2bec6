"""The formats that are known, and which of them a file has, from its first bytes and its name."""

from __future__ import annotations

from kit.core.errors import ConfigError
from kit.importers import (
    fio_histogram_log,
    fio_json,
    fio_latency_log,
    kit_trace,
    two_columns,
    zpool_iostat,
)
from kit.importers.base import Format
from kit.importers.source import Source
from kit.load.fio_latency_log import shown

# The first that recognises a file is taken: those with an unmistakable beginning come first.
FORMATS = (
    kit_trace.FORMAT,
    fio_json.FORMAT,
    zpool_iostat.FORMAT,
    fio_latency_log.FORMAT,
    fio_histogram_log.FORMAT,
    two_columns.FORMAT,
)
BY_NAME = {known.name: known for known in FORMATS}
_UNPACK = "decompress it first; of compressed files gzip and zstd are read"
_NO_TEXT = {
    b"\x1f\x8b": ("compressed twice", "decompress it once"),
    b"\x28\xb5\x2f\xfd": ("compressed twice", "decompress it once"),
    b"BZh": ("bzip2", _UNPACK),
    b"\xfd7zXZ\0": ("xz", _UNPACK),
    b"\x04\x22\x4d\x18": ("lz4", _UNPACK),
    b"x\x9c": ("compressed with zlib", "fio --inflate-log=FILE prints what log_store_compressed wrote"),
    b"PK\x03\x04": ("a ZIP archive", "unpack it first"),
    b"PAR1": ("Parquet", "hsp compare, report and export read runs as they are"),
    b"\xff\xfe": ("UTF-16", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16", "save it as UTF-8"),
    b"\xef\xbb\xbf": ("begins with a byte order mark (BOM)", "save it as UTF-8 without BOM"),
}
# What comes later is judged with its line.
_NULS_IN = 256


def check_text(source: Source) -> None:
    """That there is something in the file, and that it is text. Raises ConfigError."""
    head = source.head()
    if not head.strip():
        raise source.fail(None, "empty", "fio leaves logs empty where it had nothing to log: leave them out")
    for start, (what, hint) in _NO_TEXT.items():
        if head.startswith(start):
            raise source.fail(None, what, hint)
    if (at := head.find(b"\0", 0, _NULS_IN)) >= 0:
        line = head.count(b"\n", 0, at) + 1
        raise source.fail(line, "binary: a NUL byte in what should be text", "give what the tool printed")


def detect(source: Source) -> Format:
    """The format of a file. Raises ConfigError if its beginning is of none."""
    lines = [line for line in source.head().splitlines() if line.strip()]
    for known in FORMATS:
        if known.recognises(lines):
            return known
    raise source.fail(
        None,
        f"no known format; the first line is {shown(lines[0])}",
        f"say what it is: --from {', '.join(BY_NAME)}",
    )


def check_alike(sources: list[Source]) -> None:
    """That no I/O is in two of the files. Raises ConfigError."""
    seen: dict[tuple[int, int], Source] = {}
    for source in sources:
        if other := seen.get(source.identity):
            raise ConfigError(f"{source.path} and {other.path} are the same file", "give each file once")
        seen[source.identity] = source
    kinds = {kind: source for source in sources if (kind := source.log_kind)}
    if len(kinds) > 1:
        told = ", ".join(f"{source.path} ({kind})" for kind, source in kinds.items())
        raise ConfigError(
            f"logs of unlike kinds hold the same I/Os more than once: {told}",
            "import one kind: lat is slat and clat together",
        )
