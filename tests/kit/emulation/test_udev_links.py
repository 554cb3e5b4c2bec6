"""kit.emulation.udev_links: rules of udev, and nothing else, whatever a device is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.emulation.udev_links import rules


def test_a_disk_and_its_partitions() -> None:
    whole, part = rules({"log0": "/dev/ublkb1"}).splitlines()
    assert 'KERNEL=="ublkb1"' in whole and 'SYMLINK+="disk/by-id/hsp-emulated-log0"' in whole
    assert 'ENV{ID_SERIAL_SHORT}="hsp-emulated-log0"' in whole
    # Not those of ublkb10.
    assert 'KERNEL=="ublkb1p[0-9]*"' in part and 'SYMLINK+="disk/by-id/hsp-emulated-log0-part%n"' in part
    assert 'KERNEL=="flat[0-9]*"' in rules({"flat": "/dev/flat"})


@given(st.text(max_size=20), st.text(max_size=20))
def test_hostile_names_make_no_rule(name: str, kernel_name: str) -> None:
    try:
        text = rules({name: f"/dev/{kernel_name}"})
    except ValueError:
        return
    assert len(text.splitlines()) == 2
    assert text.count('"') == rules({"a": "/dev/b"}).count('"')


@pytest.mark.parametrize("name", ['a", RUN+="/bin/sh', "a\nb", "", "A", "$env{X}", "%k"])
def test_what_would_be_another_rule_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        rules({name: "/dev/ublkb0"})
