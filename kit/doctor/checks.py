"""The closed list of the doctor's checks: subject, meaning, remedy. docs/doctor.md is generated from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DoctorCheck:
    """One check. `looks_at`, `meaning` and `remedy` are sentences for people."""

    name: str
    looks_at: str
    meaning: str
    remedy: str


EVERY_HOST = (
    DoctorCheck(
        "reachable", "Whether commands run on the host.",
        "A run needs commands on every host.",
        "Log in by hand with the address in the testbed (ssh USER@HOST true), and accept its host key once.",
    ),
    DoctorCheck(
        "python", "/usr/bin/python3, 3.7 or later, and the answer of the program that reads the facts.",
        "The kit runs small programs with /usr/bin/python3; without it no other check is possible.",
        "Install python3, 3.7 or later, on the host.",
    ),
    DoctorCheck(
        "privilege", "Whether commands have root privileges; of an ordinary user, whether sudo runs each "
        "program of docs/hosts.md without a password.",
        "Pools, exports, mounts and probes need root.",
        "Log in as root, or allow the user sudo without a password for the programs of docs/hosts.md.",
    ),
    DoctorCheck(
        "round-trip", "Time of a command that does nothing (ms).",
        "Each step of a run is a few commands; a slow connection makes runs long and starts uneven.",
        "Look for a slow login (DNS, PAM, shell start-up files) or a slow network.",
    ),
    DoctorCheck(
        "system", "Name and release of the kernel.",
        "The kit supports Linux hosts only.",
        "Use a Linux host instead.",
    ),
    DoctorCheck(
        "clock-source", "The kernel's clock source.",
        "Each latency needs two clock reads; with hpet and acpi_pm each takes about a microsecond, and "
        "concurrent reads wait for each other.",
        "Find out why the kernel has disabled the TSC (dmesg, `tsc`), and enable it again: "
        "clocksource=tsc tsc=reliable.",
    ),
    DoctorCheck(
        "time-sync", "Whether the wall clock is synchronised, and whether it was set during the check (ms).",
        "Latencies use the monotonic clock; the wall clock aligns the events of the hosts on one time axis.",
        "Run chrony or systemd-timesyncd, and wait until the clock is no longer stepped.",
    ),
    DoctorCheck(
        "clock-offset", "The host's wall clock minus this machine's (ms).",
        "If clocks differ, events of the hosts are drawn at wrong times.",
        "Synchronise the clock: chrony or systemd-timesyncd.",
    ),
    DoctorCheck(
        "mitigations", "The kernel's mitigations of CPU vulnerabilities.",
        "They cost up to microseconds per system call: compare only machines with the same mitigations.",
        "Leave them as in production; for a comparison use the same on both sides.",
    ),
    DoctorCheck(
        "governor", "The frequency governor of each CPU.",
        "A CPU that slows down between requests adds its ramp-up time to the latency of the next request.",
        "cpupower frequency-set -g performance, on server and clients, during the run.",
    ),
    DoctorCheck(
        "turbo", "Whether CPUs may run above their nominal frequency.",
        "The frequency then depends on temperature and on the load of other cores: runs differ more.",
        "For the least scatter: 1 in /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 in cpufreq/boost.",
    ),
    DoctorCheck(
        "c-states", "The deepest allowed sleep state of the CPUs, with its exit latency (us).",
        "A request to a sleeping CPU waits for its wake-up: DRAM hits take that much longer.",
        "tuned-adm profile latency-performance, or hold /dev/cpu_dma_latency open; or boot with "
        "intel_idle.max_cstate=1.",
    ),
    DoctorCheck(
        "tune", 'What `tune = "latency"` in [host] of a workload would set here, besides the I/O schedulers '
        "of the run's devices.",
        "CPUs that sleep or change their frequency add to latencies, and runs scatter.",
        "hsp run WORKLOAD --set host.tune=latency, which sets it for the run, and back after it.",
    ),
    DoctorCheck(
        "irqbalance", "Whether irqbalance runs.",
        "It moves interrupts from CPU to CPU, also during a run: runs may differ by where they are handled.",
        "Leave it as in production; for a comparison the same on both sides. No run stops it.",
    ),
    DoctorCheck(
        "device-sleep", "The policy of PCIe power management (ASPM), and how long an NVMe drive may take to "
        "wake from a state that it takes by itself (APST, us).",
        "After a pause the next request waits until link and drive are awake.",
        "echo performance > /sys/module/pcie_aspm/parameters/policy; boot with "
        "nvme_core.default_ps_max_latency_us=0.",
    ),
    DoctorCheck(
        "smt", "Whether two hardware threads share a core.",
        "Two threads of one core slow each other: latencies depend on the scheduler's placement.",
        "Use the same setting on all sides of a comparison (/sys/devices/system/cpu/smt/control).",
    ),
    DoctorCheck(
        "numa", "NUMA nodes.",
        "Access to memory, devices and interrupts of another node is slower: runs differ by placement.",
        "Put HBA, NIC and load on one node (numactl), or accept and report the scatter.",
    ),
    DoctorCheck(
        "virtualised", "Whether the host is a virtual machine or a container.",
        "The hypervisor's scheduling, caches and virtual disks are part of every result.",
        "Use bare metal to measure hardware; otherwise state it with the results.",
    ),
    DoctorCheck(
        "steal", "CPU time that the hypervisor gave to other guests, since boot (%).",
        "While the CPU is taken away, requests wait.",
        "Use dedicated CPUs (pinned, not overcommitted).",
    ),
    DoctorCheck(
        "load", "The load average of the last minute, compared with the number of CPUs.",
        "Requests wait for CPUs that other processes use.",
        "Stop other processes (uptime, top), and wait a minute.",
    ),
    DoctorCheck(
        "swap", "Swap in use.",
        "A host that has swapped may swap again during a run.",
        "Find what uses the memory; swapoff -a && swapon -a reads swapped pages back.",
    ),
    DoctorCheck(
        "run-space", "Free space of /run; with `--workload`, beside what this workload writes there.",
        "Scripts, logs of each I/O (about 30 bytes) and traces are in /run/hsp until the end of a phase.",
        "Remove large files (df /run; du -x /run), or enlarge it: mount -o remount,size=1G /run.",
    ),
    DoctorCheck(
        "leftovers", "Directories of runs in /run/hsp.",
        "A run is still running, or it ended without cleaning up: its pools, mounts or settings may be left "
        "too.",
        "hsp clean, which undoes the steps in the run's journal.",
    ),
    DoctorCheck(
        "link", "The network interface between client and server: kind, speed (Mb/s), duplex, state.",
        "Below 10 Gb/s the network is a visible part of the latency; a virtual interface has no speed of its "
        "own; half duplex is a fault.",
        "Check cable, switch port and ethtool; use autonegotiation at both ends.",
    ),
    DoctorCheck(
        "link-errors", "Errors and drops of the interface since boot.",
        "A lost frame costs a retransmission: 200 ms in the tail of an otherwise fast run.",
        "If they still increase: check cable, optics, ring sizes (ethtool -S, ethtool -G).",
    ),
)  # fmt: skip

SERVER = (
    DoctorCheck(
        "zfs-module", "The version of the zfs module in the kernel.",
        "Pools need it, and the tracer's probes are in it.",
        "Install OpenZFS 2.1 to 2.4 for this kernel, then: modprobe zfs.",
    ),
    DoctorCheck(
        "zfs-userland", "The version of zpool and zfs, compared with the module's.",
        "If the versions differ, commands may fail in unexpected ways.",
        "Upgrade both, and reboot (or unload the old module).",
    ),
    DoctorCheck(
        "pyzfs", "Python's libzfs_core.",
        "The kit makes datasets and snapshots with it.",
        "Install python3-pyzfs (python3-libzfs_core in some distributions).",
    ),
    DoctorCheck(
        "server-programs", "Programs that a run uses on the server.",
        "A run stops at the first missing program.",
        "Install them (zfsutils, nfs-kernel-server or nfs-utils, util-linux, fio), and add their "
        "directory to the PATH of commands over SSH.",
    ),
    DoctorCheck(
        "device-programs", "nvme, smartctl, hdparm, sdparm and mdadm.",
        "Without them the kit cannot read wear and temperature of SSDs, format NVMe, or switch write caches; "
        "phases on arrays need mdadm.",
        "Install nvme-cli, smartmontools, hdparm, sdparm and mdadm.",
    ),
    DoctorCheck(
        "drive-links", "Speed and width of the PCIe links of NVMe drives, and what both ends can do.",
        "A link below what both ends can do slows the drive, unless it only saves power: a run looks again "
        "under load. A slot that is slower than its drive limits it.",
        "Look at slot, riser, cable and backplane (lspci -vv: LnkCap, LnkSta).",
    ),
    DoctorCheck(
        "nfsd", "Whether the NFS server runs.",
        "Without it clients cannot mount.",
        "systemctl start nfs-server (or: modprobe nfsd; rpc.nfsd 16).",
    ),
    DoctorCheck(
        "nfsd-threads", "Threads of the NFS server, each of which serves one request at a time.",
        "With fewer threads than requests in flight, requests wait before they are traced: the wait is part "
        "of the latencies at the clients, but not at the server.",
        "rpc.nfsd N, or threads=N in the section [nfsd] of /etc/nfs.conf.",
    ),
    DoctorCheck(
        "nfs-versions", "Versions of NFS that the server offers.",
        "The kit refuses a mount with a different version.",
        "In the section [nfsd] of /etc/nfs.conf: vers3=y, vers4.2=y; then restart the NFS server.",
    ),
    DoctorCheck(
        "mountd", "rpc.mountd, and rpcbind for NFSv3.",
        "The kernel asks mountd which clients may use an export; an NFSv3 client asks rpcbind for its port.",
        "systemctl start nfs-mountd rpcbind.",
    ),
    DoctorCheck(
        "exports", "Existing exports, whether exportfs works, and whether a file has each of them.",
        "Clients of other exports add load during the measurement. ZFS makes `exportfs -ra` with each pool, "
        "which removes exports that are in no file, so a run is refused.",
        "Keep them idle during the run. Exports without a file: write them into /etc/exports.d/NAME.exports; "
        "exportfs -s prints the lines.",
    ),
    DoctorCheck(
        "bpftrace", "The version of bpftrace.",
        "The tracer records which tier answered each request and needs bpftrace 0.17. Without it tiers come "
        "from the pool's counters, and latencies only from the clients.",
        "Install bpftrace 0.17 or later on the server.",
    ),
    DoctorCheck(
        "probes", "The functions and tracepoints that the tracer needs.",
        "If one is missing, the tracer cannot distinguish the tiers.",
        "Load the modules zfs and nfsd; use an OpenZFS and a kernel that have them.",
    ),
    DoctorCheck(
        "kprobes", "Whether kprobes are enabled and tracefs is mounted.",
        "The tracer needs both.",
        "mount -t tracefs tracefs /sys/kernel/tracing; echo 1 > /sys/kernel/debug/kprobes/enabled.",
    ),
    DoctorCheck(
        "btf", "The kernel's type information (BTF).",
        "bpftrace of some distributions needs it.",
        "Use a kernel with CONFIG_DEBUG_INFO_BTF (distribution kernels have it).",
    ),
    DoctorCheck(
        "lockdown", "The kernel's lockdown mode.",
        "In the mode confidentiality even root cannot trace.",
        "Boot without lockdown=confidentiality (secure boot alone sets integrity, which is no problem).",
    ),
    DoctorCheck(
        "pools", "Imported pools.",
        "They share the ARC with the measured pool; a pool with the mark of a run was left by that run.",
        "Export pools that are not needed: zpool export POOL. Pools that a run left: hsp clean. "
        "A run sets a smaller zfs_arc_max beside them only with --beside-other-pools.",
    ),
    DoctorCheck(
        "scrub", "Running scrubs, resilvers, evacuations, expansions, trims and initialisations.",
        "They read and write the devices during the measurement.",
        "Wait (zpool wait POOL), or pause: zpool scrub -p POOL.",
    ),
    DoctorCheck(
        "arc", "The limits of the ARC, and whether there is memory for them.",
        "The size of the ARC decides which working set fits in DRAM.",
        "Set zfs_arc_max in the workload's tunables, or free memory.",
    ),
)  # fmt: skip

CLIENT = (
    DoctorCheck(
        "fio", "fio and its version.",
        "fio generates the load.",
        "Install fio 3.30 or later.",
    ),
    DoctorCheck(
        "fio-alike", "Whether all clients have the same version of fio.",
        "Versions differ in defaults and in what they log.",
        "Install the same version on all clients.",
    ),
    DoctorCheck(
        "client-programs", "Programs that a run uses on a client.",
        "A run stops at the first missing program.",
        "Install them (iproute2, mount, nfs-common or nfs-utils), and add their directory to the PATH of "
        "commands over SSH.",
    ),
    DoctorCheck(
        "nfs-client", "Whether the kernel can mount NFS.",
        "The load uses the kernel's NFS client.",
        "Install the kernel module nfs (package linux-modules-extra in some distributions).",
    ),
    DoctorCheck(
        "route", "The route from the client to the server's address.",
        "A gateway on the route is part of every latency.",
        "Set `address` in the testbed to the server's address in a network of both hosts.",
    ),
    DoctorCheck(
        "nfs-port", "Whether the client can connect to the server's NFS port (TCP 2049).",
        "Without a connection the client cannot mount.",
        "Start the NFS server, and open port 2049 (for NFSv3 also 111 and mountd's) in the firewall.",
    ),
    DoctorCheck(
        "mtu", "The MTU of both ends.",
        "With different MTUs large frames are dropped, or fragmented after a delay.",
        "Use the same MTU on server, clients and every switch port between them.",
    ),
)  # fmt: skip

LAB = (
    DoctorCheck(
        "lab-qemu", "QEMU on this machine.",
        "The lab is a QEMU guest.",
        "apt-get install qemu-system-x86 qemu-utils.",
    ),
    DoctorCheck(
        "lab-image", "The guest's image, or the programs to build it.",
        "Without an image the first run builds it, which takes about four minutes and needs the network.",
        "hsp lab up --build (it also builds a damaged image again).",
    ),
    DoctorCheck(
        "lab-space", "Free space in the directory of images.",
        "Building an image needs 5 GiB; a run with an existing image needs little.",
        "Free some space, or set XDG_CACHE_HOME to a larger filesystem; hsp clean --cache frees some.",
    ),
    DoctorCheck(
        "lab-memory", "Memory for the guest.",
        "If the guest does not fit, this machine swaps and runs take very long.",
        "Stop programs that use much memory, or reduce `memory` in the testbed's [lab].",
    ),
    DoctorCheck(
        "lab-kvm", "KVM on this machine; only clock = \"real\" needs it.",
        "Even with /dev/kvm a guest may not boot: each run tries it at its start.",
        "Use clock = \"virtual\", which needs no KVM; or load kvm_intel or kvm_amd and join the group kvm.",
    ),
)  # fmt: skip

# What a run reads and stores of its hosts, for `hsp plan`.
OF_RUN = "settings of CPUs, clock, network and power; of the server all parameters of zfs, spl, nfsd, sunrpc"
_SECTIONS = {"Every host": EVERY_HOST, "The server": SERVER, "Each client": CLIENT, "The built-in lab": LAB}
CHECKS = {check.name: check for checks in _SECTIONS.values() for check in checks}


def markdown() -> str:
    """The tables of docs/doctor.md."""
    lines: list[str] = []
    for title, checks in _SECTIONS.items():
        lines += [f"## {title}", "", "| check | looks at | what it means | what to do |", "|---|---|---|---|"]
        for check in checks:
            cells = (f"`{check.name}`", check.looks_at, check.meaning, check.remedy)
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        lines.append("")
    return "\n".join(lines)
