"""kit.recovery.work_directory on this machine: whose a run's directory is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kit.core.errors import HostError
from kit.hosts.identity import read_identity
from kit.hosts.local import LocalHost
from kit.recovery import registry, work_directory
from tests.fakes import ScriptedHost

RUN, TOKEN = "20260101T000000Z-abcdef", "a" * 32


def test_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_directory, "ROOT", str(tmp_path / "hsp"))
    host, path = LocalHost(), tmp_path / "hsp" / RUN

    def owner(token: str = TOKEN) -> str:
        return work_directory.owner(host, RUN, registry.digest(token))

    assert owner() == "none"
    work_directory.create(host, RUN, TOKEN)
    token = path / "token"
    assert (token.read_text(), stat.S_IMODE(token.stat().st_mode)) == (TOKEN, 0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert owner() == "this run" and owner("b" * 32) == "another"
    # Killed between the two commands that write the token.
    token.write_text("")
    assert owner() == "none"
    (path / "pool").mkdir()
    assert owner() == "unknown"
    token.unlink()
    assert owner() == "unknown"
    (path / "pool").rmdir()
    assert owner() == "none"


def test_a_directory_that_cannot_be_read_is_not_nobodys() -> None:
    host = ScriptedHost({"cat": 1, "find": (1, "", "find: Permission denied")})
    with pytest.raises(HostError, match="Permission denied"):
        work_directory.owner(host, RUN, "")


def test_this_machine_says_who_it_is() -> None:
    identity = read_identity(LocalHost())
    assert identity.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    machine = Path("/etc/machine-id")
    assert identity.machine_id == (machine.read_text().strip() if machine.exists() else "")


@pytest.mark.parametrize("answer", ["", "no\n", "cat: x\n"])
def test_a_host_that_does_not_say_is_an_error(answer: str) -> None:
    with pytest.raises(HostError, match="which boot"):
        read_identity(ScriptedHost({"cat": answer}))


def test_the_directory_above_stays() -> None:
    """A client in a namespace of its own has something mounted there: rmdir would end that."""
    host = ScriptedHost({})
    work_directory.remove(host, f"/run/hsp/{RUN}")
    assert [call[0] for call in host.calls] == ["rm"]
