"""What the files of an import are, in words for people: `source` of `import` in manifest.json.

A format of kit.importers has its words. They are stored with the run: a report needs no list of formats.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field, Strict

_Words = Annotated[str, Strict(), Field(min_length=1, max_length=300)]


@dataclass(frozen=True)
class ImportSource:
    """What the files are, whose they are, and what a latency in them is (the end of a sentence).

    `timed` is False where the files have a sum over all time.
    """

    files: _Words
    program: _Words
    latency: _Words
    timed: Annotated[bool, Strict()] = True

    def as_json(self) -> dict[str, Any]:
        """The value of `source`."""
        return asdict(self)


_TOTAL_WAIT = "of whole I/Os in ZFS, queues included (total_wait)"
# Of runs that were stored without `source`: by `format`, and `counts` where that says more.
# A new format is not listed here.
BY_FORMAT = {
    "fio-log": ImportSource("fio latency logs", "fio", "as fio saw it, I/O by I/O (write_lat_log)"),
    "fio-hist": ImportSource(
        "fio histogram logs", "fio", "as fio counted it in its own bins (write_hist_log); a window counts "
        "where it began"
    ),
    "fio-json": ImportSource(
        "fio json+", "fio", "as fio counted it over the whole job; when an I/O was done is not in it", False
    ),
    "trace": ImportSource(
        "latency trace", "a program that is not recorded", "as the two columns of the file say"
    ),
    "bpftrace": ImportSource(
        "trace of the kit", "the kit's tracer", "from a request's start to its end in nfsd"
    ),
    "zpool-iostat": ImportSource(
        "zpool iostat -w", "zpool",
        f"{_TOTAL_WAIT}: a sum since the pool was loaded; when an I/O was done is not in it", False
    ),
    "zpool-iostat timed": ImportSource("zpool iostat -w", "zpool", f"{_TOTAL_WAIT}, interval by interval"),
    "zpool-iostat intervals": ImportSource(
        "zpool iostat -w", "zpool",
        f"{_TOTAL_WAIT}: a sum over intervals; when these were is not in it", False
    ),
}  # fmt: skip
_UNKNOWN = ImportSource("import", "a program that is not recorded", "as the file says")


def of_format(name: str | None, counts: str | None) -> ImportSource:
    """The words of a run that was stored without any: of its format, and of `counts` where that says more."""
    return BY_FORMAT.get(f"{name} {counts}", BY_FORMAT.get(str(name), _UNKNOWN))
