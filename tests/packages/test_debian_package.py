"""The Debian package on bare Debian 12 and 13: built, checked by lintian, installed, used, removed, purged.

pytest -m long tests/packages        needs root, mmdebstrap, and the package registries
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kit.core.progress import Progress
from kit.lab.image.image import ImageInputs, build
from tests.packages.bare import APT, ROOT, Bare
from tests.packages.test_installed_wheel import use

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SOURCES = ROOT / ".ci" / "deb"
NAME = "zfs-hsp-kit"


def test_a_build_without_a_maintainer_or_a_wheel_is_refused(bare: Bare) -> None:
    put_sources(bare)
    for command in ("/src/.ci/deb/build", "DEBEMAIL=a@b.org /src/.ci/deb/build /no-such.whl /out"):
        done = bare.run(command)
        assert done.returncode == 2 and done.stderr.startswith("build: "), done


def test_built_checked_installed_used_removed_and_purged(bare: Bare, wheel: Path) -> None:
    put_sources(bare)
    shutil.copy(wheel, bare.root / "src")
    bare.sh("DEBEMAIL=kit@debian.org /src/.ci/deb/build /src/*.whl /out")
    # What the checks and a first use install is not the package's.
    bare.sh(f"{APT} install --no-install-recommends lintian man-db bash-completion && hash -r")
    told = bare.run("lintian --allow-root --fail-on error --tag-display-limit 20 /out/*.deb")
    print(told.stdout, told.stderr)
    assert told.returncode == 0, told.stdout
    found = bare.files()
    bare.sh(f"{APT} install --no-install-recommends /out/*.deb")
    use(bare, "/usr/bin/hsp")
    assert bare.sh("man --where hsp").strip() == "/usr/share/man/man1/hsp.1.gz"
    completed = 'COMP_WORDS=(hsp plan top-sp); COMP_CWORD=2; _hsp_completion hsp; echo "${COMPREPLY[*]}"'
    source = "source /usr/share/bash-completion/completions/hsp"
    assert bare.sh(f"bash -euc '{source}; {completed}'") == "top-speeds\n"
    # What was run has left nothing that dpkg does not know.
    assert bare.sh(f"dpkg --verify {NAME}") == ""
    bare.sh(f"apt-get -qqy remove {NAME}")
    removed = bare.files()
    # Without configuration files nothing is left that apt could name.
    bare.sh(f"dpkg --purge {NAME}")
    assert bare.files() ^ found == set()
    assert removed ^ found == set()
    assert NAME not in bare.sh("dpkg --get-selections")


def test_the_main_job_runs_from_it_and_leaves_what_is_the_users_alone(bare: Bare, wheel: Path) -> None:
    """With the packages that it suggests, and the lab's image of this machine: lab tests make one."""
    image = build(ImageInputs(), Progress()).path
    put_sources(bare)
    shutil.copy(wheel, bare.root / "src")
    bare.sh("DEBEMAIL=kit@debian.org /src/.ci/deb/build /src/*.whl /out")
    bare.sh(f"{APT} install --no-install-recommends $(dpkg-deb -f /out/*.deb Suggests | tr -d ,)")
    found = bare.files()
    bare.sh(f"{APT} install --no-install-recommends /out/*.deb")
    shutil.copytree(image, bare.root / "root" / ".cache" / "hsp" / "images" / image.name)
    summary = json.loads(bare.sh("cd /root && hsp demo --json"))
    assert summary["verdict"] == "valid", summary["reasons"]
    assert {"dram", "l2arc", "disk", "slog", "pool"} <= {row["tier"] for row in summary["rows"]}
    bare.sh(f"apt-get -qqy purge {NAME}")
    # docs/installing.md: what the kit writes by itself.
    mine = ("/root/results", "/root/.cache", "/root/.local")
    left = {path for path in bare.files() ^ found if not path.startswith(mine)}
    assert left == set()
    assert "<html" in (bare.root / "root/results/top-speeds/latest/report.html").read_text()


def put_sources(bare: Bare) -> None:
    """What the build reads, and a directory for what it makes."""
    shutil.copytree(SOURCES, bare.root / "src" / ".ci" / "deb")
    shutil.copy(ROOT / "requirements.lock", bare.root / "src")
    (bare.root / "out").mkdir()
