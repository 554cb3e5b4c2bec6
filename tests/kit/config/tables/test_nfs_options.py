"""Which versions and options are allowed, and which are in effect according to /proc/mounts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kit.config.tables.nfs_options import (
    MOST_CALL_BYTES,
    VERSIONS,
    MountOption,
    Version,
    call_bytes,
    not_in_effect,
    of_family,
    same_as_key,
    value_of,
    with_keys,
)

# As read on Linux 6.12 after `mount -o hard,proto=tcp,nolock`.
V3 = (
    "rw,relatime,vers=3,rsize=524288,wsize=524288,namlen=255,hard,nolock,proto=tcp,timeo=600,retrans=2,"
    "sec=sys,mountaddr=10.97.0.1,mountvers=3,mountport=34501,mountproto=tcp,local_lock=all,addr=10.97.0.1"
)
V42 = (
    "rw,relatime,vers=4.2,rsize=524288,wsize=524288,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,"
    "clientaddr=10.97.0.2,local_lock=none,addr=10.97.0.1"
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, "3"), ("3", "3"), (3.0, "3"), (4.0, "4.0"), (4.1, "4.1"), ("4.1", "4.1"), (4.2, "4.2")],
)
def test_a_version_is_a_number_or_text(value: object, expected: str) -> None:
    assert TypeAdapter(Version).validate_python(value) == expected


@pytest.mark.parametrize("value", [4, "4", 2, 4.3, "4.20", True, None, [], "", "v3", float("nan"), -3, "3 "])
def test_other_versions_are_refused(value: object) -> None:
    with pytest.raises(ValidationError, match=r"say 4\.0, 4\.1 or 4\.2|expected one of 3, 4\.0, 4\.1, 4\.2"):
        TypeAdapter(Version).validate_python(value)


@pytest.mark.parametrize(
    "option",
    ["soft", "bg", "vers=3", "nfsvers=4", "minorversion=1", "fsc", "remount", "sloppy", "softreval",
     "softerr", "soft=1", "v4", "rsize=", "hard,soft", "proto=tcp,vers=4", "hard soft", "-o", "",
     "rsize=1;reboot", "x=$(id)", "rsize=1\n", "soft\n", "=1", "HARD"],
)  # fmt: skip
def test_invalid_and_falsifying_options_are_refused(option: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"'{option}' is not")):
        TypeAdapter(MountOption).validate_python(option)


@given(st.text())
def test_whatever_passes_can_only_be_one_option(option: str) -> None:
    try:
        TypeAdapter(MountOption).validate_python(option)
    except ValidationError:
        return
    assert not set(option) & set(", \t\n\"'`$;|&\\") and not option.startswith("-")


@pytest.mark.parametrize(
    "requested",
    [
        ("hard", "proto=tcp", "nolock", "rsize=524288", "wsize=524288", "sec=sys", "timeo=600"),
        ("tcp", "ac", "cto", "rdirplus", "sharecache", "lookupcache=all", "resvport", "retry=1"),
        ("acregmin=3", "acdirmax=60"),
    ],
)
def test_options_in_effect_are_recognised_in_all_spellings(requested: tuple[str, ...]) -> None:
    assert not_in_effect("3", requested, V3) == []
    assert not_in_effect("4.2", requested, V42) == []


@pytest.mark.parametrize(
    "option",
    ["rsize=1048576", "rsize=52428", "proto=rdma", "sec=krb5", "noac", "sync", "nconnect=4", "lock",
     "actimeo=0", "acregmin=0", "lookupcache=none", "nordirplus", "ro"],
)  # fmt: skip
def test_an_option_not_in_effect_is_named(option: str) -> None:
    assert not_in_effect("3", ("hard", option), V3) == [option]


def test_attribute_caching_is_written_as_four_options() -> None:
    off = V3 + ",acregmin=0,acregmax=0,acdirmin=0,acdirmax=0"
    assert not_in_effect("3", ("actimeo=0",), off) == []
    assert not_in_effect("3", ("actimeo=0",), off.replace("acdirmax=0", "acdirmax=60")) == ["actimeo=0"]


def test_defaults_that_are_switched_off_are_named() -> None:
    assert not_in_effect("3", ("ac", "cto"), V3 + ",nocto,noac") == ["ac", "cto"]


@pytest.mark.parametrize("requested", VERSIONS)
@pytest.mark.parametrize("observed", VERSIONS)
def test_another_version_is_named(requested: str, observed: str) -> None:
    effective = V42.replace("vers=4.2", f"vers={observed}")
    assert not_in_effect(requested, (), effective) == ([] if requested == observed else [f"vers={requested}"])


def test_lock_options_have_no_effect_on_version_4() -> None:
    assert (
        not_in_effect("4.2", ("nolock",), V42)
        == not_in_effect("4.0", ("lock",), V42.replace("4.2", "4.0"))
        == []
    )


@pytest.mark.parametrize(
    ("source", "requested", "expected"),
    [
        ("10.0.0.1:/p", ("proto=tcp", "tcp"), ("proto=tcp", "tcp")),
        ("nas:/p", ("proto=tcp6",), ("proto=tcp6",)),
        ("[fd00::1]:/p", ("hard", "proto=tcp", "udp"), ("hard", "proto=tcp6", "proto=udp6")),
        ("[fd00::1]:/p", ("mountproto=tcp", "proto=rdma"), ("mountproto=tcp6", "proto=rdma6")),
        ("[fd00::1]:/p", ("proto=tcp6",), ("proto=tcp6",)),
    ],
)
def test_transports_of_ipv6_have_other_names(
    source: str, requested: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert of_family(requested, source) == expected
    assert of_family(expected, source) == expected


def test_keys_become_options_and_rdma_has_its_port() -> None:
    assert with_keys(("hard",), None, None) == ("hard",)
    assert with_keys(("hard",), "tcp", 4) == ("hard", "proto=tcp", "nconnect=4")
    assert with_keys((), "rdma", None) == ("proto=rdma", "port=20049")
    assert with_keys(("port=7",), "rdma", None) == ("port=7", "proto=rdma")
    assert of_family(with_keys((), "rdma", None), "[fd97::1]:/x")[0] == "proto=rdma6"
    shown = f"{V3},nconnect=4"
    assert not_in_effect("3", with_keys((), "tcp", 4), shown) == []
    assert not_in_effect("3", with_keys((), "tcp", 4), V3) == ["nconnect=4"]
    assert not_in_effect("3", with_keys((), "rdma", None), V3) == ["proto=rdma", "port=20049"]


def test_the_value_of_an_option_is_that_of_its_whole_name() -> None:
    assert value_of("addr", V3) == "10.97.0.1" and value_of("proto", V3) == "tcp"
    assert value_of("nconnect", V3) is None and value_of("hard", V3) is None


@pytest.mark.parametrize("options", [(), ("hard", "rsize=65536"), ("wsize=0",), ("wsize=x",)])
def test_without_a_size_the_client_asks_for_as_much_as_a_call_has(options: tuple[str, ...]) -> None:
    assert call_bytes("wsize", options) == MOST_CALL_BYTES
    assert call_bytes("wsize", (*options, "wsize=131072")) == 131072


@pytest.mark.parametrize("option", ["tcp", "udp", "rdma", "proto=tcp6"])
def test_an_option_that_says_the_same_as_a_key_is_found(option: str) -> None:
    assert same_as_key("proto", ("hard", option)) == option
    assert same_as_key("nconnect", ("hard", option)) is None
