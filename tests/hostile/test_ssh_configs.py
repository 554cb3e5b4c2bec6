"""A testbed's ssh_config that somebody else wrote is shown before it is used for the first time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.config.address import parse_address
from kit.hosts.connect import HostUnreachable, open_host
from kit.hosts.ssh_config import show_foreign
from tests.kit.hosts.conftest import free_port

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture(autouse=True)
def _first_use() -> None:
    show_foreign.cache_clear()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """It leaves a file when it is read."""
    path = tmp_path / "ssh_config"
    path.write_text(
        f"Host far\n  HostName 127.0.0.1\n  Port {free_port()}\n"
        f'match host far EXEC "touch {tmp_path}/read; \x1b[2J"\n  ProxyCommand\t=nc %h %p\n'
        "Include /somebody/*\n# ProxyCommand no\n  UserKnownHostsFile none\n"
    )
    path.chmod(0o644)
    return path


def use(config: Path) -> None:
    with pytest.raises(HostUnreachable):
        open_host(parse_address("ssh://far"), os.fspath(config), 5.0)


def owned(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, NOBODY, NOBODY)


def test_a_file_of_another_user_is_shown_once_before_it_runs(
    config: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    owned(config)
    use(config)
    err = capfd.readouterr().err
    first, *lines = err.splitlines()
    assert f"{config} belongs to nobody" in first and "is run here, as root" in first
    assert lines == [
        f'  match host far EXEC "touch {tmp_path}/read; ?[2J"',
        "  ProxyCommand?=nc %h %p",
        "  Include /somebody/*",
    ]
    use(config)
    assert capfd.readouterr().err == ""


def test_it_is_shown_before_anything_of_it_is_run(config: Path, tmp_path: Path) -> None:
    """What it runs waits until this test has read the warning."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    config.write_text(f'Match exec "cat {pipe}"\n  Port {free_port()}\n')
    owned(config)
    testbed = tmp_path / "t.toml"
    testbed.write_text(
        'name = "t"\nssh_config = "ssh_config"\n[server]\nhost = "none"\nexport = "nas:/x"\n'
        '[[client]]\nhost = "ssh://127.0.0.1"\n'
    )
    argv = [sys.executable, "-m", "kit.cli", "host", "check", "--testbed", os.fspath(testbed)]
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as doctor:
        assert doctor.stderr and "belongs to nobody" in doctor.stderr.readline()
        assert f'Match exec "cat {pipe}"' in doctor.stderr.readline()
        pipe.write_text("go")
        assert doctor.stderr.read() and doctor.wait(60) == 5


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_others_can_write_is_theirs(config: Path, what: str, capfd: pytest.CaptureFixture[str]) -> None:
    (config if what == "file" else config.parent).chmod(0o777)
    use(config)
    assert "can be written by others" in capfd.readouterr().err


def test_a_file_of_the_caller_is_not_shown(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    use(config)
    assert capfd.readouterr().err == ""
    config.parent.chmod(0o1777)
    show_foreign.cache_clear()
    use(config)
    assert capfd.readouterr().err == ""


def test_a_link_is_judged_by_its_target(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    owned(config)
    link = tmp_path / "own"
    link.symlink_to(config)
    use(link)
    assert "belongs to nobody" in capfd.readouterr().err
