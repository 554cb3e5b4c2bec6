"""Reads drives and their links. Runs on a host with its Python; the kit sends it as text. Writes nothing.

    python3 -I - '["/dev/disk/by-id/..."]'

prints a JSON object: by path the address and driver of the disk's PCI controller and, if the kernel has them,
version of the driver's module and of the firmware, the PCIe link as it is, as the device can and as the port
above it can (`link`, `link_max`, `port_max`), the states in which ASPM puts the link to sleep (`aspm`), the
CPUs that take its interrupts, and the latency (us) that NVMe may have to leave a power state; null for a disk
behind none. Reads sysfs and /proc/irq alone.

    python3 -I - '{"paths": {NAME: PATH}, "logs": {NAME: [LOG...]}, "models": {NAME: ARGV}}'

prints by name `controller` (as above), `aer` (PCIe errors by kind, of the device and the port above it),
`sata` (speeds of the link of a SATA disk), `logs`: what the tools of LOGS print, `model`: what ARGV prints.
Sources: Documentation/ABI/testing/sysfs-bus-pci, sysfs-bus-pci-devices-aer_stats, sysfs-ata.
"""

import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
from typing import Any

SYS, IRQ = "/sys", "/proc/irq"
PCI = re.compile(r".*/[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?=/)")
ATA = re.compile(r".*/ata[0-9]+(?=/)")
# Where drivers have the firmware's version: mpt3sas, arcmsr, hpsa, qla2xxx and others, NVMe.
FIRMWARES = (
    "host*/scsi_host/host*/version_fw",
    "host*/scsi_host/host*/host_fw_version",
    "host*/scsi_host/host*/firmware_revision",
    "host*/scsi_host/host*/fw_version",
    "nvme/nvme*/firmware_rev",
)
ASPM = ("l0s", "l1", "l1_1", "l1_2")
TOTAL = re.compile(r"^TOTAL_ERR\w* ([0-9]{1,18})$", re.MULTILINE)
AER = {"corrected": "correctable", "nonfatal": "nonfatal", "fatal": "fatal"}
SATA = {"speed": "sata_spd", "limit": "sata_spd_limit", "port_max": "hw_sata_spd_limit"}
JSON = "--output-format=json"
# The only commands that it runs, by name; each reads.
LOGS = {
    "smart": ("nvme", "smart-log", "{}", JSON),
    "identify": ("nvme", "id-ctrl", "{}", JSON),
    "ocp": ("nvme", "ocp", "smart-add-log", "{}", JSON),
    "latency": ("nvme", "ocp", "latency-monitor-log", "{}", JSON),
    # It reads NVMe as well, where nvme-cli is missing.
    "smartctl": ("smartctl", "--json", "--info", "--attributes", "{}"),
}
WITHOUT_LOGS = ("vd", "xvd", "nullb", "ublkb", "loop", "nbd", "zd", "md", "dm-")
ENVIRONMENT = dict(os.environ, LC_ALL="C")
ENVIRONMENT["PATH"] = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
TOOL_DEADLINE_S, LIMIT = 20, 1 << 20
AT_A_TIME = 8


def text_of(path: str) -> Any:
    """Content of a file, None if it cannot be read."""
    try:
        with open(path, errors="backslashreplace") as file:
            return file.read(1000).strip()
    except OSError:
        return None


def link_of(place: str, which: str) -> Any:
    """Such as "8.0 GT/s PCIe x4"; `which`: current or max."""
    speed, width = (text_of(f"{place}/{which}_link_{part}") for part in ("speed", "width"))
    return f"{speed} x{width}" if speed and width else None


def cpus_of(place: str) -> Any:
    """Lists of CPUs to which its interrupts may go, each once."""
    numbers = glob.glob(place + "/msi_irqs/*")
    lists = {text_of(f"{IRQ}/{os.path.basename(each)}/smp_affinity_list") for each in numbers}
    return " ".join(sorted(filter(None, lists)))[:400]


def place_of(disk: str) -> str:
    """The disk at that path in sysfs."""
    return os.path.realpath(SYS + "/class/block/" + os.path.basename(os.path.realpath(disk)))


