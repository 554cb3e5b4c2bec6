"""Checks of every host: clock, CPUs, memory, other activity. Pure.

Sources: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/hw-vuln,
pm/cpufreq.rst, pm/cpuidle.rst; proc(5); adjtimex(2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kit.core.errors import HostError
from kit.doctor import packages
from kit.doctor.facts import Unknown
from kit.doctor.finding import Examination, ExaminedHost, State, Verdict
from kit.hosts import latency_preset
from kit.recovery import work_directory
from kit.run.watch import FLOOR_THERE_BYTES

CPU = "/sys/devices/system/cpu"
ASPM = "/sys/module/pcie_aspm/parameters/policy"
APST = "/sys/module/nvme_core/parameters/default_ps_max_latency_us"
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
# A file that only root can read on every kernel; its content (a process id) is harmless.
ROOT_ONLY = "/proc/sys/kernel/cad_pid"
RUN_ROOT = work_directory.ROOT
FILES = (
    ASPM, APST, CLOCK_SOURCE, ROOT_ONLY,
    f"{CPU}/vulnerabilities/*", f"{CPU}/cpufreq/policy*/scaling_governor",
    f"{CPU}/cpufreq/policy*/energy_performance_preference",
    f"{CPU}/cpufreq/boost", f"{CPU}/intel_pstate/no_turbo", f"{CPU}/cpuidle/current_driver",
    f"{CPU}/cpu0/cpuidle/state*/name", f"{CPU}/cpu0/cpuidle/state*/latency",
    f"{CPU}/cpu0/cpuidle/state*/disable", f"{CPU}/smt/active", "/sys/devices/system/node/online",
    packages.OS_RELEASE, "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/meminfo",
)  # fmt: skip
PRESENT = ("/run", RUN_ROOT, f"{RUN_ROOT}/*")
COMMANDS = {"detect-virt": ("systemd-detect-virt",), "irqbalance": ("pgrep", "-x", "irqbalance")}

_FAST_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
_SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen")
_UNSYNCHRONISED = 0x40  # STA_UNSYNC
_STEP_NS = 10_000_000
_OFFSET_S = 1.0
_SLOW_TRIP_S, _VERY_SLOW_TRIP_S = 0.2, 1.0
_DEEP_US = 50
_STEAL_SHARE = 0.01
_BUSY_SHARE = 0.5
_MIN_RUN_BYTES, _ENOUGH_RUN_BYTES = 64 << 20, 512 << 20
_NOT_REPORTED = "not reported by the kernel"
_WORD = "[a-z_-]{1,40}"
_RANGES = "[0-9]{1,4}([-,][0-9]{1,4})*"
_RUN = re.compile(rf"{RUN_ROOT}/[0-9]{{8}}T[0-9]{{6}}Z-[0-9a-f]{{6}}")


def _system(subject: ExaminedHost) -> Verdict:
    system = subject.facts.part("system")
    name, release = str(system.get("name")), str(system.get("release"))
    if not re.fullmatch(r"[A-Za-z]{1,30}", name):
        raise Unknown(f"invalid kernel name {name[:60]!r}")
    return "ok" if name == "Linux" else "fail", f"{name} {release}"


def _privilege(subject: ExaminedHost) -> Verdict:
    user, refused = int(subject.facts.number("euid")), subject.facts.refused
    if refused:
        return "fail", f"sudo does not run these programs without a password: {', '.join(refused)}"
    if user == 0:
        return "ok", "root"
    if ROOT_ONLY in subject.facts.elsewhere:
        return "ok", f"user id {user}, root through sudo"
    return "fail", f"commands run as user id {user}"


def _round_trip(subject: ExaminedHost) -> Verdict:
    trip_s = subject.round_trip_s
    if trip_s is None:
        raise Unknown("no command returned")
    state: State = "ok" if trip_s < _SLOW_TRIP_S else "note" if trip_s < _VERY_SLOW_TRIP_S else "warn"
    return state, f"{trip_s * 1e3:.0f} ms per command"


def _clock_source(subject: ExaminedHost) -> Verdict:
    source = subject.facts.text(CLOCK_SOURCE)
    if source not in _FAST_CLOCKS and source not in _SLOW_CLOCKS:
        raise Unknown(f"unknown clock source {source[:60]!r}")
    return "ok" if source in _FAST_CLOCKS else "warn", source


def _time_sync(subject: ExaminedHost) -> Verdict:
    stepped_ns = int(subject.facts.number("stepped_ns"))
    status = subject.facts.number("time", "status")
    if status != int(status) or status < 0:
        raise Unknown(f"invalid kernel clock status {status}")
    if abs(stepped_ns) > _STEP_NS:
        return "warn", f"it was set by {stepped_ns / 1e6:.0f} ms during the check"
    if int(status) & _UNSYNCHRONISED:
        return "note", "the kernel reports an unsynchronised wall clock"
    return "ok", "synchronised"


def _clock_offset(subject: ExaminedHost) -> Verdict:
    if subject.offset_s is None:
        raise Unknown("the host's answer has no time")
    return "ok" if abs(subject.offset_s) <= _OFFSET_S else "warn", f"{subject.offset_s * 1e3:+.0f} ms"


def _mitigations(subject: ExaminedHost) -> Verdict:
    directory = f"{CPU}/vulnerabilities/"
    on, off, unknown = [], [], []
    paths = subject.facts.paths(re.escape(directory) + r"[^/]+")
    for path in paths:
        text, name = subject.facts.text(path), path.removeprefix(directory)
        if "Mitigation:" in text:
            on.append(name)
        elif "ulnerable" in text:
            off.append(name)
        elif not text.startswith("Not affected"):
            unknown.append(name)
    if not paths:
        raise Unknown("the kernel does not report vulnerabilities")
    if unknown:
        raise Unknown(f"unknown status of {', '.join(unknown)}")
    lists = [f"{name}: {', '.join(names)}" for name, names in (("on", on), ("vulnerable", off)) if names]
    return ("note", "; ".join(lists)) if lists else ("ok", "this CPU needs none")


def _governor(subject: ExaminedHost) -> Verdict:
    paths = subject.facts.paths(re.escape(CPU) + r"/cpufreq/policy[0-9]+/scaling_governor")
    governors = [subject.facts.text(path, _WORD) for path in paths]
    slow = [name for name in governors if name != "performance"]
    if not governors:
        return "note", "no cpufreq driver: firmware or hypervisor sets the frequency"
    if slow:
        return "warn", f"{', '.join(sorted(set(slow)))} on {len(slow)} of {len(governors)} policies"
    return "ok", f"performance on all {len(governors)} policies"


def _switch(subject: ExaminedHost, off_by_path: Mapping[str, str]) -> Verdict:
    """The switch in the first file that exists; `off_by_path`: its value for off, 0 or 1."""
    for path, off in off_by_path.items():
        value = subject.facts.optional(path, "[01]")
        if value is not None:
            return ("ok", "off") if value == off else ("note", "on")
    return "note", _NOT_REPORTED


def _turbo(subject: ExaminedHost) -> Verdict:
    return _switch(subject, {f"{CPU}/intel_pstate/no_turbo": "1", f"{CPU}/cpufreq/boost": "0"})


def _c_states(subject: ExaminedHost) -> Verdict:
    facts, allowed = subject.facts, {}
    for path in facts.paths(re.escape(CPU) + r"/cpu0/cpuidle/state[0-9]+/latency"):
        state = path.rpartition("/")[0]
        if (facts.optional(f"{state}/disable") or "0") == "0":
            allowed[facts.integer(path)] = facts.text(f"{state}/name")
    if not allowed:
        driver = facts.optional(f"{CPU}/cpuidle/current_driver") or "none"
        return "note", f"{_NOT_REPORTED} (driver: {driver})"
    deepest_us = max(allowed)
    if deepest_us < 0:
        raise Unknown(f"invalid exit latency {deepest_us} us")
    severity: State = (
        "ok" if deepest_us <= latency_preset.SHALLOW_US else "note" if deepest_us < _DEEP_US else "warn"
    )
    return severity, f"{allowed[deepest_us]}, {deepest_us} us to wake"


def _tune(subject: ExaminedHost) -> Verdict:
    """As a run would find it; of the first CPU's idle states, which others have, too."""
    facts = subject.facts
    paths = facts.paths(re.escape(CPU) + "/(cpufreq|intel_pstate|cpu0)/.*")
    texts = {path: facts.optional(path) for path in paths}
    try:
        files = latency_preset.files_to_set({path: text for path, text in texts.items() if text})
    except HostError as error:
        raise Unknown(error.message) from None
    changes = dict.fromkeys(
        f"{each.of_all.removeprefix(CPU + '/')} {each.before} to {each.value}"
        for each in files
        if each.before != each.value
    )
    missing = latency_preset.lacking(files)
    said = "; ".join(["; ".join(changes) or "it would change nothing", *([missing] if missing else [])])
    return "ok" if files and not changes else "note", said


