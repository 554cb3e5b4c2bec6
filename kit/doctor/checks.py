"""The closed list of what the doctor looks at: why each matters, what to do.

docs/doctor.md is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """`looks_at`, `meaning` and `remedy` are sentences for people."""

    name: str
    looks_at: str
    meaning: str
    remedy: str


EVERY_HOST = (
    Check(
        "reachable", "Whether commands run on the host.",
        "Nothing of a run works on a host that takes no commands.",
        "Log in by hand as the testbed names it (ssh USER@HOST true), and accept its host key there once.",
    ),
    Check(
        "python", "/usr/bin/python3, 3.6 or later, and an answer of the program that looks around.",
        "The kit sends small programs to /usr/bin/python3; without it nothing else can be found out.",
        "Install python3 on the host.",
    ),
    Check(
        "privilege", "Whether commands may do what only root may.",
        "Pools, exports, mounts and probes are root's.",
        "Log in as root, or give the user sudo without a password for what the README lists.",
    ),
    Check(
        "round-trip", "How long a command takes that does nothing (ms).",
        "Each step of a run is a few commands; a slow way to a host makes runs long and starts uneven.",
        "Look for a slow login (DNS, PAM, shell start-up files) or a long way; ControlMaster is not needed.",
    ),
    Check(
        "system", "The kernel's name and release.",
        "The kit measures and drives Linux.",
        "Use a Linux host in this place.",
    ),
    Check(
        "clock-source", "The kernel's clock source.",
        "Each latency is two readings of it; hpet and acpi_pm take about a microsecond each and wait for "
        "one another.",
        "Find out why the kernel has given up the TSC (dmesg, `tsc`), and have it again: "
        "clocksource=tsc tsc=reliable.",
    ),
    Check(
        "time-sync", "Whether the wall clock is kept by somebody, and whether it was set while looking (ms).",
        "Latencies are of the monotonic clock; the wall clock puts the hosts' events on one time axis.",
        "Run chrony or systemd-timesyncd, and wait until it no longer steps.",
    ),
    Check(
        "clock-offset", "The host's wall clock less this machine's (ms).",
        "Events of hosts whose clocks differ are drawn at other times than they happened.",
        "Set the clock, and keep it set: chrony or systemd-timesyncd.",
    ),
    Check(
        "mitigations", "What the kernel does against faults of the CPU.",
        "They cost up to microseconds a system call: only machines alike in this can be compared.",
        "Leave them as they are in production; for a comparison have the same on both sides.",
    ),
    Check(
        "governor", "The frequency governor of each CPU.",
        "A CPU that slows down between requests adds its way up to the latency of the next one.",
        "cpupower frequency-set -g performance, on server and clients, for the time of the run.",
    ),
    Check(
        "turbo", "Whether CPUs may be clocked above their nominal frequency.",
        "The frequency then depends on temperature and on what the other cores do: runs differ more.",
        "For the least scatter: 1 in /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 in cpufreq/boost.",
    ),
    Check(
        "c-states", "The deepest sleep the CPUs are allowed, by the time it takes to wake (us).",
        "A request that meets a sleeping CPU waits until it is awake: that much is added to DRAM hits.",
        "tuned-adm profile latency-performance, or hold /dev/cpu_dma_latency open; or boot with "
        "intel_idle.max_cstate=1.",
    ),
    Check(
        "smt", "Whether cores are shared by two hardware threads.",
        "Two threads of one core slow each other: latencies depend on where the scheduler put them.",
        "Have it the same on all sides of a comparison (/sys/devices/system/cpu/smt/control).",
    ),
    Check(
        "numa", "Memory nodes.",
        "Memory, devices and interrupts of another node are farther away: runs differ by placement.",
        "Put HBA, NIC and load on one node (numactl), or accept and report the scatter.",
    ),
    Check(
        "virtualised", "Whether this is a virtual machine or a container.",
        "The hypervisor's scheduling, caches and virtual disks are part of every figure.",
        "Measure on the bare machine if figures of hardware are wanted; else say so beside the figures.",
    ),
    Check(
        "steal", "CPU time that the hypervisor gave to others, since boot (%).",
        "What is taken from the CPUs is also taken from what is measured.",
        "Ask for CPUs of your own (pinned, not overcommitted).",
    ),
    Check(
        "load", "The load average of the last minute against the number of CPUs.",
        "Requests wait for CPUs that others use.",
        "Stop what runs there (uptime, top), and wait a minute.",
    ),
    Check(
        "swap", "Swap in use.",
        "A host that has swapped may do so again in the middle of a run.",
        "Find what needs the memory; swapoff -a && swapon -a takes back what is out.",
    ),
    Check(
        "run-space", "Free space of /run.",
        "Scripts, logs of each I/O (about 30 bytes) and traces lie in /run/hsp until a phase is over.",
        "Remove what fills it (df /run; du -x /run), or enlarge it: mount -o remount,size=1G /run.",
    ),
    Check(
        "leftovers", "Directories of runs in /run/hsp.",
        "A run is still going on, or one has ended without cleaning up: pools, mounts or settings of it "
        "may be there too.",
        "hsp clean, which undoes what its journal says.",
    ),
    Check(
        "link", "The network interface between client and server: kind, speed (Mb/s), duplex, state.",
        "Below 10 Gb/s the wire is a visible part of the latency; a virtual interface says nothing of a "
        "wire; half duplex is a fault.",
        "Look at cable, switch port and ethtool; let both ends negotiate.",
    ),
    Check(
        "link-errors", "Errors and drops that the interface has counted since boot.",
        "A frame that is lost costs a retransmission: 200 ms in the tail of an otherwise fast run.",
        "If they still grow: cable, optics, ring sizes (ethtool -S, ethtool -G).",
    ),
)  # fmt: skip

SERVER = (
    Check(
        "zfs-module", "The version of the zfs module in the kernel.",
        "There is no pool without it, and the probes are in it.",
        "Install OpenZFS 2.1 to 2.4 for this kernel, then: modprobe zfs.",
    ),
    Check(
        "zfs-userland", "The version of zpool and zfs against the module's.",
        "Commands of another version than the module fail in odd places.",
        "Upgrade both, and reboot (or unload the old module).",
    ),
    Check(
        "pyzfs", "Python's libzfs_core.",
        "Datasets and snapshots are made with it.",
        "Install python3-pyzfs (python3-libzfs_core in some distributions).",
    ),
    Check(
        "server-programs", "Programs that a run calls on the server.",
        "The run would stop at the first one that is missing.",
        "Install them (zfsutils, nfs-kernel-server or nfs-utils, util-linux, fio), and have their "
        "directory in the PATH of commands that come over SSH.",
    ),
    Check(
        "device-programs", "nvme and smartctl.",
        "Without them wear, temperature and write caches of SSDs are not known, and NVMe is not formatted.",
        "Install nvme-cli and smartmontools.",
    ),
    Check(
        "nfsd", "Whether the NFS server runs.",
        "Nothing can be mounted.",
        "systemctl start nfs-server (or: modprobe nfsd; rpc.nfsd 16).",
    ),
    Check(
        "nfsd-threads", "Threads of the NFS server, each of which serves one request at a time.",
        "With fewer threads than requests on their way, requests wait before they are traced: the clients "
        "see it, the server does not.",
        "rpc.nfsd N, or threads=N in the section [nfsd] of /etc/nfs.conf.",
    ),
    Check(
        "nfs-versions", "Versions of NFS that the server offers.",
        "A mount of another version is refused by the kit, not silently taken.",
        "In the section [nfsd] of /etc/nfs.conf: vers3=y, vers4.2=y; then restart the NFS server.",
    ),
    Check(
        "mountd", "rpc.mountd, and rpcbind for NFSv3.",
        "The kernel asks mountd who may reach an export; an NFSv3 client asks rpcbind where it is.",
        "systemctl start nfs-mountd rpcbind.",
    ),
    Check(
        "exports", "What is exported already, and whether exportfs works.",
        "Other clients of other exports are load beside the measurement.",
        "Keep them idle during the run; the kit does not touch them.",
    ),
    Check(
        "bpftrace", "The version of bpftrace.",
        "The tracer says which tier answered a request. It takes 0.17; without it tiers "
        "come from the pool's own counters, and latencies only from the clients.",
        "Install bpftrace 0.17 or later on the server.",
    ),
    Check(
        "probes", "The functions and tracepoints that the tracer needs.",
        "Without one of them the tiers cannot be told apart at the server.",
        "Load the modules zfs and nfsd; use an OpenZFS and a kernel that have them.",
    ),
    Check(
        "kprobes", "Whether kprobes are switched on, and tracefs is mounted.",
        "The tracer cannot be attached without.",
        "mount -t tracefs tracefs /sys/kernel/tracing; echo 1 > /sys/kernel/debug/kprobes/enabled.",
    ),
    Check(
        "btf", "The kernel's type information.",
        "bpftrace of some distributions starts only with it.",
        "Use a kernel with CONFIG_DEBUG_INFO_BTF (the distributions' have it).",
    ),
    Check(
        "lockdown", "The kernel's lockdown.",
        "Confidentiality keeps even root from tracing.",
        "Boot without lockdown=confidentiality (secure boot alone sets integrity, which does not matter).",
    ),
    Check(
        "pools", "Pools that are imported already.",
        "They share the ARC with the pool that is measured; one that carries a run's mark was left by it.",
        "Export what is not needed: zpool export POOL. What a run left: hsp clean.",
    ),
    Check(
        "scrub", "Scrubs, resilvers, trims and initialisations that are going on.",
        "They read and write the devices beside the load.",
        "Wait (zpool wait POOL), or pause: zpool scrub -p POOL.",
    ),
    Check(
        "arc", "The limits of the ARC, and whether there is memory for them.",
        "The size of the ARC decides which working set is in DRAM.",
        "Set zfs_arc_max in the workload's tunables, or make memory free.",
    ),
)  # fmt: skip

CLIENT = (
    Check(
        "fio", "fio and its version.",
        "fio makes the load.",
        "Install fio 3.30 or later.",
    ),
    Check(
        "fio-alike", "Whether all clients have one version of fio.",
        "Versions differ in defaults, bins and the protocol between fio and its servers.",
        "Install the same version on all clients.",
    ),
    Check(
        "client-programs", "Programs that a run calls on a client.",
        "The run would stop at the first one that is missing.",
        "Install them (iproute2, mount, nfs-common or nfs-utils), and have their directory in the PATH of "
        "commands that come over SSH.",
    ),
    Check(
        "nfs-client", "Whether the kernel can mount NFS.",
        "The load goes through the kernel's own client.",
        "Install the kernel's modules package that has nfs (linux-modules-extra in some distributions).",
    ),
    Check(
        "route", "The way from the client to the server's address.",
        "A gateway between them is part of every latency.",
        "Give `address` in the testbed, of the network that both are on.",
    ),
    Check(
        "nfs-port", "Whether the server's NFS port (TCP 2049) takes connections from the client.",
        "What does not connect cannot be mounted.",
        "Start the NFS server, and open port 2049 (for NFSv3 also 111 and mountd's) in the firewall.",
    ),
    Check(
        "mtu", "The MTU of both ends.",
        "Different ones are a fault: large frames vanish, or are cut down after a wait.",
        "Have one MTU on server, clients and every switch port between them.",
    ),
)  # fmt: skip

LAB = (
    Check(
        "lab-qemu", "QEMU on this machine.",
        "The lab is a QEMU guest.",
        "apt-get install qemu-system-x86 qemu-utils.",
    ),
    Check(
        "lab-image", "The guest's image, or what is needed to build it.",
        "Without an image the first run builds one, which takes about seven minutes and the network.",
        "hsp lab build (with --rebuild if it is damaged).",
    ),
    Check(
        "lab-space", "Free space where images are kept.",
        "Building an image needs 5 GiB; a run with a finished one needs little.",
        "Free some space, or let XDG_CACHE_HOME point to where it is; hsp lab prune removes old images.",
    ),
    Check(
        "lab-memory", "Memory for the guest.",
        "A guest that does not fit makes this machine swap: runs take very long.",
        "Stop what uses the memory, or make `memory` of the testbed's [lab] smaller.",
    ),
    Check(
        "lab-kvm", "KVM on this machine; only clock = \"real\" needs it.",
        "A /dev/kvm that is there may still not boot a guest: that is tried at the start of a run.",
        "Use clock = \"virtual\", which needs none; or load kvm_intel or kvm_amd and join the group kvm.",
    ),
)  # fmt: skip

CHECKS = {check.name: check for check in (*EVERY_HOST, *SERVER, *CLIENT, *LAB)}


def markdown() -> str:
    """The tables of docs/doctor.md."""
    sections = (
        ("Every host", EVERY_HOST),
        ("The server", SERVER),
        ("Each client", CLIENT),
        ("The built-in lab", LAB),
    )
    lines: list[str] = []
    for title, checks in sections:
        lines += [f"## {title}", "", "| check | looks at | what it means | what to do |", "|---|---|---|---|"]
        for check in checks:
            cells = (f"`{check.name}`", check.looks_at, check.meaning, check.remedy)
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        lines.append("")
    return "\n".join(lines)
