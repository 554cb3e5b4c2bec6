"""Two pairs of machines, one after the other: either release once as server, with the other as client."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debian.guests import Site, open_site
from tests.debian.image import SUITES


@pytest.fixture(scope="session", params=SUITES)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if os.geteuid():
        pytest.skip("the network of the machines needs root")
    (other,) = set(SUITES) - {request.param}
    # The path must be short: it holds sockets (unix(7)). Disks may become as large as they say.
    with tempfile.TemporaryDirectory(prefix="hsp-", dir="/var/tmp") as folder:
        with open_site(Path(folder), {"nas": request.param, "client1": other}) as found:
            # As docs/hosts.md says, and as a boot does that finds a pool (90-zfs.rules, zfs-zed.service).
            found.nas.sh("modprobe zfs && systemctl start zfs-zed")
            yield found
