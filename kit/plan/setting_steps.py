"""The steps that switch settings of a server: its files, write caches, the user's own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from kit.config.device_model import has_write_cache
from kit.config.tables.setting_table import Setting
from kit.config.testbed import client_key
from kit.devices import write_cache
from kit.devices.write_cache import WriteCache
from kit.hosts import file_settings as host_settings
from kit.hosts import latency_preset
from kit.hosts.base import Command
from kit.hosts.file_settings import CommandSetting
from kit.hosts.identity import HostIdentity
from kit.hosts.latency_preset import PLANNED_PRESET, PresetFile
from kit.plan.names import Names
from kit.plan.plan import Plan
from kit.plan.step import ANY_HOST, Step
from kit.recovery import host_undos, setting_undos


def planned(plan: Plan, names: Names) -> Iterator[Step]:
    """In the order of a run, before there is a server: what only that knows is left open."""
    host, testbed = plan.workload.host, plan.testbed
    own = own_settings(testbed.setting, plan.workload.setting)
    if own:
        yield switch_own(testbed.setting, own, {each.name: "BEFORE" for each in own})
    wanted_cache = host.write_cache
    for device in testbed.device if wanted_cache else ():
        path, serial = names.device_paths[device.name], device.serial or ""
        if device.is_real:
            cache, place = WriteCache(device.name, path, "hdparm", serial), path
            note = "or sdparm, or nvme set-feature: by the kind of the device"
        elif has_write_cache(device.emulated):
            cache, place, note = WriteCache(device.name, path, "model"), device.name, ""
        else:
            continue
        assert wanted_cache
        before: write_cache.Value = "off" if wanted_cache == "on" else "on"
        command = Command(tuple(write_cache.argv_of(cache.tool, place, wanted_cache)), note)
        yield switch_cache(cache, wanted_cache, before, command)
    used = tuple(device.name for device in testbed.device)
    wanted = host_settings.planned(host.files, used)
    yield from (step for _, step in set_files((each, "none") for each in wanted))
    if host.tune == "latency":
        schedulers = [
            latency_preset.PresetFile(each.name, each.path, each.value, "mq-deadline")
            for each in host_settings.planned({"scheduler": "none"}, used)
        ]
        of_server = [each for each in (*PLANNED_PRESET, *schedulers) if each.name not in host.files]
        yield from set_preset(of_server)
        for number, client in enumerate(testbed.client):
            if plan.workload.over_nfs and client.at != testbed.server.at:
                yield from set_preset(PLANNED_PRESET, client_key(number))


def own_settings(settings: Sequence[Setting], values: Mapping[str, str | int]) -> list[CommandSetting]:
    """All of the testbed's, each with its value or, without one, only watched; none if none is to be set."""
    if not values:
        return []
    made = []
    for each in settings:
        value = str(values.get(each.name, ""))
        set_to = tuple(each.argv_for(value)) if value else ()
        made.append(CommandSetting(f"setting.{each.name}", each.get, each.pattern, set_to, value))
    return made


def switch_own(
    declared: Sequence[Setting],
    settings: Sequence[CommandSetting],
    before: Mapping[str, str],
    server: HostIdentity = ANY_HOST,
) -> Step:
    """One step with one undo for all of them: one may change another. `before`: their values, by name."""
    undone = [
        setting_undos.OneSetting(
            name=each.name,
            get=list(each.get),
            back=setting.argv_for(before[each.name]),
            pattern=each.pattern,
            value=before[each.name],
            set=each.value or before[each.name],
        )
        for setting, each in zip(declared, settings, strict=True)
    ]
    action = setting_undos.UndoSettings(settings=undone, machine_id=server.machine_id)
    # They are the user's own commands, so that those that only look are listed, too.
    note = "the value: before, after each switch and at the end"
    looks = tuple(Command(each.get, note) for each in settings)
    switches = tuple(Command(each.set_to) for each in settings if each.set_to)
    return Step(
        "switch the testbed's settings", "server", (*looks, *switches), action, {"before": dict(before)}
    )


def switch_cache(
    cache: WriteCache,
    value: write_cache.Value,
    before: write_cache.Value,
    command: Command,
    server: HostIdentity = ANY_HOST,
) -> Step:
    action = setting_undos.UndoWriteCache(
        device=cache.device,
        path=cache.path,
        serial=cache.serial,
        tool=cache.tool,
        value=before,
        set=value,
        **asdict(server),
    )
    details = {"device": cache.device, "before": before, "value": value}
    return Step(f"switch the write cache of {cache.device}", "server", (command,), action, details)


def set_files(
    wanted: Iterable[tuple[host_settings.FileSetting, str]], server: HostIdentity = ANY_HOST
) -> Iterator[tuple[host_settings.FileSetting, Step]]:
    """`wanted`: each with the value that the server has."""
    for each, before in wanted:
        action = host_undos.UndoHostSetting(path=each.path, value=before, set=each.value, **asdict(server))
        details = {"before": before, "value": each.value}
        command = host_settings.write_command(each.path, each.value)
        yield each, Step(f"set {each.name} of the host", "server", (command,), action, details)


def set_preset(
    files: Sequence[PresetFile], key: str = "server", host: HostIdentity = ANY_HOST
) -> Iterator[Step]:
    """Those that are not so already, on the host that the journal calls `key`."""
    kinds: dict[tuple[str, str], list[PresetFile]] = {}
    for each in files:
        if each.before != each.value:
            kinds.setdefault((each.name, each.value), []).append(each)
    for (name, value), all_of_kind in kinds.items():
        for first in range(0, len(all_of_kind), latency_preset.MOST_FILES):
            some = all_of_kind[first : first + latency_preset.MOST_FILES]
            action = host_undos.UndoPreset(
                files=[host_undos.PresetValue(path=each.path, value=each.before) for each in some],
                set=value,
                **asdict(host),
            )
            commands = tuple(latency_preset.write_preset({each.path: value for each in some}))
            yield Step(f"tune {name} of the host", key, commands, action, {"value": value})
