"""Which hosts of a testbed are looked at, and where their clients look for the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.config.address import HostAddress
from kit.config.testbed import read_testbed
from kit.config.workload import find_workload
from kit.core.errors import HostError
from kit.doctor.targets import requirements_of, targets_of

DISK = (
    '[[device]]\nname = "d"\nrole = "data"\npath = "/dev/disk/by-id/ata-X_1"\nserial = "1"\nsize = "1GiB"\n'
)


def targets(tmp_path: Path, server: str, *clients: str, disk: str = DISK) -> list[Any]:
    blocks = "".join(f"[[client]]\n{client}\n" for client in clients)
    path = tmp_path / "testbed.toml"
    path.write_text(f'name = "t"\n[server]\n{server}\n{blocks}{disk}')

    def connect(at: HostAddress) -> Any:
        raise HostError(str(at))

    return targets_of(read_testbed(path), connect)


def test_server_and_clients(tmp_path: Path) -> None:
    found = targets(tmp_path, 'host = "ssh://root@nas"', 'host = "ssh://a"', 'host = "ssh://b:2222"')
    assert [(one.name, one.roles, one.peer) for one in found] == [
        ("ssh://root@nas", ("server",), ""),
        ("ssh://a", ("client",), "nas"),
        ("ssh://b:2222", ("client",), "nas"),
    ]
    for one in found:
        with pytest.raises(HostError, match=one.name):
            one.open()


def test_the_servers_address_is_what_clients_mount_from(tmp_path: Path) -> None:
    found = targets(tmp_path, 'host = "ssh://nas"\naddress = "10.0.0.1"', 'host = "ssh://a"')
    assert found[1].peer == "10.0.0.1"


def test_one_host_in_both_roles(tmp_path: Path) -> None:
    (found,) = targets(tmp_path, 'host = "local"', 'host = "local"')
    assert (found.roles, found.peer) == (("server", "client"), "127.0.0.1")


@pytest.mark.parametrize(
    ("export", "peer"), [("nas:/pool/x", "nas"), ("10.0.0.1:/p", "10.0.0.1"), ("[fd00::1]:/p", "fd00::1")]
)
def test_an_appliance_is_not_looked_into(tmp_path: Path, export: str, peer: str) -> None:
    (found,) = targets(tmp_path, f'host = "none"\nexport = "{export}"', 'host = "ssh://a"', disk="")
    assert (found.name, found.roles, found.peer) == ("ssh://a", ("client",), peer)


def test_what_a_workload_wants() -> None:
    wanted = requirements_of(find_workload("top-speeds"), clients=4)
    assert wanted.nfs_version == "3" and wanted.outstanding == 4
