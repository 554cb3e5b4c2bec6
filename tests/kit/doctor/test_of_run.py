"""What a run finds on its hosts before it sets anything."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kit.core.clock import Clock
from kit.doctor import of_run
from kit.doctor.machine import CPU
from kit.setup.site import Site, SiteClient
from tests.fakes import Answer, ScriptedHost
from tests.kit.doctor.facts import changed, file

BOOT = "00000000-0000-0000-0000-00000000000%d\nmachine\n"
GOVERNOR = f"{CPU}/cpufreq/policy0/scaling_governor"


def host(role: str, boot: int, *changes: Any, answer: Answer | None = None) -> ScriptedHost:
    answers: dict[str, Answer] = {"true": "", "cat": BOOT % boot}
    return ScriptedHost(answers, name=role, default=answer or changed(role, *changes))


def plan(tune: str = "none", **own: str) -> Any:
    settings = SimpleNamespace(files=own, tune=tune)
    return SimpleNamespace(testbed=None, workload=SimpleNamespace(host=settings))


def site(server: ScriptedHost | None, *clients: ScriptedHost) -> Site:
    return Site(tuple(SiteClient(each, "a", "10.97.0.1") for each in clients), Clock(), False, server)


SERVER = (file(GOVERNOR, "powersave\n"),)


def test_findings_are_a_field_of_the_manifest() -> None:
    found = of_run.look(plan(), site(host("server", 1, *SERVER), host("client", 2)))
    by_key = {(each.host, each.check): each for each in found["findings"]}
    governor = by_key["server", "governor"]
    assert governor.state == "warn" and not governor.unknown
    assert governor.sentence.startswith(
        "server: governor: powersave on 1 of 1 policies. A CPU that slows down"
    )
    # A client has its own kernel, and its side of the network; tools are looked for by the run itself.
    assert {("client", "smt"), ("client", "link"), ("server", "link"), ("client", "mtu")} <= by_key.keys()
    assert not {"zfs-module", "fio", "bpftrace", "nfs-port", "python", "nfsd-threads"} & {
        c for _, c in by_key
    }


def test_what_the_run_sets_is_not_as_it_was_found() -> None:
    found = of_run.look(plan(governor="performance"), site(host("server", 1, *SERVER), host("client", 2)))
    assert [each.host for each in found["findings"] if each.check == "governor"] == ["client"]
    found = of_run.look(plan(tune="latency"), site(host("server", 1, *SERVER), host("client", 2)))
    checks = {each.check for each in found["findings"]}
    assert "irqbalance" in checks and not checks & {"governor", "turbo", "c-states", "tune"}


def test_hosts_of_one_kernel_are_one_machine() -> None:
    """The lab: clients in network namespaces of the server. Nothing is asked twice, or over the network."""
    client = host("client", 1)
    lab = replace(site(host("server", 1), client), clock=Clock("virtual", 4))
    found = of_run.look(plan(), lab)
    assert {each.host for each in found["findings"]} == {"server"}
    assert not {"link", "mtu", "time-sync", "clock-offset"} & {each.check for each in found["findings"]}
    assert [each for each in found["findings"] if each.state == "warn"] == []
    assert client.called("env") == client.called("/usr/bin/python3") == []


@pytest.mark.parametrize("server", [None, host("server", 1, answer=(127, "", "no such file"))])
def test_a_host_that_says_nothing_is_no_error(server: ScriptedHost | None) -> None:
    found = of_run.look(plan(), site(server, host("client", 2)))
    failed = [each.check for each in found["findings"] if each.host == "server"]
    assert failed == (["python"] if server else [])
    assert "smt" in {each.check for each in found["findings"] if each.host == "client"}
