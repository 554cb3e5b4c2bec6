import json
import re
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import polars as pl
import pytest

import reports
from kit.core.errors import ConfigError
from kit.store.summary import read_summary
from reports.page import filters
from tests.reports import drawn, synthetic
from tests.reports.synthetic import render, summarise

pytestmark = pytest.mark.slow

SAMPLED = Path(__file__).parents[2] / "kit" / "store" / "manifests" / "sampled.json"


def page(tmp_path, manifest, frame):
    run = synthetic.write(tmp_path / "run", manifest, frame)
    reports.analyse(run)
    return run.report.read_text("utf-8")


@pytest.fixture(scope="module")
def usual_page(tmp_path_factory):
    return page(tmp_path_factory.mktemp("usual"), synthetic.manifest(), synthetic.latency())


def rendered(frame, manifest):
    return render(frame, manifest, summarise(frame, manifest))


def settings_of(html):
    return json.loads(re.search(r'id="page-settings">(.*?)</script>', html, re.DOTALL)[1])


class Visible(HTMLParser):
    """The words of a page by whether they are inside a closed <details>; and every element's attributes."""

    def __init__(self, html):
        super().__init__()
        self.open, self.folded, self.attributes, self.tags = [], [], [], []
        self._stack = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "link", "input", "img", "br"):
            self._stack.append(tag)

    def handle_endtag(self, tag):
        while self._stack and self._stack.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self._stack):
            is_folded = "details" in self._stack and "summary" not in self._stack
            (self.folded if is_folded else self.open).append(data)


def used(idle_ns):
    """A synthetic manifest whose first phase has samples of a real run, of a CPU that idled for so long."""
    manifest, stored = synthetic.manifest(), json.loads(SAMPLED.read_text())
    (phase,) = stored["phases"]
    end_ns = manifest["phases"][0]["end_ns"]
    ends = {"at_ns": 0, "idle_ns": 0, "user_ns": 0, "system_ns": 0, "softirq_ns": 0}
    cpu = {"host": "lab", "cpus": 1, "samples": [ends, {**ends, "at_ns": end_ns, "idle_ns": idle_ns}]}
    manifest["phases"][0] |= {"cpu": [cpu], "devices": phase["devices"], "arc": phase["arc"]}
    manifest["testbed"]["devices"] = stored["testbed"]["devices"]
    return manifest


def test_what_a_phase_used_has_tables(tmp_path):
    seen = Visible(page(tmp_path, used(6 * synthetic.SECOND), synthetic.latency()))
    folded = " ".join(seen.folded)
    for words in ("Write amplification", "TBW a day", "50.0 %", "Headers of the L2ARC", "scheduler none"):
        assert words in folded, words
    assert not any("bound by CPU" in words for words in seen.open)


def test_a_phase_bound_by_cpu_is_said_first(tmp_path):
    seen = Visible(page(tmp_path, used(synthetic.SECOND), synthetic.latency()))
    assert any("read was bound by CPU: lab was 92 % busy" in words for words in seen.open)


def test_a_run_without_samples_has_no_such_tables(tmp_path):
    assert 'id="use"' not in page(tmp_path, synthetic.manifest(), synthetic.latency())


def test_analyse_writes_what_it_returns(tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.manifest(), synthetic.latency())
    returned = reports.analyse(run)
    assert read_summary(run).as_json() == returned.summary.as_json()
    assert run.report.is_file()


def test_page_stands_alone(usual_page):
    html = usual_page
    assert "default-src 'none'" in html and "unsafe-eval" not in html
    assert not re.search(r"<(script|img|iframe|link)[^>]+(src|href)=[\"']?https?:", html)
    assert html.count('id="plotly-code"') == 1
    assert len(html.encode()) < 1_100_000
    for word in ("arcstats", "zfs_arc_max", "recordsize", "vers=3", "null_blk", "2.3.9", "Brendan Gregg"):
        assert word in html


