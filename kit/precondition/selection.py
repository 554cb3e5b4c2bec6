"""Selection of the devices to precondition, and checks of the settings. Pure."""

from __future__ import annotations

from kit.config.tables.precondition_table import BESIDE_DATA, Precondition
from kit.config.testbed import Testbed
from kit.config.testbed_devices import Device, ages
from kit.config.toml import Place
from kit.config.toml_lines import KeyProblems
from kit.core.errors import SafetyRefusal
from kit.precondition import budget


def selected_devices(settings: Precondition | None, testbed: Testbed) -> list[Device]:
    """The devices to precondition, in the testbed's order."""
    roles = settings.selected_roles if settings else ()
    return [device for device in testbed.device if device.role in roles]


def problems(settings: Precondition | None, testbed: Testbed) -> KeyProblems:
    """Key and text where the settings do not fit the testbed."""
    aging = [device.name for device in testbed.device if device.role in BESIDE_DATA and ages(device)]
    if settings is None:
        if aging:
            yield (
                ("precondition",),
                f"the latency of {', '.join(aging)} depends on earlier writes, and the workload does not say "
                'how to precondition: add a table [precondition] with method = "snia" or method = "fills", '
                'or write precondition = "none" (before the first table) to measure the devices fresh',
            )
        return
    if not settings.writes:
        return
    for role in settings.roles or ():
        if not testbed.devices(role):
            yield (
                ("precondition", "roles"),
                f"the testbed '{testbed.name}' has no {role} device: add one to it, or remove the role",
            )
    devices = selected_devices(settings, testbed)
    if not devices and not settings.roles:
        roles = ", ".join(BESIDE_DATA)
        yield (
            ("precondition",),
            f"the testbed '{testbed.name}' has no device of the roles {roles}: set roles to those of other "
            'devices, or write precondition = "none"',
        )
    for device in devices:
        yield from _device_problems(settings, device)


def _device_problems(settings: Precondition, device: Device) -> KeyProblems:
    if settings.budget.endurance is not None and device.endurance is None:
        yield (
            ("precondition", "budget", "endurance"),
            f'the testbed has no endurance of {device.name}: add endurance = "...TB" (TBW of its data sheet) '
            "there, or remove this budget",
        )
    block = max(settings.block, settings.read_block)
    active = settings.active_bytes(device.size)
    is_round = settings.round_bytes(device.size) > 100 * active
    if is_round or active < 100 * block:
        part = "" if active == device.size else f"the {settings.filled} that are filled of "
        key = "round_size" if is_round else "block" if settings.block == block else "read_block"
        yield (
            ("precondition", key),
            f"block, read_block and round_size do not fit {part}a device of {device.size} bytes "
            f"({device.name}): make them smaller, or the device larger",
        )


def check_budget(settings: Precondition | None, testbed: Testbed, place: Place) -> None:
    """Raises SafetyRefusal if the budget, which stands at `place`, cannot suffice."""
    for device in selected_devices(settings, testbed):
        assert settings is not None
        try:
            budget.refuse_beyond_bytes(device.name, settings, device.size, device.endurance)
        except SafetyRefusal as error:
            path, line = place
            raise SafetyRefusal(f"{path}:{line}: precondition.budget: {error.message}", error.hint) from None


def title(text: str, settings: Precondition | None, testbed: Testbed, length: str = "full") -> str:
    """The run's title, with a note if devices that age are not preconditioned, or the run is a short one."""
    notes = ["fresh devices"] if is_fresh(settings, testbed) else []
    notes += [f"{length} length"] if length != "full" else []
    return f"{text} ({', '.join(notes)})" if notes else text


def is_fresh(settings: Precondition | None, testbed: Testbed) -> bool:
    """Whether a device beside those of data that ages is not preconditioned."""
    if settings is None:
        return False
    roles = settings.selected_roles if settings.method != "purge" else ()
    return any(d.role in BESIDE_DATA and d.role not in roles and ages(d) for d in testbed.device)
