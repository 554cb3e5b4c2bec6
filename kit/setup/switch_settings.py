"""Settings of the server for a run: the user's own, write caches of devices, files, a preset.

All are read back after each switch, because one may change another.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from kit.core.errors import ConfigError, HostError, SafetyRefusal
from kit.devices.write_cache import ToolName, Value, WriteCache, tool_of
from kit.hosts import file_settings as host_settings
from kit.hosts import latency_preset
from kit.hosts.base import Host, HostLost
from kit.hosts.file_settings import CommandSetting
from kit.hosts.identity import HostIdentity, read_identity
from kit.hosts.latency_preset import PresetFile
from kit.instruments import server_activity
from kit.plan import setting_steps
from kit.precondition import purge
from kit.setup.context import Context, Switched
from kit.store.parts.machine import HostSetting


def switch(run: Context, server: Host) -> None:
    """What the workload asks for. Raises HostError, SafetyRefusal: what was switched is in the journal."""
    _switch(run, server)
    if run.plan.workload.host.tune == "latency":
        _tune(run)


def _switch(run: Context, server: Host) -> None:
    workload = run.plan.workload
    own = setting_steps.own_settings(run.plan.testbed.setting, workload.setting)
    files = workload.host.files
    if not (own or workload.host.write_cache or files):
        return
    identity = read_identity(server)
    caches = dict(_caches(run, server)) if workload.host.write_cache else {}
    own_before = {each.name: each.read(server) for each in own}
    for each in own:
        run.switched.append(Switched(each.name, each.read, own_before[each.name]))
    for cache, before in caches.items():
        run.switched.append(Switched(_label(cache), partial(_read_cache, cache), before))
    if own:
        _switch_own(run, server, own, own_before, identity)
    if workload.host.write_cache:
        _switch_caches(run, server, caches, workload.host.write_cache, identity)
    _set_files(run, server, files, identity)


def changed(server: Host, switched: Sequence[Switched]) -> list[str]:
    """Settings that somebody else changed during the run, in words. Raises HostError."""
    wanted = {each.label: each.value for each in switched}
    return server_activity.changed(wanted, {each.label: each.read(server) for each in switched}, "host")


def _look(run: Context, server: Host, label: str, value: str) -> None:
    """Read all back after `label` was set to `value`; what else has changed is a problem of the run."""
    for number, each in enumerate(run.switched):
        found = each.read(server)
        run.switched[number] = Switched(each.label, each.read, found)
        if found != each.value and each.label != label:
            text = f"{each.label} was {each.value} and is {found} since {label} was set to {value}"
            run.record.add_problems("settings-changed", text)


def _store(run: Context, name: str, path: str, before: str, now: str) -> None:
    stored = HostSetting(name=name, path=path, before=before, set=now)
    run.record.fill(host_settings=(*run.record.manifest.host_settings, stored))


def _switch_own(
    run: Context,
    server: Host,
    settings: Sequence[CommandSetting],
    before: Mapping[str, str],
    identity: HostIdentity,
) -> None:
    """All of the testbed's are in the undo: those that are not switched may change, too."""
    step = setting_steps.switch_own(run.plan.testbed.setting, settings, before, identity)
    assert step.undo
    undone = step.undo.model_dump()["settings"]

    def know(number: int) -> None:
        """What they are now is the run's own."""
        found = {each.label: each.value for each in run.switched}
        now = [{**one, "set": found[one["name"]]} for one in undone]
        if any(one["set"] not in (old["set"], old["value"]) for one, old in zip(now, undone, strict=True)):
            run.journal.know(number, settings=now)

    with run.step(step) as number:
        for setting in settings:
            if not setting.set_to:
                continue
            try:
                with run.journal.step(f"set {setting.name}", value=setting.value):
                    host_settings.set_own(server, setting)
            finally:
                _look(run, server, setting.name, setting.value)
                know(number)
        run.journal.know(number, known=True)
    for setting in settings:
        now = next(each.value for each in run.switched if each.label == setting.name)
        _store(run, setting.name, shlex.join(setting.get), before[setting.name], now)


def _caches(run: Context, server: Host) -> Iterator[tuple[WriteCache, Value]]:
    """The volatile write caches of the run's devices, and whether each is on.

    Raises ConfigError without any; HostError; SafetyRefusal for one that other devices share.
    """
    site, without = run.site, list[str]()
    nodes = {one.spec.path: one.node for one in site.guard.checked} if site.guard else {}
    found = 0
    for device in run.plan.testbed.device:
        path = site.device_paths[device.name]
        tool: ToolName | None
        if site.emulated:
            tool = "model" if device.emulated else None
        else:
            node = nodes.get(path)
            tool = tool_of(node) if node else None
            if node and tool == "nvme":
                _refuse_shared(server, node.kernel_name)
        cache = WriteCache(device.name, path, tool, device.serial or "") if tool else None
        value = cache.read(server) if cache else None
        if cache and value:
            found += 1
            yield cache, value
        else:
            without.append(device.name)
    names = " and ".join(without)
    if not found:
        raise ConfigError(
            f"host.write_cache: no device has a volatile write cache that can be switched: {names}",
            "caches of SATA, SCSI and NVMe devices can, and of models; take the key out of the workload",
        )
    if without:
        run.record.add_notes(
            f"host.write_cache: {names} {'have' if len(without) > 1 else 'has'} no volatile write cache that "
            "can be switched, and stayed as before."
        )


