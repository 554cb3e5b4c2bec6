"""Which format a file has, from its first bytes and its name."""

from __future__ import annotations

import re

from kit.core.errors import ConfigError
from kit.importers import fio_latency_log
from kit.importers.source import Source

FORMATS = ("fio-log", "fio-hist", "fio-json", "trace", "bpftrace", "zpool-iostat")
_HINT = f"say what it is: --from {', '.join(FORMATS)}"
_LOG = re.compile(r"_(?P<kind>clat_hist|clat|slat|lat)(?:\.(?P<job>\d+))?\.log(?:\.(?P<host>[^/]+))?$")
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
_COMPRESSED = re.compile(r"\.(gz|zst)$")
_FIRST_BUCKETS = ([b"1", b"3", b"7"], [b"1ns", b"3ns", b"7ns"])
_MORE = re.compile(r"(?:\.log|\.json|\.txt|\.csv)+$")


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


def detect(source: Source) -> str:
    """One of FORMATS. Raises ConfigError if the beginning is none of theirs."""
    lines = [line for line in source.head().splitlines() if line.strip()]
    if re.match(rb'\{"type": ?"', lines[0].lstrip()):
        return "bpftrace"
    if any(line.lstrip().startswith(b"{") for line in lines):
        return "fio-json"
    if any(b"total_wait" in line for line in lines[:4]) or _bucket_table(lines):
        return "zpool-iostat"
    data = next((line for line in lines if not line.lstrip().startswith(b"#")), b"")
    commas = data.count(b",")
    if fio_latency_log.MIN_COLUMNS <= commas + 1 <= fio_latency_log.MAX_COLUMNS:
        return "fio-log"
    if commas >= 19:
        return "fio-hist"
    if commas == 1 or (commas == 0 and len(data.split()) == 2):
        return "trace"
    raise source.fail(None, f"no known format; the first line is {fio_latency_log.shown(lines[0])}", _HINT)


def _bucket_table(lines: list[bytes]) -> bool:
    """Whether the lines begin as `zpool iostat -wH` does: 1, 3, 7 and so on, with many columns.

    Before that may be two times and a name.
    """
    firsts = [line.split()[0] for line in lines[:6]]
    found = next((at for at in range(4) if firsts[at : at + 3] in _FIRST_BUCKETS), None)
    return found is not None and len(lines[found].split()) > 8


def kind_of(source: Source) -> str | None:
    """`clat`, `slat` or `lat` as fio names its logs; None if the name does not tell."""
    found = _LOG.search(_COMPRESSED.sub("", source.path.name))
    return found["kind"] if found else None


def host_of(source: Source) -> str:
    """The host that a file's name tells, and the job: "nodeA/read.1" of read_clat.1.log.nodeA."""
    name = _COMPRESSED.sub("", source.path.name)
    if found := _LOG.search(name):
        job = name[: found.start()] + (f".{found['job']}" if found["job"] else "")
        return f"{found['host']}/{job}" if found["host"] else job
    return _MORE.sub("", name) or name


def check_alike(sources: list[Source]) -> None:
    """That no I/O is in two of the files. Raises ConfigError."""
    seen: dict[tuple[int, int], Source] = {}
    for source in sources:
        if other := seen.get(source.identity):
            raise ConfigError(f"{source.path} and {other.path} are the same file", "give each file once")
        seen[source.identity] = source
    kinds = {kind: source for source in sources if (kind := kind_of(source))}
    if len(kinds) > 1:
        told = ", ".join(f"{source.path} ({kind})" for kind, source in kinds.items())
        raise ConfigError(
            f"logs of unlike kinds hold the same I/Os more than once: {told}",
            "import one kind: lat is slat and clat together",
        )
