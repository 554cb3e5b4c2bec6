"""Fuzzing of every importer: `python tests/fuzz/importers.py [--only FORMAT] [libFuzzer options] [CORPUS]`.

An input is one byte that says which format and how many files, then the content. It must be refused with an
error for people, or become a run whose sums close; anything else, 20 s of work, and 2 GiB are findings,
and libFuzzer leaves the input in the working directory. Without a CORPUS one is made of the tests' own logs.
Atheris watches which branches are reached, so this finds what random edits in the tests do not.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["kit.importers", "kit.load", "kit.trace", "kit.core.bins"]):
    from kit.importers.base import Options
    from kit.importers.format_detection import BY_NAME
    from tests.kit.importers.samples import SEEDS, survives

FORMATS = (*BY_NAME,)
WAYS = (*FORMATS, None)
TOKENS = ["\\x0a", ",", " ", "-", "nan", "inf", "1e99", "9" * 19, "0x", "\\xff\\xfe", "\\x00", "{", "}",
          "\\x1f\\x8b", "\\x28\\xb5\\x2f\\xfd", "4096", "client_stats", "All clients", "total_ios", "bins",
          "snapshot", "total_wait", "1000000001\\x0a", "tank\\x0a",
          "@us:\\x0a", "[4, 8)", "|@|\\x0a", "HIST", "+Inf", "le=", "_bucket", "Tag=", "request=", "#[Max",
          "Mon Nov 24 16:00:00 UTC 2025\\x0a", "18446744073709551615", "9223372036854775807"]  # fmt: skip
only = sys.argv.index("--only") if "--only" in sys.argv else 0
ONLY = sys.argv[only + 1] if only else None
FOLDER = Path(tempfile.mkdtemp(prefix="hsp-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))


def one_input(data: bytes) -> None:
    """Read `data` as a file, or two. Raises AssertionError unless all its rows are told."""
    if not data:
        return
    way = WAYS.index(ONLY) if ONLY else data[0] % len(WAYS)
    content = data[1:]
    middle = content.rfind(b"\n", 0, len(content) // 2) + 1 if data[0] & 0x80 else 0
    paths = []
    for number, part in enumerate((content[:middle], content[middle:]) if middle else (content,)):
        paths.append(FOLDER / f"x_lat.{number}.log")
        paths[-1].write_bytes(part)
    options = Options(format=WAYS[way], unit="us", log_vdevs=frozenset({1}) if data[0] & 0x40 else None)
    survives(paths, options)


def make_corpus(folder: Path) -> None:
    """The tests' logs as inputs, plain and compressed, told and to be recognised."""
    folder.mkdir()
    for name in (ONLY,) if ONLY else FORMATS:
        for number, content in enumerate(SEEDS.get(name, [])):
            for way in (FORMATS.index(name), len(FORMATS)):
                for flag in (0, 0x40, 0x80):
                    (folder / f"{name}-{number}-{way}-{flag}").write_bytes(
                        bytes([way_byte(way, flag)]) + content
                    )
            (folder / f"{name}-{number}-gz").write_bytes(
                bytes([way_byte(FORMATS.index(name), 0)]) + gzip.compress(content, mtime=0)
            )


def way_byte(way: int, flag: int) -> int:
    """A first byte that means `way` and has the bits of `flag`."""
    return next(b for b in range(256) if b % len(WAYS) == way and b & 0xC0 == flag)


def main() -> None:
    given = [a for n, a in enumerate(sys.argv[1:], 1) if not only or n not in (only, only + 1)]
    words = FOLDER / "words"
    words.write_text("".join(f'"{token}"\n' for token in TOKENS))
    if all(argument.startswith("-") for argument in given):
        make_corpus(FOLDER / "corpus")
        given.append(str(FOLDER / "corpus"))
    limits = ["-timeout=20", "-rss_limit_mb=2048", "-max_len=65536", f"-dict={words}"]
    atheris.Setup([sys.argv[0], *limits, *given], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
