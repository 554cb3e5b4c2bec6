"""Confirmation before devices are erased: each serial number, typed or given on the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from kit.config.testbed import Testbed
from kit.config.testbed_devices import Device
from kit.core.errors import SafetyRefusal
from kit.core.units import format_decimal_bytes

# Asks one question, returns the answer; raises EOFError without an answer.
Ask = Callable[[str], str]


def confirm_erasing(testbed: Testbed, confirmed: Sequence[str], ask: Ask | None) -> None:
    """Require a confirmation for every real device of the testbed. All devices at once is not possible.

    `confirmed`: serials of the command line; if empty, `ask` is used, which is None without a terminal.
    Raises SafetyRefusal.
    """
    devices = [device for device in testbed.device if device.is_real]
    if confirmed:
        _check_confirmed(devices, confirmed, testbed)
    elif ask is None and devices:
        flags = " ".join(f"--erase-serial {device.serial}" for device in devices)
        raise SafetyRefusal(
            f"this erases {len(devices)} devices and needs a confirmation, but stdin is not a terminal",
            f"check them with `hsp host disks --testbed FILE`, then add {flags}",
        )
    elif ask:
        _ask_for_each(devices, ask)


def _check_confirmed(devices: list[Device], confirmed: Sequence[str], testbed: Testbed) -> None:
    serials = [device.serial for device in devices]
    unknown = sorted(set(confirmed) - {serial for serial in serials if serial})
    if unknown:
        raise SafetyRefusal(
            f"the testbed '{testbed.name}' has no device with the serial {', '.join(unknown)}",
            f"it has {', '.join(map(str, serials)) or 'no real device: leave --erase-serial out'}",
        )
    # Namespaces of one NVMe controller have the same serial: each needs an agreement of its own, and with too
    # few it is unknown which was meant.
    given, needed = Counter[str | None](confirmed), Counter(serials)
    missing = [device for device in devices if given[device.serial] < needed[device.serial]]
    if missing:
        shown = "; ".join(f"{device.name}, serial {device.serial}, {device.path}" for device in missing)
        raise SafetyRefusal(
            f"erasing is not confirmed: {shown}",
            "each device needs its own --erase-serial; give a serial that several have once for each",
        )


def _ask_for_each(devices: list[Device], ask: Ask) -> None:
    for device in devices:
        question = (
            f"{device.name} ({device.role}, {format_decimal_bytes(device.size)}): {device.path}\n"
            "  everything on it will be erased. Type its serial number to agree: "
        )
        try:
            answer = ask(question)
        except EOFError:
            answer = ""
        if answer.strip() != device.serial:
            raise SafetyRefusal(
                f"the answer is not the serial number of {device.name}; nothing was touched",
                "its serial number is in the testbed, on the device, and in `hsp host disks`",
            )
