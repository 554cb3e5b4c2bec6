"""kit.hosts.sudo: real sudo, with a user that exists only in sshd's mount namespace."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.config.address import HostAddress
from kit.core.errors import HostError
from kit.hosts import sudo
from kit.hosts.base import CommandFailed, CommandResult, DeadlineExceeded, HostLost, OutputTooLarge
from kit.hosts.connect import connect
from kit.hosts.sudo import CLIENT_PROGRAMS, PRIVILEGED, SERVER_PROGRAMS, SudoHost, SudoRefused, elevated
from kit.hosts.supervision import Supervision
from tests.sudo_lines import documented, foreign, paths, refused

from .conftest import SSHD, Sshd, abort, gone, run_sshd, running, sleeping, until
from .hostile_arguments import check_hostile_arguments
from .test_supervision import STUBBORN

ROOT = Path(__file__).parents[3]
USER, NUMBER = "hsptest", 54321
# The machine's own files stay as they are: only this sshd sees the user.
_HIDE = """
for file in passwd shadow group sudoers.d; do mount --bind "$1/etc/$file" "/etc/$file" || exit 1; done
shift; exec "$@"
"""


@pytest.mark.parametrize(("kind", "programs"), [("server", SERVER_PROGRAMS), ("client", CLIENT_PROGRAMS)])
def test_the_documented_file_lists_what_is_run(kind: str, programs: tuple[str, ...]) -> None:
    listed = [path.rpartition("/")[2] for path in paths(kind)]
    assert sorted(listed) == sorted(programs)
    assert len(set(listed)) == len(listed)


def test_sudo_reads_no_option_of_the_command() -> None:
    assert elevated(["zpool", "-x"]) == ("env", "LC_ALL=C.UTF-8", "sudo", "-n", "--", "zpool", "-x")
    assert elevated(["/usr/sbin/zpool", "list"])[-2:] == ("/usr/sbin/zpool", "list")
    assert elevated(["uname"]) == ("uname",)
    # So a program is run as the user all the same.
    assert elevated(["env", "sh", "-c", "id"]) == ("env", "sh", "-c", "id")


# Programs that need no root, or that no real testbed runs.
ORDINARY = set(
    "df dpkg-query env getent head id ip ln ls mktemp modinfo nsenter readlink setsid sleep stat "
    "systemd-detect-virt tail true udevadm uname".split()
)


def test_every_program_is_classified_as_root_or_user() -> None:
    """The first word of each argv list in the modules that run commands on a testbed: all but the lab's."""
    observed: dict[str, str] = {}
    for module in set((ROOT / "kit").glob("*/*.py")) - set((ROOT / "kit" / "lab").glob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            argv = node.args[0]
            if node.func.attr in ("run", "start") and isinstance(argv, ast.List | ast.Tuple) and argv.elts:
                word = argv.elts[0]
                if isinstance(word, ast.Constant) and isinstance(word.value, str):
                    observed[word.value.rpartition("/")[2]] = module.name
    assert len(observed) > 30
    assert not {word: where for word, where in observed.items() if word not in PRIVILEGED | ORDINARY}


def main_job() -> list[tuple[str, list[str]]]:
    """Each kind of command that a whole main job sent (its raw/commands.jsonl), with the role of its host."""
    lines = (Path(__file__).with_name("data") / "main-job.jsonl").read_text().splitlines()
    return [(role, argv) for role, argv in map(json.loads, lines)]


def test_the_documented_lines_are_enough_for_a_main_job_and_it_changes_nothing_of_others() -> None:
    sent = main_job()
    assert {argv[0] for _, argv in sent} > {"bpftrace", "dd", "exportfs", "fio", "mount", "zpool"}
    assert [why for role, argv in sent if (why := refused(role, argv) or foreign(argv))] == []


@pytest.mark.parametrize(
    ("role", "argv", "why"),
    [
        ("server", ["tail", "/run/hsp/20000101T000000Z-000000/x"], "is root's"),
        ("server", ["fdisk", "/dev/sda"], "is root's"),
        ("client", ["sh", "-c", "true"], "not in the lines for a client"),
        ("server", ["/opt/bin/zpool", "list"], "not in the lines for a server"),
        ("server", ["zpool", "destroy", "tank"], "zpool destroy tank"),
        ("server", ["exportfs", "-u", "c0:/srv"], "c0:/srv"),
        ("server", ["tee", "/etc/exports.d/x.exports"], "/etc/exports.d"),
    ],
)  # fmt: skip
def test_what_the_lines_would_not_allow_is_seen(role: str, argv: list[str], why: str) -> None:
    assert why in f"{refused(role, argv)} {foreign(argv)}"


# ---- a real sudo ----


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    if os.getuid() != 0:
        pytest.skip("needs root: an ordinary user with sudo is made, in a namespace")
    if not SSHD or not shutil.which("sudo"):
        pytest.fail(
            "sudo and sshd are needed (apt-get install sudo openssh-server); ./hsp test installs them"
        )
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here, as in some containers")
    # Not below pytest's own directory, which is closed to other users.
    with tempfile.TemporaryDirectory(prefix="hsp-test-", dir="/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "home").mkdir()
        os.chown(directory / "home", NUMBER, NUMBER)
        etc = directory / "etc"
        (etc / "sudoers.d").mkdir(parents=True)
        for file, line in (
            ("passwd", f"{USER}:x:{NUMBER}:{NUMBER}::{directory / 'home'}:/bin/sh\n"),
            ("shadow", f"{USER}:*:19000:0:99999:7:::\n"),
            ("group", f"{USER}:x:{NUMBER}:\n"),
        ):
            shutil.copy(f"/etc/{file}", etc / file)
            with (etc / file).open("a") as copy:
                copy.write(line)
        allow(directory)
        hide = ("unshare", "-m", "sh", "-c", _HIDE, "sh", name)
        with run_sshd(directory, prefix=hide, user=USER) as running_sshd:
            yield running_sshd


def allow(directory: Path, text: str | None = None) -> None:
    """What the user may do from now on; the documented lines by default."""
    file = directory / "etc" / "sudoers.d" / "hsp"
    lines = documented("server").replace("hsp ALL", f"{USER} ALL") if text is None else text
    file.write_text(lines)
    file.chmod(0o440)
    subprocess.run(["visudo", "-cf", str(file)], check=True, capture_output=True)


@pytest.fixture
def host(server: Sshd, tmp_path: Path) -> Iterator[SudoHost]:
    config = server.config(tmp_path, alias="127.0.0.1")
    address, supervision = HostAddress("ssh", "127.0.0.1"), Supervision(grace_s=1)
    with connect(address, config_path=config, supervision=supervision) as opened:
        assert isinstance(opened, SudoHost)
        yield opened
    allow(server.directory)


def test_only_listed_programs_run_as_root(host: SudoHost) -> None:
    assert host.run(["sh", "-c", "id -u"]).stdout == "0\n"
    assert host.run(["id", "-u"]).stdout == f"{NUMBER}\n"
    result = host.run(["sh", "-c", "cat; echo e >&2; exit 7"], stdin=b"a", check=False)
    assert (result.returncode, result.stdout, result.stderr) == (7, "a", "e\n")
    assert result.argv[0] == "sh"
    assert host.run(["sh", "-c", "kill -9 $$"], check=False).returncode == -9
    with pytest.raises(CommandFailed) as caught:
        host.run(["sg_format"])
    assert caught.value.result.returncode == 127


def test_too_much_output_of_root_is_refused(host: SudoHost) -> None:
    with pytest.raises(OutputTooLarge, match="ended with 0"):
        host.run(["sh", "-c", "head -c 20000000 /dev/zero"])
    with pytest.raises(OutputTooLarge, match=r"cat -- /dev/zero"):
        host.get("/dev/zero")


def test_files_of_root(host: SudoHost, server: Sshd) -> None:
    closed = server.directory / "closed"
    closed.mkdir(mode=0o700, exist_ok=True)
    path = str(closed / "-a 'file'")
    host.put(b"\xff\0secret", path)
    observed = os.stat(path)
    assert (observed.st_uid, observed.st_mode & 0o777) == (0, 0o600)
    assert host.get(path) == b"\xff\0secret"
    host.put(b"shorter", path)
    assert host.get(path) == b"shorter"
    with pytest.raises(HostError, match="cannot read"):
        host.inner.get(path)
    with pytest.raises(HostError, match=r"cannot read.*No such file"):
        host.get(str(closed / "none"))


def test_a_failure_of_the_command_is_not_one_of_sudo(host: SudoHost) -> None:
    result = host.run(["sh", "-c", "echo sudo: a password is required >&2; exit 1"], check=False)
    assert result.returncode == 1


@pytest.mark.parametrize(
    "lines", ["", f"{USER} ALL=(root) NOPASSWD: /usr/bin/cat\n", f"{USER} ALL=(root) ALL\n"]
)
def test_sudo_refuses(host: SudoHost, server: Sshd, lines: str) -> None:
    allow(server.directory, lines)
    with pytest.raises(SudoRefused) as caught:
        host.run(["mkdir", "/x"])
    assert "`mkdir`" in caught.value.message and "127.0.0.1" in caught.value.message
    assert "/etc/sudoers.d/hsp" in caught.value.hint
    with pytest.raises(SudoRefused, match="`mkdir`"):
        host.run(["mkdir", "/x"], check=False)
    with pytest.raises(SudoRefused, match="`mkdir`"):
        host.start(["mkdir", "/x"]).wait(60)


@pytest.mark.parametrize(("kept", "refused"), [("", ()), ("/usr/bin/dd, ", ("dd",))])
def test_programs_that_sudo_does_not_run_are_found(
    host: SudoHost, server: Sshd, kept: str, refused: tuple[str, ...]
) -> None:
    allow(server.directory, documented("server").replace("hsp ALL", f"{USER} ALL").replace(kept, ""))
    # What is not installed is another check's.
    assert host.refused(SERVER_PROGRAMS - {"sg_format"} | {"no-such-program"}) == refused


def test_warnings_of_sudo_are_removed_from_stderr(host: SudoHost) -> None:
    """The tracer's stderr is read: a warning about the host name would make each run unknown."""
    warning = "sudo: unable to resolve host nas: Temporary failure in name resolution\n"
    raw = CommandResult("x", elevated(("bpftrace", "-")), 0, "", f"{warning}Lost 3 events\n")
    assert host.command_result(("bpftrace", "-"), raw).stderr == "Lost 3 events\n"
    # Of a command that ran without sudo every word is its own.
    assert host.command_result(("id",), CommandResult("x", ("id",), 0, "", warning)).stderr == warning


def test_without_sudo(host: SudoHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sudo, "_SUDO", ("env", "LC_ALL=C.UTF-8", "no-such-sudo", "-n", "--"))
    with pytest.raises(SudoRefused, match="sudo is not installed"):
        host.run(["mkdir", "/x"])


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.parametrize("defaults", ["", f"Defaults:{USER} use_pty\n"])
class TestRootsProcesses:
    """Processes that the user himself may not signal."""

    @pytest.fixture(autouse=True)
    def _defaults(self, host: SudoHost, server: Sshd, defaults: str) -> None:
        allow(server.directory, defaults + documented("server").replace("hsp ALL", f"{USER} ALL"))

    def test_signals_reach_them(self, host: SudoHost, mark: str) -> None:
        # sudo passes the signal on once more if its sender is gone before sudo looks (exec_nopty.c).
        script = 'trap "trap : INT; echo stopped; exit 3" INT; sleep "$1" >/dev/null 2>&1 & sleep "$1"'
        process = host.start(["sh", "-c", script, "sh", mark])
        # Both sleep, so the shell has its trap. Sudo, and its monitor with a pty, carry the mark as well.
        assert until(lambda: sleeping(mark) == 2)
        assert all(os.stat(f"/proc/{pid}").st_uid == 0 for pid in running(mark) if _comm(pid) == "sleep")
        result = process.stop(60, "INT")
        assert (result.returncode, result.stdout) == (3, "stopped\n")

    def test_a_deadline_ends_them(self, host: SudoHost, mark: str) -> None:
        process = host.start(["sh", "-c", STUBBORN, "sh", mark])
        assert until(lambda: sleeping(mark) >= 2)
        with pytest.raises(DeadlineExceeded):
            process.wait(0.1)
        assert gone(mark)

    def test_they_end_with_the_connection(self, host: SudoHost, mark: str) -> None:
        process = host.start(["sh", "-c", STUBBORN, "sh", mark])
        assert until(lambda: sleeping(mark) >= 2)
        abort(host.inner)  # type: ignore[arg-type]
        with pytest.raises(HostLost):
            process.wait(60)
        assert gone(mark)


def test_hostile_arguments_arrive_as_they_are(host: SudoHost, tmp_path: Path) -> None:
    check_hostile_arguments(host, tmp_path, "sh", "-c", 'printf "%s\\0" "$@"', "sh")


def test_a_hostile_program_name_is_not_run_with_sudo(host: SudoHost) -> None:
    for name in ("-i", "--shell", "-u", "A=b", "sudo\n", "sh -c id", "$(id)"):
        assert elevated([name])[0] == name
        assert host.run([name], check=False).returncode in (126, 127)
