"""Selection of the devices to precondition, and checks of the settings. Pure."""

from __future__ import annotations

from pathlib import Path

from kit.config.precondition_table import Precondition
from kit.config.testbed import Device, Testbed, ages
from kit.core.errors import ConfigError
from kit.precondition import budget


def selected_devices(settings: Precondition | None, testbed: Testbed) -> list[Device]:
    """The devices to precondition, in the testbed's order."""
    roles = settings.selected_roles if settings else ()
    return [device for device in testbed.device if device.role in roles]


def check(settings: Precondition | None, testbed: Testbed, path: Path) -> None:
    """Check the settings against the testbed. Raises ConfigError, or SafetyRefusal for the budget."""
    aging = [device.name for device in testbed.device if device.role in ("cache", "log") and ages(device)]
    if settings is None:
        if aging:
            raise ConfigError(
                f"{path}: the latency of {', '.join(aging)} depends on earlier writes, "
                "and the workload does not say how to precondition",
                'add a table [precondition] with method = "snia" or method = "fills", '
                'or write precondition = "none" to measure the devices fresh',
            )
        return
    if not settings.writes:
        return
    devices = selected_devices(settings, testbed)
    for role in settings.roles or ():
        if not testbed.devices(role):
            raise ConfigError(
                f"{path}: precondition.roles: the testbed '{testbed.name}' has no {role} device",
                "add such a device to the testbed, or remove the role",
            )
    if not devices:
        raise ConfigError(
            f"{path}: precondition: the testbed '{testbed.name}' has neither cache nor log devices",
            'set roles to those of other devices, or write precondition = "none"',
        )
    for device in devices:
        _check_device(settings, device, path)


def _check_device(settings: Precondition, device: Device, path: Path) -> None:
    if settings.budget.endurance is not None and device.endurance is None:
        raise ConfigError(
            f"{path}: precondition.budget.endurance: the testbed has no endurance of {device.name}",
            f'add endurance = "...TB" (TBW of its data sheet) to {device.name}, or remove that budget',
        )
    block = max(settings.block, settings.read_block)
    if settings.round_bytes(device.size) > 100 * device.size or device.size < 100 * block:
        raise ConfigError(
            f"{path}: precondition: block, read_block and round_size do not fit a device of {device.size} "
            f"bytes ({device.name})",
            "make them smaller than the device, or the device larger",
        )
    budget.refuse_beyond_bytes(device.name, settings, device.size, device.endurance)


def title(text: str, settings: Precondition | None, testbed: Testbed) -> str:
    """The run's title, with a note if devices that age are not preconditioned."""
    return f"{text} (fresh devices)" if is_fresh(settings, testbed) else text


def is_fresh(settings: Precondition | None, testbed: Testbed) -> bool:
    """Whether a cache or log device that ages is not preconditioned."""
    if settings is None:
        return False
    roles = settings.selected_roles
    return any(d.role in ("cache", "log") and d.role not in roles and ages(d) for d in testbed.device)
