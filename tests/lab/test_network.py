"""A latency of clients is network + nfsd + rest: with one thread of nfsd, the queue for it is in the rest."""

from __future__ import annotations

from typing import Any

import pytest

from kit.lab.image.image import Image
from tests.lab.conftest import Finished, finish, hsp
from tests.lab.workloads import HEAD, JOB, write_testbed

PROTECTS = ("kit/instruments", "kit/nfs", "reports/features")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800, func_only=True)]

JOBS, CONNECTIONS = 4, 2
_PHASE = """\
[[phase]]
name = "{name}"
title = "{name}"
job = "write.fio"
tiers = ["slog"]
duration = "400ms"
interval = "50ms"
options = {{ numjobs = {jobs} }}
"""


@pytest.fixture(scope="module")
def queued(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One writer, and four, of a server with one thread, over two connections."""
    directory = tmp_path_factory.mktemp("network")
    options = "rw=randwrite\nsync=dsync\nsize=${HSP_SIZE}\n"
    directory.joinpath("write.fio").write_text(JOB + options)
    head = HEAD.format(name="network", more="", properties="")
    asked = f'[nfs]\nproto = "tcp"\nnconnect = {CONNECTIONS}\n'
    phases = _PHASE.format(name="alone", jobs=1) + _PHASE.format(name="queue", jobs=JOBS)
    workload = directory / "network.toml"
    workload.write_text(head.replace("[nfs]\n", asked) + "[host]\nnfsd_threads = 1\n" + phases)
    testbed = write_testbed(directory, log="800us")
    process = hsp("run", str(workload), "--testbed", str(testbed), results=directory)
    return finish(process, directory, "network")


def parts(run: Finished, phase: str) -> dict[str, Any]:
    """Of the writes of a phase."""
    (found,) = (each for each in run.summary["network"] if each["phase"] == phase)
    (op,) = found["ops"]
    return op


def test_the_connections_are_as_many_as_were_asked_for(queued: Finished) -> None:
    assert queued.code == 0, queued.stderr
    options = queued.manifest["mount"]["options"].split(",")
    assert {"proto=tcp", f"nconnect={CONNECTIONS}"} <= {*options}
    for phase in queued.summary["network"]:
        (client,) = phase["clients"]
        assert (client["transport"], client["connections"]) == ("tcp", CONNECTIONS) and "why" not in client
        assert client["before"]["calls"] == client["after"]["calls"] > 300


def test_the_sum_closes_where_nothing_waits(queued: Finished) -> None:
    alone = parts(queued, "alone")
    assert alone["network_us"] + alone["nfsd_us"] + alone["rest_us"] == pytest.approx(alone["client_us"])
    # Nothing is measured twice, and little is left for the client itself.
    assert 0 < alone["rest_us"] < 0.2 * alone["client_us"]


def test_a_queue_for_a_thread_is_in_the_rest_alone(queued: Finished) -> None:
    alone, queue = parts(queued, "alone"), parts(queued, "queue")
    assert queue["network_us"] == pytest.approx(alone["network_us"], rel=0.25)
    assert queue["nfsd_us"] == pytest.approx(alone["nfsd_us"], rel=0.25)
    # Each waits until the others have been served: a closed loop of JOBS, and one server.
    shortest = (JOBS - 1) * queue["nfsd_us"]
    assert 0.9 * shortest < queue["rest_us"] < 1.1 * (JOBS - 1) * alone["client_us"]


def test_people_read_the_sum(queued: Finished) -> None:
    text = " ".join(queued.stdout.split())
    assert "that a write takes at the client (mean), " in text and " are network, " in text
    page = (queued.run / "report.html").read_text()
    assert 'id="network"' in page and "What NULL took" in page
    assert (queued.run / "raw" / "queue-null.json").stat().st_size > 1000
