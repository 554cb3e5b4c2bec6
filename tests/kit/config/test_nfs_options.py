"""Which versions and options may be asked for, and how they are found in /proc/mounts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kit.config.nfs_options import VERSIONS, MountOption, Version, not_in_effect, of_family

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
    ("said", "meant"),
    [(3, "3"), ("3", "3"), (3.0, "3"), (4.0, "4.0"), (4.1, "4.1"), ("4.1", "4.1"), (4.2, "4.2")],
)
def test_a_version_is_a_number_or_text(said: object, meant: str) -> None:
    assert TypeAdapter(Version).validate_python(said) == meant


@pytest.mark.parametrize("said", [4, "4", 2, 4.3, "4.20", True, None, [], "", "v3", float("nan"), -3, "3 "])
def test_what_is_no_single_version_is_refused(said: object) -> None:
    with pytest.raises(ValidationError, match=r"say 4\.0, 4\.1 or 4\.2|expected one of 3, 4\.0, 4\.1, 4\.2"):
        TypeAdapter(Version).validate_python(said)


@pytest.mark.parametrize(
    "option",
    ["soft", "bg", "vers=3", "nfsvers=4", "minorversion=1", "fsc", "remount", "sloppy", "softreval",
     "softerr", "soft=1", "v4", "rsize=", "hard,soft", "proto=tcp,vers=4", "hard soft", "-o", "",
     "rsize=1;reboot", "x=$(id)", "rsize=1\n", "soft\n", "=1", "HARD"],
)  # fmt: skip
def test_options_that_are_not_for_measuring_or_none_at_all(option: str) -> None:
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
    "asked",
    [
        ("hard", "proto=tcp", "nolock", "rsize=524288", "wsize=524288", "sec=sys", "timeo=600"),
        ("tcp", "ac", "cto", "rdirplus", "sharecache", "lookupcache=all", "resvport", "retry=1"),
        ("acregmin=3", "acdirmax=60"),
    ],
)
def test_what_is_in_effect_is_found_in_all_its_spellings(asked: tuple[str, ...]) -> None:
    assert not_in_effect("3", asked, V3) == []
    assert not_in_effect("4.2", asked, V42) == []


@pytest.mark.parametrize(
    "option",
    ["rsize=1048576", "rsize=52428", "proto=rdma", "sec=krb5", "noac", "sync", "nconnect=4", "lock",
     "actimeo=0", "acregmin=0", "lookupcache=none", "nordirplus", "ro"],
)  # fmt: skip
def test_what_is_not_in_effect_is_told(option: str) -> None:
    assert not_in_effect("3", ("hard", option), V3) == [option]


def test_attribute_caching_is_written_as_four_options() -> None:
    off = V3 + ",acregmin=0,acregmax=0,acdirmin=0,acdirmax=0"
    assert not_in_effect("3", ("actimeo=0",), off) == []
    assert not_in_effect("3", ("actimeo=0",), off.replace("acdirmax=0", "acdirmax=60")) == ["actimeo=0"]


def test_defaults_that_are_switched_off_are_told() -> None:
    assert not_in_effect("3", ("ac", "cto"), V3 + ",nocto,noac") == ["ac", "cto"]


@pytest.mark.parametrize("asked", VERSIONS)
@pytest.mark.parametrize("found", VERSIONS)
def test_another_version_is_told(asked: str, found: str) -> None:
    effective = V42.replace("vers=4.2", f"vers={found}")
    assert not_in_effect(asked, (), effective) == ([] if asked == found else [f"vers={asked}"])


def test_locking_is_nothing_that_can_be_asked_of_version_4() -> None:
    assert (
        not_in_effect("4.2", ("nolock",), V42)
        == not_in_effect("4.0", ("lock",), V42.replace("4.2", "4.0"))
        == []
    )


@pytest.mark.parametrize(
    ("source", "asked", "done"),
    [
        ("10.0.0.1:/p", ("proto=tcp", "tcp"), ("proto=tcp", "tcp")),
        ("nas:/p", ("proto=tcp6",), ("proto=tcp6",)),
        ("[fd00::1]:/p", ("hard", "proto=tcp", "udp"), ("hard", "proto=tcp6", "proto=udp6")),
        ("[fd00::1]:/p", ("mountproto=tcp", "proto=rdma"), ("mountproto=tcp6", "proto=rdma6")),
        ("[fd00::1]:/p", ("proto=tcp6",), ("proto=tcp6",)),
    ],
)
def test_transports_of_ipv6_have_other_names(
    source: str, asked: tuple[str, ...], done: tuple[str, ...]
) -> None:
    assert of_family(asked, source) == done
    assert of_family(done, source) == done