def test_every_figure_has_its_place_and_is_what_plotly_knows(usual_page):
    html = usual_page
    specs = drawn.specs(html)
    # First screen; per phase: all tiers, its percentiles, each tier, the clients.
    assert len(specs) == 1 + 3 * 3 + 5
    assert [spec["id"] for spec in specs] == re.findall(r'class="plot" id="(figure-\d+)"', html)
    cells = drawn.cells(html)
    for spec in specs:
        go.Figure(data=spec["data"], layout=spec["layout"])
        assert spec["cells"] in {"", *cells}
        is_lines = "percentiles" in spec["title"]
        assert bool(drawn.heat_maps(spec)) is not is_lines
    # Figures of one phase and layer have the same stored counts: once at the server, once at the clients.
    assert len(cells) == 3 * 2 == len({spec["cells"] for spec in specs} - {""})
    # Their sums are the run's I/Os.
    stored = sum(
        sum(drawn.counts(block, tier).values()) for block in cells.values() for tier in block["tiers"]
    )
    assert stored == synthetic.latency()["count"].sum()


def test_the_first_screen_says_the_result_and_the_rest_follows(usual_page):
    html = usual_page.partition("<body>")[2]
    order = ['id="verdict">Measurement valid', "Emulated lab, not your hardware",
             'class="headline">Median latency of', "512 B read · 512 B write-slog", "I/Os matched",
             'class="hero"', 'id="maps"', 'id="phase-1"', 'id="phase-3"', 'id="numbers"', 'id="bands"',
             'id="own"', 'id="accounting"', 'id="testbed"', 'id="settings"']  # fmt: skip
    places = [html.index(word) for word in order]
    assert places == sorted(places)
    assert html.count("Emulated lab") == 1 + sum(
        "Emulated lab" in line for line in settings_of(usual_page)["stamp"]
    )
    seen = Visible(html)
    opened, folded = " ".join(seen.open), " ".join(seen.folded)
    # Percentiles, checks, testbed and settings are there, folded; not one word of them is open.
    for words in ("Lines break where", "trimmed extents", "arcstats", "zfs_arc_max", "/dev/data0", "ashift"):
        assert words in folded and words not in opened
    for words in ("Median latency of reads", "Heat maps", "SSD cache (L2ARC)", "Accounting and checks"):
        assert words in opened
    assert len(opened.split()) < 1500


def test_what_is_not_emulated_is_not_called_so(tmp_path):
    manifest = synthetic.manifest()
    manifest["testbed"]["emulated"] = False
    html = page(tmp_path, manifest, synthetic.latency())
    assert "Emulated lab" not in html and "are models" not in html
    assert any("Real hardware" in line for line in settings_of(html)["stamp"])


def test_a_server_that_was_not_traced_has_no_missing_tiers(tmp_path):
    """Nothing is known of tiers there."""
    frame, manifest = synthetic.latency(), synthetic.manifest()
    assert "No I/O from:" in page(tmp_path / "a", manifest, frame.filter(pl.col("tier") != "dram"))
    assert "No I/O from:" not in page(tmp_path / "b", manifest, frame.filter(pl.col("layer") == "client"))


def test_what_is_printed_has_run_date_and_verdict_in_its_margin(tmp_path):
    title = 'x"; } body { display: none }</style><b>'
    html = page(tmp_path, {**synthetic.manifest(), "title": title}, synthetic.latency())
    [margin] = re.findall(r'@bottom-left \{ content: "(.*?)";', html)
    assert "run 20261121T053000Z-ab12cd, 2026-11-21 05:30 UTC; verdict: valid" in margin
    assert not set(margin) & set('"<>{}')


def test_without_scripts_the_first_screen_is_pictures_and_words(usual_page):
    hero_part = usual_page[usual_page.index('class="hero"') : usual_page.index('id="maps"')]
    assert hero_part.count('<span class="picture">') == 3 == hero_part.count("data:image/png;base64,")
    assert usual_page.index("JavaScript is off") < usual_page.index('id="verdict"')


def test_a_failed_limit_is_a_line_in_the_maps_of_its_tier_alone(tmp_path):
    manifest = synthetic.manifest()
    row = {"phase": "read", "op": "read", "tier": "l2arc", "min_count": 1, "p99_us_max": 100}
    html = page(tmp_path, {**manifest, "expect": [*manifest["expect"], row]}, synthetic.latency())
    named = [
        spec["title"]
        for spec in drawn.specs(html)
        if any(each["text"] == "limit p99 100 µs" for each in spec["layout"].get("annotations", []))
    ]
    assert sorted(named) == [
        "512 B read", "512 B read: SSD cache (L2ARC)", "512 B read: SSD cache (L2ARC)",
        "512 B read: percentiles over time",
    ]  # fmt: skip


