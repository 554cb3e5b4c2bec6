"""Reads how much was written to block devices, and how hot they are. Runs on a host with its Python.

    python3 -I - '{NAME: PATH, ...}'

Prints {"at_ns": CLOCK_MONOTONIC, "devices": {NAME: {"written_bytes": N, "temperature_c": N or null}}}:
sectors written of /sys/block/X/stat (Documentation/block/stat.rst), and the hottest temp*_input of the
device's hwmon (nvme, drivetemp; Documentation/hwmon/sysfs-interface.rst). A device that cannot be read has
{"error": TEXT}.
"""

import glob
import json
import os
import sys
import time

SYS = "/sys/class/block"
SECTOR_BYTES = 512
SECTORS_WRITTEN = 6
HWMON = ("device/hwmon*/temp*_input", "device/hwmon/hwmon*/temp*_input", "device/device/hwmon*/temp*_input")


def disk_of(path):
    """The directory in sysfs of the whole disk at `path`."""
    name = os.path.realpath(path).replace("/dev/", "", 1).replace("/", "!")
    place = os.path.realpath(os.path.join(SYS, name))
    return os.path.dirname(place) if os.path.exists(place + "/partition") else place


def temperature_c(disk):
    """Degrees Celsius; None without a sensor."""
    values = []
    for pattern in HWMON:
        for path in glob.glob(os.path.join(disk, pattern)):
            try:
                with open(path) as file:
                    values.append(int(file.read()) / 1000.0)
            except (OSError, ValueError):
                continue
    return max(values) if values else None


def wear(path):
    disk = disk_of(path)
    try:
        with open(disk + "/stat") as file:
            sectors = int(file.read().split()[SECTORS_WRITTEN])
    except (OSError, ValueError, IndexError) as error:
        return {"error": str(error)}
    return {"written_bytes": sectors * SECTOR_BYTES, "temperature_c": temperature_c(disk)}


def main():
    devices = json.loads(sys.argv[1])
    at_ns = time.monotonic_ns() if hasattr(time, "monotonic_ns") else int(time.monotonic() * 1e9)
    print(json.dumps({"at_ns": at_ns, "devices": {name: wear(path) for name, path in devices.items()}}))


if __name__ == "__main__":
    main()
