"""Settings of the server: the files of each, what is read, and what a kernel refuses."""

from __future__ import annotations

import re

import pytest

from kit.core.errors import HostError
from kit.hosts import file_settings
from kit.hosts.sudo import elevated
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
