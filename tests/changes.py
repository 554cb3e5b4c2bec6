"""Which commands of a run change something, for tests that compare them with its plan."""

from __future__ import annotations

from kit.hosts.held_device import PLACE, HeldDevice
from kit.nfs import unlisted_exports

_LOOKS = {
    "find", "readlink", "grep", "cat", "test", "uname", "dpkg-query", "head", "tail", "stat", "zdb", "lsblk",
    "sleep", "udevadm", "bpftrace", "env", "id", "true",
}  # fmt: skip


def changes_something(argv: list[str], run: str) -> bool:
    """Whether a command does more than look, outside the run's own directory."""
    words = sketch(argv)
    if words[0] == "fio" and any(word.startswith("--filename=/dev/") for word in words):
        # Reads of a bare device are not all in the plan: how many there are depends on what they find.
        return not {"--rw=read", "--rw=randread"} & set(words)
    if (
        argv[0] in _LOOKS
        or argv[:2] in (["exportfs", "-v"], ["fio", "--version"])
        or tuple(argv) == unlisted_exports.READ
    ):
        return False
    if argv[0] in ("zfs", "zpool") and argv[1] in ("get", "list", "status", "version"):
        return False
    # Of an owner that only the host knows.
    if argv[:5] == ["install", "-d", "-m", "0700", "-o"] or argv[:2] == ["chmod", "0711"]:
        return False
    if argv[0] in ("mkdir", "rm") and argv[-1].startswith(f"/run/hsp/{run}"):
        return False
    if argv[0] == "sh" and ("dd if=" in argv[2] or "until test -e" in argv[2]):
        return False
    probe = argv[:3] == ["/usr/bin/python3", "-I", "-"] and argv[3].startswith(("{", "["))
    return not probe and argv[:2] != ["blockdev", "--getsize64"]


def sketch(argv: list[str]) -> list[str]:
    """Without what only the host knows: arguments of the tracer's scripts, the number of a held device."""
    if argv[:5] == HeldDevice("", "").command([])[:5]:
        path, command = argv[5], argv[8:]
        return [word.replace(PLACE, path) for word in command]
    return argv[:3] if argv[0] == "sh" else argv
