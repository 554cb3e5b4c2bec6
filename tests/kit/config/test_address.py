"""kit.config.address: one host or an error, never anything that a program could take for an option."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kit.config.address import HostAddress, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local", HostAddress("local")),
        ("lab", HostAddress("lab")),
        ("none", HostAddress("none")),
        ("ssh://nas", HostAddress("ssh", "nas")),
        ("ssh://root@nas.example.org:2222", HostAddress("ssh", "nas.example.org", "root", 2222)),
        ("ssh://10.0.0.7", HostAddress("ssh", "10.0.0.7")),
        ("ssh://[fd00::7]", HostAddress("ssh", "fd00::7")),
        ("ssh://u@[fe80::1%eth0]:22", HostAddress("ssh", "fe80::1%eth0", "u", 22)),
        ("ssh://machine$@client_1", HostAddress("ssh", "client_1", "machine$")),
        ("ssh://nas.example.org.", HostAddress("ssh", "nas.example.org.")),
    ],
)
def test_valid_addresses(text: str, expected: HostAddress) -> None:
    assert parse_address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write ssh://"),
        ("nas", "write ssh://"),
        ("Local", "write ssh://"),
        ("local ", "write ssh://"),
        ("root@nas", "write ssh://"),
        ("http://nas", "write ssh://"),
        ("SSH://nas", "write ssh://"),
        ("ssh://", "not the name of a host"),
        ("ssh://root@", "not the name of a host"),
        ("ssh://@nas", "not a user's name"),
        ("ssh://-oProxyCommand=id@nas", "not a user's name"),
        ("ssh://a b@nas", "not a user's name"),
        ("ssh://-nas", "not the name of a host"),
        ("ssh://nas-", "not the name of a host"),
        ("ssh://a..b", "not the name of a host"),
        ("ssh://nas;id", "not the name of a host"),
        ("ssh://nas\n", "not the name of a host"),
        ("ssh://na\0s", "not the name of a host"),
        ("ssh://näs", "not the name of a host"),
        ("ssh://" + "a" * 254, "not the name of a host"),
        ("ssh://nas/pool", "path"),
        ("ssh://nas/", "path"),
        ("ssh://nas?x=1", "query"),
        ("ssh://nas#x", "fragment"),
        ("ssh://nas:", "not a port"),
        ("ssh://nas:0", "not a port"),
        ("ssh://nas:65536", "not a port"),
        ("ssh://nas:-1", "not a port"),
        ("ssh://nas:+22", "not a port"),
        ("ssh://nas:٢٢", "not a port"),
        ("ssh://fd00::7", "in brackets"),
        ("ssh://[fd00::7", "in brackets"),
        ("ssh://[nas]:22", "in brackets"),
        ("ssh://[fd00::7]22", "in brackets"),
        ("ssh://[fd00::g]", "not an IPv6 address"),
        ("ssh://[fe80::1%]", "not a network interface"),
        ("ssh://[fe80::1%-x;id]", "not a network interface"),
    ],
)
def test_invalid_addresses_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_address(text)


@pytest.mark.parametrize("text", ["ssh://root:hunter2@nas", "ssh://root:hun@ter2@nas", "ssh://:hunter2@nas"])
def test_a_password_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="passwords do not belong") as caught:
        parse_address(text)
    assert "hun" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "ssh"},
        {"kind": "ssh", "host": "-x"},
        {"kind": "ssh", "host": "nas", "user": "-x"},
        {"kind": "ssh", "host": "nas", "port": 0},
        {"kind": "local", "host": "nas"},
    ],
)
def test_no_way_around_the_parser(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        HostAddress(**wrong)  # type: ignore[arg-type]


NASTY = st.text(st.sampled_from("ab1-._@:/[]%$`;|&'\"\\ \n\t~*?#=,+ä\x1b\0"), max_size=12) | st.text(
    max_size=12
)


@settings(max_examples=400, deadline=None)
@given(NASTY | st.builds("ssh://{}".format, NASTY) | st.builds("ssh://{}@{}:{}".format, NASTY, NASTY, NASTY))
@example("ssh://a@b@c")
@example("ssh://a@b:1:2")
def test_hostile_text_is_rejected_or_exactly_one_host(text: str) -> None:
    try:
        address = parse_address(text)
    except ValueError as error:
        assert str(error).isprintable() and str(error).isascii()
        return
    assert str(address) == text or address.port is not None
    assert parse_address(str(address)) == address
    for part in (address.user, address.host):
        if part is not None:
            assert re.fullmatch(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*\$?", part, re.ASCII)
