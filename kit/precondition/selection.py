"""Which devices a workload wants preconditioned, and what of that is refused. Pure."""

from __future__ import annotations

from pathlib import Path

from kit.config.precondition_table import Precondition
from kit.config.testbed import Device, Testbed, ages
from kit.core.errors import ConfigError
from kit.precondition import budget


def wanted_devices(settings: Precondition, testbed: Testbed) -> list[Device]:
    """The devices of the wanted roles, in the testbed's order."""
    return [device for device in testbed.device if device.role in settings.selected_roles]


def check(settings: Precondition | None, testbed: Testbed, path: Path) -> None:
    """Refuse what cannot be: see the messages. Raises ConfigError, or SafetyRefusal for the budget."""
    worn = [device.name for device in testbed.device if device.role in ("cache", "log") and ages(device)]
    if settings is None:
        if worn:
            raise ConfigError(
                f"{path}: what {', '.join(worn)} answers in depends on what was written before, "
                "and the workload does not say how to precondition",
                'add a table [precondition] with method = "snia" or method = "fills", '
                'or write precondition = "none" to measure the devices fresh',
            )
        return
    if not settings.writes:
        return
    devices = wanted_devices(settings, testbed)
    for role in settings.roles or ():
        if not testbed.devices(role):
            raise ConfigError(
                f"{path}: precondition.roles: the testbed '{testbed.name}' has no {role} device",
                "add such a device to the testbed, or take the role out",
            )
    if not devices:
        raise ConfigError(
            f"{path}: precondition: the testbed '{testbed.name}' has neither cache nor log devices",
            'name other devices with roles, or write precondition = "none"',
        )
    for device in devices:
        _check_device(settings, device, path)


def _check_device(settings: Precondition, device: Device, path: Path) -> None:
    if settings.budget.endurance is not None and device.endurance is None:
        raise ConfigError(
            f"{path}: precondition.budget.endurance: the testbed does not say the endurance of {device.name}",
            f'add endurance = "...TB" (TBW of its data sheet) to {device.name}, or drop that budget',
        )
    least = max(settings.block, settings.read_block)
    if settings.round_bytes(device.size) > 100 * device.size or device.size < 100 * least:
        raise ConfigError(
            f"{path}: precondition: block, read_block and round_size do not fit a device of {device.size} "
            f"bytes ({device.name})",
            "make them smaller than the device, or the device larger",
        )
    budget.refuse_beyond_bytes(device.name, settings, device.size, device.endurance)


def title(text: str, settings: Precondition | None, testbed: Testbed) -> str:
    """The run's title: it says so if devices that age are measured without having been aged."""
    return f"{text} (fresh devices)" if is_fresh(settings, testbed) else text


def is_fresh(settings: Precondition | None, testbed: Testbed) -> bool:
    """Whether a cache or log device that ages is taken as it is."""
    if settings is None:
        return False
    named = settings.selected_roles if settings.writes else ()
    return any(d.role in ("cache", "log") and d.role not in named and ages(d) for d in testbed.device)
