"""Settings of the server: the files of each, what is read, and what a kernel refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.core.errors import HostError
from kit.hosts import file_settings
from kit.hosts.sudo import elevated, local_host
from tests.fakes import Answer, Command, ScriptedHost

THREADS = "/proc/fs/nfsd/threads"
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
SCHEDULER = "/sys/block/nvme0n1/queue/scheduler"
GOVERNOR = "/sys/devices/system/cpu/cpufreq/policy{}/scaling_governor"


class Kernel(ScriptedHost):
    """Takes what is in the brackets' list, as the files of sysfs do."""

    def answer(self, command: Command) -> str:
        if command.argv[0] == "tee":
            path, value = command.argv[1], command.stdin.decode().strip()
            content = self.files[path].decode()
            values = re.findall(r"[\w-]+", content)
            if "[" not in content:
                self.files[path] = command.stdin
            elif value in values:
                listed = " ".join(f"[{each}]" if each == value else each for each in values)
                self.files[path] = listed.encode()
            return ""
        answer = super().answer(command)
        assert isinstance(answer, str)
        return answer


def host() -> Kernel:
    return Kernel(
        {
            "readlink": "/dev/nvme0n1\n",
            "find": f"{GOVERNOR.format(1)}\n{GOVERNOR.format(0)}\n",
        },
        files={
            THREADS: "8\n",
            HUGE_PAGES: "always [madvise] never\n",
            SCHEDULER: "[none] mq-deadline\n",
            GOVERNOR.format(0): "powersave\n",
            GOVERNOR.format(1): "powersave\n",
        },
    )


def test_each_setting_has_its_files() -> None:
    wanted = {
        "nfsd_threads": "16",
        "scheduler": "mq-deadline",
        "governor": "performance",
        "transparent_hugepage": "never",
    }
    server = host()
    found = file_settings.found(server, wanted, ("/dev/disk/by-id/a", "/dev/disk/by-id/a"))
    assert [(each.name, each.path) for each in found] == [
        ("nfsd_threads", THREADS),
        ("scheduler", SCHEDULER),
        ("governor", GOVERNOR.format(0)),
        ("governor", GOVERNOR.format(1)),
        ("transparent_hugepage", HUGE_PAGES),
    ], "a device with two names is one"
    before = [file_settings.read(server, each.path) for each in found]
    assert before == ["8", "none", "powersave", "powersave", "madvise"]
    for each in found:
        file_settings.write(server, file_settings.write_command(each.path, each.value))
    assert [file_settings.read(server, each.path) for each in found] == [each.value for each in found]


def test_the_plan_has_the_same_files_for_devices_by_name() -> None:
    wanted = {"scheduler": "none", "governor": "performance"}
    paths = [each.path for each in file_settings.planned(wanted, ("cache0", "log0"))]
    assert paths == [
        "/sys/block/cache0/queue/scheduler",
        "/sys/block/log0/queue/scheduler",
        GOVERNOR.format(0),
    ]
    assert all(re.match(file_settings.PATH, path) for path in paths), "their undo is a value, too"


def test_a_value_that_the_kernel_refuses_is_an_error_with_those_it_has() -> None:
    with pytest.raises(HostError, match="was set to bfq but is none") as caught:
        file_settings.write(host(), file_settings.write_command(SCHEDULER, "bfq"))
    assert "[none] mq-deadline" in caught.value.hint


def test_what_a_server_does_not_have_is_refused() -> None:
    server = host()
    server.answers["find"] = ""
    with pytest.raises(HostError, match="nothing to set host"):
        file_settings.found(server, {"governor": "performance"}, ())


@pytest.mark.parametrize("content", ["0\n", "", "many words here\n", "-1\n"])
def test_what_could_not_be_restored_is_not_changed(content: str) -> None:
    server = host()
    server.files[THREADS] = content.encode()
    with pytest.raises(HostError, match="not a value that can be restored"):
        file_settings.read(server, THREADS)


# --- A preset ---

CPU = "/sys/devices/system/cpu"
SERVER = {
    f"{CPU}/cpufreq/policy0/scaling_governor": "powersave",
    f"{CPU}/cpufreq/policy0/energy_performance_preference": "balance_power",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/cpufreq/boost": "1",
    f"{CPU}/cpu0/cpuidle/state0/latency": "0",
    f"{CPU}/cpu0/cpuidle/state0/disable": "0",
    f"{CPU}/cpu0/cpuidle/state1/latency": "10",
    f"{CPU}/cpu0/cpuidle/state1/disable": "0",
    f"{CPU}/cpu0/cpuidle/state2/latency": "11",
    f"{CPU}/cpu0/cpuidle/state2/disable": "1",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "a link of a policy",
    "/sys/block/sda/queue/scheduler": "mq-deadline",
}


def values(files: list[file_settings.PresetFile]) -> list[tuple[str, str, str]]:
    return [(each.path.removeprefix(f"{CPU}/"), each.before, each.value) for each in files]


def test_the_preset_is_what_the_host_has_of_it_the_energy_preference_before_the_governor() -> None:
    files = file_settings.latency_preset(SERVER)
    assert values(files) == [
        ("cpufreq/policy0/energy_performance_preference", "balance_power", "performance"),
        ("cpufreq/policy0/scaling_governor", "powersave", "performance"),
        ("intel_pstate/no_turbo", "0", "1"),
        ("cpu0/cpuidle/state2/disable", "1", "1"),
        ("/sys/block/sda/queue/scheduler", "mq-deadline", "none"),
    ]
    assert files[3].of_all == f"{CPU}/cpu*/cpuidle/state2/disable"
    assert file_settings.lacking(files) == ""
    assert all(re.match(file_settings.PRESET_PATH, each.path) for each in files)