def _refuse_shared(server: Host, kernel_name: str) -> None:
    """Raises SafetyRefusal if the cache is that of other namespaces, too."""
    nvme = purge.look_up_nvme(server, kernel_name)
    if nvme is None:
        raise HostError(
            f"on {server.name}: nvme-cli is not installed; it switches the write cache of {kernel_name}",
            "install it there, or take host.write_cache out of the workload",
        )
    if nvme.namespaces is None or len(nvme.namespaces) != 1:
        count = "an unknown number of" if nvme.namespaces is None else len(nvme.namespaces)
        raise SafetyRefusal(
            f"the write cache of {kernel_name} on {server.name} is not switched: it is that of its "
            f"controller, {nvme.controller}, which has {count} namespaces",
            "it would change for the others, too; take host.write_cache out of the workload",
        )


def _label(cache: WriteCache) -> str:
    return f"the write cache of {cache.device}"


def _read_cache(cache: WriteCache, host: Host) -> str:
    return cache.read(host) or "not there"


def _switch_caches(
    run: Context, server: Host, caches: Mapping[WriteCache, Value], value: Value, identity: HostIdentity
) -> None:
    for cache, before in caches.items():
        step = setting_steps.switch_cache(cache, value, before, cache.command(server, value), identity)
        with run.step(step):
            # Also where it is so already: what is asked for is read back in one way.
            (answer,) = run.send(step, check=False)
            cache.check_switched(server, value, answer)
            _look(run, server, _label(cache), value)
    for cache, before in caches.items():
        now = next(each.value for each in run.switched if each.label == _label(cache))
        _store(run, cache.name, cache.path, before, now)


def _set_files(run: Context, server: Host, files: Mapping[str, str], identity: HostIdentity) -> None:
    """Those of the workload."""
    paths = tuple(run.site.device_paths.values())
    wanted = host_settings.found(server, files, paths)
    before = [host_settings.read(server, each.path) for each in wanted]
    for each, step in setting_steps.set_files(zip(wanted, before, strict=True), identity):
        with run.step(step):
            host_settings.write(server, *step.commands)
        run.switched.append(Switched(each.path, partial(host_settings.read, path=each.path), each.value))
        _store(run, each.name, each.path, str(step.details["before"]), each.value)


def _tune(run: Context) -> None:
    """The preset, of the server and of each client, of hosts of one kernel the first."""
    seen: set[HostIdentity] = set()
    for key, host in run.site.hosts.items():
        identity = read_identity(host)
        if identity in seen:
            continue
        seen.add(identity)
        is_server = key == "server"
        own = run.plan.workload.host.files if is_server else {}
        paths = tuple(run.site.device_paths.values()) if is_server and "scheduler" not in own else ()
        files = latency_preset.files_to_set(latency_preset.read_preset(host, paths), own)
        if missing := latency_preset.lacking(files, own):
            run.record.add_notes(f"host.tune: {host.name} has {missing}: that part of it stayed as before.")
        for step in setting_steps.set_preset(files, key, identity):
            with run.step(step):
                run.send(step, check=False)
                for command in step.commands:
                    latency_preset.check_preset(host, dict.fromkeys(command.argv[1:], command.input))
        _keep_preset(run, host, files, "server" if is_server else "clients")


def _keep_preset(
    run: Context, host: Host, files: Sequence[PresetFile], on: Literal["server", "clients"]
) -> None:
    """What is watched and stored: the files of all CPUs as one, those of all clients as one."""
    kinds: dict[str, list[PresetFile]] = {}
    for each in files:
        kinds.setdefault(each.of_all, []).append(each)
    stored = {(each.on, each.path): each for each in run.record.manifest.host_settings}
    for path, some in kinds.items():
        name, value = some[0].name, some[0].value
        read = partial(_read_preset, host, {each.path: value for each in some})
        run.switched.append(Switched(f"{path} of {host.name}", read, value))
        earlier = stored[on, path].before.split(", ") if (on, path) in stored else []
        before = ", ".join(sorted({*earlier, *(each.before for each in some)}))
        stored[on, path] = HostSetting(name=name, path=path, before=before, set=value, on=on)
    run.record.fill(host_settings=tuple(stored.values()))


def _read_preset(host: Host, values: Mapping[str, str], _: Host) -> str:
    """The value of all these files, or the first that another one has."""
    try:
        found = latency_preset.contents(host, values)
    except HostLost:
        # The load of a lost client is a problem of the phase; results of the others are kept.
        return "not known, as the host is lost"
    wrong = [found.get(path, "gone") for path in values if found.get(path) != values[path]]
    return [*wrong, *values.values()][0]
