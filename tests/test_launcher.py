"""The launcher ./hsp, with a PATH of the test's own and a Python that imitates venv, pip and tox."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from kit.lab.image.tree import NEEDED_TOOLS

CHECKOUT = Path(__file__).resolve().parents[1]
TOOLS = "cat chmod date dirname env flock grep id mkdir mktemp mv readlink rm sha256sum sh tail".split()
PACKAGED = (
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/include/stdio.h",
    "/usr/include/liburing.h",
)
LAB_TOOLS = (
    "cc",
    "qemu-system-x86_64",
    "qemu-img",
    "mmdebstrap",
    "mke2fs",
    "setpriv",
    "newuidmap",
    "xz",
    "nm",
)
# Packages that every Debian has.
ESSENTIAL = {"tar", "util-linux"}

# Answers as `python3`, and as .venv/bin/python: makes a .venv, "installs" an hsp that
# shows its arguments, and dies during the installation where the test asks for it.
FAKE_PYTHON = r"""#!/bin/sh
[ "$1" != -I ] || shift
case "$1 ${2-}" in
"-m venv")
    mkdir -p "$4/bin"
    cat "$0" >"$4/bin/python"
    chmod +x "$4/bin/python"
    printf 'VIRTUAL_ENV="%s"\n' "$4" >"$4/bin/activate"
    ;;
"-m pip")
    printf '%s\n' "$*" >>"$LOG"
    printf 'pip talks\n'
    [ ! -e "$LOG.fail" ] || exit 1
    printf '#!/bin/sh\nprintf "<%%s>" "$@"\n' >"${0%/*}/hsp"
    chmod +x "${0%/*}/hsp"
    ;;
"-m tox") [ "$3" = --version ] || { printf '%s:' "$HSP_LAB_TESTS" && printf '<%s>' "$@"; } ;;
"-c "*) printf 'py312\n' ;;
esac
"""


class Sandbox:
    """A checkout under a path with spaces, and a PATH with only the tools put into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            path = shutil.which(tool)
            assert path, tool
            (self.bin / tool).symlink_to(path)
        self.checkout = root / "a check out"
        self.checkout.mkdir()
        shutil.copy(CHECKOUT / "hsp", self.checkout)
        for file in ("pyproject.toml", "requirements.lock", "requirements-test.lock"):
            (self.checkout / file).write_text("first\n")
        self.log = root / "log"
        self.tool("python3", FAKE_PYTHON)

    def tool(self, name: str, text: str = "#!/bin/sh\n") -> None:
        # A link to the machine's own tool may be there: writing through it would overwrite that tool.
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def hsp(self, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.checkout / "hsp", *args],
            cwd=cwd or self.root,
            env={"PATH": str(self.bin), "LOG": str(self.log), "TMPDIR": str(self.root)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )

    def refused(self, *args: str) -> str:
        """Run ./hsp, which ends with a host error; returns its stderr."""
        done = self.hsp(*args)
        assert (done.returncode, done.stdout) == (5, "")
        return done.stderr

    def install_all(self) -> None:
        """As on a machine with every OS package. Files of packages are looked for in the sandbox."""
        for tool in (*LAB_TOOLS, "ssh", "sshd", "sudo", "chromium", "shellcheck"):
            self.tool(tool)
        text = (self.checkout / "hsp").read_text()
        for file in PACKAGED:
            assert file in text
            text = text.replace(file, str(self.bin))
        (self.checkout / "hsp").write_text(text)

    def set_ups(self) -> int:
        return self.log.read_text().count(" -e ") if self.log.exists() else 0


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def test_first_use_sets_up_and_passes_arguments_on(sandbox: Sandbox) -> None:
    done = sandbox.hsp("show", "a b", "", "--x=*")
    assert (done.returncode, done.stdout) == (0, "<show><a b><><--x=*>")
    assert "hsp: setting up Python packages" in done.stderr
    assert "pip talks" in done.stderr


