"""fio's json+ output: the documents in a text, and their jobs. For own runs and imports.

fio prints warnings before the JSON, and its servers print lines around it. With --status-interval it prints
several documents, each with all I/Os so far. `client_stats` of several clients has their sum, "All clients".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
ALL_CLIENTS = "All clients"  # no job of a checked job file can have this name
_MAX_STARTS = 10_000
LIMIT_BYTES = 64 << 20
"""Of the output of an own run: some hundred kB per job."""


@dataclass(frozen=True)
class FoundDocument:
    """A document, or a damaged one: then `value` is None, and `failure` its line and what is wrong."""

    begin: int
    end: int
    value: Json | None
    failure: tuple[int, str] | None = None


def each_document(text: str) -> Iterator[FoundDocument]:
    """The JSON objects with jobs that begin at the start of a line, and what is damaged there."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    at = 0
    for number, brace in enumerate(re.finditer(r"^\{", text, re.MULTILINE)):
        if (start := brace.start()) < at:
            continue
        if number == _MAX_STARTS:
            line = text.count("\n", 0, start) + 1
            yield FoundDocument(start, start, None, (line, f"more than {_MAX_STARTS} documents"))
            break
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, getattr(error, "pos", start)) + 1
            yield FoundDocument(start, start, None, (line, str(error)))
            continue
        if isinstance(value, dict) and ("jobs" in value or "client_stats" in value):
            yield FoundDocument(start, at, value)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def jobs(document: Json, key: str) -> list[Json] | None:
    """The entries of `jobs` or `client_stats`, without the sum of all clients. None for any other value."""
    listed = document.get(key)
    if not isinstance(listed, list) or not all(isinstance(job, dict) for job in listed):
        return None
    return [job for job in listed if job.get("jobname") != ALL_CLIENTS]