def test_the_first_figure_is_the_tier_that_exceeds_a_limit_by_itself(tmp_path):
    manifest, frame = synthetic.manifest(), synthetic.latency()
    row = {"phase": "read", "op": "read", "tier": "l2arc", "min_count": 1, "p99_us_max": 100}
    html = page(tmp_path, {**manifest, "expect": [*manifest["expect"], row]}, frame)
    first = re.search('<figure class="([a-z]+)"[^>]*><h2>([^<]*)</h2><div class="plot" id="([^"]*)"', html)
    assert first and first.groups()[:2] == ("limit", "512 B read: SSD cache (L2ARC)")
    named = (spec for spec in drawn.specs(html) if "SSD cache" in spec["title"])
    spec = next(spec for spec in named if spec["layout"]["yaxis"]["type"] == "log")
    tiers = {trace["meta"]["tier"] for trace in spec["data"] if trace["type"] == "heatmap"}
    low_s, high_s = (10**end for end in spec["layout"]["yaxis"]["range"])
    (line,) = (shape for shape in spec["layout"]["shapes"] if shape["y0"] == shape["y1"] == 100e-6)
    assert tiers == {"l2arc"} and line["xref"] == "x domain" and low_s < 100e-6 < high_s
    # Other tiers take from microseconds to tens of milliseconds.
    assert high_s / low_s < 10


def test_a_saved_figure_says_whose_it_is(usual_page):
    html = usual_page
    stamp = "\n".join(settings_of(html)["stamp"])
    for words in ("Synthetic run, run 20261121T053000Z-ab12cd", "verdict: valid", "Emulated lab", "hsp 0.1.0",
                  "Published: ", "DRAM (ARC) p50 ", "log SSD (SLOG) p50 "):  # fmt: skip
        assert words in stamp


@pytest.mark.parametrize("seed", [0, 7, (1 << 63) - 1, None])
def test_a_seed_can_be_read_off_the_page(tmp_path, seed):
    html = page(tmp_path, {**synthetic.manifest(), "seed": seed}, synthetic.latency())
    assert (f"<code>--seed {seed}</code>" in html) is (seed is not None)
    assert ("--seed" in html) is (seed is not None)


@pytest.mark.parametrize("seed", ["<b>", [1], {"x": 1}, -1, 1 << 63, True])
def test_a_damaged_seed_is_refused(tmp_path, seed):
    with pytest.raises(ConfigError, match="seed"):
        page(tmp_path, {**synthetic.manifest(), "seed": seed}, synthetic.latency())


def test_an_unknown_verdict_is_on_the_page_and_on_every_saved_figure(tmp_path):
    manifest = synthetic.manifest()
    manifest["problems"] = synthetic.problems("the server rebooted")
    html = page(tmp_path, manifest, synthetic.latency())
    assert 'class="chip unknown" id="verdict">Unknown' in html
    assert 'class="headline">Unknown: the server rebooted<' in html and "Median latency of" not in html
    assert "the server rebooted" in " ".join(Visible(html).open)
    assert "verdict: unknown" in settings_of(html)["stamp"][0]


def test_withheld_percentiles_say_so(tmp_path):
    frame = synthetic.latency(1)
    html = page(tmp_path, synthetic.manifest(frame, 1), frame)
    assert "n too small" in html


@pytest.mark.parametrize("missing", ["testbed", "versions", "tunables", "pool", "mount", "clock", "expect"])
def test_a_manifest_that_lacks_something_is_drawn(missing):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    del manifest[missing]
    verdict = "Unknown" if missing in ("testbed", "clock") else "Measurement valid"
    assert f'id="verdict">{verdict}' in rendered(frame, manifest)


@pytest.mark.parametrize("phases", [[3], [{}], [{"name": "read"}], {"name": "read"}, 7])
def test_a_damaged_manifest_is_not_a_traceback(phases):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    result = summarise(frame, manifest)
    manifest["phases"] = phases
    for read in (lambda: summarise(frame, manifest), lambda: render(frame, manifest, result)):
        with pytest.raises(ConfigError, match="phases") as caught:
            read()
        assert "damaged" in caught.value.hint


