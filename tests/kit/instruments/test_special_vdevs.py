"""kit.instruments.special_vdevs: sizes of `zpool list -v`, and reads that must be there."""

from __future__ import annotations

import pytest

from kit.core.errors import HostError
from kit.instruments.special_vdevs import check
from kit.zfs.vdev_listing import space_of

# zpool list -v -H -P -p, as OpenZFS 2.3.9 prints it.
LISTING = """\
hsp-62eb60\t452984832\t129355776\t323629056\t-\t-\t0\t28\t1.00\tONLINE\t-
\tmirror-0\t369098752\t60162048\t308936704\t-\t-\t0\t16\t-\tONLINE
\t/dev/ublkb0\t402653184\t-\t-\t-\t-\t-\t-\t-\tONLINE
\t/dev/ublkb1\t402653184\t-\t-\t-\t-\t-\t-\t-\tONLINE
special                    -         -         -         -         -      -      -      -         -
\tmirror-1\t83886080\t69193728\t14692352\t-\t-\t0\t82\t-\tONLINE
\t/dev/ublkb2p1\t93323264\t-\t-\t-\t-\t-\t-\t-\tONLINE
\t/dev/ublkb3p1\t93323264\t-\t-\t-\t-\t-\t-\t-\tONLINE
dedup                      -         -         -         -         -      -      -      -         -
\t/dev/ublkb4\t1875\t10\t990\t-\t-\t0\t1\t-\tONLINE
"""


def test_sizes_are_those_of_vdevs_not_of_the_devices_of_a_mirror() -> None:
    """Of a vdev of one device the listed size is that of the device, of which it cannot use all."""
    assert space_of(LISTING, "special") == (83886080, 69193728)
    assert space_of(LISTING, "special", "dedup") == (83887080, 69193738)
    assert space_of(LISTING, "") == (369098752, 60162048)
    with pytest.raises(HostError, match="no vdev of logs with a size"):
        space_of(LISTING, "logs")


@pytest.mark.parametrize(
    ("traced", "reads", "closes"), [(0, 0, True), (4191, 4191, True), (1000, 5000, True), (1000, 900, False)]
)
def test_devices_have_at_least_the_reads_that_the_tracer_saw(traced: int, reads: int, closes: bool) -> None:
    assert check(traced, reads).closes is closes