def test_second_use_prints_and_installs_nothing(sandbox: Sandbox) -> None:
    sandbox.hsp("plan")
    done = sandbox.hsp("plan", cwd=Path("/"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "<plan>", "")
    assert sandbox.set_ups() == 1


def test_a_link_to_the_launcher_finds_its_checkout(sandbox: Sandbox) -> None:
    sandbox.hsp("plan")
    link = sandbox.bin / "hsp"
    link.symlink_to(sandbox.checkout / "hsp")
    done = subprocess.run(
        ["hsp", "plan"], env={"PATH": str(sandbox.bin)}, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "<plan>", "")


@pytest.mark.parametrize("file", ["pyproject.toml", "requirements.lock"])
def test_a_changed_pyproject_or_lock_is_installed_again(sandbox: Sandbox, file: str) -> None:
    sandbox.hsp("plan")
    kept = sandbox.checkout / ".venv" / "kept"
    kept.touch()
    (sandbox.checkout / file).write_text("second\n")
    assert sandbox.hsp("plan").returncode == 0
    assert sandbox.set_ups() == 2
    assert kept.exists()


def test_what_is_installed_has_a_hash_and_nothing_else_is_fetched(sandbox: Sandbox) -> None:
    """The checkout itself is built by what the lock file has brought."""
    sandbox.hsp("plan")
    pinned, own = sandbox.log.read_text().splitlines()
    assert pinned.endswith(f"--require-hashes --only-binary :all: -r {sandbox.checkout}/requirements.lock")
    assert own.endswith(f"--no-deps --no-build-isolation -e {sandbox.checkout}")


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-test.lock"])
def test_a_lock_file_pins_what_pyproject_asks_for_and_names_no_registry(name: str) -> None:
    text = (CHECKOUT / name).read_text()
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["dependency-groups"]["launcher"]]
    # A comment, or a pin with at least one hash: nothing else.
    lines = text.replace("\\\n", "").splitlines()
    pin = re.compile(r"(?P<name>[a-z0-9-]+)==[0-9][0-9a-z.]* (; [^\\]+ )?( *--hash=sha256:[0-9a-f]{64})+")
    found = [pin.fullmatch(line) for line in lines if not line.startswith("#")]
    assert None not in found
    assert {re.split(r"[>=\[]", one)[0] for one in asked} <= {one["name"] for one in found if one}
    assert not re.search(r"://|index|find-links|\.(org|com|io|net)\b", text)


def test_a_failed_set_up_is_done_again_from_nothing(sandbox: Sandbox) -> None:
    fail = Path(f"{sandbox.log}.fail")
    fail.touch()
    assert "pip could not install" in sandbox.refused("plan")
    half = sandbox.checkout / ".venv" / "half"
    half.touch()
    fail.unlink()
    assert sandbox.hsp("plan").stdout == "<plan>"
    assert not half.exists()


def test_a_moved_checkout_gets_a_new_venv(sandbox: Sandbox) -> None:
    sandbox.hsp("plan")
    (sandbox.checkout / ".venv" / "old").touch()
    sandbox.checkout = sandbox.checkout.rename(sandbox.root / "else where")
    assert sandbox.hsp("plan").stdout == "<plan>"
    assert not (sandbox.checkout / ".venv" / "old").exists()


@pytest.mark.parametrize("command", ["demo", "run", "lab", "test"])
def test_missing_packages_without_apt_get_end_with_the_line_to_run(sandbox: Sandbox, command: str) -> None:
    for tool in LAB_TOOLS:
        if tool != "mmdebstrap":
            sandbox.tool(tool)
    if any((Path(sbin) / "mmdebstrap").exists() for sbin in ("/usr/sbin", "/sbin")):
        pytest.skip("mmdebstrap is where the launcher looks by itself")
    (line,) = sandbox.refused(command).splitlines()
    # There is no sudo in the sandbox.
    how = "run" if os.getuid() == 0 else "run as root"
    assert f"; {how}: apt-get update && apt-get install -y --no-install-recommends " in line
    packages = line.partition("--no-install-recommends ")[2].split()
    assert "mmdebstrap" in packages
    assert "qemu-system-x86" not in packages
    assert ("shellcheck" in packages) == ("chromium" in packages) == (command == "test")
    assert sandbox.set_ups() == 0


@pytest.mark.parametrize("args", [(), ("--help",), ("run", "--help"), ("show", "run"), ("plan",)])
def test_commands_without_the_lab_need_no_packages(sandbox: Sandbox, args: tuple[str, ...]) -> None:
    assert sandbox.hsp(*args).returncode == 0


LAB, COMPILER = {"qemu-system-x86", "qemu-utils", "mmdebstrap"}, {"gcc", "libc6-dev"}