def _irqbalance(subject: ExaminedHost) -> Verdict:
    code = subject.facts.command("irqbalance").code
    if code not in (0, 1):
        raise Unknown(f"pgrep ended with {code}")
    return ("ok", "does not run") if code else ("note", "runs")


def _device_sleep(subject: ExaminedHost) -> Verdict:
    policy = (subject.facts.optional(ASPM) or "").partition("[")[2].partition("]")[0] or "not reported"
    apst_us = int(subject.facts.optional(APST, "-?[0-9]{1,18}") or 0)
    text = f"ASPM {policy}, APST {f'up to {apst_us} us to wake' if apst_us > 0 else 'off'}"
    if policy.startswith("power"):
        return "warn", text
    return "ok" if policy == "performance" and apst_us <= 0 else "note", text


def _smt(subject: ExaminedHost) -> Verdict:
    return _switch(subject, {f"{CPU}/smt/active": "0"})


def _numa(subject: ExaminedHost) -> Verdict:
    nodes = subject.facts.optional("/sys/devices/system/node/online", _RANGES)
    if nodes is None:
        return "note", _NOT_REPORTED
    return ("ok", "one node") if nodes == "0" else ("note", f"nodes {nodes}")


def _virtualised(subject: ExaminedHost) -> Verdict:
    try:
        kind = subject.facts.command("detect-virt").out.strip()
    except Unknown:
        kind = ""
    if not re.fullmatch(_WORD, kind):
        flags = re.search(r"^flags\s*:(.*)$", subject.facts.text("/proc/cpuinfo"), re.MULTILINE)
        if not flags or "fpu" not in flags[1].split():
            raise Unknown("no answer from systemd-detect-virt, no flags in /proc/cpuinfo")
        kind = "a hypervisor" if "hypervisor" in flags[1].split() else "none"
    return ("ok", "no") if kind == "none" else ("note", kind)


