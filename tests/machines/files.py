"""Files and processes of a machine, and the shell: `answer` finds the method `_do_PROGRAM`.

A command that is not known is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from kit.core.errors import HostError
from kit.hosts.base import DEFAULT_DEADLINE_S, OUTPUT_LIMIT_BYTES, CommandResult, checked_argv
from kit.hosts.local import MARK
from kit.nfs import unlisted_exports
from kit.zfs.tunables import EFFECTS
from tests.fakes import Answer, Command, ScriptedHost, ScriptedProcess
from tests.machines.inventory import ARRAY
from tests.machines.world import Machine, Running, Tree, Wire

PARAMETERS = "/sys/module/zfs/parameters"
BOOT_ID = "00000000-0000-0000-0000-00000000000{}"
_MISSING = (1, "", "No such file or directory")
# Commands that change nothing here.
_CONSTANT = {
    **dict.fromkeys(("sleep", "true", "chmod", "udevadm", "modprobe"), ""),
    "uname": "6.1.0\n", "id": "0\n", "head": "now at 1000 nsecs\n", "df": "avail\n1000000000000\n",
    "dpkg-query": "1.0",
}  # fmt: skip
_VERSIONS = {
    "fio": "fio-3.39\n", "zfs": "zfs-2.3.4-1\nzfs-kmod-2.3.4-1\n", "mdadm": "mdadm - v4.3\n",
    "bpftrace": "bpftrace v0.23.2\n",
}  # fmt: skip


class StatefulProcess(ScriptedProcess):
    def __init__(self, host: FileHost, pid: int, result: CommandResult) -> None:
        super().__init__(result)
        self._host, self._pid = host, pid

    def running(self) -> bool:
        return self._host.key not in self._host.wire.lost and self._pid in self._host.machine.processes

    def wait(self, deadline_s: float) -> CommandResult:
        return self.stop(deadline_s)

    def stop(self, deadline_s: float, signal: str = "INT") -> CommandResult:
        def end() -> Answer:
            gone = self._host.machine.processes.pop(self._pid, None)
            for name in gone.holds if gone else ():
                self._host.machine.tree.pop(name, None)
            return ""

        self._host.wire.carry(self._host.key, f"stop {self.argv[0]}", end)
        return self.result


class FileHost(ScriptedHost):
    """A connection to one machine of the world."""

    def __init__(self, wire: Wire, name: str) -> None:
        super().__init__({}, name=name)
        self.wire, self.key, self._stdin, self._home = wire, name, "", ""

    @property
    def machine(self) -> Machine:
        return self.wire.world.machines[self.key]

    def answer(self, command: Command) -> Answer:
        text = f"{self.name}: {' '.join(command.argv)[:150]}"
        return self.wire.carry(self.key, text, lambda: self._act(command.argv, command.stdin))

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> ScriptedProcess:
        words = checked_argv(argv)
        started: list[ScriptedProcess] = []

        def begin() -> Answer:
            started.append(self._start(words))
            return ""

        self.wire.carry(self.key, f"{self.name}: start {words[0]}", begin)
        return started[0]

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        def write() -> Answer:
            tree, place = self._place(path)
            tree[place] = content.decode()
            return ""

        self.wire.carry(self.key, f"{self.name}: put {path}", write)

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        content = self._content(path)
        if content is None:
            raise HostError(f"on {self.name}: cannot read {path}")
        return content.encode()

    # --- Files, and processes ---

    def _place(self, path: str) -> tuple[Tree, str]:
        """The files that a path leads to, through a mount too."""
        for source, target, _ in reversed(self.machine.mounts):
            if path == target or path.startswith(f"{target}/"):
                address, _, below = source.partition(":/")
                server = self.wire.world.addresses.get(address)
                rest = path.removeprefix(target)
                if server:
                    return self.wire.world.machines[server].tree, f"/{below}{rest}"
                return self.wire.world.shares[source], rest or "/"
        return self.machine.tree, path

    def _there(self, path: str) -> bool:
        tree, place = self._place(path)
        return place in tree

    def _content(self, path: str) -> str | None:
        machine = self.machine
        made = {
            "/proc/sys/kernel/random/boot_id": f"{BOOT_ID.format(machine.boot)}\n",
            "/etc/machine-id": f"{machine.machine_id}\n",
            "/proc/mounts": "".join(f"{s} {t} nfs {o} 0 0\n" for s, t, o in machine.mounts),
            "/proc/spl/kstat/zfs/arcstats": "".join(
                f"{EFFECTS[name]} 4 {value}\n" for name, value in machine.effects.items()
            ),
            "/proc/net/rpc/nfsd.export/content": "".join(f"{path} c\n" for path in machine.held),
            "/proc/net/rpc/nfsd.fh/content": "",
            "/proc/self/mountinfo": "",
        }  # fmt: skip
        if machine.array:
            made |= {f"/sys/block/{ARRAY}/dev": "9:127\n", f"/sys/block/{ARRAY}/size": "2048\n"}
            made |= {f"/sys/block/{ARRAY}/md/sync_action": "idle\n"}
        if path.endswith("/queue/write_cache"):
            return "write back\n"
        if path in made:
            return made[path]
        tree, place = self._place(path)
        return tree.get(place)

    def _run_process(
        self, argv: tuple[str, ...], *, with_connection: bool = True, holds: tuple[str, ...] = ()
    ) -> int:
        self.wire.world.last_pid += 1
        self.machine.processes[self.wire.world.last_pid] = Running(argv[:3], with_connection, holds)
        return self.wire.world.last_pid

    def _start(self, argv: tuple[str, ...]) -> ScriptedProcess:
        done = CommandResult(self.name, argv, 0, "", "")
        if argv[1:3] == ("-I", "-c"):
            return self._start_lock(argv)
        if "bpftrace" in argv:
            words = argv[argv.index("bpftrace") :]
            output, hold, program = words[4], words[6], words[7]
            # Its shell may go on without the connection.
            pid = self._run_process(("bpftrace", program), with_connection=False)
            self.wire.middle("start bpftrace")
            for path in (output, argv[4], hold.split()[-1]):
                self.machine.tree[path] = str(pid)
            return StatefulProcess(self, pid, done)
        if argv[:2] == ("sh", "-c"):
            assert argv[2].startswith("until test -e"), argv
            return ScriptedProcess(done)
        return StatefulProcess(self, self._run_process(argv), done)

    def _start_lock(self, argv: tuple[str, ...]) -> ScriptedProcess:
        directory, token, _, *names = argv[4:]
        for each in self.machine.processes.values():
            if held := set(names) & set(each.holds):
                said = json.dumps({"name": held.pop(), "owner": "busy"})
                return ScriptedProcess(CommandResult(self.name, argv, 3, said, ""))
        ready = f"{directory}/{token}"
        pid = self._run_process(("lock", *names), holds=(*names, ready))
        self.machine.tree[ready] = str(pid)
        return StatefulProcess(self, pid, CommandResult(self.name, argv, 0, "", ""))

    # --- Commands ---

    def _act(self, argv: tuple[str, ...], stdin: bytes = b"") -> Answer:
        program = argv[0].rpartition("/")[2]
        if program in _CONSTANT:
            return _CONSTANT[program]
        if argv[1:] in (("--version",), ("version",)):
            return _VERSIONS[program]
        act = getattr(self, f"_do_{program}", None)
        assert act is not None, f"the model does not know {argv}"
        self._stdin = stdin.decode()
        answer: Answer = act(list(argv[1:]))
        return answer

    def _do_cat(self, words: list[str]) -> Answer:
        contents = [self._content(path) for path in words if path != "--"]
        if None in contents:
            return _MISSING
        return "".join(each or "" for each in contents)

    def _do_tee(self, words: list[str]) -> Answer:
        if words[1:]:
            for each in words:
                self._do_tee([each])
                self.wire.middle(f"tee {each}")
            return ""
        (path,) = words
        machine, value = self.machine, self._stdin.strip()
        name = path.removeprefix(f"{PARAMETERS}/")
        if name in EFFECTS and value != "0":
            machine.effects[name] = value
        if path == "/proc/fs/nfsd/threads" and value == "0":
            machine.listeners = []
        if path.endswith(("device/rescan", "safe_mode_delay")):
            return ""
        self._place(path)[0][self._place(path)[1]] = self._stdin if "token" in path else f"{value}\n"
        return ""

    def _do_grep(self, words: list[str]) -> Answer:
        if words[-1] == "/proc/kallsyms":
            names = re.findall(r"\((\w[^()]*)\)\(", words[-2])[0].split("|")
            return "".join(f"0 t {name}\n" for name in names)
        paths = [word for word in words if word.startswith("/")]
        names = [word.removeprefix("--include=") for word in words if word.startswith("--include=")]
        found = [
            f"{path}:{text}"
            for path, text in self.machine.tree.items()
            if not names or path.rpartition("/")[2] in names
            if text is not None and any(path == each or path.startswith(f"{each}/") for each in paths)
        ]
        return "".join(found)

    def _do_install(self, words: list[str]) -> Answer:
        tree, place = self._place(words[-1])
        tree[place] = None if "-d" in words else ""
        return ""

    def _do_mkdir(self, words: list[str]) -> Answer:
        tree, place = self._place(words[-1])
        if place in tree and "-p" not in words:
            return 1, "", "File exists"
        tree[place] = None
        return ""

    def _do_touch(self, words: list[str]) -> Answer:
        self.machine.tree[words[-1]] = ""
        return ""

    def _do_rmdir(self, words: list[str]) -> Answer:
        path = words[-1]
        tree, place = self._place(path)
        if place not in tree:
            return _MISSING
        if any(each.startswith(f"{place}/") for each in tree) or any(
            path == t for _, t, _ in self.machine.mounts
        ):
            return 1, "", "Directory not empty"
        del tree[place]
        return ""

    def _do_rm(self, words: list[str]) -> Answer:
        paths = [word for word in words if word.startswith("/")]
        for path in paths:
            tree, place = self._place(path)
            if "-r" not in words:
                tree.pop(place, None)
                continue
            if any(pool.mounted and pool.mount_root.startswith(path) for pool in self.machine.pools.values()):
                return 1, "", "Device or resource busy"
            gone = sorted(
                (each for each in tree if each == place or each.startswith(f"{place}/")), reverse=True
            )
            for each in gone:
                del tree[each]
                self.wire.middle(f"rm {each}")
        return ""

    def _do_find(self, words: list[str]) -> Answer:
        if words[0] == "-P":
            return self._find_access(words)
        place = words[0]
        if place.endswith("/holders"):
            disk = next(
                path for path, disk in self.machine.disks.items() if disk.kernel_name == place.split("/")[-2]
            )
            array = self.machine.array
            return f"{ARRAY}\n" if array and disk in array[2] else ""
        if "-name" in words:
            found = [path for path in self.machine.tree if path.startswith(f"{place}/")]
            return "".join(f"{path}\n" for path in found if path.endswith(f"/{words[-1]}"))
        if not self._there(place):
            return _MISSING
        below = [path.removeprefix(f"{place}/") for path in self.machine.tree if path.startswith(f"{place}/")]
        if "%f\\n" in words:
            return "".join(f"{name}\n" for name in below if "/" not in name)
        # Of a run's directory: anything but an empty token.
        return "".join(f"{n}\n" for n in below if n != "token" or self.machine.tree[f"{place}/{n}"])

    def _find_access(self, words: list[str]) -> Answer:
        paths = [word for word in words if word.startswith("/")]
        if "-type" in words:
            # Nobody has put a link there.
            return ""
        return "".join(
            f"{'d 1777' if self._content(path) is None else 'f 666'} 1 rw\n"
            for path in paths
            if self._there(path)
        )

    def _do_test(self, words: list[str]) -> Answer:
        path = words[1]
        if path.startswith("/sys/kernel/tracing"):
            return 0
        there = self.machine.has_node(path) if self.machine.disk(path) else self._there(path)
        return 0 if there else 1

    def _do_stat(self, words: list[str]) -> Answer:
        content = self._content(words[-1])
        return _MISSING if content is None else f"{content}\n"

    def _do_readlink(self, words: list[str]) -> Answer:
        path = words[-1]
        if path.startswith("/dev/md/"):
            return f"/dev/{ARRAY}\n"
        return f"/dev/{self.machine.disks[path].kernel_name}\n" if path in self.machine.disks else f"{path}\n"

    def _do_kill(self, words: list[str]) -> Answer:
        return 0 if self.machine.processes.pop(int(words[-1]), None) else 1

    def _do_ps(self, words: list[str]) -> Answer:
        started = self.machine.nfsd
        return f"  {started + 800} Thu Nov 26 12:00:{started:02} 2026\n" if self.machine.listeners else ""

    def _do_env(self, words: list[str]) -> Answer:
        own = [word for word in words if not re.match("(LC_ALL|TZ)=", word) and word != f"{MARK}="]
        if own[:2] == ["sh", "-c"] and own[2].startswith("command -v"):
            return 0
        return self._act(tuple(own), self._stdin.encode())

    def _do_sh(self, words: list[str]) -> Answer:
        script, rest = words[1], words[3:]
        if script.startswith("cd / || exit"):
            return self._act(tuple(rest), self._stdin.encode())
        if script.startswith("file=$1"):
            return self._act(tuple(rest[1:]))
        if script.startswith("HOME=$1"):
            self._home = rest[0]
            return self._act(tuple(rest[1:]))
        if script == unlisted_exports.READ[2]:
            # Files have the exports of others.
            return "\0"
        assert script.startswith("found()"), script
        for pid, each in list(self.machine.processes.items()):
            if each.argv[:2] == ("bpftrace", f"{rest[0]}/nfsd.bt"):
                del self.machine.processes[pid]
        return 0

    def _do_fio(self, words: list[str]) -> Answer:
        options = dict(word[2:].split("=", 1) for word in words if "=" in word)
        path = "/".join(filter(None, (options.get("directory"), options["filename"])))
        if not path.startswith("/dev/"):
            tree, place = self._place(path)
            tree[place] = "0"
            self.wire.middle(f"fio on {path}")
            tree[place] = options["size"]
        return {"jobs": [{"jobname": "fill", "error": 0}]}

    def _do_ctl(self, words: list[str]) -> Answer:
        """The user's program: `show NAME`, `set NAME=VALUE`. Setting `a` to on sets `b` to off."""
        name, _, value = words[1].partition("=")
        if words[0] == "set":
            self.machine.settings[name] = value
            self.wire.middle(" ".join(words))
            if (name, value) == ("a", "on"):
                self.machine.settings["b"] = "off"
        return f"{self.machine.settings[name]}\n"
