"""What the kit knows of a format of other programs' files: its name, how it is recognised and how it is read.

A new format is a module with a `FORMAT`, and a line in kit.importers.format_detection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass

from kit.core.bins import bin_edges
from kit.core.errors import ConfigError
from kit.importers.histogram_accumulator import Account, Accumulator, Edges
from kit.importers.source import Source
from kit.store.parts.import_source import ImportSource

OPS = ("read", "write")
# Reasons to leave rows out, of several formats.
TRIMS = "trims: latency.parquet has no such op"
CUT = "truncated last line"
# Of `Options`, those that only some formats use, as the command has them.
OF_FORMATS = {
    "host": "--host",
    "op": "--op",
    "unit": "--unit",
    "time_unit": "--time-unit",
    "log_vdevs": "--log-vdev",
}


@dataclass(frozen=True)
class Options:
    """What the user says of the files; None where they tell themselves.

    `adapts`: files that span few intervals get shorter ones.
    """

    format: str | None = None
    host: str | None = None
    op: str | None = None
    layer: str | None = None
    unit: str | None = None
    time_unit: str | None = None
    interval_ns: int = 10**9
    adapts: bool = False
    log_vdevs: frozenset[int] | None = None

    def unused(self, used: Collection[str]) -> list[str]:
        """Options of the command that the user has given and a format does not use."""
        return [
            word for name, word in OF_FORMATS.items() if name not in used and getattr(self, name) is not None
        ]

    def host_of(self, source: Source) -> str:
        """The host of a file: as the user says, else as its name has it."""
        return self.host or source.host


@dataclass(frozen=True)
class Reading:
    """Files of one format, opened. Going through `accounts` adds the files to `tally`, one after the other.

    `rows_are_phases`: what the tally has as hosts are rows of a table; each becomes a phase of that title.
    `source` and `counts` are of formats whose files can hold unlike things: what these are in words, and the
    value of `counts` in the manifest.
    """

    tally: Accumulator
    accounts: Generator[Account, None, None]
    source: ImportSource | None = None
    counts: str | None = None
    rows_are_phases: bool = False


@dataclass(frozen=True)
class Format:
    """One format. `name` is that of --from and of the manifest, `layer` where such latencies are measured."""

    name: str
    layer: str
    # What its files are, for the report.
    source: ImportSource
    # Whether a file has this format, by its first lines, without the empty ones.
    recognises: Callable[[Sequence[bytes]], bool]
    # Looks at all files before the first is read. Raises ConfigError for damage and for unlike files.
    open: Callable[[Sequence[Source], Options], Reading]
    # Those of `OF_FORMATS` that it uses.
    uses: frozenset[str] = frozenset({"host"})


def one_by_one(
    read: Callable[[Source, Options, Accumulator], Account], edges: Edges = bin_edges
) -> Callable[[Sequence[Source], Options], Reading]:
    """`open` of a format whose files do not depend on each other. `read` adds one file to the tally."""

    def open_files(sources: Sequence[Source], options: Options) -> Reading:
        tally = Accumulator(options.interval_ns, edges)
        return Reading(tally, (read(source, options, tally) for source in sources))

    return open_files


def only_kind(kinds: Mapping[Source, str], message: str, hint: str) -> str:
    """The kind of all files; "" without files. Raises ConfigError, with each file, if there are several."""
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{source.path} ({kind})" for source, kind in kinds.items())
        raise ConfigError(f"{message}: {listed}", hint)
    return next(iter(kinds.values()), "")


def data_line(lines: Sequence[bytes]) -> bytes:
    """The first line that is not a comment; b"" if there is none."""
    return next((line for line in lines if not line.lstrip().startswith(b"#")), b"")