def pci_of(disk: str) -> Any:
    """The PCI device nearest to the disk; of NVMe with multipath, if it has one controller."""
    place = place_of(disk)
    if "/nvme-subsystem/" in place:
        links = [each for each in glob.glob(os.path.dirname(place) + "/nvme*") if os.path.islink(each)]
        place = os.path.realpath(links[0]) if len(links) == 1 else place
    found = PCI.match(place)
    return found.group() if found else None


def controller_of(disk: str) -> Any:
    place = pci_of(disk)
    if not place:
        return None
    driver = place + "/driver"
    module = os.path.basename(os.path.realpath(driver + "/module"))
    firmwares = [file for pattern in FIRMWARES for file in glob.glob(place + "/" + pattern)]
    states = {name: text_of(f"{place}/link/{name}_aspm") for name in ASPM}
    asleep = " ".join(name for name in ASPM if states[name] == "1")
    values = {
        "address": os.path.basename(place),
        "driver": os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else None,
        "version": text_of(SYS + "/module/" + module + "/version"),
        "firmware": next(filter(None, map(text_of, firmwares)), None),
        "link": link_of(place, "current"),
        "link_max": link_of(place, "max"),
        "port_max": link_of(os.path.dirname(place), "max"),
        "aspm": asleep or ("off" if any(states.values()) else None),
        "irq_cpus": cpus_of(place),
        "wake_us": next(
            map(text_of, glob.glob(place + "/nvme/nvme*/power/pm_qos_latency_tolerance_us")), None
        ),
    }
    return {key: value for key, value in values.items() if value}


def aer_of(disk: str) -> Any:
    """PCIe errors since boot, of both ends of the link; without those that no end counts."""
    place = pci_of(disk)
    found = {}
    for kind, name in AER.items() if place else ():
        texts = [text_of(f"{end}/aer_dev_{name}") or "" for end in (place, os.path.dirname(place))]
        totals = TOTAL.findall("\n".join(texts))
        if totals:
            found[kind] = sum(map(int, totals))
    return found


def sata_of(disk: str) -> Any:
    """Speeds of the link of a disk at a port of its own, such as "6.0 Gbps"."""
    found = ATA.match(place_of(disk))
    links = glob.glob(found.group() + "/link*/ata_link/link*") if found else []
    if len(links) != 1:
        return {}
    values = {key: text_of(f"{links[0]}/{name}") for key, name in SATA.items()}
    return {key: value for key, value in values.items() if value}


def tool(argv: Any) -> str:
    """What it prints; "" if it is missing, prints too much or does not end in time."""
    try:
        child = subprocess.Popen(
            argv, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return ""
    try:
        # smartctl's exit code is a set of bits, of which some say something of the disk.
        out = child.communicate(timeout=TOOL_DEADLINE_S)[0]
    except subprocess.TimeoutExpired:
        # It may hang in the kernel: it is not waited for.
        child.kill()
        return ""
    return out.decode("utf-8", "replace") if len(out) <= LIMIT else ""


def logs_of(path: str, wanted: Any) -> Any:
    """What the tools print of a drive, by log; those of NVMe first."""
    name = os.path.basename(os.path.realpath(path))
    if name.startswith(WITHOUT_LOGS):
        return {}
    node, found = "/dev/" + name, {}
    is_nvme = name.startswith("nvme")
    for log, argv in LOGS.items():
        if log not in wanted or (argv[0] == "nvme") > is_nvme or (log == "smartctl" and found.get("smart")):
            continue
        text = tool([node if word == "{}" else word for word in argv])
        if text:
            found[log] = text
    return found


def drive(path: str, wanted: Any, model: Any) -> Any:
    # The logs first: their commands wake a link that sleeps.
    found = {"logs": logs_of(path, wanted), "model": tool(model) if model else ""}
    found.update(controller=controller_of(path), aer=aer_of(path), sata=sata_of(path))
    return found


def main() -> None:
    request = json.loads(sys.argv[1])
    if isinstance(request, list):
        print(json.dumps({path: controller_of(path) for path in request}))
        return
    paths, models = request["paths"], request["models"]
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        read = {
            name: pool.submit(drive, path, request["logs"].get(name, ()), models.get(name))
            for name, path in paths.items()
        }
        print(json.dumps({name: each.result() for name, each in read.items()}))


if __name__ == "__main__":
    main()
