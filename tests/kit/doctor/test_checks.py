"""Every check of the list with facts of a real host: when it is ok, and when it is not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kit.doctor.checks import CHECKS
from kit.doctor.diagnosis import judge
from kit.doctor.finding import Finding, Requirements
from kit.doctor.machine import APST, ASPM, CLOCK_SOURCE, CPU, ROOT_ONLY
from kit.doctor.network import NET
from kit.doctor.server import ARCSTATS, THREADS, VERSIONS, ZFS_VERSION
from kit.doctor.tracing import BTF, KPROBES, LOCKDOWN, TRACING
from tests.kit.doctor.facts import (
    RECORDED,
    Change,
    changed,
    file,
    finding_of,
    gathered,
    links,
    output,
    part,
    physical_link,
    program,
    report,
)

POLICY = f"{CPU}/cpufreq/policy%d/scaling_governor"
IDLE = f"{CPU}/cpu0/cpuidle/state%d/%s"
STAT = "cpu  100 0 100 9000 0 0 0 %d 0 0\ncpu0 100 0 100 9000 0 0 0 %d 0 0\n"
MEMORY = RECORDED["server"]["files"]["/proc/meminfo"]
NO_COMMAND = {"error": "systemd-detect-virt: No such file or directory"}
FLAGS = "processor\t: 0\nflags\t\t: fpu vme tsc%s\n"
LONG_EXPORT = "/srv/a long name\n\t\t10.0.0.1(sync,wdelay)\n"
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


def nvme_link(now: str, port: str) -> Change:
    """Of a drive that can do 16 GT/s, with four lanes."""

    def change(raw: dict[str, Any]) -> None:
        speeds = {"current": now, "max": "16.0 GT/s PCIe", "../max": port}
        for which, speed in speeds.items():
            for kind, value in (("speed", speed), ("width", "4")):
                raw["files"][f"/sys/class/nvme/nvme0/device/{which}_link_{kind}"] = f"{value}\n"

    return change


# Check, state, changes of the recorded facts.
SERVER_CASES: list[tuple[str, str, tuple[Change, ...]]] = [
    ("python", "fail", (part("python", "3.6.8"),)),
    ("python", "ok", (part("python", "3.7.0"),)),
    ("python", "warn", (part("python", None),)),
    ("privilege", "fail", (part("euid", 1000),)),
    ("system", "fail", (part("system", {"name": "FreeBSD", "release": "14.1", "cpus": 4}),)),
    ("clock-source", "ok", (file(CLOCK_SOURCE, "kvm-clock\n"),)),
    ("clock-source", "warn", (file(CLOCK_SOURCE, "hpet\n"),)),
    ("clock-source", "warn", (file(CLOCK_SOURCE, "sundial"),)),
    ("clock-source", "warn", (file(CLOCK_SOURCE, None),)),
    ("time-sync", "ok", (part("time", {"status": 0x2001, "maxerror_us": 5}),)),
    ("time-sync", "warn", (part("time", {"status": 1}), part("stepped_ns", -30_000_000))),
    ("time-sync", "warn", (part("time", {"error": "Operation not permitted"}),)),
    ("mitigations", "ok", (lambda raw: raw["files"].update(UNAFFECTED),)),
    ("mitigations", "note", (file(f"{CPU}/vulnerabilities/meltdown", "Mitigation: PTI"),)),
    ("governor", "ok", (file(POLICY % 0, "performance"), file(POLICY % 1, "performance"))),
    ("governor", "warn", (file(POLICY % 0, "performance"), file(POLICY % 1, "powersave"))),
    ("turbo", "note", (file(f"{CPU}/intel_pstate/no_turbo", "0"),)),
    ("turbo", "ok", (file(f"{CPU}/intel_pstate/no_turbo", "1"),)),
    ("turbo", "ok", (file(f"{CPU}/cpufreq/boost", "0"),)),
    ("turbo", "note", (file(f"{CPU}/cpufreq/boost", "1"),)),
    ("c-states", "ok", (idle(0, "POLL", "0"), idle(1, "C1", "2"))),
    ("c-states", "note", (idle(0, "POLL", "0"), idle(1, "C1E", "20"))),
    ("c-states", "warn", (idle(0, "POLL", "0"), idle(1, "C6", "133"))),
    ("c-states", "ok", (idle(0, "POLL", "0"), idle(1, "C6", "133", disable="1"))),
    ("tune", "ok", (file(POLICY % 0, "performance"), idle(0, "POLL", "0"), idle(1, "C1", "2"))),
    ("tune", "note", (file(POLICY % 0, "powersave"), idle(1, "C1", "2"), idle(2, "C6", "133"))),
    ("tune", "warn", (idle(1, "C6", "long"),)),
    ("irqbalance", "note", (output("irqbalance", "812\n"),)),
    ("irqbalance", "warn", (output("irqbalance", "", 2),)),
    ("device-sleep", "ok", (file(ASPM, "default [performance] powersave\n"), file(APST, "0\n"))),
    ("device-sleep", "note", (file(ASPM, "[default] performance\n"), file(APST, "100000\n"))),
    ("device-sleep", "warn", (file(ASPM, "default [powersupersave]\n"),)),
    ("device-sleep", "warn", (file(APST, "soon\n"),)),
    ("drive-links", "ok", (nvme_link("16.0 GT/s PCIe", "16.0 GT/s PCIe"),)),
    ("drive-links", "note", (nvme_link("8.0 GT/s PCIe", "8.0 GT/s PCIe"),)),
    ("drive-links", "warn", (nvme_link("2.5 GT/s PCIe", "16.0 GT/s PCIe"),)),
    # A device inside of the root complex has no link.
    ("drive-links", "ok", (nvme_link("Unknown", "Unknown"),)),
    ("smt", "note", (file(f"{CPU}/smt/active", "1"),)),
    ("smt", "note", (file(f"{CPU}/smt/active", None),)),
    ("numa", "note", (file("/sys/devices/system/node/online", "0-1"),)),
    ("virtualised", "ok", (output("detect-virt", "none\n", 1),)),
    ("virtualised", "note", (output("detect-virt", "kvm\n"),)),
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
    ("load", "warn", (file("/proc/loadavg", "7.10 3.00 1.00 4/92 477\n"),)),
    ("swap", "note", (memory("SwapTotal", 900_000),)),
    ("run-space", "warn", (part("space", {"free_bytes": 100 << 20}),)),
    ("run-space", "fail", (part("space", {"free_bytes": 1 << 20}),)),
    ("leftovers", "ok", (lambda raw: raw["present"].extend(["/run/hsp", "/run/hsp/lock"]),)),
    ("leftovers", "warn", (lambda raw: raw["present"].extend(["/run/hsp", RUN]),)),
    ("leftovers", "warn", (part("euid", 1000), lambda raw: raw["present"].append("/run/hsp"))),
    ("link", "ok", (physical_link("25000"),)),
    ("link", "note", (physical_link("1000"),)),
    ("link", "warn", (physical_link("100", "half"),)),
    ("link", "warn", (physical_link("-1", "unknown"),)),
    ("link", "fail", (physical_link("25000", operstate="DOWN"),)),
    ("link-errors", "warn", (links(lambda entries: entries[-1]["stats64"]["rx"].update(errors=7)),)),
    ("link-errors", "note", (links(lambda entries: entries[-1]["stats64"]["rx"].update(dropped=7)),)),
    ("link-errors", "warn", (links(lambda entries: entries[-1].pop("stats64")),)),
    ("zfs-module", "ok", (file(ZFS_VERSION, "2.1.5-1ubuntu6~22.04.4"),)),
    ("zfs-module", "ok", (file(ZFS_VERSION, "2.3.99-612_g0123abc"),)),
    ("zfs-module", "note", (file(ZFS_VERSION, "2.5.0-1"),)),
    ("zfs-module", "fail", (file(ZFS_VERSION, "0.8.3-1"),)),
    ("zfs-module", "fail", (file(ZFS_VERSION, None),)),
    ("zfs-userland", "warn", (output("zfs", "zfs-2.2.2-1\nzfs-kmod-2.3.9-0\n"),)),
    ("zfs-userland", "warn", (output("zfs", "", 127, "no such command"),)),
    ("pyzfs", "fail", (output("pyzfs", "", 1, "Traceback\nModuleNotFoundError: libzfs_core"),)),
    ("server-programs", "fail", (program("zdb", None),)),
    ("server-programs", "fail", (program("zpool", None, "/usr/sbin/zpool"),)),
    ("device-programs", "ok",
     tuple(program(name, f"/usr/sbin/{name}") for name in ("nvme", "smartctl", "hdparm", "sdparm", "mdadm"))),
    ("nfsd", "fail", (file(THREADS, "0\n"),)),
    ("nfsd", "fail", (file(THREADS, None),)),
    ("nfsd", "warn", (file(THREADS, {"error": "Permission denied"}),)),
    ("nfsd-threads", "ok", (file(THREADS, "16"),)),
    ("nfsd-threads", "fail", (file(THREADS, "0"),)),
    ("nfs-versions", "fail", (file(VERSIONS, "-3 -4 -4.0 -4.1 -4.2"),)),
    ("nfs-versions", "fail", (file(VERSIONS, None),)),
    ("mountd", "fail", (without("processes", "rpc.mountd"),)),
    ("mountd", "warn", (without("processes", "rpcbind"),)),
    ("exports", "note", (output("exportfs", f"{LONG_EXPORT}\0/srv/a\\040long\\040name 10.0.0.1(sync)\n"),)),
    ("exports", "fail", (output("exportfs", f"{LONG_EXPORT}\0# nothing\n"),)),
    ("exports", "warn", (output("exportfs", LONG_EXPORT),)),
    ("exports", "fail", (output("exportfs", "", 1, "exportfs: could not open /var/lib/nfs/.etab.lock"),)),
    ("bpftrace", "warn", (output("bpftrace", "bpftrace v0.14.0\n"),)),
    ("bpftrace", "warn", (program("bpftrace", None),)),
    ("probes", "warn", (without("symbols", "arc_read"),)),
    ("probes", "warn", (without("present", f"{TRACING}/events/nfsd/nfsd_read_start"),)),
    ("kprobes", "warn", (file(KPROBES, "0"),)),
    ("kprobes", "warn", (without("present", f"{TRACING}/kprobe_events"),)),
    ("btf", "note", (without("present", BTF),)),
    ("lockdown", "ok", (file(LOCKDOWN, "[none] integrity confidentiality"),)),
    ("lockdown", "ok", (file(LOCKDOWN, "none [integrity] confidentiality"),)),
    ("lockdown", "warn", (file(LOCKDOWN, "none integrity [confidentiality]"),)),
    ("pools", "note", (output("pools", "tank\tONLINE\n"), output("marks", "tank\t-\n"))),
    ("pools", "warn", (output("pools", "tank\tSUSPENDED\n"), output("marks", "tank\t-\n"))),
    ("pools", "warn", (output("pools", "hsp-1\tONLINE\n"), output("marks", f"hsp-1\t{RUN[9:]}\n"))),
    ("pools", "warn", (part("command pools", {"error": "zpool did not end within 30 s"}),)),
    ("scrub", "ok", (output("status", STATUS % "scrub repaired 0B in 00:00:01 with 0 errors"),)),
    ("scrub", "warn", (output("status", STATUS % "scrub in progress since Sun Jan  4 00:24:01 2026"),)),
    ("scrub", "warn", (output("status", STATUS % "resilver (draid1) in progress since Sun Jan  4 00:24"),)),
    ("scrub", "warn", (output("status", STATUS % "none" + "\tsda ONLINE  (34% trimmed, started at"),)),
    ("arc", "note", (file("/sys/module/zfs/parameters/zfs_arc_max", "67108864"),)),
    ("arc", "warn", (arc("c_max", 1 << 50),)),
    ("arc", "warn", (memory("MemAvailable", 1000),)),
]  # fmt: skip
CLIENT_CASES: list[tuple[str, str, tuple[Change, ...]]] = [
    ("fio", "warn", (output("fio", "fio-2.21\n"),)),
    ("fio", "fail", (program("fio", None),)),
    ("client-programs", "ok", (program("mount.nfs", None, "/usr/sbin/mount.nfs"),)),
    ("client-programs", "fail", (program("mount.nfs", None),)),
    ("client-programs", "fail", (program("ip", None, "/usr/sbin/ip"),)),
    ("nfs-client", "ok", (file("/proc/filesystems", "nodev\tproc\n\text4\n"), output("nfs-module", ""))),
    ("nfs-client", "fail", (file("/proc/filesystems", "nodev\tproc\n\text4\n"), output("nfs-module", "", 1))),
    (
        "route", "warn",
        (lambda raw: raw["peer"]["route"].update(out='[{"gateway":"10.0.0.1","dev":"eth0"}]'),),
    ),
    (
        "route", "fail",
        (lambda raw: raw["peer"]["route"].update(code=2, out="", err="Network is unreachable"),),
    ),
    ("nfs-port", "fail", (lambda raw: raw["peer"].update(connect={"error": "Connection refused"}),)),
    ("nfs-port", "fail", (part("peer", {"error": "nas: Name or service not known"}),)),
    ("link", "ok", (physical_link("10000"),)),
    # In another network namespace the same name is another interface.
    ("link", "warn", (physical_link("25000"), file(f"{NET}/eth0/ifindex", "99"))),
    ("mtu", "warn", (links(lambda entries: entries[-1].update(mtu=9000)),)),
    ("mtu", "warn", (links(lambda entries: entries[-1].pop("mtu")),)),
]  # fmt: skip


# Not ok in the recorded facts: a guest has no CPU frequencies, and nothing sets a lab's clock.
RECORDED_NOTES = {
    "server": {"time-sync", "mitigations", "governor", "turbo", "c-states", "virtualised", "link",
               "device-programs", "nfsd-threads", "lockdown", "device-sleep", "tune"},
    "client": {"time-sync", "mitigations", "governor", "turbo", "c-states", "virtualised", "link",
               "device-sleep", "tune"},
}  # fmt: skip


def finding_after(role: str, check: str, *changes: Change, **requirements: Any) -> Finding:
    """The finding on a host with changed facts; the other host is as recorded."""
    facts = {role: changed(role, *changes)}
    return finding_of(report(**facts, requirements=Requirements(**requirements)), role, check)


@pytest.mark.parametrize("role", ["server", "client"])
def test_states_of_the_recorded_facts(role: str) -> None:
    states = {finding.check: finding.state for finding in report().findings if finding.host == role}
    assert {check for check, state in states.items() if state == "note"} == RECORDED_NOTES[role]
    assert set(states.values()) == {"ok", "note"}


@pytest.mark.parametrize(
    ("role", "check", "state", "changes"),
    [("server", *case) for case in SERVER_CASES] + [("client", *case) for case in CLIENT_CASES],
)
def test_a_check_with_changed_facts(role: str, check: str, state: str, changes: tuple[Change, ...]) -> None:
    finding = finding_after(role, check, *changes)
    assert finding.state == state, finding


def test_every_check_is_seen_ok_and_not_ok() -> None:
    """Checks that are not in the tables above have tests below, in test_diagnosis and in test_lab."""
    elsewhere = {"reachable", "round-trip", "clock-offset", "fio-alike"}
    elsewhere |= {name for name in CHECKS if name.startswith("lab-")}
    states = {(check, state == "ok") for check, state, _ in SERVER_CASES + CLIENT_CASES}
    states |= {(finding.check, finding.state == "ok") for finding in report().findings}
    assert {(name, ok) for name in CHECKS.keys() - elsewhere for ok in (True, False)} <= states


@pytest.mark.parametrize(
    ("check", "reading", "states"),
    [
        ("round-trip", "round_trip_s", {0.05: "ok", 0.4: "note", 3.0: "warn", None: "warn"}),
        ("clock-offset", "offset_s", {-0.3: "ok", 2.0: "warn", -86400.0: "warn", None: "warn"}),
    ],
)
def test_times_that_this_machine_measures(check: str, reading: str, states: dict[float | None, str]) -> None:
    observed = {value: finding_of(report(**{reading: value}), "server", check).state for value in states}
    assert observed == states


V3_ONLY, V4_ONLY = file(VERSIONS, "+3 -4 -4.0 -4.1 -4.2"), file(VERSIONS, "-3 +4 +4.0 +4.1 +4.2")
ENGINES = "Available IO engines:\n\tpsync\n\t%s\n"
# Role, check, state, requirements, changes of the recorded facts.
REQUIREMENT_CASES: list[tuple[str, str, str, dict[str, Any], tuple[Change, ...]]] = [
    ("server", "nfs-versions", "ok", {"nfs_version": "3"}, (V3_ONLY,)),
    ("server", "nfs-versions", "fail", {"nfs_version": "4.2"}, (V3_ONLY,)),
    ("server", "nfs-versions", "ok", {"nfs_version": "4.0"}, (file(VERSIONS, "-2 +3 +4 +4.1"),)),
    ("server", "nfs-versions", "fail", {"nfs_version": "4.0"}, (file(VERSIONS, "+3 +4 -4.0 +4.1"),)),
    ("server", "nfs-versions", "ok", {"nfs_version": "4.1"}, (V4_ONLY,)),
    ("server", "nfs-versions", "fail", {"nfs_version": "3"}, (V4_ONLY,)),
    ("server", "nfsd-threads", "ok", {"outstanding": 64}, (file(THREADS, "64"),)),
    ("server", "nfsd-threads", "warn", {"outstanding": 64}, (file(THREADS, "63"),)),
    ("server", "nfsd-threads", "fail", {"outstanding": 64}, (file(THREADS, "0"),)),
    ("server", "bpftrace", "note", {"traced": False}, (program("bpftrace", None),)),
    ("server", "probes", "note", {"traced": False}, (without("symbols", "arc_read"),)),
    ("server", "kprobes", "note", {"traced": False}, (file(KPROBES, "0"),)),
    ("server", "mountd", "fail", {"nfs_version": "3"}, (without("processes", "rpcbind"),)),
    ("server", "mountd", "note", {"nfs_version": "4.2"}, (without("processes", "rpcbind"),)),
    ("client", "fio", "ok", {"libnfs": True}, (output("fio-engines", ENGINES % "nfs"),)),
    ("client", "fio", "fail", {"libnfs": True}, (output("fio-engines", ENGINES % "http"),)),
    ("client", "fio", "ok", {"libnfs": False}, (output("fio-engines", ENGINES % "http"),)),
    ("client", "fio", "warn", {"libnfs": True}, (part("command fio-engines", None),)),
    ("client", "client-programs", "ok", {"libnfs": True}, (program("mount.nfs", None),)),
]


@pytest.mark.parametrize(("role", "check", "state", "requirements", "changes"), REQUIREMENT_CASES)
def test_a_check_with_requirements(
    role: str, check: str, state: str, requirements: dict[str, Any], changes: tuple[Change, ...]
) -> None:
    finding = finding_after(role, check, *changes, **requirements)
    assert finding.state == state, finding


def test_facts_read_with_sudo_are_those_of_root() -> None:
    host = gathered(
        "server", changed("server", part("euid", 1000), file(THREADS, {"error": "Permission denied"}))
    )
    assert host.facts is not None
    host = replace(host, facts=replace(host.facts, elsewhere={ROOT_ONLY: "1\n", THREADS: "8\n"}))
    observed = judge([host], Requirements())
    assert {finding_of(observed, "server", check).state for check in ("privilege", "nfsd")} == {"ok"}


@pytest.mark.parametrize(("listed", "state", "text"), [(RUN[9:], "warn", RUN[9:]), ("", "ok", "none")])
def test_runs_that_are_left_are_found_with_the_lines_of_a_client(listed: str, state: str, text: str) -> None:
    raw = changed("client", part("euid", 1000), lambda raw: raw["present"].append("/run/hsp"))
    host = gathered("client", raw)
    assert host.facts is not None
    host = replace(host, facts=replace(host.facts, elsewhere={"/run/hsp": listed}))
    finding = finding_of(judge([host], Requirements()), "client", "leftovers")
    assert (finding.state, finding.observed) == (state, text)


@pytest.mark.parametrize(("free", "state"), [(96 << 20, "ok"), (20 << 20, "warn"), (7 << 20, "fail")])
def test_room_in_run_is_judged_by_what_the_workload_needs(free: int, state: str) -> None:
    space = part("space", {"free_bytes": free})
    finding = finding_after("client", "run-space", space, run_bytes=60 << 20)
    assert finding.state == state and "the workload needs 61 MiB at most" in finding.observed


@pytest.mark.parametrize(
    ("release", "check", "named"),
    [
        ("ID=debian", "zfs-module", "linux-headers-$(uname -r) zfs-dkms zfsutils-linux (first add contrib"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"', "zfs-module", "apt-get install zfsutils-linux."),
        ("ID=raspbian\nID_LIKE=debian", "bpftrace", "There: apt-get install bpftrace."),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"', "bpftrace", "There: dnf install bpftrace."),
        ("ID=gentoo", "bpftrace", ""),
        ("ID=$(reboot)", "bpftrace", ""),
        (None, "bpftrace", ""),
    ],
)
def test_the_packages_are_those_of_the_distribution(release: str | None, check: str, named: str) -> None:
    gone = [file(ZFS_VERSION, None), program("bpftrace", None), file("/etc/os-release", release)]
    finding = finding_after("server", check, *gone)
    assert finding.state != "ok" and finding.remedy.startswith(CHECKS[check].remedy)
    assert named in finding.remedy if named else finding.remedy == CHECKS[check].remedy


def test_what_the_preset_would_change_is_said_with_what_is_not_there() -> None:
    changes = (
        file(POLICY % 0, "powersave"),
        file(POLICY % 1, "powersave"),
        idle(1, "C1", "2"),
        idle(2, "C6", "133"),
    )
    assert finding_after("server", "tune", *changes).observed == (
        "cpufreq/policy*/scaling_governor powersave to performance; "
        "cpu*/cpuidle/state2/disable 0 to 1; no switch for turbo"
    )
    assert finding_after("server", "tune").observed == (
        "it would change nothing; no frequency governor (cpufreq), no switch for turbo, "
        "no idle state that takes more than 10 us to wake from"
    )
