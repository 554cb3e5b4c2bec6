"""Published ranges stand beside phases that meet their conditions, and the others say why."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kit.store.latency import Latency
from kit.store.summary import Reference
from reports.output.result_table import result_lines
from reports.published import ranges as published
from reports.published import references
from tests.reports import synthetic
from tests.reports.complete import completed

SUN = references.load("sun-7410-2009")
ROWS = [("read", "dram"), ("read", "l2arc"), ("read", "disk"), ("write", "slog"), ("write", "pool")]


def changed(**of_phase: Any) -> dict[str, Any]:
    manifest = synthetic.manifest()
    manifest["phases"][0].update(of_phase)
    return manifest


def why(manifest: dict[str, Any], reference: Reference = SUN) -> str | None:
    parsed = synthetic.parsed(manifest)
    shown = published.beside(reference, parsed, parsed.phases[0])
    assert sorted([*shown.ranges_us, *shown.why_not]) == sorted(ROWS)
    return next(iter(shown.why_not.values()), None)


def test_every_range_of_the_article_has_its_conditions() -> None:
    for each in SUN.ranges:
        assert each.conditions is not None
        of_all = {"io_size": 512, "outstanding": 1, "nfs_version": "3"}
        assert each.conditions.as_json() == of_all | ({"random": True} if each.op == "read" else {})
    assert "conditions" not in str(SUN.as_json())


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (synthetic.manifest(), None),
        (changed(block_bytes=4096), "measured with 512 B, this phase has 4 KiB."),
        (changed(block_bytes=None), "measured with 512 B, this phase has an unknown I/O size."),
        (changed(op="mixed"), "measured with reads or writes alone, this phase has both together."),
        (changed(op="mixed", block_bytes=None, block_bytes_by_op={"read": 512, "write": 4096}),
         "measured with reads or writes alone and 512 B, this phase has both together and 512 B and 4 KiB."),
        (changed(is_random=True), None),
        (changed(is_random=False), "measured with random I/O, this phase has I/O in order."),
        (changed(outstanding=4), "measured with 1 I/O outstanding, this phase has 4 I/Os outstanding."),
        (changed(outstanding=None), "measured with 1 I/O outstanding, this phase has an unknown load."),
        (changed(block_bytes=131072, outstanding=2),
         "measured with 512 B and 1 I/O outstanding, this phase has 128 KiB and 2 I/Os outstanding."),
        ({**synthetic.manifest(), "mount": {"options": "rw,vers=4.2"}},
         "measured with NFSv3, this phase has NFSv4.2."),
        ({**synthetic.manifest(), "mount": None},
         "measured with NFSv3, this phase has an unknown NFS version."),
        ({**synthetic.manifest(), "mount": {"source": "nfs://10.0.0.1/x", "options": "none"}}, None),
        ({**synthetic.manifest(), "mount": {"a": "rw,vers=3", "b": "rw,vers=3"}}, None),
        ({**synthetic.manifest(), "mount": {"a": "rw,vers=3", "b": "rw,vers=4.1"}},
         "measured with NFSv3, this phase has NFSv3 and NFSv4.1."),
    ],
)  # fmt: skip
def test_conditions(manifest: dict[str, Any], sentence: str | None) -> None:
    assert why(manifest) == (sentence and f"No published range: {sentence}")


def test_several_clients_have_several_ios_on_their_way() -> None:
    manifest = synthetic.manifest()
    manifest["testbed"]["clients"] = ["a", "b"]
    assert "this phase has 2 I/Os outstanding" in str(why(manifest))


def test_ranges_without_conditions_stand_beside_any_phase() -> None:
    free = Reference.from_json(SUN.as_json(), "free")
    assert why(changed(block_bytes=4096, outstanding=None), free) is None


def test_only_the_phases_that_meet_them_have_ranges() -> None:
    frame, manifest = synthetic.latency(), changed(block_bytes=4096)
    manifest["expect"] = []
    summary = synthetic.summarise(frame, manifest)
    sentence = "No published range: measured with 512 B, this phase has 4 KiB."
    at_server = [row for row in summary["rows"] if row["layer"] == "nfs-server"]
    for row in at_server:
        unlike = row["phase"] == "read"
        assert (row["published"] is None) == unlike
        assert row.get("not_published") == (sentence if unlike else None)
    # As runs that meet all conditions were stored before there were any.
    assert all("not_published" not in row for row in summary["rows"] if row not in at_server[:3])
    assert {b["phase"] for b in summary["bands"] if b["published"]} == {"write-slog", "write-pool"}
    assert all("conditions" not in span for span in summary["reference"]["ranges"])
    html = synthetic.render(frame, manifest, summary)
    assert f"512 B read: {sentence}" in html
    assert re.findall("published (137|1.95|128|1.9)\\b", html) == ["137", "1.95"] * 2  # cards, stamp


def test_a_run_without_any_published_range_says_so_once() -> None:
    frame, manifest = synthetic.latency(), synthetic.manifest()
    for phase in manifest["phases"]:
        phase |= {"block_bytes": 4096, "checks": []}
    parsed = synthetic.parsed(completed(manifest, frame))
    rows = Latency.of(frame)
    read = synthetic.summary.summarise(rows, parsed)
    result = synthetic.described(rows, parsed, read)
    sentence = "No published range: measured with 512 B, this phase has 4 KiB."
    assert result.headline.unpublished == (sentence,)
    lines = list(result_lines(read, result.headline, 100))
    assert lines.count(sentence) == 1 and not any("published:" in line or " share" in line for line in lines)
    html = synthetic.report_page.render(rows, parsed, result)
    assert f'<p class="soft">{sentence}</p>' in html
    assert '<th>Published</th><th class="n">Inside it</th>' not in html and ">Published: Brendan" not in html
    # `inside` was stored for every emulated run before: it is not judged here.
    assert read.verdict == "valid"
    assert [(each.inside, each.ok, each.not_published) for each in read.expect] == [
        (True, True, sentence)
    ] * 5


def test_each_reason_has_its_phases() -> None:
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["expect"] = []
    for phase, outstanding in zip(manifest["phases"], (2, 2, 4), strict=True):
        phase["outstanding"] = outstanding
    parsed = synthetic.parsed(manifest)
    rows = Latency.of(frame)
    read = synthetic.summary.summarise(rows, parsed)
    result = synthetic.described(rows, parsed, read)
    unlike = "No published range: measured with 1 I/O outstanding, this phase has"
    assert result.headline.unpublished == (
        f"512 B read; 512 B write-slog: {unlike} 2 I/Os outstanding.",
        f"512 B write-pool: {unlike} 4 I/Os outstanding.",
    )
    html = synthetic.report_page.render(rows, parsed, result)
    assert "No published range: see Numbers." in html
    assert all(f'<p class="soft">{sentence}</p>' in html for sentence in result.headline.unpublished)