def test_all_that_builds_the_labs_image_is_asked_for(sandbox: Sandbox) -> None:
    script = (sandbox.checkout / "hsp").read_text().replace("PATH=/usr/sbin:/sbin:$PATH", "")
    (sandbox.checkout / "hsp").write_text(script)
    asked = sandbox.refused("lab", "up").partition("--no-install-recommends ")[2].split()
    assert {*NEEDED_TOOLS.values()} - ESSENTIAL <= {*asked}


BEDS = {
    "nas.toml": '# host = "lab"\n[server]\nhost = "ssh://nas"\n[[client]]\nhost = "local"\n',
    "lab.toml": "[server]\nhost = 'lab'\n",
    "inline.toml": 'server = { trace = "none", host="lab" }\n',
    "ghost.toml": 'ghost = "lab"\nname = "lab"\n[server]\nhost = "ssh://lab"\n',
    "real/plan.json": '{"testbed": {"name": "lab",\n "server": {\n  "host": "ssh://nas"}}}',
    "emulated/plan.json": '{"testbed": {\n "server": {\n  "host": "lab"}}}',
}


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("run x", LAB | COMPILER),
        ("run x --testbed nas.toml", set()),
        ("run --testbed=nas.toml x -q", set()),
        ("run x --testbed ghost.toml", set()),
        ("run x --testbed none.toml", set()),
        ("run x --testbed lab.toml", LAB | COMPILER),
        ("run x --testbed=inline.toml", LAB | COMPILER),
        ("run x --testbed nas.toml --versus lab.toml", LAB | COMPILER),
        ("run x --testbed nas.toml --versus=nas.toml", set()),
        ("run --resume real", set()),
        ("run --resume emulated", LAB | COMPILER),
        ("demo", LAB | COMPILER),
        ("slog log0", LAB | COMPILER),
        ("slog log0 --results /elsewhere", LAB | COMPILER),
        ("slog log0 --testbed nas.toml", COMPILER),
        ("slog /dev/disk/by-id/ata-x", COMPILER),
        ("host check --testbed nas.toml", set()),
        ("lab up", LAB | COMPILER),
        ("lab up --here devices.toml", COMPILER),
    ],
)
def test_the_packages_of_the_lab_are_asked_for_by_what_may_boot_it(
    sandbox: Sandbox, line: str, needed: set[str]
) -> None:
    for name, text in BEDS.items():
        (sandbox.root / name).parent.mkdir(exist_ok=True)
        (sandbox.root / name).write_text(text)
    sandbox.tool("ssh")
    # Places that the launcher looks at by itself, and those of the machine, are out of a test's reach.
    script = (sandbox.checkout / "hsp").read_text().replace("PATH=/usr/sbin:/sbin:$PATH", "")
    for file in PACKAGED:
        script = script.replace(file, "/none")
    (sandbox.checkout / "hsp").write_text(script)
    done = sandbox.hsp(*line.split())
    assert (done.returncode == 5) == bool(needed), done.stderr
    asked = set(done.stderr.partition("--no-install-recommends ")[2].split())
    assert asked & (LAB | COMPILER) == needed


# Names what it would fetch; of all else it says much.
TALKING_APT_GET = """#!/bin/sh
case "$*" in
*--print-uris*) printf "'http://a/%s' %s.deb %s SHA256:0\\n" q q 18000001 m m 500000 ;;
*) n=0; while [ $((n += 1)) -le 25 ]; do echo "line $n: apt-get $*"; done ;;
esac
"""


def test_apt_get_installs_what_is_missing_and_talks_in_a_log(sandbox: Sandbox) -> None:
    sandbox.tool("id", "#!/bin/sh\necho 0\n")
    made = "\n".join(
        f'echo "#!/bin/sh" >"{sandbox.bin}/{t}"; chmod +x "{sandbox.bin}/{t}"' for t in LAB_TOOLS
    )
    sandbox.tool("apt-get", f'{TALKING_APT_GET}case "$*" in *install*)\n{made}\n;; esac\n')
    if not Path("/usr/share/keyrings/debian-archive-keyring.gpg").exists():
        pytest.skip("needs debian-archive-keyring, which a test cannot put in place")
    done = sandbox.hsp("demo")
    assert (done.returncode, done.stdout) == (0, "<demo>"), done.stderr
    assert "hsp: installing OS packages (2 with what they need, 19 MB to download): " in done.stderr
    assert "hsp: installed in " in done.stderr and "line 1" not in done.stderr
    (log,) = sandbox.root.glob("hsp-apt.*")
    assert str(log) in done.stderr and "install -y --no-install-recommends" in log.read_text()