@pytest.mark.parametrize(
    "change",
    [
        {"lo_ns": pl.col("lo_ns") - 1},
        {"hi_ns": pl.col("lo_ns")},
        {"lo_ns": pl.lit(-5, dtype=pl.Int64)},
        {"hi_ns": pl.col("hi_ns") * 2},
    ],
)
def test_bins_that_cannot_be_are_refused(change):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    result = summarise(frame, manifest)
    with pytest.raises(ConfigError, match="damaged"):
        render(frame.with_columns(**change), manifest, result)


@pytest.mark.parametrize("value", [None, "5", [], {}])
@pytest.mark.parametrize("key", ["start_ns", "end_ns", "interval_ns", "events", "expected_tiers"])
def test_a_damaged_phase_is_refused_or_drawn(key, value):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    result = summarise(frame, manifest)
    manifest["phases"][0][key] = value
    try:
        assert 'id="phase-1"' in render(frame, manifest, result)
    except ConfigError as error:
        assert key in error.message or "damaged" in error.message


def test_merged_columns_are_told():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    html = rendered(frame, manifest)
    assert " intervals) x" not in html
    manifest["phases"][0]["interval_ns"] = 1_000_000
    html = rendered(frame, manifest)
    # 12000 intervals: 3 make one of 4000 stored columns, and 9 of those one of 480 on the screen.
    assert "Cell: 0.027 s (27 intervals) \N{MULTIPLICATION SIGN} " in html
    assert max(block["merged"] for block in drawn.cells(html).values()) == 3


def test_what_clients_counted_says_how_well_it_knows_the_times():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    assert "counted their I/Os in windows" not in rendered(frame, manifest)
    manifest["phases"][0]["client_log"] = {
        "kind": "histograms", "latency": "completion", "window_ns": 50_000_000, "time_error_ns": 26_000_000,
        "ios_guessed": 0,
    }  # fmt: skip
    text = " ".join("".join(Visible(rendered(frame, manifest)).folded).split())
    assert "in windows of 50 ms: these latencies are of completion" in text
    assert "at most 26 ms outside of the interval that has it" in text


def test_an_unexpected_tier_has_its_map():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["phases"][0]["expected_tiers"] = ["dram", "slog"]
    html = rendered(frame, manifest)
    titles = [spec["title"] for spec in drawn.specs(html)]
    for name in ("DRAM (ARC)", "SSD cache (L2ARC)", "disk"):
        assert f"512 B read: {name}" in titles
    assert "No I/O from: log SSD (SLOG)" in html


def test_reads_and_writes_of_a_mixed_phase_have_maps_of_their_own():
    """An asynchronous write has the tier of a read from DRAM, and a COMMIT that of a write to the log."""
    more = [
        (0, "read", "nfs-server", "lab", "write", "dram", 8448, 8704, 50),
        (0, "read", "nfs-server", "lab", "write", "slog", 139264, 143360, 50),
        (0, "read", "nfs-server", "lab", "commit", "slog", 143360, 147456, 1),
        (0, "read", "client", "lab/client0", "write", "all", 8448, 8704, 100),
    ]
    frame = pl.concat([synthetic.latency(), synthetic.table(more)])
    manifest = synthetic.manifest(synthetic.latency())
    phase = manifest["phases"][0]
    phase |= {"checks": [], "clients": [], "op": "mixed"}
    phase |= {"client_ios": phase["client_ios"] + 100, "server_ios": phase["server_ios"] + 100}
    summary = summarise(frame, manifest)
    assert summary["verdict"] != "unknown", summary["reasons"]
    html = render(frame, manifest, summary)
    for op in ("read", "write"):
        assert f"512 B read: NFS server, {op}" in html, op


def test_a_server_that_was_not_traced():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    frame = frame.filter(pl.col("layer") == "client")
    html = rendered(frame, manifest)
    assert "the server was not traced" in html and "the kernel reported" not in html


