"""What the tests look at on the machines, beside the kit: state before and after, the kernel's counters."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.debian.guests import ROOT, Machine, Site
from tests.lab.hoststate import State, differences, state_of

Disks = list[dict[str, Any]]
States = dict[str, State]

# What systemd, udev and logins move by themselves.
_OWN = re.compile(
    r"/run/(systemd|user|udev|chrony|log|credentials|lock|sshd|utmp|rpcbind|initctl|motd)|/var/lib/nfs/rmtab|"
    r"/tmp/systemd-private|/var/tmp/systemd-private|/run/sudo|/(systemd|lib/systemd)/|^\(sd-pam|cgroup|"
    r"credential|/sbin/agetty|/usr/sbin/CRON|/run/nfsdcld|nfsd.fh|sshd|apt|/etc/mtab|/etc/(sub[ug]id|passwd|shadow|group|gshadow)-|ssh|binfmt_misc"
)
# They follow from the memory that a boot has left: of a tmpfs, and what the module sets when it is loaded.
_SIZES = re.compile(r",size=\d+k|,nr_inodes=\d+")
_FROM_MEMORY = re.compile(r"/zfs_(dedup_log_mem_max|dirty_data_max(_max)?|wrlog_data_max):|^c_(min|max) ")
_UNITS = (
    "chrony", "zfs-zed", "zfs-import-cache", "zfs-import.target", "zfs-share", "nfs-server", "rpcbind",
)  # fmt: skip
_FILES = "/etc/exports /etc/exports.d/* /etc/zfs/zpool.cache /etc/fstab"
_COUNTERS = r"""
awk '/^proc3/ {print "nfs_read", $9; print "nfs_write", $10}' /proc/net/rpc/nfsd
awk '$1 ~ /^(demand_data_hits|l2_hits|l2_misses)$/ {print $1, $3}' /proc/spl/kstat/zfs/arcstats
awk '$1 ~ /^zil_itx_metaslab_(slog|normal)_count$/ {print $1, $3}' /proc/spl/kstat/zfs/zil
"""


def settled_state(machine: Machine) -> State:
    """As tests.lab.hoststate.state_of, without what a machine with systemd changes by itself."""
    found = state_of(machine)  # type: ignore[arg-type]
    kept = {
        name: {_SIZES.sub("", line) for line in lines if not (_OWN.search(line) or _FROM_MEMORY.search(line))}
        for name, lines in found.items()
    }
    kept["disks"] = _by_link(kept["disks"])
    units = machine.run(["systemctl", "is-active", *_UNITS], check=False).stdout.split()
    kept["units"] = {f"{unit} {state}" for unit, state in zip(_UNITS, units, strict=False)}
    kept["files' contents"] = set(machine.sh(f"sha256sum {_FILES} 2>/dev/null || true").splitlines())
    return kept


def _by_link(lines: set[str]) -> set[str]:
    """Lines of the subject `disks` with links in the place of names that may be others after a reboot."""
    links = [line.split(" ../../") for line in lines if " ../../" in line]
    first = {name: link for link, name in sorted(links, reverse=True)}
    signatures = (line.split() for line in lines if " ../../" not in line)
    return {link for link, _ in links} | {" ".join([first.get(w[0], w[0]), *w[1:]]) for w in signatures if w}


def changes(site: Site, before: States) -> list[str]:
    """What differs on the machines from the state that `states` gave, but for what nfsd's caches forget."""
    now = states(site)
    found = [(name, line) for name in now for line in differences(before[name], now[name])]
    return [f"{name}: {line}" for name, line in found if not line.startswith("nfsd's caches: gone")]


def states(site: Site) -> States:
    return {name: settled_state(machine) for name, machine in site.machines.items()}


def counters(machine: Machine) -> dict[str, int]:
    """The kernel's own counts: NFSv3 calls, ARC, L2ARC, ZIL (of all pools)."""
    lines = (line.split() for line in machine.sh(_COUNTERS).splitlines())
    return {name: int(value) for name, value in lines}


def devices(site: Site, *words: str) -> Disks:
    done = site.hsp("host", "disks", "--testbed", str(site.testbed()), "--json", *words)
    assert done.returncode == 0, done.stderr
    listed: Disks = json.loads(done.stdout)["devices"]
    return listed


def blocks(listed: Disks, roles: dict[str, str]) -> str:
    """The blocks that `hsp host disks` prints, with roles by serial; of two namespaces the first."""
    text, seen = "", set[str]()
    for device in sorted(listed, key=lambda device: device["path"] or ""):
        serial = device["serial"]
        if serial in roles and serial not in seen:
            seen.add(serial)
            text += (
                f'[[device]]\nname = "{serial.lower()}"\nrole = "{roles[serial]}"\n'
                f'path = "{device["path"]}"\nserial = "{serial}"\nsize = "{device["size_bytes"]}B"\n\n'
            )
    assert seen == set(roles), listed
    return text


def sudoers(role: str) -> str:
    """The list that docs/hosts.md has for a server or a client, as it stands there."""
    found = re.search(rf"```sudoers-{role}\n(.*?)```", (ROOT / "docs" / "hosts.md").read_text(), re.DOTALL)
    assert found
    return found[1]
