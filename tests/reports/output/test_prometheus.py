"""An exported run in a real Prometheus: promtool takes the file, and queries give the run's own figures."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import polars as pl
import pytest

from kit.core.errors import ConfigError
from reports.output.export import exported
from reports.output.openmetrics import MOST_STEPS, coarser, openmetrics, times_of
from tests.reports import synthetic
from tests.reports.synthetic import SECOND

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "docs/examples/grafana-dashboard.json"
START_S = 1795239000  # 2026-11-21T05:30:00Z
ALL = 'hsp_latency_seconds_bucket{phase="read",layer="nfs-server",op="read"}'


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Where promtool and prometheus are. Debian's package starts a server; only its files are taken."""
    if shutil.which("promtool") and shutil.which("prometheus"):
        return Path(shutil.which("promtool")).parent
    place = tmp_path_factory.mktemp("prometheus")
    place.chmod(0o777)  # apt-get writes as another user
    got = subprocess.run(
        ["apt-get", "-q", "download", "prometheus"], cwd=place, capture_output=True, text=True, timeout=110
    )
    packages = list(place.glob("prometheus_*.deb"))
    if not packages:
        pytest.fail(f"Debian's package prometheus cannot be downloaded: {got.stderr}")
    subprocess.run(["dpkg-deb", "-x", packages[0], place], check=True, timeout=60)
    return place / "usr/bin"


def run_file(path, **options):
    run = synthetic.write(path / "run", synthetic.manifest(), synthetic.latency())
    text = exported(synthetic.latency(), "openmetrics", synthetic.summary_of(run="r"), **options)
    (path / "run.txt").write_bytes(text)
    return run, path / "run.txt"


def times(**options):
    return times_of(synthetic.parsed(synthetic.manifest()), **options)