def test_a_long_run_stays_small():
    # 2000 columns in each phase, a tenth of a second each.
    frame = synthetic.realistic(2000, 60).with_columns(pl.col("time_ns") // 20)
    frame = frame.with_columns(pl.col("time_ns") + (pl.col("phase") != "read") * 95 * synthetic.SECOND)
    manifest = synthetic.manifest(frame, 100)
    for phase in manifest["phases"]:
        phase["interval_ns"] = synthetic.SECOND // 20
    html = rendered(frame, manifest)
    assert "Cell: 0.25 s (5 intervals) \N{MULTIPLICATION SIGN} " in html
    assert len(html.encode()) < 3_000_000
    for spec in drawn.specs(html):
        for trace in drawn.heat_maps(spec):
            rows, columns = drawn.typed(trace["z"]).shape
            assert columns <= 480 and rows <= 224


ATTACKS = [
    "</script><img src=x onerror=alert(1)>{{ 7*7 }}",
    '"><svg onload=alert(1)>',
    "<b>bold</b><a href='javascript:alert(1)'>%{x}</a>",
    "]]><!--<script>alert(1)//",
    "&lt;img src=x onerror=alert(1)&gt;",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_foreign_text_is_escaped(attack):
    manifest = synthetic.manifest()
    # Every text of the run: titles, tiers, ops, hosts, layers, versions, devices, commands.
    frame = synthetic.latency().with_columns(
        pl.when(pl.col("tier") == "disk").then(pl.lit(attack)).otherwise(pl.col("tier")).alias("tier"),
        pl.when(pl.col("op") == "write").then(pl.lit(attack)).otherwise(pl.col("op")).alias("op"),
        pl.lit(attack).alias("host"),
    )
    manifest["title"] = manifest["workload"] = manifest["run"] = manifest["load"] = attack
    manifest["command"], manifest["notes"] = [attack], [attack]
    manifest["versions"][attack] = attack
    manifest["testbed"]["devices"][0] |= {"name": attack, "model": attack}
    for phase in manifest["phases"]:
        phase |= {"title": attack, "job": attack}
        phase["checks"][0]["name"] = attack
        phase["events"] = [{"time_ns": phase["start_ns"], "kind": attack, "text": attack}]
    html = rendered(frame, manifest)
    seen = Visible(html)
    assert "svg" not in seen.tags and "<img src=x" not in html
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert not [v for name, v in seen.attributes if name == "href" and not v.startswith(("#", "data:,"))]
    # The scripts are those of a page without an attack.
    plain = rendered(synthetic.latency(), synthetic.manifest())
    assert seen.tags.count("script") == 3 + len(drawn.specs(html)) + len(drawn.cells(html))
    assert html.count('<script type="module">') == plain.count('<script type="module">') == 1
    assert attack in " ".join([*seen.open, *seen.folded])
    for spec in drawn.specs(html):
        drawn.assert_plain(spec)
    assert not set("".join(settings_of(html)["stamp"])) & set("<>&")


@pytest.mark.parametrize(("value", "text"), [(None, "n too small"), (5012.8, "5.01 ms"), (0.5, "500 ns")])
def test_microseconds_for_people(value, text):
    assert filters.us(value) == text


def test_the_load_is_told_with_each_phase():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    for number, phase in enumerate(manifest["phases"]):
        phase["outstanding"] = number + 3
    html = rendered(frame, manifest)
    headings = re.findall(r"<h3>512 B .*?Closed.*?</h3>", html)
    assert [re.search(r"Closed loop, \d outstanding", each)[0] for each in headings] == [
        f"Closed loop, {n} outstanding" for n in (3, 4, 5)
    ]


def test_many_phases_have_a_first_screen_of_four():
    frame, manifest = synthetic.latency(2), synthetic.manifest(synthetic.latency(2), 2)
    first = manifest["phases"][0]
    rows = frame.filter(pl.col("phase") == "read")
    manifest["phases"] = [{**first, "name": f"p{n}", "title": f"phase {n}"} for n in range(12)]
    frame = pl.concat(rows.with_columns(pl.lit(f"p{n}").alias("phase")) for n in range(12))
    html = rendered(frame, manifest)
    assert html.count("<section id=") == 12 and "First 4 of 12 phases." in html
    hero = drawn.specs(html)[0]
    assert len({trace["xaxis"] for trace in drawn.heat_maps(hero)}) == 4