def test_what_a_host_does_not_have_is_left_out_and_named() -> None:
    boost = {f"{CPU}/cpufreq/boost": "1"}
    files = file_settings.latency_preset(boost)
    assert values(files) == [("cpufreq/boost", "1", "0")]
    assert file_settings.lacking(files) == (
        "no frequency governor (cpufreq), no idle state that takes more than 10 us to wake from"
    )
    # What the workload sets itself is neither set nor missed.
    assert file_settings.latency_preset(SERVER, {"governor", "scheduler"})[1].name == "turbo"
    assert "governor" not in file_settings.lacking(files, {"governor"})


def test_a_cpu_keeps_a_state_that_is_no_busy_loop() -> None:
    """Of 0, 40 and 133 us it keeps 40; where nothing takes a time, nothing is disabled."""
    of = lambda *latencies: {  # noqa: E731
        f"{CPU}/cpu7/cpuidle/state{n}/{name}": text
        for n, us in enumerate(latencies)
        for name, text in (("latency", us), ("disable", "0"))
    }
    paths = [each.path for each in file_settings.latency_preset(of("0", "40", "133"))]
    assert paths == [f"{CPU}/cpu7/cpuidle/state2/disable"]
    assert file_settings.latency_preset(of("0", "0")) == []


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (f"{CPU}/cpu0/cpuidle/state2/latency", "-1"),
        (f"{CPU}/cpu0/cpuidle/state2/disable", ""),
        (f"{CPU}/cpufreq/policy0/scaling_governor", "two words"),
        ("/sys/block/sda/queue/scheduler", "x\x1b[2J"),
    ],
)
def test_a_value_of_which_nobody_knows_the_way_back_is_refused(path: str, content: str) -> None:
    with pytest.raises(HostError, match=re.escape(path)) as caught:
        file_settings.latency_preset({**SERVER, path: content})
    assert "\x1b" not in caught.value.message


def test_of_this_machine_the_preset_is_read_as_it_is() -> None:
    """Nothing is set: what grep finds is what the files have."""
    here = local_host()
    found = file_settings.read_preset(here, ())
    assert found == {path: Path(path).read_text().strip() for path in found}
    listed = [*Path(CPU).glob("cpu*/cpuidle/state*/latency"), *Path(CPU).glob("cpufreq/*/scaling_governor")]
    assert set(map(str, listed)) <= set(found)
    file_settings.check_preset(here, {each.path: each.before for each in file_settings.latency_preset(found)})


# --- Settings that are read and set by commands of the user's ---

SHOW = "Array A\n   HP SSD Smart Path: enable\n   Status: OK\n"


def smartpath(value: str = "") -> file_settings.CommandSetting:
    set_to = ("ssacli", "modify", f"ssdsmartpath={value}") if value else ()
    return file_settings.CommandSetting(
        "setting.smartpath", ("ssacli", "show"), r"Smart Path: (\w+)", set_to, value
    )


def test_the_users_command_is_run_as_the_user_and_a_pattern_takes_its_value() -> None:
    machine = ScriptedHost({"env": SHOW})
    assert smartpath().read(machine) == "enable"
    assert (
        elevated(machine.calls[0])
        == machine.calls[0]
        == ("env", "LC_ALL=C.UTF-8", "HSP_COMMANDS=", "ssacli", "show")
    )


def test_without_a_pattern_it_is_all_that_is_printed() -> None:
    whole = file_settings.CommandSetting("setting.x", ("sysctl", "-n", "vm.swappiness"))
    assert whole.read(ScriptedHost({"env": "60\n"})) == "60"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Status: OK\n", "does not print a value of setting.smartpath: 'Status: OK'"),
        ("", "does not print a value of setting.smartpath: ''"),
        ("A: OK\nB: OK\n", "does not print a value of setting.smartpath: 2 lines, first 'A: OK'"),
        # Of two arrays: which is set?
        (
            f"{SHOW}{SHOW.replace('enable', 'disable')}",
            "prints several values of setting.smartpath: enable, disable",
        ),
        ((1, "", "no controller\x1b[2J"), "ended with 1: no controller"),
        ((127, "", "env: ssacli: No such file or directory"), "ended with 127: env: ssacli: No such file"),
    ],
)
def test_a_setting_that_cannot_be_read(answer: Answer, text: str) -> None:
    with pytest.raises(HostError, match=re.escape(text)) as caught:
        smartpath().read(ScriptedHost({"env": answer}))
    assert "\x1b" not in caught.value.message


def test_what_was_set_must_read_back() -> None:
    def control(command: Command) -> str:
        return "ok\n" if "modify" in command.argv else SHOW

    assert file_settings.set_own(ScriptedHost({"env": control}), smartpath("enable")) == "enable"
    with pytest.raises(HostError, match=r"setting\.smartpath was set to disable but is enable") as caught:
        file_settings.set_own(ScriptedHost({"env": control}), smartpath("disable"))
    assert caught.value.hint == "`ssacli modify ssdsmartpath=disable` ended with 0: ok"
