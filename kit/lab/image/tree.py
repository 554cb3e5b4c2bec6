"""Temporary Debian trees made by mmdebstrap; results leave a tree through copy-out hooks."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import HostError
from kit.hosts.base import CommandFailed, DeadlineExceeded
from kit.hosts.local import LocalHost
from kit.lab.image.inputs import COMPONENTS, HERE, KEYRING, ImageInputs, debian_mirror

# The guest's tree together with its disk image.
NEEDED_TREE_BYTES = 3 << 30
# Message of make-root.sh if the cached modules are for another kernel than Debian's newest.
STALE_MODULES = "modules were built for"
_BUILD_DEADLINE_S = 3600.0
# Programs that build an image, and their packages, which ./hsp installs.
NEEDED_TOOLS = {
    "fallocate": "util-linux",
    "flock": "util-linux",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "nm": "binutils",
    "objcopy": "binutils",
    "setpriv": "util-linux",
    "tar": "tar",
    "xz": "xz-utils",
}


class StaleModules(HostError):
    """The cached modules do not match the installed guest."""


def check_tools() -> None:
    """Raises HostError if a program that builds images is not installed."""
    missing = {tool: package for tool, package in NEEDED_TOOLS.items() if shutil.which(tool) is None}
    if missing:
        raise HostError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed; "
            "building the lab image needs it",
            f"install it: apt-get install {' '.join(sorted(set(missing.values())))}",
        )


@dataclass(frozen=True)
class Scratch:
    """Directories for trees (`trees`) and for hooks that the tree's root can access (`hooks`)."""

    trees: Path
    hooks: Path


@contextmanager
def scratch(work: Path, name: str) -> Iterator[Scratch]:
    """Make temporary directories for trees and hooks. Raises HostError without enough space.

    As root, trees are in the build's directory and are removed with it. The trees of an ordinary user
    belong to subordinate user ids, which have no access to a private home directory.
    """
    if os.geteuid() == 0:
        with _held(work):
            yield Scratch(work, work)
        return
    bases = _scratch_bases()
    for base in bases:
        if base.is_dir() and shutil.disk_usage(base).free >= NEEDED_TREE_BYTES:
            break
    else:
        raise HostError(
            f"neither {bases[0]} nor {bases[-1]} has {NEEDED_TREE_BYTES >> 30} GiB free; "
            "the guest is installed there",
            "free some space, or set TMPDIR to a directory with enough space that every user may enter",
        )
    for stale in dead_scratch():
        shutil.rmtree(stale, ignore_errors=True)
    prefix = f"hsp-{os.geteuid()}-{name}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=base, ignore_cleanup_errors=True) as hooks:
        # Builds with another cache directory do not share a lock with this one.
        with _held(Path(hooks)):
            Path(hooks).chmod(0o711)
            yield Scratch(base, Path(hooks))


@contextmanager
def _held(directory: Path) -> Iterator[int]:
    """Lock a directory and give its descriptor, until this process ends at the latest. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def dead_scratch() -> list[Path]:
    """Directories of hooks left by killed builds of an ordinary user."""
    name = f"hsp-{os.geteuid()}-{'[0-9a-f]' * 16}-????????"
    return [path for base in _scratch_bases() for path in base.glob(name) if _is_abandoned(path)]


def _is_abandoned(path: Path) -> bool:
    """Whether it is a directory of this user that no build has locked; a name in /tmp is not proof."""
    try:
        with _held(path) as directory:
            return os.fstat(directory).st_uid == os.geteuid()
    except OSError:  # locked, or no directory
        return False


def _scratch_bases() -> list[Path]:
    return list(dict.fromkeys((Path(tempfile.gettempdir()), Path("/var/tmp"))))


def hook(place: Scratch, source: Path) -> str:
    """Make an executable copy of a hook; files of an installed package may not be executable."""
    copy = place.hooks / source.name
    shutil.copyfile(source, copy)
    copy.chmod(0o755)
    return os.fspath(copy)


def quoted(path: Path) -> str:
    """Quote a path for mmdebstrap's copy-in and copy-out hooks, which are split like shell words."""
    return shlex.quote(os.fspath(path))


