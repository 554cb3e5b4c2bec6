"""`hsp gallery`: what packs of others have, as they have it; a bad one stops none of the others."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kit.core.errors import ConfigError
from kit.pack.opened import opened_files
from kit.session import schemas
from kit.session.packs import gallery as session
from kit.session.packs.gallery import gallery
from kit.store.printed.slog import SIZES
from reports.features.slog import write_cache
from reports.output import slog_table
from reports.page import gallery_page
from tests.conftest import Called
from tests.kit.pack import packs
from tests.kit.pack.packs import Json, changed, of_pool, of_slog, put
from tests.reports import synthetic_series
from tests.reports.slog import slog_test

ATTACK = "</td><script>window.hit=1</script><img src=x onerror='window.hit=1'>\u202e\x1b[2J"


def verdict(value: str, reason: str = "Too little was measured.") -> Any:
    def change(_: Json, summary: Json) -> None:
        summary["verdict"], summary["reasons"], summary["outcomes"] = value, [reason], []

    return change


def test_a_row_of_a_pool_has_the_drive_its_state_and_the_stored_figures(tmp_path: Path) -> None:
    content = of_pool(1)
    found = gallery(put(tmp_path, {"given/by/a.hsp": content}))
    (row,) = found.rows
    (stored,) = [each for each in packs.member(content, "summary.json")["rows"] if each["tier"] == "slog"]
    assert (row.p50_us, row.p99_us, row.ios) == (stored["p50_us"], stored["p99_us"], stored["count"])
    assert row.as_json() | {"p50_us": 0, "p99_us": 0, "ios": 0} == {
        "run": "20261121T050100Z-000001", "utc": "2026-11-21T05:01:00Z", "model": "ACME 1", "firmware": "F1",
        "interface": "nvme", "drives": 1, "size_bytes": 400 * 10**9, "state": "as-found",
        "emulated": False,
        "phase": "write-slog", "layer": "nfs-server", "op": "write", "tier": "slog", "method": "",
        "block_bytes": 512, "threads": 1, "p50_us": 0, "p99_us": 0, "ios": 0,
        "verdict": "valid", "reason": "",
        "zfs": "2.3.9", "kernel": "6.12", "kit": "0.1.0", "files": ["given/by/a.hsp"],
    }  # fmt: skip
    validator = jsonschema.Draft202012Validator(schemas.schema("gallery"))
    assert not [*validator.iter_errors(json.loads(json.dumps(found.as_json())))]


@pytest.mark.parametrize(
    ("state", "entry"),
    [
        ("aged", {"method": "fills", "proven_bytes": 800 * 10**9}),
        ("fresh", {"method": "purge", "purge": {"method": "nvme format"}}),
        ("as-found", {"device": "other", "method": "fills"}),
    ],
)
def test_the_state_is_what_the_run_did_to_the_drive(tmp_path: Path, state: str, entry: Json) -> None:
    content = changed(of_pool(1), packs.preconditioned(**entry))
    assert [row.state for row in gallery(put(tmp_path, {"a.hsp": content})).rows] == [state]


def test_a_run_of_hsp_slog_has_a_row_for_each_of_its_forced_writes(tmp_path: Path) -> None:
    found = gallery(put(tmp_path, {"slog.hsp": of_slog()}))
    stored = {each["phase"]: each for each in packs.member(of_slog(), "summary.json")["forces"]}
    assert len(found.rows) == len(packs.member(of_slog(), "manifest.json")["phases"]) > 30
    assert {row.method for row in found.rows} > {"fdatasync", "open_datasync", "flush_idle"}
    written = [row for row in found.rows if row.phase in stored]
    assert len(written) > 30
    for row in written:
        of = stored[row.phase]
        figures = [of[key] for key in ("p50_us", "p99_us", "forces", "method", "record_bytes", "threads")]
        mine = [row.p50_us, row.p99_us, row.ios, row.method, row.block_bytes, row.threads]
        assert mine[2:] == figures[2:] and [us or 0 for us in mine[:2]] == pytest.approx(
            [us or 0 for us in figures[:2]], rel=0.02
        )
    assert {(row.model, row.interface, row.layer, row.state) for row in found.rows} == {
        ("ACME 1", "nvme", "device", "as-found")
    }


def line(**more: Any) -> str:
    """As `hsp slog --format row` prints it."""
    test = slog_test("write back", lambda size: 10 + size / 4096, lambda size: 700 + size / 4096)
    return json.dumps(slog_table.row(test, write_cache.judge(test)) | more)


def test_lines_of_hsp_slog_are_rows_that_are_not_ranked(tmp_path: Path) -> None:
    text = f"{line()}\n{line(model='OTHER', state='aged')}\n"
    found = gallery(put(tmp_path, {"a.hsp": of_pool(1), "of/rows.slog": text.encode()}))
    mine = [row for row in found.rows if row.files == ("of/rows.slog",)]
    assert found.packs == 2 and len(mine) == len(found.rows) - 1 and not any(row.is_ranked for row in mine)
    assert {(row.model, row.state, row.interface, row.utc) for row in mine} == {
        ("ACME 1", "as-found", "nvme", "2026-11-24"), ("OTHER", "aged", "nvme", "2026-11-24"),
    }  # fmt: skip
    stored = json.loads(line())
    by_size = {row.block_bytes: (row.p50_us, row.p99_us) for row in mine if row.model == "ACME 1"}
    assert by_size == {
        size: (stored[f"write_flush_{size}_p50_us"], stored[f"write_flush_{size}_p99_us"]) for size in SIZES
    }
    page = gallery_page.render(found)
    assert "2 drive models in 3 runs" in page and "no verdict, and no number of writes" in page


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "line 1: no JSON"), ("[1]", "line 1: no object"), ("[" * 100_000, "line 1: no JSON"),
        ("{}", "line 1: not a line of"), (f"{line()}\n{line(model=7)}", "line 2: not a line of"),
        (line(state="old"), "state"), (line(size_bytes=-1), "size_bytes"),
        (line(write_flush_512_p50_us="1"), "p50_us"), (line(emulated="no"), "emulated"),
        ("{}\n" * 1001, "more than 1000 lines"), ("x" * (1 << 21), "large"), ("\udcff", "cannot be read"),
    ],
)  # fmt: skip
def test_other_lines_are_left_out(tmp_path: Path, text: str, found: str) -> None:
    content = text.encode(errors="surrogateescape")
    made = gallery(put(tmp_path, {"a.hsp": of_pool(1), "rows.slog": content}))
    (left_out,) = made.left_out
    assert left_out.file == "rows.slog" and found in left_out.reason, left_out.reason
    assert len(made.rows) == 1


def test_hostile_lines_do_not_act(tmp_path: Path) -> None:
    named = dict.fromkeys(("model", "firmware", "transport", "date", "kernel", "kit"), ATTACK * 1000)
    text = line(**named)
    page = gallery_page.render(gallery(put(tmp_path, {"rows.slog": text.encode()})))
    assert page.count("<script") == 1 and "<img" not in page and not set("\u202e\x1b") & set(page)


def test_rows_are_in_the_order_of_p99_and_those_of_no_valid_run_are_last_and_said(tmp_path: Path) -> None:
    files = {
        "a.hsp": of_pool(2),
        "b.hsp": of_pool(1),
        "c.hsp": changed(of_pool(3), verdict("unknown")),
        "d.hsp": changed(of_pool(1), verdict("invalid", "Its p99 is too high.")),
        "e.hsp": changed(of_pool(3), lambda _, summary: summary["rows"][0].update(p99_us=None)),
    }
    found = gallery(put(tmp_path, files))
    assert [(row.files[0], row.is_ranked) for row in found.rows][:2] == [("b.hsp", True), ("a.hsp", True)]
    rest = {row.files[0]: (row.verdict, row.reason) for row in found.rows[2:]}
    assert rest == {
        "c.hsp": ("unknown", "Too little was measured."),
        "d.hsp": ("invalid", "Its p99 is too high."),
        "e.hsp": ("valid", ""),
    }
    page = gallery_page.render(found)
    ranked, _, others = page.partition("Not ranked")
    assert ranked.count("data-row>") == 2 and others.count("data-row>") == 3
    assert "failed" in others and "Too little was measured." in others


def test_a_row_without_a_drive_is_not_ranked(tmp_path: Path) -> None:
    """What DRAM answers is faster than any drive."""

    def from_dram(_: Json, summary: Json) -> None:
        for row in summary["rows"]:
            row["tier"] = {"slog": "dram"}.get(row["tier"], row["tier"])

    found = gallery(put(tmp_path, {"a.hsp": changed(of_pool(1), from_dram), "b.hsp": of_pool(2)}))
    assert [(row.drives, row.is_ranked) for row in found.rows] == [(1, True), (0, False)]
    assert found.rows[1].p99_us < found.rows[0].p99_us


def test_two_packs_of_one_run_are_one_row_and_changed_figures_another(tmp_path: Path) -> None:
    again = changed(of_pool(1), lambda manifest, _: manifest["testbed"].update(server="other-words"))
    assert again != of_pool(1)
    faster = changed(of_pool(1), lambda _, summary: summary["rows"][0].update(p99_us=1.0))
    found = gallery(
        put(tmp_path, {"a.hsp": of_pool(1), "b/a.hsp": of_pool(1), "c.hsp": again, "d.hsp": faster})
    )
    assert [row.files for row in found.rows] == [("d.hsp",), ("a.hsp", "c.hsp", "b/a.hsp")]
    assert found.packs == 4


def test_the_runs_of_a_series_are_rows(tmp_path: Path) -> None:
    path = synthetic_series.series(tmp_path / "series")
    found = gallery(put(tmp_path / "packs", {"series.hsp": packs.packed(path)}))
    assert len({row.run for row in found.rows}) == len(found.rows) == 4
    assert {row.block_bytes for row in found.rows} == {512, 4096, 131072}


def test_bad_packs_are_named_with_the_reason_and_the_page_has_the_others(
    tmp_path: Path, hsp_here: Called
) -> None:
    damaged = bytearray(of_pool(2))
    damaged[len(damaged) // 2] ^= 1
    folder = put(tmp_path / "packs", {
        "good.hsp": of_pool(1), "bad.hsp": bytes(damaged), "none.hsp": b"hello", "empty.hsp": b"",
        "sheet.hsp": packs.archive.packed("sheet.json", (), {"sheet.json": b"{}"}), "notes.txt": b"hello",
        "no-rows.hsp": changed(of_pool(1), lambda _, summary: summary.update(rows=[])),
        "older.hsp": changed(of_pool(1), lambda manifest, _: manifest.update(format=0)),
        "negative.hsp": changed(of_pool(1), lambda _, summary: summary["rows"][0].update(p99_us=-1.0)),
    })  # fmt: skip
    (folder / "link.hsp").symlink_to(folder / "good.hsp")
    done = hsp_here("gallery", "packs", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "", done.stderr
    page = (tmp_path / "gallery.html").read_text()
    assert page.count("data-row>") == 1 and "ACME 1" in page
    reasons = {
        "bad": "damaged: its content", "none": "5 bytes are no pack", "empty": "0 bytes are no pack",
        "sheet": "a pack of a sheet", "no-rows": "it has no figure", "older": "format 0, hsp",
        "negative": "p99_us: ", "link": "a link, which is not followed",
    }  # fmt: skip
    for name, reason in reasons.items():
        (said,) = re.findall(rf"error: {name}\.hsp: (.*)", done.stderr)
        assert reason in said and str(tmp_path) not in said and "hsp-pack-" not in said
        assert f"<b>{name}.hsp</b>: " in page and reason in page
    assert "notes.txt" not in done.stderr + page and str(tmp_path) not in page
    (folder / "good.hsp").unlink()
    (tmp_path / "gallery.html").unlink()
    done = hsp_here("gallery", "packs", cwd=tmp_path)
    assert done.returncode == 2 and "0 rows of 0 packs" in done.stderr
    assert not (tmp_path / "gallery.html").exists()


def test_a_directory_without_packs_and_none_are_refused(tmp_path: Path, hsp_here: Called) -> None:
    put(tmp_path / "packs", {"a.txt": b"x"})
    for name, text in (("packs", "has no pack (*.hsp, *.slog)"), ("nowhere", "is no directory")):
        done = hsp_here("gallery", name, cwd=tmp_path)
        assert done.returncode == 2 and text in done.stderr and "hsp" in done.stderr.partition("do:")[2]
    assert not (tmp_path / "gallery.html").exists()


def test_json_is_alone_on_stdout_and_a_page_beside_it_links_to_packs_below_it(
    tmp_path: Path, hsp_here: Called
) -> None:
    put(tmp_path / "packs", {"it's <b> 100%.hsp": of_pool(1), "javascript:hit=1.hsp": of_pool(2),
                             "odd\n.hsp": of_pool(3)})  # fmt: skip
    (tmp_path / "other").mkdir()
    done = hsp_here("gallery", "packs", "--json", "-o", "index.html", "-o", "other/page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["model"] for row in found["rows"]] == ["ACME 1", "ACME 2", "ACME 3"]
    links = re.findall('<td class="wrap"><a href="([^"]*)">', (tmp_path / "index.html").read_text())
    assert links == ["./packs/it%27s%20%3Cb%3E%20100%25.hsp", "./packs/javascript%3Ahit%3D1.hsp"]
    assert not (tmp_path / "gallery.html").exists()
    # What is above a page is no business of its readers.
    done = hsp_here("gallery", "packs", "-o", "other/page.html", cwd=tmp_path)
    page = (tmp_path / "other" / "page.html").read_text()
    assert done.returncode == 0 and '<td class="wrap"><a' not in page and "odd?.hsp" in page


def test_hostile_texts_are_short_and_do_not_act(tmp_path: Path) -> None:
    def attack(manifest: Json, summary: Json) -> None:
        device = manifest["testbed"]["devices"][0]
        device["identity"] |= {"model": ATTACK, "transport": ATTACK}
        device["settings"]["firmware"] = ATTACK * 10_000
        manifest["versions"] |= {"zfs": ATTACK, "kernel": ATTACK}
        manifest["run"] = ATTACK
        for row in summary["rows"]:
            row |= {"phase": ATTACK, "op": ATTACK, "tier": "slog", "layer": "nfs-server"}
        verdict("unknown", ATTACK)(manifest, summary)

    found = gallery(put(tmp_path, {"a.hsp": changed(of_pool(1), attack)}))
    page = gallery_page.render(found)
    assert found.rows and page.count("<script") == 1 and "<img" not in page
    assert not set("\u202e\x1b") & set(page) and len(page) < 60_000
    assert all(
        len(text) <= 100 for row in found.rows for text in row.as_json().values() if isinstance(text, str)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest, _: manifest["testbed"].update(devices=[packs.device(1)] * 2000),
        lambda manifest, _: manifest.update(precondition={"devices": [{"device": "log0"}] * 2000}),
        lambda manifest, _: manifest.update(precondition={"devices": 7}),
        lambda manifest, _: manifest["testbed"]["devices"][0].update(settings={"firmware": []}),
        lambda _, summary: summary.update(rows=summary["rows"] * 10_000),
    ],
)
def test_what_is_to_take_long_or_to_fail_is_left_out(tmp_path: Path, change: Any) -> None:
    found = gallery(put(tmp_path, {"a.hsp": changed(of_pool(1), change), "b.hsp": of_pool(2)}))
    assert [row.files for row in found.rows] == [("b.hsp",)]
    assert [each.file for each in found.left_out] == ["a.hsp"]


def test_rows_packs_and_folders_are_bounded_and_it_is_said(
    tmp_path: Path, hsp_here: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = "/".join("d" * 20)
    put(tmp_path / "packs", {"a.hsp": of_pool(1), "b.hsp": of_slog(), f"{deep}/c.hsp": of_pool(2)})
    monkeypatch.setattr(session, "MOST_ROWS", 5)
    done = hsp_here("gallery", "packs", cwd=tmp_path)
    more = len(packs.member(of_slog(), "manifest.json")["phases"]) - 4
    assert f"5 rows of 2 packs; {more} rows more are left out" in done.stderr
    assert done.returncode == 2 and "16 folders deep: not searched" in done.stderr
    page = (tmp_path / "gallery.html").read_text()
    assert f"{more} rows more are left out" in page and page.count("data-row>") == 5
    monkeypatch.setattr(session, "_MOST_PACKS", 1)
    with pytest.raises(ConfigError, match="more than 1 packs"):
        gallery(tmp_path / "packs")
    monkeypatch.setattr(session, "_MOST_ENTRIES", 2)
    with pytest.raises(ConfigError, match="more than 2 files"):
        gallery(tmp_path / "packs")


def test_of_a_pack_only_what_is_read_is_unpacked_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    path = put(tmp_path, {"a.hsp": of_pool(1)}) / "a.hsp"
    with opened_files(path, ("manifest.json",)) as root:
        assert [each.name for each in root.iterdir()] == ["manifest.json"]
        assert root.is_relative_to(tmp_path / "tmp")
    assert gallery(tmp_path).packs == 1
    assert not [*(tmp_path / "tmp").iterdir()]