def _steal(subject: ExaminedHost) -> Verdict:
    line = re.match(r"cpu((?: +[0-9]{1,18}){8,10})$", subject.facts.text("/proc/stat").partition("\n")[0])
    if not line:
        raise Unknown("/proc/stat has no line cpu")
    ticks = [int(word) for word in line[1].split()]
    # user nice system idle iowait irq softirq steal; user and nice include guests.
    share = ticks[7] / max(1, sum(ticks[:8]))
    return "ok" if share <= _STEAL_SHARE else "warn", f"{share * 100:.2g} %"


def _load(subject: ExaminedHost) -> Verdict:
    text = subject.facts.text("/proc/loadavg")
    cpus = subject.facts.number("system", "cpus")
    match = re.fullmatch(r"([0-9]{1,9}\.[0-9]{2}) [0-9.]+ [0-9.]+ [0-9]+/[0-9]+ [0-9]+", text)
    if not match or cpus < 1:
        raise Unknown("/proc/loadavg is not a list of load averages")
    return "ok" if float(match[1]) <= _BUSY_SHARE * cpus else "warn", f"{match[1]} on {cpus:g} CPUs"


def memory_kib(subject: ExaminedHost, name: str) -> int:
    """A value of /proc/meminfo, in KiB."""
    match = re.search(rf"^{name}: +([0-9]{{1,18}}) kB$", subject.facts.text("/proc/meminfo"), re.MULTILINE)
    if not match:
        raise Unknown(f"no {name} in /proc/meminfo")
    return int(match[1])


def _swap(subject: ExaminedHost) -> Verdict:
    used_kib = memory_kib(subject, "SwapTotal") - memory_kib(subject, "SwapFree")
    if used_kib < 0:
        raise Unknown("invalid swap: SwapFree is larger than SwapTotal")
    return ("note", f"{used_kib >> 10} MiB in use") if used_kib else ("ok", "none in use")


def _run_space(subject: ExaminedHost) -> Verdict:
    free_bytes = int(subject.facts.number("space", "free_bytes"))
    if free_bytes < 0:
        raise Unknown(f"invalid free space {free_bytes}")
    enough, least, needed = _ENOUGH_RUN_BYTES, _MIN_RUN_BYTES, subject.requirements.run_bytes
    text = f"{free_bytes >> 20} MiB free"
    if needed is not None:
        enough, least = needed, FLOOR_THERE_BYTES
        text += f"; the workload needs {(needed >> 20) + 1} MiB at most"
    return "ok" if free_bytes >= enough else "warn" if free_bytes >= least else "fail", text


def _leftovers(subject: ExaminedHost) -> Verdict:
    facts = subject.facts
    # Every host has a /run; a list without it is garbled.
    if not facts.present("/run"):
        raise Unknown("there is no /run")
    listed = facts.elsewhere.get(RUN_ROOT)
    runs = sorted(listed.split() if listed else filter(_RUN.fullmatch, facts.names("present")))
    if listed is None and facts.present(RUN_ROOT) and not runs and facts.number("euid") != 0:
        raise Unknown(f"only root can list {RUN_ROOT}")
    names = ", ".join(path.rpartition("/")[2] for path in runs)
    return ("warn", names) if runs else ("ok", "none")


def _python(subject: ExaminedHost) -> Verdict:
    version = str(subject.facts.raw.get("python"))
    match = re.fullmatch(r"([0-9]{1,4})\.([0-9]{1,4})\.[0-9]{1,4}", version)
    if not match:
        raise Unknown("its answer has no version")
    return "fail" if (int(match[1]), int(match[2])) < (3, 7) else "ok", version


EXAMINATIONS: dict[str, Examination] = {
    "python": _python,
    "privilege": _privilege,
    "round-trip": _round_trip,
    "system": _system,
    "clock-source": _clock_source,
    "mitigations": _mitigations,
    "governor": _governor,
    "turbo": _turbo,
    "c-states": _c_states,
    "tune": _tune,
    "irqbalance": _irqbalance,
    "device-sleep": _device_sleep,
    "smt": _smt,
    "numa": _numa,
    "virtualised": _virtualised,
    "steal": _steal,
    "load": _load,
    "swap": _swap,
    "run-space": _run_space,
    "leftovers": _leftovers,
}
WALL_CLOCK: dict[str, Examination] = {"time-sync": _time_sync, "clock-offset": _clock_offset}
"""Checks of hosts whose wall clock shows the real time; a lab's does not."""