def make_tree(
    place: Scratch,
    inputs: ImageInputs,
    packages: Sequence[str],
    log: Path,
    *,
    setup: Sequence[str] = (),
    customize: Sequence[str],
) -> None:
    """Install `packages` and run the hooks. Raises HostError with the end of the log, StaleModules."""
    mirror = debian_mirror()
    argv = [
        *_contained(place),
        "--variant=minbase", "--format=null", "--architectures=amd64",
        f"--components={COMPONENTS}", f"--include={','.join(packages)}",
        *(f"--setup-hook={text}" for text in (*setup, hook(place, HERE / "add-releases.sh"))),
        f"--essential-hook={hook(place, HERE / 'check-pins.sh')}",
        *(f"--customize-hook={text}" for text in customize),
    ]  # fmt: skip
    if not mirror and KEYRING.exists():
        argv.append(f"--keyring={KEYRING}")
    # Without a configured mirror, mmdebstrap uses Debian's default.
    argv += [inputs.suite, "-", *([mirror] if mirror else [])]
    env = {
        "TMPDIR": os.fspath(place.trees),
        "HSP_SUITE": inputs.suite,
        "HSP_RELEASES": " ".join(inputs.releases),
        "HSP_PINS": " ".join(inputs.pins),
    }
    begin = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output:
        try:
            # The working directory must be accessible for the tree's root too.
            LocalHost(env=env, output_file=output, cwd=Path("/")).run(argv, deadline_s=_BUILD_DEADLINE_S)
        except (CommandFailed, DeadlineExceeded) as error:
            raise _failure(log, begin, error) from error


def _contained(place: Scratch) -> list[str]:
    """Command prefix that ends mmdebstrap when this process is killed.

    mmdebstrap ignores signals while one of its children runs. As root it would also mount /proc and /sys
    in the host's mount namespace and leave them there; with own namespaces both end with the process. For
    an ordinary user mmdebstrap makes such namespaces itself.
    """
    root = os.geteuid() == 0
    namespaces = [
        "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL", "--",
        # The same check for unshare's child, which cannot see its parent: the build holds the lock.
        "sh", "-c", 'flock --nonblock "$0" true || exec "$@"', os.fspath(place.hooks),
    ]  # fmt: skip
    return [
        "setpriv", "--pdeathsig", "KILL" if root else "TERM", "--",
        # The signal does not come if the parent died before setpriv requested it.
        "sh", "-c", 'test "$PPID" = "$0" && exec "$@"', str(os.getpid()),
        *(namespaces if root else []),
        "mmdebstrap", f"--mode={'root' if root else 'unshare'}",
    ]  # fmt: skip


def _failure(log: Path, begin: int, error: HostError) -> HostError:
    output = log.read_bytes()[begin:].decode(errors="replace")
    if STALE_MODULES in output:
        return StaleModules(f"the compiled modules are for another kernel than the guest's; see {log}")
    tail = "\n".join(f"  {line}" for line in [line for line in output.splitlines() if line.strip()][-12:])
    if isinstance(error, DeadlineExceeded):
        tail += f"\n  stopped: not ready after {_BUILD_DEADLINE_S:g} s"
    return HostError(f"building the lab image failed; the last lines of {log}:\n{tail}", _remedy(output))


def _remedy(output: str) -> str:
    if "No space left on device" in output:
        return "free some space, or set XDG_CACHE_HOME and TMPDIR to directories with enough space"
    if "Building initial module" in output and "(bad exit status" in output:
        return (
            "this OpenZFS does not compile for this kernel, mostly as the kernel is newer than it knows: "
            "take an older kernel (--kernel), or a newer OpenZFS (--pin zfs-linux/RELEASE)"
        )
    if "Unable to locate package linux-" in output or "Couldn't find any package by" in output:
        return (
            "check that the release has linux-image- and linux-headers- of that --kernel; one of another "
            "release needs --pin linux/RELEASE --pin linux-signed-amd64/RELEASE as well"
        )
    if "unmet dependencies" in output:
        return (
            "a package of a pinned release needs newer ones than this suite has: pin their sources, too, as "
            "in --pin linux-base/trixie-backports"
        )
    if "hsp: pin " in output:
        return "check that the release has that source package in that version"
    if os.geteuid() != 0 and "unshare" in output:
        return (
            "check that uidmap is installed, that your user has lines in /etc/subuid and /etc/subgid, and "
            "that unprivileged user namespaces are allowed; root needs none of them"
        )
    return "check that Debian's mirror is reachable, and the name of the release"
