"""Every check of the list, with facts of a real host: when it is well, and when it is not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kit.doctor.checks import CHECKS
from kit.doctor.diagnosis import judge
from kit.doctor.finding import Requirements
from kit.doctor.machine import CLOCK_SOURCE, CPU, ROOT_ONLY
from kit.doctor.network import NET
from kit.doctor.server import ARCSTATS, THREADS, VERSIONS, ZFS_VERSION
from kit.doctor.tracing import BTF, KPROBES, LOCKDOWN, TRACING
from tests.kit.doctor.facts import (
    RECORDED,
    Change,
    a_wire,
    changed,
    file,
    gathered,
    links,
    only,
    part,
    program,
    report,
    said,
)

POLICY = f"{CPU}/cpufreq/policy%d/scaling_governor"
IDLE = f"{CPU}/cpu0/cpuidle/state%d/%s"
STAT = "cpu  100 0 100 9000 0 0 0 %d 0 0\ncpu0 100 0 100 9000 0 0 0 %d 0 0\n"
MEMORY = RECORDED["server"]["files"]["/proc/meminfo"]
NO_COMMAND = {"error": "systemd-detect-virt: No such file or directory"}
FLAGS = "processor\t: 0\nflags\t\t: fpu vme tsc%s\n"
STATUS = "  pool: tank\n state: ONLINE\n  scan: %s\nconfig:\n"
RUN = "/run/hsp/20260101T000000Z-0a1b2c"
UNAFFECTED = {
    path: "Not affected" for path in RECORDED["server"]["files"] if path.startswith(f"{CPU}/vulnerabilities/")
}


def idle(number: int, name: str, latency_us: str, disable: str = "0") -> Change:
    values = {"name": name, "latency": latency_us, "disable": disable}
    return lambda raw: raw["files"].update({IDLE % (number, key): value for key, value in values.items()})


def without(name: str, value: str) -> Change:
    """A list of names less one of them."""
    return lambda raw: raw[name].remove(value)


def arc(name: str, value: int) -> Change:
    def change(raw: dict[str, Any]) -> None:
        lines = raw["files"][ARCSTATS].splitlines()
        raw["files"][ARCSTATS] = "\n".join(
            f"{name} 4 {value}" if line.split()[:1] == [name] else line for line in lines
        )

    return change


def memory(name: str, kib: int) -> Change:
    """A line of /proc/meminfo."""
    return file("/proc/meminfo", re.sub(rf"(?m)^{name}:.*$", f"{name}: {kib} kB", MEMORY))


def nowhere(*names: str) -> tuple[Change, ...]:
    return tuple(program(name, None) for name in names)


# check, state, then what is changed in the facts of the host the check is of.
SERVER_CASES: list[tuple[str, str, tuple[Change, ...]]] = [
    ("python", "ok", ()),
    ("python", "fail", (part("python", "3.5.3"),)),
    ("python", "warn", (part("python", None),)),
    ("privilege", "ok", ()),
    ("privilege", "fail", (part("euid", 1000),)),
    ("system", "ok", ()),
    ("system", "fail", (part("system", {"name": "FreeBSD", "release": "14.1", "cpus": 4}),)),
    ("clock-source", "ok", ()),
    ("clock-source", "ok", (file(CLOCK_SOURCE, "kvm-clock\n"),)),
    ("clock-source", "warn", (file(CLOCK_SOURCE, "hpet\n"),)),
    ("clock-source", "warn", (file(CLOCK_SOURCE, "sundial"),)),
    ("clock-source", "warn", (file(CLOCK_SOURCE, None),)),
    ("time-sync", "ok", (part("time", {"status": 0x2001, "maxerror_us": 5}),)),
    ("time-sync", "note", ()),  # a lab's clock is nobody's
    ("time-sync", "warn", (part("time", {"status": 1}), part("stepped_ns", -30_000_000))),
    ("time-sync", "warn", (part("time", {"error": "Operation not permitted"}),)),
    ("mitigations", "note", ()),
    ("mitigations", "ok", (lambda raw: raw["files"].update(UNAFFECTED),)),
    ("mitigations", "note", (file(f"{CPU}/vulnerabilities/meltdown", "Mitigation: PTI"),)),
    ("governor", "note", ()),
    ("governor", "ok", (file(POLICY % 0, "performance"), file(POLICY % 1, "performance"))),
    ("governor", "warn", (file(POLICY % 0, "performance"), file(POLICY % 1, "powersave"))),
    ("turbo", "note", ()),
    ("turbo", "note", (file(f"{CPU}/intel_pstate/no_turbo", "0"),)),
    ("turbo", "ok", (file(f"{CPU}/intel_pstate/no_turbo", "1"),)),
    ("turbo", "ok", (file(f"{CPU}/cpufreq/boost", "0"),)),
    ("turbo", "note", (file(f"{CPU}/cpufreq/boost", "1"),)),
    ("c-states", "note", ()),
    ("c-states", "ok", (idle(0, "POLL", "0"), idle(1, "C1", "2"))),
    ("c-states", "note", (idle(0, "POLL", "0"), idle(1, "C1E", "20"))),
    ("c-states", "warn", (idle(0, "POLL", "0"), idle(1, "C6", "133"))),
    ("c-states", "ok", (idle(0, "POLL", "0"), idle(1, "C6", "133", disable="1"))),
    ("smt", "ok", ()),
    ("smt", "note", (file(f"{CPU}/smt/active", "1"),)),
    ("smt", "note", (file(f"{CPU}/smt/active", None),)),
    ("numa", "ok", ()),
    ("numa", "note", (file("/sys/devices/system/node/online", "0-1"),)),
    ("virtualised", "note", ()),
    ("virtualised", "ok", (said("detect-virt", "none\n", 1),)),
    ("virtualised", "note", (said("detect-virt", "kvm\n"),)),
    (
        "virtualised", "ok",
        (part("command detect-virt", NO_COMMAND), file("/proc/cpuinfo", FLAGS % "")),
    ),
    (
        "virtualised", "note",
        (part("command detect-virt", NO_COMMAND), file("/proc/cpuinfo", FLAGS % " hypervisor")),
    ),
    ("steal", "ok", (file("/proc/stat", STAT % (0, 0)),)),
    ("steal", "warn", (file("/proc/stat", STAT % (500, 500)),)),
    ("load", "ok", ()),
    ("load", "warn", (file("/proc/loadavg", "7.10 3.00 1.00 4/92 477\n"),)),
    ("swap", "ok", ()),
    ("swap", "note", (memory("SwapTotal", 900_000),)),
    ("run-space", "ok", ()),
    ("run-space", "warn", (part("space", {"free_bytes": 100 << 20}),)),
    ("run-space", "fail", (part("space", {"free_bytes": 1 << 20}),)),
    ("leftovers", "ok", ()),
    ("leftovers", "ok", (lambda raw: raw["present"].extend(["/run/hsp", "/run/hsp/lock"]),)),
    ("leftovers", "warn", (lambda raw: raw["present"].extend(["/run/hsp", RUN]),)),
    ("leftovers", "warn", (part("euid", 1000), lambda raw: raw["present"].append("/run/hsp"))),
    ("link", "note", ()),
    ("link", "ok", (a_wire("25000"),)),
    ("link", "note", (a_wire("1000"),)),
    ("link", "warn", (a_wire("100", "half"),)),
    ("link", "warn", (a_wire("-1", "unknown"),)),
    ("link", "fail", (a_wire("25000", operstate="DOWN"),)),
    ("link-errors", "ok", ()),
    ("link-errors", "warn", (links(lambda found: found[-1]["stats64"]["rx"].update(errors=7)),)),
    ("link-errors", "note", (links(lambda found: found[-1]["stats64"]["rx"].update(dropped=7)),)),
    ("link-errors", "warn", (links(lambda found: found[-1].pop("stats64")),)),
    ("zfs-module", "ok", ()),
    ("zfs-module", "ok", (file(ZFS_VERSION, "2.1.5-1ubuntu6~22.04.4"),)),
    ("zfs-module", "ok", (file(ZFS_VERSION, "2.3.99-612_g0123abc"),)),
    ("zfs-module", "note", (file(ZFS_VERSION, "2.5.0-1"),)),
    ("zfs-module", "fail", (file(ZFS_VERSION, "0.8.3-1"),)),
    ("zfs-module", "fail", (file(ZFS_VERSION, None),)),
    ("zfs-userland", "ok", ()),
    ("zfs-userland", "warn", (said("zfs", "zfs-2.2.2-1\nzfs-kmod-2.3.9-0\n"),)),
    ("zfs-userland", "warn", (said("zfs", "", 127, "no such command"),)),
    ("pyzfs", "ok", ()),
    ("pyzfs", "fail", (said("pyzfs", "", 1, "Traceback\nModuleNotFoundError: libzfs_core"),)),
    ("server-programs", "ok", ()),
    ("server-programs", "fail", nowhere("zdb")),
    ("server-programs", "fail", (program("zpool", None, "/usr/sbin/zpool"),)),
    ("device-programs", "note", ()),
    ("device-programs", "ok", (program("nvme", "/usr/sbin/nvme"), program("smartctl", "/usr/sbin/smartctl"))),
    ("nfsd", "ok", ()),
    ("nfsd", "fail", (file(THREADS, "0\n"),)),
    ("nfsd", "fail", (file(THREADS, None),)),
    ("nfsd", "warn", (file(THREADS, {"error": "Permission denied"}),)),
    ("nfsd-threads", "note", ()),
    ("nfsd-threads", "ok", (file(THREADS, "16"),)),
    ("nfsd-threads", "fail", (file(THREADS, "0"),)),
    ("nfs-versions", "ok", ()),
    ("nfs-versions", "fail", (file(VERSIONS, "-3 -4 -4.0 -4.1 -4.2"),)),
    ("nfs-versions", "fail", (file(VERSIONS, None),)),
    ("mountd", "ok", ()),
    ("mountd", "fail", (without("processes", "rpc.mountd"),)),
    ("mountd", "warn", (without("processes", "rpcbind"),)),
    ("exports", "ok", ()),
    ("exports", "note", (said("exportfs", "/srv/a long name\n\t\t10.0.0.1(sync,wdelay)\n"),)),
    ("exports", "fail", (said("exportfs", "", 1, "exportfs: could not open /var/lib/nfs/.etab.lock"),)),
    ("bpftrace", "ok", ()),
    ("bpftrace", "warn", (said("bpftrace", "bpftrace v0.14.0\n"),)),
    ("bpftrace", "warn", nowhere("bpftrace")),
    ("probes", "ok", ()),
    ("probes", "warn", (without("symbols", "arc_read"),)),
    ("probes", "warn", (without("present", f"{TRACING}/events/nfsd/nfsd_read_start"),)),
    ("kprobes", "ok", ()),
    ("kprobes", "warn", (file(KPROBES, "0"),)),
    ("kprobes", "warn", (without("present", f"{TRACING}/kprobe_events"),)),
    ("btf", "ok", ()),
    ("btf", "note", (without("present", BTF),)),
    ("lockdown", "note", ()),
    ("lockdown", "ok", (file(LOCKDOWN, "[none] integrity confidentiality"),)),
    ("lockdown", "ok", (file(LOCKDOWN, "none [integrity] confidentiality"),)),
    ("lockdown", "warn", (file(LOCKDOWN, "none integrity [confidentiality]"),)),
    ("pools", "ok", ()),
    ("pools", "note", (said("pools", "tank\tONLINE\n"), said("marks", "tank\t-\n"))),
    ("pools", "warn", (said("pools", "tank\tSUSPENDED\n"), said("marks", "tank\t-\n"))),
    ("pools", "warn", (said("pools", "hsp-1\tONLINE\n"), said("marks", "hsp-1\t20260101T000000Z-0a1b2c\n"))),
    ("pools", "warn", (part("command pools", {"error": "zpool did not end within 30 s"}),)),
    ("scrub", "ok", ()),
    ("scrub", "ok", (said("status", STATUS % "scrub repaired 0B in 00:00:01 with 0 errors"),)),
    ("scrub", "warn", (said("status", STATUS % "scrub in progress since Sun Jan  4 00:24:01 2026"),)),
    ("scrub", "warn", (said("status", STATUS % "resilver (draid1) in progress since Sun Jan  4 00:24"),)),
    ("scrub", "warn", (said("status", STATUS % "none" + "\tsda ONLINE  (34% trimmed, started at"),)),
    ("arc", "ok", ()),
    ("arc", "note", (file("/sys/module/zfs/parameters/zfs_arc_max", "67108864"),)),
    ("arc", "warn", (arc("c_max", 1 << 50),)),
    ("arc", "warn", (memory("MemAvailable", 1000),)),
]  # fmt: skip
CLIENT_CASES: list[tuple[str, str, tuple[Change, ...]]] = [
    ("fio", "ok", ()),
    ("fio", "warn", (said("fio", "fio-2.21\n"),)),
    ("fio", "fail", nowhere("fio")),
    ("client-programs", "ok", ()),
    ("client-programs", "ok", (program("mount.nfs", None, "/usr/sbin/mount.nfs"),)),
    ("client-programs", "fail", nowhere("mount.nfs")),
    ("client-programs", "fail", (program("ip", None, "/usr/sbin/ip"),)),
    ("nfs-client", "ok", ()),
    ("nfs-client", "ok", (file("/proc/filesystems", "nodev\tproc\n\text4\n"), said("nfs-module", ""))),
    ("nfs-client", "fail", (file("/proc/filesystems", "nodev\tproc\n\text4\n"), said("nfs-module", "", 1))),
    ("route", "ok", ()),
    (
        "route", "warn",
        (lambda raw: raw["peer"]["route"].update(out='[{"gateway":"10.0.0.1","dev":"eth0"}]'),),
    ),
    (
        "route", "fail",
        (lambda raw: raw["peer"]["route"].update(code=2, out="", err="Network is unreachable"),),
    ),
    ("nfs-port", "ok", ()),
    ("nfs-port", "fail", (lambda raw: raw["peer"].update(connect={"error": "Connection refused"}),)),
    ("nfs-port", "fail", (part("peer", {"error": "nas: Name or service not known"}),)),
    ("link", "note", ()),
    ("link", "ok", (a_wire("10000"),)),
    ("mtu", "ok", ()),
    ("mtu", "warn", (links(lambda found: found[-1].update(mtu=9000)),)),
    ("mtu", "warn", (links(lambda found: found[-1].pop("mtu")),)),
]  # fmt: skip


@pytest.mark.parametrize(("check", "state", "changes"), SERVER_CASES)
def test_a_check_of_the_server(check: str, state: str, changes: tuple[Change, ...]) -> None:
    finding = only(report(server=changed("server", *changes)), "server", check)
    assert finding.state == state, finding


@pytest.mark.parametrize(("check", "state", "changes"), CLIENT_CASES)
def test_a_check_of_a_client(check: str, state: str, changes: tuple[Change, ...]) -> None:
    finding = only(report(client=changed("client", *changes)), "client", check)
    assert finding.state == state, finding


def test_every_check_is_seen_well_and_not_well() -> None:
    """What is not in the tables above has tests of its own: below, in test_diagnosis and in test_lab."""
    elsewhere = {"reachable", "round-trip", "clock-offset", "fio-alike"}
    elsewhere |= {name for name in CHECKS if name.startswith("lab-")}
    seen: dict[str, set[str]] = {}
    for check, state, _ in SERVER_CASES + CLIENT_CASES:
        seen.setdefault(check, set()).add("ok" if state == "ok" else "not")
    assert {name: {"ok", "not"} for name in CHECKS.keys() - elsewhere} == seen


@pytest.mark.parametrize(("seconds", "state"), [(0.05, "ok"), (0.4, "note"), (3.0, "warn"), (None, "warn")])
def test_the_time_of_a_command(seconds: float | None, state: str) -> None:
    assert only(report(round_trip_s=seconds), "server", "round-trip").state == state


@pytest.mark.parametrize(
    ("seconds", "state"), [(-0.3, "ok"), (2.0, "warn"), (-86400.0, "warn"), (None, "warn")]
)
def test_the_clock_of_a_host(seconds: float | None, state: str) -> None:
    assert only(report(offset_s=seconds), "client", "clock-offset").state == state


@pytest.mark.parametrize(
    ("version", "offered", "state"),
    [
        ("3", "+3 -4 -4.0 -4.1 -4.2", "ok"),
        ("4.2", "+3 -4 -4.0 -4.1 -4.2", "fail"),
        ("4.0", "-2 +3 +4 +4.1", "ok"),
        ("4.0", "+3 +4 -4.0 +4.1", "fail"),
        ("4.1", "-3 +4 +4.0 +4.1 +4.2", "ok"),
        ("3", "-3 +4 +4.0 +4.1 +4.2", "fail"),
    ],
)
def test_the_nfs_version_that_a_workload_wants(version: str, offered: str, state: str) -> None:
    facts = changed("server", file(VERSIONS, offered))
    assert (
        only(report(facts, requirements=Requirements(nfs_version=version)), "server", "nfs-versions").state
        == state
    )


def test_a_workload_with_more_requests_than_the_server_has_threads() -> None:
    for threads, state in (("64", "ok"), ("63", "warn"), ("0", "fail")):
        found = report(changed("server", file(THREADS, threads)), requirements=Requirements(outstanding=64))
        assert only(found, "server", "nfsd-threads").state == state


def test_a_server_that_is_not_to_be_traced_needs_no_tracer() -> None:
    facts = changed("server", *nowhere("bpftrace"), file(KPROBES, "0"), without("symbols", "arc_read"))
    for check in ("bpftrace", "kprobes", "probes"):
        assert only(report(facts), "server", check).state == "warn"
        assert only(report(facts, requirements=Requirements(traced=False)), "server", check).state == "note"


@pytest.mark.parametrize(("engines", "state"), [("\tpsync\n\tnfs\n", "ok"), ("\tpsync\n\thttp\n", "fail")])
def test_fio_that_is_to_read_without_a_mount(engines: str, state: str) -> None:
    facts = changed("client", said("fio-engines", "Available IO engines:\n" + engines), *nowhere("mount.nfs"))
    found = report(client=facts, requirements=Requirements(libnfs=True))
    assert only(found, "client", "fio").state == state
    assert only(found, "client", "client-programs").state == "ok"
    assert only(report(client=facts), "client", "fio").state == "ok"
    silent = changed("client", part("command fio-engines", None))
    assert (
        only(report(client=silent, requirements=Requirements(libnfs=True)), "client", "fio").state == "warn"
    )


def test_rpcbind_is_needed_by_nfs_3_only() -> None:
    facts = changed("server", without("processes", "rpcbind"))
    for version, state in (("3", "fail"), ("4.2", "note"), (None, "warn")):
        assert (
            only(report(facts, requirements=Requirements(nfs_version=version)), "server", "mountd").state
            == state
        )


def test_the_same_interface_name_in_another_network_namespace_is_another_interface() -> None:
    facts = changed("client", a_wire("25000"), file(f"{NET}/eth0/ifindex", "99"))
    found = only(report(client=facts), "client", "link")
    assert found.state == "warn" and "25000" not in found.observed


def test_sudo_is_as_good_as_root() -> None:
    facts = changed("server", part("euid", 1000), file(THREADS, {"error": "Permission denied"}))
    one = gathered("server", facts)
    assert one.facts is not None
    seen = replace(one, facts=replace(one.facts, elsewhere={ROOT_ONLY: "1\n", THREADS: "8\n"}))
    found = judge([seen], Requirements())
    assert only(found, "server", "privilege").state == "ok"
    assert only(found, "server", "nfsd").state == "ok"
