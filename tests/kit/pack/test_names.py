"""No name of a machine, disk, person or place is in a pack; everything else is."""

from __future__ import annotations

import base64
import binascii
import difflib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import reports
from kit.pack.build import pack
from kit.pack.names import KINDS
from kit.store.run_directory import RunDir
from tests.kit.pack import marked
from tests.reports import drawn

RUNS = (*marked.STORED, "observed", "synthetic")
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))]
# Pages that take long to compare.
LONG = ("asynchronous", "dataset", "sampled", "traced", "untraced")
REPORTS = ["appliance", "observed", *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)]
TOKEN = re.compile(rf"(?:{'|'.join(KINDS.values())})(?:[0-9]+|[0-9]*-[0-9a-f]{{8}})")


def draw(path: Path) -> None:
    reports.analyse(RunDir(path))


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name.rpartition("/")[2]: file.read(name) for name in file.namelist()}


def decoded(html: str) -> Iterator[bytes]:
    """All that a page has compressed or encoded."""
    for text in {
        *re.findall(r'[">]([^\s"<>]{8,})["<]', html),
        *re.findall(r"base64,([A-Za-z0-9+/=]+)", html),
    }:
        for decode in (drawn.unpacked, lambda each: base64.b64decode(each, validate=True)):
            try:
                yield decode(text)
            except (ValueError, IndexError, zlib.error, binascii.Error, UnicodeEncodeError, OverflowError):
                continue


def everything(content: bytes) -> bytes:
    """Bytes of a pack in every form in which somebody could read them."""
    found = [content]
    for name, each in members(content).items():
        found += [name.encode(), each]
        if name.endswith(".parquet"):
            frame = pl.read_parquet(io.BytesIO(each))
            found += [str(frame[column].unique().to_list()).encode() for column in frame.columns]
            found.append(str(pl.read_parquet_metadata(io.BytesIO(each))).encode())
        elif name.endswith(".html"):
            found += decoded(each.decode())
        elif name.endswith(".json"):
            found.append(json.dumps(json.loads(each), ensure_ascii=False).encode())
    return b"\n".join(found).lower()


def words(html: str) -> list[str]:
    """Words and values of a page and its figures, without libraries, which are the same in all pages."""
    html = re.sub(
        r"<script(?: [^>]*plotly-code.)?>.*?</script>|<style>.*?</style>", "", html, flags=re.DOTALL
    )
    html = re.sub(r'(?<=>)[^\s"<>]{20,}(?=</script>)', lambda match: drawn.unpacked(match[0]).decode(), html)
    return re.findall(r"[^\s\"'<>=;,{}]+", html)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_name_of_a_run_is_in_any_byte_of_its_pack(tmp_path: Path, name: str, seed: int) -> None:
    of = marked.run(tmp_path / "results" / "w" / marked.RUN, name, seed)
    _, content = pack(tmp_path / "results" / "w" / marked.RUN, (), draw)
    text = everything(content)
    assert len(of.secret) > 60 and len(text) > 100_000
    assert [each for each in of.secret if each.lower().encode() in text] == []


@pytest.mark.parametrize("name", REPORTS)
def test_its_report_is_the_runs_but_for_the_names(tmp_path: Path, name: str) -> None:
    path = tmp_path / marked.RUN
    marked.run(path, name, 1)
    _, content = pack(path, (), draw)
    draw(path)
    before, after = words((path / "report.html").read_text()), words(members(content)["report.html"].decode())
    assert len(after) > 500 and any(map(TOKEN.search, after))
    differing = [
        (before[a:b], after[c:d])
        for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        # Long texts are cut, with or without a token at their end.
        if kind != "equal" and not all(TOKEN.search(word) or word.endswith("...") for word in after[c:d])
    ]
    assert differing == []
    figures = (json.loads((path / "summary.json").read_text()), json.loads(members(content)["summary.json"]))
    assert numbers(figures[0]) == numbers(figures[1])


def numbers(value: Any) -> list[Any]:
    """All leaves that are no text, in order."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [leaf for each in inner for leaf in numbers(each)]
    return [] if isinstance(value, str) else [value]
