"""`python -m tests.screens [RESULTS]`: the pictures of the documents, docs/screens and docs/report.png, anew.

Draws a page of each kind from what the tests make up, and opens it in Chromium. RESULTS: a directory with a
stored run of `hsp demo`, which is read and not changed; without it the picture of the demo stays.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from playwright.sync_api import Browser, sync_playwright

import reports
from kit.core.bins import bin_edges, bin_index
from kit.importers.base import Options
from kit.importers.format_detection import manifest as manifest_of
from kit.importers.format_detection import read_files
from kit.session.packs.gallery import gallery
from kit.session.sheet import buyers_sheet
from kit.store.latency import Latency
from kit.store.run_directory import RunDir
from kit.store.series import Series
from kit.store.tables import LATENCY_SCHEMA
from reports.analysis import summary
from reports.comparison.compare import compare
from reports.page import (
    comparison_page,
    gallery_page,
    series_comparison_page,
    series_page,
    sheet_page,
    trend_page,
)
from reports.series.compare import compare_series
from reports.trend.analyse import trend_of
from reports.trend.slower_limit import gate
from tests.browser.conftest import FLAGS
from tests.browser.page import READY, report_of, until
from tests.browser.test_ageing import aged
from tests.browser.test_report_hour import log_of_an_hour
from tests.kit.importers.samples import DATA
from tests.kit.pack import packs
from tests.reports import addresses, candidates, synthetic, synthetic_series
from tests.reports.devices import test_stripes as stripes
from tests.reports.features.soak import test_soak as soak
from tests.reports.series.test_forces import table_series
from tests.reports.trend.points import VERSIONS, firmware, point
from tests.reports.verdict import test_appliance as appliance

DOCS = Path(__file__).resolve().parents[1] / "docs"
MOST_BYTES = 60_000
S, MS = 10**9, 10**6
# Of a screen: width, height, scheme, and the part of its size at which it is shown.
WIDE, DARK, PHONE = (1280, 900, "light", 0.7), (1280, 900, "dark", 0.35), (360, 800, "light", 0.7)
PAPER = (1039, 710, "print", 0.43)


def _realistic(**changes: Any) -> tuple[dict[str, Any], pl.DataFrame]:
    frame = synthetic.realistic()
    return synthetic.manifest(frame, 60) | changes, frame


def _invalid(at: Path) -> Path:
    made, frame = _realistic(title="Do synchronous writes keep their limit?")
    wish = {"phase": "write-slog", "op": "write", "tier": "slog", "min_count": 1, "inside": False}
    return report_of(at, made | {"expect": [wish | {"p99_us_max": 150.0}]}, frame)


def _ageing(at: Path) -> Path:
    made, frame = _realistic(ageing_asked=True, title="Does the log SSD slow down as it ages?")
    made["precondition"] = {"method": "fills", "fresh": False, "devices": []}
    return report_of(at, made, frame, aged())


def _soak(at: Path) -> Path:
    """Four hours that drift, with a disk that fails; latency is as before four minutes after it is back."""
    frame = soak.hours((1, 1.05, 1.12, 1.2))
    begin = 130 * 60
    frame = soak.slowed(frame, begin, begin + 6 * 60)
    phase = soak.entry("soak", 0, 4 * soak.HOUR, frame.filter(pl.col("layer") == "client")["count"].sum())
    phase |= {"title": "512 B O_DSYNC writes", "schedule": soak.schedule(begin, 120, 120)}
    limits = {"phase": "soak", "row_ns": soak.HOUR * S, "p50_drift_max": 0.1}
    changes = {
        "expect": [],
        "ended": True,
        "soak": [limits],
        "phases": [phase],
        "title": "A soak of four hours with faults",
    }
    return report_of(at, synthetic.manifest() | changes, frame)


def _why_slow(at: Path) -> Path:
    made, frame = _realistic(title="Why it is slow")
    parts = {
        "read": {"dram": {"nfs": 3, "zfs": 4}, "l2arc": {"nfs": 4, "zfs": 8, "read": 138, "verify": 6},
                 "disk": {"nfs": 5, "zfs": 12, "read": 5200}},
        "write-slog": {"slog": {"nfs": 6, "zil": 14, "log_write": 112, "flush": 21}},
    }  # fmt: skip
    for of, op, name in (("read", "read", "read-why"), ("write-slog", "write", "write-why")):
        phase = next(each for each in made["phases"] if each["name"] == of)
        mine = frame.filter(pl.col("phase") == of)
        frame = pl.concat([frame, mine.with_columns(pl.col("time_ns") + 1000 * S, phase=pl.lit(name))])
        rows = []
        for tier, of_tier in parts[of].items():
            ios = int(mine.filter(pl.col("tier") == tier)["count"].sum())
            sums = {part: us * 1000 * ios for part, us in of_tier.items()}
            rows.append(
                {
                    "op": op,
                    "tier": tier,
                    "ios": ios,
                    "unjoined": 0,
                    "parts": sums,
                    "sum_ns": sum(sums.values()),
                }
            )
        times = {key: phase[key] + 1000 * S for key in ("start_ns", "end_ns")}
        changes = {"name": name, "title": name, "split": {"of": of, "rows": rows}}
        made["phases"].append(phase | times | changes | {"clients": []})
    return report_of(at, made, frame)


def _power_loss(at: Path) -> Path:
    made, frame = _realistic(power_loss=candidates.power_loss(0, 20), title="Power losses")
    return report_of(at, made, frame)


def _stripes(at: Path) -> Path:
    drives = [stripes.phase(f"alone-ssd{n}", stripes.drive(n), tiers=("all",)) for n in range(4)]
    arrays = [stripes.array(stripes.lock_step(n), n, tiers=("all",)) for n in range(1, 5)]
    phases, frames, start = [], [], 0
    for each in (*drives, *arrays):
        taken = np.array(each.in_order_ns)
        ends = start + np.cumsum(taken)
        of = {
            "phase": each.name,
            "layer": "device",
            "host": each.clients[0].host,
            "op": "write",
            "tier": "all",
        }
        frames.append(synthetic.binned(ends // S * S, taken, **of))
        end = int(ends[-1]) // S * S + S
        times = {"start_ns": start, "end_ns": end, "interval_ns": S}
        phases.append(each.model_dump(mode="json") | times)
        for client in phases[-1]["clients"]:
            client |= {"first_ns": start, "last_ns": int(ends[-1])}
        start = end + S
    changes = {
        "phases": phases,
        "expect": [],
        "title": "How a stripe scales with its drives",
        "reference": None,
    }
    made = synthetic.manifest() | changes
    ssd = made["testbed"]["devices"][0]
    made["testbed"]["devices"] += [ssd | {"name": name} for name in stripes.names(4)]
    return report_of(at, made, pl.concat(frames))


def _imported(at: Path, *files: Path) -> Path:
    read = read_files(list(files), Options())
    stored = manifest_of(read, "r", "import", ["hsp", "import"], "2026-11-21T05:30:00Z", 1.0)
    return report_of(at, stored, read.frame)


def _put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _clients(at: Path) -> Path:
    """Sixteen clients, of which the 13th is four times as slow."""
    generator = np.random.default_rng(16)
    files = []
    for number in range(1, 17):
        took = 170_000 * (4 if number == 13 else 1) * np.exp(0.1 * generator.standard_normal(1200))
        rows = (f"{50 * n}, {int(ns)}, 0, 4096, 0, 0\n" for n, ns in enumerate(took))
        files.append(_put(at / "logs" / f"clients_lat.{number}.log", "".join(rows)))
    return _imported(at, *files)


def _series(at: Path) -> Path:
    path = synthetic_series.series(at / "results", rounds=3)
    reports.analyse_series(path, ended=True)
    return path / "report.html"


def _two_series(at: Path) -> Path:
    (at / "results").mkdir(parents=True)
    made = [
        reports.analyse_series(synthetic_series.series(at / str(n), (1, x, 4, 1), rounds=4), ended=True)
        for n, x in enumerate((1.5, 2.2))
        if not (at / str(n)).mkdir()
    ]
    across = {"versions.kernel": ("6.12", "7.2")}
    b = made[1].model_copy(update={"id": "series-20261121T060000Z-bbbbbb"})
    return _put(
        at / "page.html", series_comparison_page.render(compare_series(made[0], b), made[0], b, across)
    )


def _compared(at: Path) -> Path:
    """Five runs against five, whose log SSD takes a quarter longer."""
    # In turn, as ABBA.
    hours = dict(zip((1, 6, 7, 2, 3, 8, 9, 4, 5, 10), range(1, 11), strict=True))
    sides = []
    for of, factor in ((range(1, 6), 1.0), (range(6, 11), 1.24)):
        sides.append([])
        for seed in of:
            frame = synthetic.realistic(20, 60, seed)
            took = frame["lo_ns"].to_numpy() * np.where(frame["phase"] == "write-slog", factor, 1.0)
            low, high = bin_edges(bin_index(took.astype(np.int64)))
            frame = frame.with_columns(lo_ns=pl.Series(low), hi_ns=pl.Series(high))
            frame = (
                frame.group_by(pl.exclude("count")).agg(pl.col("count").sum()).select(list(LATENCY_SCHEMA))
            )
            made = synthetic.manifest(frame, 20) | {
                "title": "Reads and synchronous writes by tier",
                "run": f"20261121T{hours[seed]:02}3000Z-{seed:06x}",
            }
            sides[-1].append((synthetic.parsed(made), frame))
    summaries = [[summary.summarise(Latency.of(f), m, with_bands=False) for m, f in side] for side in sides]
    result = compare(*summaries).model_copy(
        update={"across": {"versions.zfs": ("2.3.9", "2.4.0")}, "emulated": True, "states": {"valid": 10}}
    )
    return _put(at / "page.html", comparison_page.render(result, *sides))


def _trend(at: Path) -> Path:
    points = [*VERSIONS, *(point(n, settings=firmware("1.2")) for n in (10, 11, 12))]
    points = [replace(each, emulated=True) for each in points]
    trend = trend_of(points, "time")
    return _put(at / "page.html", trend_page.render(trend, gate(trend, 0.1)))


def _sync_methods() -> Series:
    title = "What a write cache that is bypassed costs"
    changes = {"title": title, "ended": True, "verdict": "valid", "emulated": True}
    return table_series().model_copy(update=changes)


def _addresses(at: Path) -> Path:
    made = addresses.half_filled(rounds=3).model_copy(update={"emulated": True})
    return _put(at / "page.html", series_page.render(made, {}))


def _sheet(at: Path) -> Path:
    at.mkdir()
    return _put(at / "page.html", sheet_page.render(buyers_sheet(candidates.series(at), candidates.need(at))))


def _gallery(at: Path) -> Path:
    """A drive of `hsp slog`, three log devices in pools, and a pack that is damaged."""

    def in_lab(manifest: dict[str, Any], _: Any) -> None:
        manifest["testbed"]["emulated"] = True

    pools = {f"pool-{n}.hsp": packs.changed(packs.of_pool(n), in_lab) for n in (1, 2, 3)}
    made = packs.put(at, {"slog.hsp": packs.of_slog(), "damaged.hsp": packs.of_pool(1)[:-1], **pools})
    return _put(at / "page.html", gallery_page.render(gallery(made)))


def _appliance(at: Path) -> Path:
    frame = synthetic.realistic(12).filter(pl.col("layer") == "client")
    _, made = appliance.run()
    for phase in made["phases"]:
        phase["client_ios"] = int(frame.filter(pl.col("phase") == phase["name"])["count"].sum())
        phase |= {"checks": [], "clients": []}
    made["appliance"] |= {"not_seen": ["which tier answered each I/O", "whether the server counted each I/O"]}
    made["title"] = "Reads and synchronous writes of an appliance"
    return report_of(at, made, frame)


PAGES: Mapping[str, Callable[[Path], Path]] = {
    "invalid": _invalid,
    "ageing": _ageing,
    "soak": _soak,
    "why-slow": _why_slow,
    "power-loss": _power_loss,
    "stripes": _stripes,
    "sync-methods": lambda at: _put(at / "page.html", series_page.render(_sync_methods(), {})),
    "series": _series,
    "comparison": _compared,
    "two-series": _two_series,
    "addresses": _addresses,
    "trend": _trend,
    "sheet": _sheet,
    "gallery": _gallery,
    "import": lambda at: _imported(at, _put(at / "logs" / "hour_lat.1.log", log_of_an_hour())),
    "import-clients": _clients,
    "pg-test-fsync": lambda at: _imported(at, DATA / "pg_test_fsync.txt"),
    "appliance": _appliance,
}  # fmt: skip


def _demo(at: Path, results: Path) -> Path:
    """The report of the newest run below `results`, drawn anew in a copy."""
    stored = max(path.parent for path in results.resolve().rglob("latency.parquet"))
    shutil.copytree(stored, at)
    reports.analyse(RunDir(at))
    return RunDir(at).report


def screen(browser: Browser, path: Path, width: int, height: int, scheme: str) -> bytes:
    """The first screen of a page as PNG. `scheme`: light, dark, or print, without backgrounds."""
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
    page = context.new_page()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(path.as_uri())
    until(page, READY)
    if scheme == "print":
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.add_style_tag(content="* { background: none !important; }")
    page.wait_for_timeout(500)
    taken = page.screenshot()
    context.close()
    return taken


def together(browser: Browser, taken: list[tuple[bytes, float]]) -> bytes:
    """Screens as one JPEG of MOST_BYTES at most: the first is large. Of each: PNG and width."""
    images = [
        f'<img width="{width:.0f}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'
        for png, width in taken
    ]
    page = browser.new_page(viewport={"width": 1900, "height": 900})
    style = "body { margin: 0; display: flex; gap: 10px; align-items: flex-start; background: #888; }"
    style += "img { display: block; margin-bottom: 10px; } body { width: max-content; }"
    first, phone, *others = images
    page.set_content(f"<style>{style}</style>{first}{phone}<div>{''.join(others)}</div>")
    for quality in range(80, 5, -5):
        made = page.locator("body").screenshot(type="jpeg", quality=quality)
        if len(made) <= MOST_BYTES:
            page.close()
            return made
    raise AssertionError(f"no quality of JPEG makes a picture of {MOST_BYTES} bytes")


def pages(folder: Path, results: Path | None, *names: str) -> Iterator[tuple[str, Path]]:
    if results:
        yield "demo", _demo(folder / "demo", results)
    for name in names or PAGES:
        yield name, PAGES[name](folder / name)


def main(words: list[str]) -> None:
    results = Path(words[0]) if words else None
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, path in pages(Path(folder), results):
            screens = [WIDE, PHONE, DARK, *([PAPER] if name == "demo" else [])]
            taken = [(screen(browser, path, w, h, scheme), scale * w) for w, h, scheme, scale in screens]
            (DOCS / "screens" / f"{name}.jpg").write_bytes(together(browser, taken))
            if name == "demo":
                (DOCS / "report.png").write_bytes(taken[0][0])
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
