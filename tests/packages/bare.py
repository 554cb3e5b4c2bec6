"""A bare Debian: what `mmdebstrap --variant=minbase` makes, as a root directory in which commands run."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kit.lab.image.inputs import debian_mirror

ROOT = Path(__file__).parents[2]
SUITES = ("bookworm", "trixie")
_HANG_S = 1800.0
APT = "apt-get -qq update && apt-get -qqy"
# What this machine trusts; a tree trusts the same.
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "SSL_CERT_FILE": os.fspath(_CERTIFICATES),
    "PIP_CERT": os.fspath(_CERTIFICATES),
}
# Mounts and processes end with the command: what is mounted in a tree is never seen by who removes it.
_ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# /proc and /tmp as on a machine; they end with the command, as do processes that it leaves.
_ENTER = 'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/tmp" && exec chroot "$0" sh -euc "$1"'
# Of apt, dpkg, pip, pipx and uv themselves, and what any program of the system may write.
_NOT_OURS = (
    # What appstream, which lintian needs, makes of the lists of apt.
    "/var/lib/app-info", "/var/lib/swcatalog",
    "/var/cache/", "/var/lib/apt/", "/var/lib/dpkg/", "/var/log/", "/root/.cache/pip/", "/root/.cache/uv/",
    "/root/.local/pipx/shared/", "/root/.local/pipx/.cache/", "/root/.local/pipx/logs/", "/root/.cache/pipx/",
    "/root/.local/share/pipx/", "/root/.local/share/uv/tools/.", "/root/.local/state/pipx/",
    "/etc/ld.so.cache",
)  # fmt: skip


def make_tree(suite: str, root: Path) -> None:
    """A bare Debian that can install from the registries. Raises CalledProcessError."""
    mirror = [debian_mirror()] if debian_mirror() else []
    words = ["--variant=minbase", "--include=ca-certificates,python3-venv", "--format=directory"]
    subprocess.run(
        [*_ALONE, "mmdebstrap", "--quiet", *words, suite, root, *mirror],
        check=True, timeout=_HANG_S, cwd="/",
    )  # fmt: skip
    for path in (Path("/etc/resolv.conf"), _CERTIFICATES):
        shutil.copyfile(path, root / path.relative_to("/"))


@dataclass(frozen=True)
class Bare:
    """One tree; `suite` is its release."""

    suite: str
    root: Path

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """A script of sh as root in the tree."""
        return subprocess.run(
            [*_ALONE, "sh", "-c", _ENTER, self.root, script],
            env=_ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_HANG_S,
        )  # fmt: skip

    def sh(self, script: str) -> str:
        """Standard output of a script that must not fail."""
        done = self.run(script)
        assert done.returncode == 0, f"{self.suite}: {script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def files(self, *, directories: bool = True) -> set[str]:
        """Everything in the tree but what belongs to the system's own programs."""
        kinds = "" if directories else "! -type d"
        found = self.sh(f"find / -xdev -path /proc -prune -o -path /tmp -prune -o {kinds} -print")
        return {path for path in found.splitlines() if not path.startswith(_NOT_OURS)}
