"""Confirmation before devices are erased: a person or the command line names each serial number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kit.config.testbed import Device, Testbed
from kit.core.errors import SafetyRefusal
from kit.core.units import format_size_bytes

# Asks a question, returns the answer; raises EOFError at the end of the input.
Ask = Callable[[str], str]


def confirm_erasing(testbed: Testbed, named: Sequence[str], ask: Ask | None) -> None:
    """Each real device of the testbed must be named; there is no option for all at once.

    `named`: serials of the command line. If it is empty, `ask` is used; it is None without a terminal.
    Raises SafetyRefusal.
    """
    devices = [device for device in testbed.device if device.is_real]
    if not devices:
        if named:
            raise SafetyRefusal(
                f"the testbed '{testbed.name}' has no device of the serial {', '.join(named)}",
                "its devices are emulated: nothing is erased",
            )
        return
    if named:
        _check_named(devices, named, testbed)
    elif ask is None:
        flags = " ".join(f"--erase-serial {device.serial}" for device in devices)
        raise SafetyRefusal(
            f"this erases {len(devices)} devices and needs a confirmation, but stdin is not a terminal",
            f"look at them with `hsp devices --testbed FILE`, then add {flags}",
        )
    else:
        _ask_for_each(devices, ask)


def _check_named(devices: list[Device], named: Sequence[str], testbed: Testbed) -> None:
    serials = [device.serial for device in devices]
    unknown = sorted(set(named) - {serial for serial in serials if serial})
    if unknown:
        raise SafetyRefusal(
            f"the testbed '{testbed.name}' has no device of the serial {', '.join(unknown)}",
            f"it has {', '.join(str(serial) for serial in serials)}",
        )
    missing = [device for device in devices if device.serial not in named]
    if missing:
        shown = "; ".join(f"{device.name}, serial {device.serial}" for device in missing)
        raise SafetyRefusal(
            f"not confirmed to be erased: {shown}", "each device needs an --erase-serial of its own"
        )


def _ask_for_each(devices: list[Device], ask: Ask) -> None:
    for device in devices:
        question = (
            f"{device.name} ({device.role}, {format_size_bytes(device.size)}): {device.path}\n"
            "  everything on it will be erased. Type its serial number to agree: "
        )
        try:
            answer = ask(question)
        except EOFError:
            answer = ""
        if answer.strip() != device.serial:
            raise SafetyRefusal(
                f"the answer is not the serial number of {device.name}; nothing was touched",
                "its serial number is in the testbed, on the device, and in `hsp devices`",
            )
