"""The power of one disk of the rig, as `off`, `on` and `count` of [power] have it: a program of its own.

    cut_disk.py off|on|count STATE DISK SERIAL BYTES

The disk is pulled out of the guest, and put back with its content. STATE is the lab's directory; a file there
has how often the disk was cut: what an enclosure would say.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kit.lab.qemu import ExtraDisk, disk_device, monitor

_DEADLINE_S = 60.0


def main(word: str, state: Path, disk: ExtraDisk) -> None:
    counted = state / f"{disk.name}.cuts"
    count = int(counted.read_text()) if counted.exists() else 0
    if word == "count":
        print(count)
        return
    there = any(found["qdev"] == f"dev-{disk.name}" for found in monitor(state, "query-block"))
    if word == "off" and there:
        counted.write_text(str(count + 1))
        monitor(state, "device_del", id=f"dev-{disk.name}")
        end = time.monotonic() + _DEADLINE_S
        while any(found["device"] == disk.name for found in monitor(state, "query-block")):
            assert time.monotonic() < end, f"QEMU keeps {disk.name}"
            time.sleep(0.05)
    if word == "on" and not there:
        node = f"cut-{disk.name}-{count}"
        file = {"driver": "file", "filename": str(state / disk.name), "discard": "unmap"}
        monitor(state, "blockdev-add", driver="raw", **{"node-name": node}, discard="unmap", file=file)
        driver, *options = disk_device(disk).split(",")
        pairs = dict(option.split("=", 1) for option in options) | {"drive": node}
        monitor(state, "device_add", driver=driver, **pairs)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), ExtraDisk(sys.argv[3], "scsi", sys.argv[4], int(sys.argv[5])))
