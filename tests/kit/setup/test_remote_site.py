"""kit.setup.remote_site: the addresses by which server and clients know each other, and who is opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.config.address import HostAddress
from kit.config.testbed import Testbed, read_testbed
from kit.core.errors import ConfigError, HostError
from kit.core.progress import Progress
from kit.hosts.base import HostLost
from kit.setup import remote_site
from tests.fakes import Answer, ScriptedHost

QUIET = Progress(quiet=True)
ROUTE = json.dumps([{"dst": "10.0.0.1", "prefsrc": "10.0.0.2"}])


def bed_of(folder: Path, server: str = "", client: str = "", host: str = "ssh://nas") -> Testbed:
    file = folder / "bed.toml"
    disk = '[[device]]\nname = "d"\nrole = "data"\npath = "/dev/disk/by-id/d"\nserial = "S"\nsize = "1GiB"\n'
    file.write_text(f'[server]\nhost = "{host}"\n{server}\n[[client]]\nhost = "ssh://c0"\n{client}\n{disk}')
    return read_testbed(file)


class Network:
    """The client's view of the network, and the hosts that were opened. `away`: one that does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, away: str = "", **answers: Answer) -> None:
        self.opened: list[ScriptedHost] = []
        self.away = away
        self.answers = {"getent ahosts": "10.0.0.1 STREAM nas\n", "ip -json route get": ROUTE}
        self.answers |= {key.replace("_", " "): answer for key, answer in answers.items()}
        monkeypatch.setattr(remote_site, "open_host", self.open)

    def open(self, address: HostAddress, ssh_config: str | None = None) -> ScriptedHost:
        if address.host == self.away:
            raise HostLost(f"{address.host}: no answer")
        self.opened.append(ScriptedHost(self.answers, name=str(address.host)))
        return self.opened[-1]


@pytest.mark.parametrize(
    ("server", "client", "expected"),
    [
        ("", "", ("10.0.0.2", "10.0.0.1")),
        ('address = "192.168.0.1"', "", ("10.0.0.2", "192.168.0.1")),
        ("", 'address = "192.168.0.2"', ("192.168.0.2", "10.0.0.1")),
    ],
)
def test_addresses_are_those_of_the_clients_routes_unless_the_testbed_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, client: str, expected: tuple[str, str]
) -> None:
    network = Network(monkeypatch)
    with remote_site.open_hosts(bed_of(tmp_path, server, client), QUIET) as (host, (found,)):
        assert host is network.opened[0] and found.host is network.opened[1]
        assert (found.address, found.server_address) == expected
        asked = found.host.called("ip") + found.host.called("getent")  # type: ignore[attr-defined]
        assert len(asked) == (not server) + (not client)
    assert [host.closed for host in network.opened] == [1, 1]


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ({"getent": 2}, "does not know the name nas of the server"),
        ({"getent": ""}, "does not know the name nas of the server"),
        (
            {"ip": (2, "", "RTNETLINK answers: Network is unreachable")},
            "no route to the server, 10.0.0.1: RTNET",
        ),
        ({"ip": "[]"}, "has no route to the server"),
        ({"ip": '[{"prefsrc": "x"}]'}, "has no route to the server"),
    ],
)
def test_a_client_without_a_way_to_the_server_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Answer], text: str
) -> None:
    long = {"getent": "getent_ahosts", "ip": "ip_-json_route_get"}
    network = Network(monkeypatch, **{long[key]: answer for key, answer in answers.items()})
    with pytest.raises(HostError, match=text), remote_site.open_hosts(bed_of(tmp_path), QUIET):
        pytest.fail("it was opened")
    assert [host.closed for host in network.opened] == [1, 1]


def test_a_client_that_does_not_answer_closes_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(monkeypatch, away="c0")
    with pytest.raises(HostLost, match="c0"), remote_site.open_hosts(bed_of(tmp_path), QUIET):
        pytest.fail("it was opened")
    assert [host.closed for host in network.opened] == [1]


def test_an_appliance_has_no_server_and_its_clients_no_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nas.toml"
    file.write_text('[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "ssh://c0"\n')
    network, bed = Network(monkeypatch), read_testbed(file)
    with remote_site.appliance_site(bed, QUIET, 7) as site:
        assert site.server is None and site.seed == 7 and not site.emulated
        assert [(each.host.name, each.address, each.server_address) for each in site.clients] == [
            ("c0", "", "")
        ]
    assert [host.closed for host in network.opened] == [1]
    with pytest.raises(ConfigError, match="is an appliance"):
        remote_site.open_server(bed)
