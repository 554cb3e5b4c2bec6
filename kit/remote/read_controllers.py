"""Reads the PCI controllers of disks. Runs on a host with its Python; the kit sends it as text.

    python3 -I - '["/dev/disk/by-id/..."]'

Prints a JSON object: by path the controller's address, driver, and, if the kernel has them, version of the
driver's module and of the firmware, the PCIe link as it is and as the device can, the CPUs that take its
interrupts, and the latency (us) that NVMe may have to leave a power state; null for a disk behind none.
Reads sysfs and /proc/irq alone.
"""

import glob
import json
import os
import re
import sys
from typing import Any

SYS, IRQ = "/sys", "/proc/irq"
PCI = re.compile(r".*/[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?=/)")
# Where drivers have the firmware's version: mpt3sas, arcmsr, hpsa, qla2xxx and others, NVMe.
FIRMWARES = (
    "host*/scsi_host/host*/version_fw",
    "host*/scsi_host/host*/host_fw_version",
    "host*/scsi_host/host*/firmware_revision",
    "host*/scsi_host/host*/fw_version",
    "nvme/nvme*/firmware_rev",
)


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


def controller_of(disk: str) -> Any:
    """The PCI device nearest to the disk at that path."""
    name = os.path.basename(os.path.realpath(disk))
    found = PCI.match(os.path.realpath(SYS + "/class/block/" + name))
    if not found:
        return None
    place = found.group()
    driver = place + "/driver"
    module = os.path.basename(os.path.realpath(driver + "/module"))
    firmwares = [file for pattern in FIRMWARES for file in glob.glob(place + "/" + pattern)]
    values = {
        "address": os.path.basename(place),
        "driver": os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else None,
        "version": text_of(SYS + "/module/" + module + "/version"),
        "firmware": next(filter(None, map(text_of, firmwares)), None),
        "link": link_of(place, "current"),
        "link_max": link_of(place, "max"),
        "irq_cpus": cpus_of(place),
        "wake_us": next(
            map(text_of, glob.glob(place + "/nvme/nvme*/power/pm_qos_latency_tolerance_us")), None
        ),
    }
    return {key: value for key, value in values.items() if value}


def main() -> None:
    print(json.dumps({path: controller_of(path) for path in json.loads(sys.argv[1])}))


if __name__ == "__main__":
    main()
