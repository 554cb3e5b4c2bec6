"""etcd itself beside the workload `etcd`: the forces of its log take as long as the kit's, within 5 %.

Debian's etcd (package etcd-server) runs in the lab's guest, on a pool with a log device. Its data directory
is in a dataset with the properties of the workload. The means are compared, as etcd's own metric
(etcd_disk_wal_fsync_duration_seconds) has a sum, a count, and bins of a factor of two. The guest's clock is
the experiment's times the lab's dilation. The guest has one CPU, for which the force and the threads of Go's
runtime wait: the less of an instruction's time the experiment has, the less of it is in the metric.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from kit.config.tables.force_table import ForceTable
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.core.progress import Progress
from kit.hosts.base import Host
from kit.lab.image.image import ImageInputs, build
from kit.lab.site import lab_site
from kit.load.programs import force_load
from kit.load.programs.force_program import command, put_program, run_words, words_of
from kit.load.programs.program_load import lines_of
from kit.setup.site import Site
from kit.store.parts.forces import Forces
from tests.bench.conftest import ROOT, Tell

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

WITHIN, PUTS, DILATION = 0.05, 2000, 16
# With etcd's head of a record, and Raft's of an entry: some 2,300 bytes, as etcd's own advice for fio has it.
VALUE_BYTES = 2200
USED = ("data0", "data1", "log0")
METRIC = "etcd_disk_wal_fsync_duration_seconds"
ETCD = Path("/usr/bin/etcd")
# Of the guest's clock.
WINDOW_AND_MOST_NS = (100_000_000, 8_000_000_000)
# The database of etcd is not forced meanwhile: the workload has no such forces. No vote is lost because a
# disk or the guest is slow.
START = """\
set -eu
zpool create -o ashift=12 -o autotrim=off {properties} tank mirror {data0} {data1} log {log0}
mkdir /tank/kit
cd /tank
setsid /tmp/etcd --data-dir /tank/data --heartbeat-interval 5000 --election-timeout 50000 \\
    --backend-batch-interval 1h --backend-batch-limit 1000000 --snapshot-count 1000000 \\
    >/tmp/etcd.log 2>&1 </dev/null &
echo $! >/tmp/etcd.pid
"""
# One connection, one put at a time: each is a record of the log with a force of its own.
LOAD = """\
import base64, http.client, json, os, sys, time
puts, value_bytes = map(int, sys.argv[1:])
end = time.monotonic() + 600
while True:
    try:
        line = http.client.HTTPConnection("127.0.0.1", 2379, timeout=600)
        line.request("GET", "/health")
        if json.loads(line.getresponse().read())["health"] == "true":
            break
    except OSError:
        pass
    assert time.monotonic() < end
    time.sleep(1)
def metrics():
    line.request("GET", "/metrics")
    return line.getresponse().read().decode()
found = [metrics()]
for number in range(puts):
    value = base64.b64encode(os.urandom(value_bytes)).decode()
    put = {"key": base64.b64encode(b"%08d" % number).decode(), "value": value}
    line.request("POST", "/v3/kv/put", json.dumps(put))
    answer = line.getresponse()
    answer.read()
    assert answer.status == 200
print(json.dumps([*found, metrics()]))
"""


@pytest.fixture(scope="module")
def workload() -> dict[str, Any]:
    return tomllib.loads((ROOT / "workloads" / "etcd.toml").read_text())


@pytest.fixture(scope="module")
def site(workload: dict[str, Any]) -> Iterator[Site]:
    if not ETCD.exists():
        pytest.skip("etcd is missing: apt-get install etcd-server")
    progress = Progress(quiet=True)
    testbed = read_testbed(LAB_TESTBED)
    used = tuple(each for each in testbed.device if each.name in USED)
    lab = testbed.lab.model_copy(update={"dilation": DILATION})
    testbed = testbed.model_copy(update={"device": used, "lab": lab})
    with lab_site(testbed, build(ImageInputs(), progress), progress, 1) as made:
        host = made.server
        assert host
        host.put(ETCD.read_bytes(), "/tmp/etcd")
        host.run(["chmod", "0755", "/tmp/etcd"])
        for name, value in workload["tunables"].items():
            if name != "zfs_txg_timeout":
                host.put(f"{value}\n".encode(), f"/sys/module/zfs/parameters/{name}")
        words = " ".join(f"-O {key}={value}" for key, value in workload["dataset"]["properties"].items())
        host.run(["sh", "-c", START.format(properties=words, **made.device_paths)], deadline_s=300)
        yield made


def values(text: str) -> dict[str, float]:
    """Of the metric in etcd's metrics: `sum` in seconds of the guest, and `count`."""
    (family,) = (each for each in families(text) if each.name == METRIC)
    found = {each.name.removeprefix(f"{METRIC}_"): each.value for each in family.samples if not each.labels}
    return {name: found[name] for name in ("sum", "count")}


@pytest.fixture(scope="module")
def theirs_us(site: Site) -> float:
    """The mean of PUTS forces, in us of the experiment."""
    host = site.server
    assert host
    host.put(LOAD.encode(), "/tmp/load.py")
    done = host.run(["python3", "-I", "/tmp/load.py", str(PUTS), str(VALUE_BYTES)], deadline_s=1500)
    before, after = (values(text) for text in json.loads(done.stdout))
    host.run(["sh", "-c", "kill $(cat /tmp/etcd.pid)"])
    found = {name: after[name] - before[name] for name in after}
    assert PUTS <= found["count"] < 1.1 * PUTS
    return found["sum"] / found["count"] * 1e6 / site.clock.dilation


def ours(site: Site, host: Host, workload: dict[str, Any]) -> Forces:
    table = ForceTable.model_validate(workload["phase"][0]["force"])
    put_program(host, "/tmp")
    host.run(["mkdir", "-p", "/tank/kit/force/etcd"])
    words = words_of(table, "etcd", "/tank/kit", 0, 3, is_device=False)
    host.run(command("/tmp", ["prepare", *words]), deadline_s=300)
    text = host.run(command("/tmp", run_words(words, table, 0, *WINDOW_AND_MOST_NS)), deadline_s=600).stdout
    return force_load.forces_of(table, lines_of(text, "it"), site.clock)


def test_the_forces_of_etcd_take_as_long_as_the_kits(
    site: Site, theirs_us: float, workload: dict[str, Any], tell: Tell
) -> None:
    host = site.server
    assert host
    mine = ours(site, host, workload)
    assert mine.force and mine.force.ios > PUTS / 2
    ratio = mine.force.mean_ns / 1e3 / theirs_us
    tell(
        "", f"the mean force of a record: ours / etcd's ({theirs_us:.4g} us), dilation {DILATION}", ratio, "x"
    )
    assert ratio == pytest.approx(1, abs=WITHIN)
