"""Hosts of a testbed that are diagnosed, and the server's address for their clients."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kit.config.address import HostAddress
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload_base import find_workload
from kit.core.errors import HostError
from kit.doctor.diagnosis import DiagnosedHost, _examinations
from kit.doctor.targets import requirements_of, targets_of

DISK = (
    '[[device]]\nname = "d"\nrole = "data"\npath = "/dev/disk/by-id/ata-X_1"\nserial = "1"\nsize = "1GiB"\n'
)


def targets(tmp_path: Path, server: str, clients: list[str]) -> list[Any]:
    blocks = "".join(f'[[client]]\nhost = "{client}"\n' for client in clients)
    disk = "" if "export" in server else DISK
    path = tmp_path / "testbed.toml"
    path.write_text(f'name = "t"\n[server]\n{server}\n{blocks}{disk}')

    def connect(at: HostAddress) -> Any:
        raise HostError(str(at))

    return targets_of(read_testbed(path), connect)


CLIENT = ("client",)


@pytest.mark.parametrize(
    ("server", "clients", "expected"),
    [
        (
            'host = "ssh://root@nas"', ["ssh://a", "ssh://b:22"],
            [("ssh://root@nas", ("server",), ""), ("ssh://a", CLIENT, "nas"), ("ssh://b:22", CLIENT, "nas")],
        ),
        (
            'host = "ssh://nas"\naddress = "10.0.0.1"', ["ssh://a"],
            [("ssh://nas", ("server",), ""), ("ssh://a", CLIENT, "10.0.0.1")],
        ),
        ('host = "local"', ["local"], [("local", ("server", "client"), "127.0.0.1")]),
        # An appliance is not diagnosed.
        ('host = "none"\nexport = "nas:/pool/x"', ["ssh://a"], [("ssh://a", CLIENT, "nas")]),
        ('host = "none"\nexport = "10.0.0.1:/p"', ["ssh://a"], [("ssh://a", CLIENT, "10.0.0.1")]),
        ('host = "none"\nexport = "[fd00::1]:/p"', ["ssh://a"], [("ssh://a", CLIENT, "fd00::1")]),
    ],
)  # fmt: skip
def test_targets_of_a_testbed(
    tmp_path: Path, server: str, clients: list[str], expected: list[tuple[str, tuple[str, ...], str]]
) -> None:
    observed = targets(tmp_path, server, clients)
    assert [(target.name, target.roles, target.peer) for target in observed] == expected
    for target in observed:
        with pytest.raises(HostError, match=re.escape(target.name)):
            target.open()


def test_requirements_of_a_workload(tmp_path: Path) -> None:
    requirements = requirements_of(find_workload("top-speeds"), bed(tmp_path, 4))
    assert requirements.nfs_version == "3" and requirements.outstanding == 4
    assert requirements.run_bytes is not None and 8 << 20 < requirements.run_bytes < 64 << 20
    assert requirements_of(find_workload("top-speeds"), read_testbed(LAB_TESTBED)).run_bytes is None


def bed(tmp_path: Path, clients: int) -> Any:
    path = tmp_path / "bed.toml"
    blocks = "".join(f'[[client]]\nhost = "ssh://c{number}"\n' for number in range(clients))
    path.write_text(f'name = "t"\n[server]\nhost = "ssh://nas"\n{blocks}{DISK}')
    return read_testbed(path)


def test_a_workload_on_devices_needs_no_pool_no_nfs_and_no_clients(tmp_path: Path) -> None:
    testbed = bed(tmp_path, 1)
    on_devices, over_nfs = (requirements_of(find_workload(name), testbed) for name in ("drives", "ageing"))
    assert (on_devices.pool, on_devices.over_nfs) == (False, False)
    assert (over_nfs.pool, over_nfs.over_nfs) == (True, True)
    server = DiagnosedHost("nas", ("server",), lambda: nullcontext(Mock()))
    every, fewer = (set(_examinations(server, each)) for each in (over_nfs, on_devices))
    assert every - fewer >= {"zfs-module", "pyzfs", "nfsd", "exports", "bpftrace"} and "python" in fewer