@pytest.fixture(scope="module")
def server(programs, tmp_path_factory):
    """query(expression, seconds after the start of the run) of a Prometheus that has the run's blocks."""
    place = tmp_path_factory.mktemp("run")
    _, file = run_file(place, times=times())
    blocks = ["tsdb", "create-blocks-from", "openmetrics", file, place / "data"]
    made = subprocess.run([programs / "promtool", *blocks], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    (place / "prometheus.yml").write_text("")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [programs / "prometheus", f"--config.file={place}/prometheus.yml",
            f"--storage.tsdb.path={place}/data", "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_ready(f"http://127.0.0.1:{port}/-/ready", process)
        yield lambda expression, at_s: ask(port, expression, at_s)
    finally:
        process.terminate()
        process.wait(30)


def await_ready(url, process):
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("Prometheus does not answer")


def ask(port, expression, at_s):
    query = urllib.parse.urlencode({"query": expression, "time": START_S + at_s})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=30) as answer:
        result = json.load(answer)["data"]["result"]
    return [(row["metric"], float(row["value"][1])) for row in result]


def test_counts_are_those_of_the_run(server):
    frame = synthetic.latency().filter(pl.col("layer") == "nfs-server")
    for tier in ("dram", "l2arc", "disk"):
        expected = frame.filter((pl.col("phase") == "read") & (pl.col("tier") == tier))["count"].sum()
        [(labels, observed)] = server(ALL.replace("}", f',tier="{tier}",le="+Inf"}}'), 12)
        assert observed == expected and labels["run"] == "r"


def test_points_are_cumulative_at_the_end_of_each_interval(server):
    dram = ALL.replace("}", ',tier="dram",le="+Inf"}')
    assert [server(dram, second)[0][1] for second in (0, 1, 2, 12)] == [0, 105, 210, 1260]


def test_quantiles_are_in_the_bins_of_the_run(server):
    by_tier = f"histogram_quantile(0.5, sum by (tier, le) (rate({ALL}[10s])))"
    observed = {labels["tier"]: value for labels, value in server(by_tier, 11)}
    assert 6144e-9 <= observed["dram"] <= 6272e-9
    assert 4980736e-9 <= observed["disk"] <= 5111808e-9


def test_buckets_of_tiers_can_be_summed(server):
    together = server(f"sum by (le) ({ALL})", 12)
    counts = [value for _, value in sorted(together, key=lambda row: float(row[0]["le"]))]
    assert counts == sorted(counts) and counts[-1] == 12 * 193


def test_every_panel_of_the_dashboard_shows_the_run(server):
    panels = json.loads(DASHBOARD.read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    for expression in expressions:
        filled = re.sub(r"\$(run|phase|op|tier)\b", ".*", expression).replace("$__rate_interval", "5s")
        at_s = 0 if "info" in filled else 11
        assert server(filled, at_s), expression
    assert len(expressions) == 5 and {"heatmap", "timeseries", "table"} == {p["type"] for p in panels}


def test_variables_of_the_dashboard_have_values(server):
    variables = [
        each for each in json.loads(DASHBOARD.read_text())["templating"]["list"] if "definition" in each
    ]
    for variable in variables:
        metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
        found = server(
            f"group by ({label}) ({metric.replace('$run', '.*')})", 1 if "info" not in metric else 0
        )
        assert found and all(label in labels for labels, _ in found)


def test_a_step_is_several_intervals():
    assert stamps(times(every_ns=5 * synthetic.SECOND)) == [0, 5, 10, 15]
    with pytest.raises(ConfigError, match="has intervals of 1s"):
        stamps(times(every_ns=1_500_000_000))


def test_a_long_phase_has_few_steps():
    manifest = synthetic.manifest(intervals=4000)
    manifest["phases"] = manifest["phases"][:1]
    frame = synthetic.latency(4000).filter(pl.col("phase") == "read")
    lines = list(openmetrics(frame, None, times_of(synthetic.parsed(manifest))))
    points = sum(line.count('tier="dram",le="+Inf"') for line in lines)
    assert MOST_STEPS / 2 < points <= MOST_STEPS + 1
    last = [line for line in "".join(lines).splitlines() if 'tier="dram",le="+Inf"' in line][-1]
    assert f"}} {4000 * 105} " in last


def stamps(at):
    """Seconds after the start of the run of each point of one histogram."""
    text = "".join(openmetrics(synthetic.latency(), None, at))
    lines = [line for line in text.splitlines() if 'phase="read"' in line and 'tier="dram",le="+Inf"' in line]
    return [round(float(line.split()[-1])) - START_S for line in lines]


@pytest.mark.parametrize("per_octave", [1, 2, 4, 8, 16, 32])
def test_coarser_bins_keep_each_io(per_octave):
    frame = synthetic.latency()
    fewer = coarser(frame, per_octave)
    assert fewer["count"].sum() == frame["count"].sum()
    # Up to 8192 ns is a whole octave, whatever the bins in it; 8448 ns is in the next.
    below = frame.filter(pl.col("hi_ns") <= 8192)["count"].sum()
    assert fewer.filter(pl.col("hi_ns") <= 8192)["count"].sum() == below > 0
    edges = fewer["hi_ns"].unique().sort().to_list()
    # From 4096 to 5263360 ns: no octave without its bins.
    assert len([edge for edge in edges if 8192 < edge <= 4194304]) == 9 * per_octave


def test_a_manifest_without_a_start_is_refused():
    manifest = synthetic.manifest()
    del manifest["started_utc"]
    with pytest.raises(ConfigError, match="started_utc"):
        times_of(synthetic.parsed(manifest))


def test_too_many_steps_are_refused():
    rows = synthetic.table([(0, "read", "client", "h", "read", "all", 64, 66, 1),
                            (10**17, "read", "client", "h", "read", "all", 66, 68, 1)])  # fmt: skip
    with pytest.raises(ConfigError, match="steps of 3 bins"):
        list(openmetrics(rows, None, times(every_ns=synthetic.SECOND)))


def test_options_that_do_not_fit_are_refused(tmp_path, hsp_here):
    run, _ = run_file(tmp_path)
    for options, words in (
        (["--format", "csv", "--totals"], "--totals has no effect on counts that are not OpenMetrics"),
        (["--format", "openmetrics", "--totals", "--every", "5s"], "totals have no steps"),
        (["--format", "openmetrics", "--every", "5"], "needs a unit"),
        (["--format", "openmetrics", "--every", "1us"], "1ms or more"),
        (["--format", "openmetrics", "--per-octave", "5"], "1, 2, 4, 8, 16 or 32"),
    ):
        done = hsp_here("show", str(run.path), *options)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    done = hsp_here("show", str(run.path), "--format", "openmetrics", "--every", "4s", "--per-octave", "2")
    assert done.returncode == 0 and done.stdout.endswith("# EOF\n")


def test_a_run_without_a_summary_has_its_labels(tmp_path, hsp_here):
    run, _ = run_file(tmp_path)
    done = hsp_here("show", str(run.path), "--format", "openmetrics", "--phase", "read")
    assert 'hsp_run_info{run="20261121T053000Z-ab12cd",workload="top-speeds",verdict=' in done.stdout
    assert 'hsp_latency_seconds_bucket{run="20261121T053000Z-ab12cd",phase="read"' in done.stdout


def test_times_before_1970_are_right():
    manifest = {**synthetic.manifest(), "started_utc": "1969-12-31T23:59:58Z"}
    manifest["phases"][0] |= {"start_ns": SECOND // 2, "end_ns": SECOND}
    frame = synthetic.latency(1).filter(pl.col("phase") == "read").with_columns(time_ns=pl.lit(SECOND // 2))
    text = exported(frame, "openmetrics", None, times_of(synthetic.parsed(manifest))).decode()
    assert set(re.findall(r"} \d+ (\S+)", text)) == {"-1.500", "-0.500"}


def test_totals_are_for_the_textfile_collector(programs, tmp_path):
    """Its parser is that of `promtool check metrics`: the older text format, without times and `info`."""
    text = exported(synthetic.latency(), "openmetrics", synthetic.summary_of(run="r"))
    checked = subprocess.run(
        [programs / "promtool", "check", "metrics"], input=text, capture_output=True, timeout=60
    )
    assert checked.returncode == 0, checked.stderr
