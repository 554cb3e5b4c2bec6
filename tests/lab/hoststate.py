"""What a host has, for comparing before with after: everything that a run could leave behind."""

from __future__ import annotations

import shlex

from kit.hosts.base import Host

# By subject, the lines that are there.
State = dict[str, set[str]]

_DISKS = """\
cd /dev/disk/by-id && for link in *; do echo "$link $(readlink "$link")"; done
wipefs --no-act --noheadings --output DEVICE,TYPE,OFFSET $(readlink -f /dev/disk/by-id/* | sort -u)
"""

# Versions and threads of nfsd, and what listens on its port, 2049 (of TCP state 0A, of UDP 07).
_NFSD = """\
cd /proc/fs/nfsd && grep '' versions threads portlist
cd /proc/net && awk '$2 ~ /:0801$/ && $4 ~ /0A|07/ {print FILENAME, $2}' tcp tcp6 udp udp6
"""

# A command for each subject; what is printed must be the same afterwards, line by line in any order.
_COMMANDS = {
    "pools": ["zpool", "list", "-H", "-o", "name,guid"],
    "mounts": ["cat", "/proc/self/mounts"],
    "mounts of all namespaces": ["sh", "-c", "cat /proc/[0-9]*/mounts 2>/dev/null | sort -u"],
    "exports": ["exportfs", "-v"],
    "nfsd's caches": ["sh", "-c", "cat /proc/net/rpc/nfsd.export/content /proc/net/rpc/nfsd.fh/content"],
    "nfsd": ["sh", "-c", _NFSD],
    "network namespaces": ["ls", "/run/netns"],
    "module parameters": ["sh", "-c", "grep -rs '' /sys/module/zfs/parameters /sys/module/spl/parameters"],
    "counting of BPF programs": ["cat", "/proc/sys/kernel/bpf_stats_enabled"],
    "limits of the ARC": ["grep", "-E", "^c_(min|max) ", "/proc/spl/kstat/zfs/arcstats"],
    "processes": ["sh", "-c", "ps -e -o args= | grep -vE '^(\\[|sshd|ps |sh -c|grep|.udev-worker)'"],
    "files": [
        "find", "/run", "/mnt", "/tmp", "/var/tmp", "/etc", "/root", "/home", "/var/lib/nfs",
        "-xdev", "-path", "/run/udev", "-prune", "-o", "-path", "/run/hsp/locks*", "-prune", "-o",
        "-printf", "%p %y %m\\n",
    ],
    # A line for each link, and one for each signature on what has links.
    "disks": ["sh", "-c", _DISKS],
}  # fmt: skip

# Numbers that the modules move by themselves.
_MOVING = ("spl_kmem_cache", "zfs_arc_average_blocksize")


# What mount(8), exportfs(8), sudo(8), blkid(8) and the kernel make when they are first used, and keep.
_FIRST_USE = (
    "tracefs /sys/kernel/debug/tracing tracefs",
    "/run/mount/utab",
    "/var/lib/nfs/.rmtab.lock",
    "/var/lib/nfs/export-lock",
    "/run/hsp d",
    "/run/sudo",
    "/run/blkid",
    "/run/mdadm",
)


def state_of(host: Host) -> State:
    """All of it, now: one command, for each costs a round trip and a process of sshd's."""
    script = "".join(f"{shlex.join(argv)}; printf '\\036\\n'; " for argv in _COMMANDS.values())
    answers = host.run(["sh", "-c", script], check=False, deadline_s=300).stdout.split("\036\n")
    assert len(answers) == len(_COMMANDS) + 1, answers[-1]
    found: State = {}
    for subject, answer in zip(_COMMANDS, answers, strict=False):
        kept = (line for line in answer.splitlines() if not line.startswith(_FIRST_USE))
        found[subject] = {line for line in kept if not any(word in line for word in _MOVING)}
    return found


def differences(before: State, after: State) -> list[str]:
    """What is there now and was not, and the other way round."""
    found = []
    for subject in before:
        found += [f"{subject}: new: {line}" for line in sorted(after[subject] - before[subject])]
        # A file that another run was just writing, before it gets its name.
        gone = (line for line in before[subject] - after[subject] if ".new f " not in line)
        found += [f"{subject}: gone: {line}" for line in sorted(gone)]
    return found