def test_of_a_failed_installation_the_end_and_the_log_are_shown(sandbox: Sandbox) -> None:
    sandbox.tool("id", "#!/bin/sh\necho 0\n")
    sandbox.tool("apt-get", f'{TALKING_APT_GET}case "$*" in *install*) exit 100 ;; esac\n')
    refused = sandbox.refused("lab", "up")
    (log,) = sandbox.root.glob("hsp-apt.*")
    assert "line 6: apt-get -q" in refused and "line 25: apt-get -q" in refused and "line 5:" not in refused
    assert "hsp: apt-get could not install: " in refused
    assert refused.rstrip().endswith(f"all of its output is in {log}")


def test_a_user_who_may_not_become_root_is_not_asked(sandbox: Sandbox) -> None:
    sandbox.tool("id", "#!/bin/sh\necho 1000\n")
    sandbox.tool("sudo", "#!/bin/sh\nexit 1\n")
    sandbox.tool("apt-get", '#!/bin/sh\necho called >>"$LOG.apt"\n')
    assert "sudo apt-get update && sudo apt-get install" in sandbox.refused("lab", "up")
    assert not Path(f"{sandbox.log}.apt").exists()


def test_sudo_is_not_advised_where_there_is_none(sandbox: Sandbox) -> None:
    sandbox.tool("id", "#!/bin/sh\necho 1000\n")
    refused = sandbox.refused("lab", "up")
    assert "run as root: apt-get update && apt-get install" in refused and "sudo" not in refused


def test_a_chromium_that_does_not_run_is_reported(sandbox: Sandbox) -> None:
    sandbox.tool("id", "#!/bin/sh\necho 0\n")
    for tool in (*LAB_TOOLS, "apt-get", "shellcheck"):
        sandbox.tool(tool)
    sandbox.tool("chromium", "#!/bin/sh\nexit 1\n")
    assert "no working 'chromium'" in sandbox.refused("test")


@pytest.mark.parametrize(
    ("words", "environments", "passed_on"),
    [
        ([], "lint,types,unit,browser,lab", []),
        (["-k", "a b"], "lint,types,unit,browser,lab", ["-k", "a b"]),
        (["--all"], "lint,types,unit,py311,py313,browser,lab", []),
        (["--all", "-x"], "lint,types,unit,py311,py313,browser,lab", ["-x"]),
        (["-m", "long"], "lint,types,unit,browser,lab", ["-m", "long"]),
        (["--changed"], "lint,types,unit,browser,lab", ["--changed="]),
        (["--changed", "HEAD~2", "-x"], "lint,types,unit,browser,lab", ["--changed=HEAD~2", "-x"]),
        (["--changed", "-x"], "lint,types,unit,browser,lab", ["--changed=", "-x"]),
        (["--quick"], "demo,unit,types,lint", []),
        (["--quick", "-k", "a b", "-x"], "demo,unit,types,lint", ["-k", "a b", "-x"]),
    ],
)
def test_environments_of_hsp_test(
    sandbox: Sandbox, words: list[str], environments: str, passed_on: list[str]
) -> None:
    sandbox.install_all()
    done = sandbox.hsp("test", *words)
    assert done.returncode == 0, done.stderr
    of_lab, _, ran_words = done.stdout.partition(":")
    assert of_lab == ("not long" if {"--all", "--changed"} & {*words} else "basic and not long")
    ran = ran_words.removeprefix("<").removesuffix(">").split("><")
    tox = ["run-parallel", "--parallel", "2"] if "--quick" in words else ["run"]
    assert ran[: 3 + len(tox)] == ["-m", "tox", *tox, "--discover"]
    assert ran[ran.index("-e") :] == ["-e", environments, "--", *passed_on]


def test_no_python_asks_for_one(sandbox: Sandbox) -> None:
    sandbox.tool("python3", "#!/bin/sh\nexit 1\n")
    assert sandbox.refused("plan").rstrip().endswith("--no-install-recommends python3 python3-venv")
