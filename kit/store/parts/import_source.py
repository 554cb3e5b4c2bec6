"""What the files of an import are, in words for people: `source` of `import` in manifest.json.

A format of kit.importers has its words. They are stored with the run: a report needs no list of formats.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.store.stored import Stored

_Words = Annotated[str, Field(min_length=1, max_length=300)]


class ImportSource(Stored):
    """What the files are, whose they are, and what a latency in them is (the end of a sentence).

    `timed` is False where the files have a sum over all time.
    """

    files: _Words
    program: _Words
    latency: _Words
    timed: bool


def _source(files: str, program: str, latency: str, timed: bool = True) -> ImportSource:
    return ImportSource(files=files, program=program, latency=latency, timed=timed)


_TOTAL_WAIT = "of whole I/Os in ZFS, queues included (total_wait)"
# Of runs that were stored without `source`: by `format`, and `counts` where that says more.
# A new format is not listed here.
BY_FORMAT = {
    "fio-log": _source("fio latency logs", "fio", "as fio saw it, I/O by I/O (write_lat_log)"),
    "fio-hist": _source(
        "fio histogram logs", "fio", "as fio counted it in its own bins (write_hist_log); a window counts "
        "where it began"
    ),
    "fio-json": _source(
        "fio json+", "fio", "as fio counted it over the whole job; when an I/O was done is not in it", False
    ),
    "trace": _source(
        "latency trace", "a program that is not recorded", "as the two columns of the file say"
    ),
    "bpftrace": _source(
        "trace of the kit", "the kit's tracer", "from a request's start to its end in nfsd"
    ),
    "zpool-iostat": _source(
        "zpool iostat -w", "zpool",
        f"{_TOTAL_WAIT}: a sum since the pool was loaded; when an I/O was done is not in it", False
    ),
    "zpool-iostat timed": _source("zpool iostat -w", "zpool", f"{_TOTAL_WAIT}, interval by interval"),
    "zpool-iostat intervals": _source(
        "zpool iostat -w", "zpool",
        f"{_TOTAL_WAIT}: a sum over intervals; when these were is not in it", False
    ),
}  # fmt: skip
_UNKNOWN = _source("import", "a program that is not recorded", "as the file says")


def of_format(name: str | None, counts: str | None) -> ImportSource:
    """The words of a run that was stored without any: of its format, and of `counts` where that says more."""
    return BY_FORMAT.get(f"{name} {counts}", BY_FORMAT.get(str(name), _UNKNOWN))
