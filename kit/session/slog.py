"""The work of `hsp slog`: how fast one bare device makes writes durable, by size and by threads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from kit import __version__
from kit.config.device_model import preset_names
from kit.config.tables.precondition_table import Precondition
from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.config.testbed_devices import Device, resolve_devices
from kit.core.errors import ConfigError, HostError, SafetyRefusal
from kit.core.own_file import own_directory
from kit.core.progress import Progress
from kit.core.seed import seed_for, seed_of_run
from kit.core.units import format_binary_bytes, format_decimal_bytes, utc_now
from kit.devices.block_device import BlockDevice, capacitor_health, check_same, find_unused
from kit.devices.inventory import BY_ID
from kit.devices.listing import ListedDisk, list_devices
from kit.devices.probe import device_settings
from kit.hosts.base import Host
from kit.hosts.sudo import local_host
from kit.lab.image.image import ImageInputs, build
from kit.lab.site import lab_site
from kit.load.force_load import ForceTest, run_tests
from kit.precondition.device import Target
from kit.precondition.purge import purge
from kit.session.place import Request, confirm
from kit.setup.precondition_devices import preconditioned
from kit.setup.remote_site import real_site
from kit.setup.site import Site
from kit.store import json_file
from kit.store.format import FORMAT
from kit.store.parts.forces import Forces
from kit.store.run_directory import new_run_id
from kit.store.slog import (
    BLOCK,
    DSYNC,
    FLUSH_IDLE,
    FLUSHED,
    JOURNAL,
    READ_CACHED,
    SIZES,
    THREADS,
    SlogDevice,
    SlogState,
    SlogTest,
)

_PRESET_SIZE = "64MiB"
# Bytes that a test of one size writes at most: 32 writes of 8 MiB.
_MOST_BYTES = 256 << 20
_SIZES_A_CALL = 4
# Commands without a write: enough for a p99.
_ALONE = 400
# Of a group of tests, and of a write where there are very many: a disk takes some ms for each.
_DEADLINE_S = 3600.0
_WRITE_DEADLINE_S = 0.1
# Those of the main job, so that a log device of the lab that it has aged is taken.
_FILLS = Precondition.model_validate(
    {"method": "fills", "fills": 2, "block": "4KiB", "read_block": "512B", "ios": 400}
)
_FOLDER = "slog"


@dataclass(frozen=True)
class SlogOptions:
    """`state`: what is done to the device before. `writes`: of each size, fewer where they are large."""

    state: Literal["as-found", "fresh", "aged"] = "as-found"
    writes: int = 4000
    seed: int | None = None


def find_target(name: str, testbed: Path | None) -> Testbed:
    """The testbed with `name` as its only device.

    `name`: a link below /dev/disk/by-id of this machine, a device of the testbed (default: the lab's), or a
    preset, which is then a device of the lab. Raises ConfigError, SafetyRefusal.
    """
    if name.startswith("/"):
        if testbed is not None:
            raise ConfigError(
                f"{name}: with --testbed, a device is called by its name in the testbed",
                "without --testbed the path is one of this machine",
            )
        return _on_this_machine(name)
    read = read_testbed(testbed or LAB_TESTBED)
    if read.is_appliance:
        raise ConfigError(f"{testbed}: an appliance cannot be logged into", "test its devices elsewhere")
    known = {device.name: device for device in read.device}
    if name in known:
        return read.model_copy(update={"device": (known[name],)})
    presets = () if testbed else tuple(preset_names())
    if name in presets:
        device = Device.model_validate({"name": "log0", "role": "log", "size": _PRESET_SIZE, "preset": name})
        return read.model_copy(update={"device": resolve_devices((device,), LAB_TESTBED)})
    text = f"{testbed or 'the lab'} has no device '{name}'"
    raise ConfigError(
        text,
        f"it has: {', '.join(known)}"
        + (f"; presets: {', '.join(presets)}; or give a path below /dev/disk/by-id" if presets else ""),
    )


def _on_this_machine(path: str) -> Testbed:
    listed = list_devices(local_host())
    disk = next((each for each in listed if path in each.node.links), None)
    if disk is None:
        raise ConfigError(f"{path}: this machine has no disk of that name", _links(path, listed))
    if not disk.node.serial:
        raise SafetyRefusal(
            f"{path} is not touched: it has no serial number, by which you could confirm that it is erased",
            "use another device",
        )
    return Testbed.model_validate(
        {
            "name": "here",
            "server": {"host": "local"},
            "client": ({"host": "local"},),
            "device": (
                {
                    "name": "slog0", "role": "log", "path": path, "serial": disk.node.serial,
                    "size": f"{disk.node.size_bytes}B",
                },
            ),
        }
    )  # fmt: skip


def _links(path: str, listed: Sequence[ListedDisk]) -> str:
    same = next((each.path for each in listed if path == f"/dev/{each.node.kernel_name}" and each.path), None)
    if same:
        return f"any other name may be another disk after the next boot; today it is {same}"
    links = ", ".join(each.path for each in listed if each.path and each.available)
    return f"available disks: {links}" if links else f"no disk with a link below {BY_ID} is available here"


def measure_slog(
    target: Testbed, options: SlogOptions, inputs: ImageInputs, results: Path, progress: Progress
) -> tuple[SlogTest, Path]:
    """Measure the device of `target`; returns the result and the file that holds it. Raises KitError.

    All on the device is lost. Nothing else of its host is changed.
    """
    run_id = new_run_id()
    seed = seed_of_run(run_id) if options.seed is None else options.seed
    (device,) = target.device
    folder = results / _FOLDER
    try:
        own_directory(results)
        own_directory(folder)
    except OSError as error:
        raise HostError(f"{folder}: {error.strerror}", "choose another place with --results") from error
    with _opened(target, inputs, run_id, seed, progress) as site:
        test = _measured(site, device, options, folder, run_id, seed, progress)
    file = folder / f"{run_id}-{device.name}.json"
    json_file.write_json(file, test.as_json())
    return test, file


def measure_each(
    targets: Sequence[Testbed],
    options: SlogOptions,
    inputs: ImageInputs,
    results: Path,
    erase_serials: Sequence[str],
    progress: Progress,
) -> Iterator[tuple[SlogTest, Path]]:
    """Measure one device after another; all are agreed to before the first is touched. Raises KitError."""
    devices = [device for target in targets for device in target.device]
    for number, device in enumerate(devices):
        if any((device.path, device.name) == (other.path, other.name) for other in devices[:number]):
            raise ConfigError(f"{device.path or device.name} is named twice", "name each device once")
    whole = targets[0].model_copy(update={"device": tuple(devices)})
    confirm((), whole, Request(erase_serials=tuple(erase_serials)))
    for target in targets:
        yield measure_slog(target, options, inputs, results, progress)


@contextmanager
def _opened(
    target: Testbed, inputs: ImageInputs, run_id: str, seed: int, progress: Progress
) -> Iterator[Site]:
    if target.is_lab:
        with lab_site(target, build(inputs, progress), progress, seed) as site:
            yield site
    else:
        with real_site(target.model_copy(update={"client": ()}), run_id, progress, seed) as site:
            yield site


def _measured(
    site: Site, device: Device, options: SlogOptions, folder: Path, run_id: str, seed: int, progress: Progress
) -> SlogTest:
    host, path = site.server, site.device_paths[device.name]
    assert host is not None  # an appliance is refused before
    found = find_unused(host, path, device.size, site.guard.claimer if site.guard else None)
    state = _bring_to_state(site, host, device, found, options, folder, run_id, progress)
    results: list[Forces] = []
    tests = planned_tests(found, options.writes)
    written_bytes = sum(test.written_bytes for group in tests.values() for test in group)
    progress.note(f"{device.name}: up to {format_decimal_bytes(written_bytes)} will be written to it")
    for number, (text, group) in enumerate(tests.items()):
        with progress.step(f"{device.name}: {text}"):
            _check_unchanged(site, host, found)
            part = seed_for(seed, f"slog {number}")
            deadline_s = max(_DEADLINE_S, _WRITE_DEADLINE_S * sum(test.ios for test in group))
            results += run_tests(host, path, group, site.clock, part, deadline_s, found.held)
    return SlogTest(
        format=FORMAT,
        kit=__version__,
        utc=utc_now(),
        kernel=host.run(["uname", "-r"]).stdout.strip(),
        host=host.name,
        dilation=site.clock.dilation,
        seed=seed,
        device=_described(host, device, found),
        state=state,
        forces=tuple(results),
    )


def planned_tests(device: BlockDevice, writes: int) -> dict[str, list[ForceTest]]:
    """The tests of a device by what they measure, each group one call of the program. Pure."""

    def test(method: str, size: int, threads: int = 1) -> ForceTest:
        each = max(1, min(writes, min(_MOST_BYTES, device.size_bytes) // size) // threads)
        return ForceTest.of(method, size, each, device.size_bytes, threads)

    sizes = [size for size in SIZES if size >= device.sector_bytes]
    # What neither a write nor its FLUSH can be faster than, on the way to the device and in its firmware.
    alone = [
        ForceTest.of(each, sizes[0], min(writes, _ALONE), device.size_bytes)
        for each in (FLUSH_IDLE, READ_CACHED)
    ]
    groups = {"FLUSH and reads alone": alone}
    for first in range(0, len(sizes), _SIZES_A_CALL):
        group = sizes[first : first + _SIZES_A_CALL]
        text = f"writes of {format_binary_bytes(group[0])} to {format_binary_bytes(group[-1])}"
        groups[text] = [test(method, size) for size in group for method in (FLUSHED, DSYNC)]
    by_threads = [test(FLUSHED, BLOCK, threads) for threads in THREADS if threads > 1]
    journal = replace(test(JOURNAL, BLOCK), is_random=False)
    return groups | {"writes by several threads": [*by_threads, journal]}


def _check_unchanged(site: Site, host: Host, found: BlockDevice) -> None:
    if site.guard:
        site.guard.before_writing([found.path], content=False)
    else:
        check_same(host, found)


def _bring_to_state(
    site: Site,
    host: Host,
    device: Device,
    found: BlockDevice,
    options: SlogOptions,
    folder: Path,
    run_id: str,
    progress: Progress,
) -> SlogState:
    """Bring the device to the state that is asked for."""
    if options.state == "as-found":
        return SlogState(kind="as-found")
    _check_unchanged(site, host, found)
    if options.state == "fresh":
        lent = site.guard.lent(found.path) if site.guard else nullcontext()
        with progress.step(f"{device.name}: purge"), lent:
            return SlogState(kind="fresh", purge=purge(host, found).method)
    work_dir = host.run(["mktemp", "-d"]).stdout.strip()
    try:
        outcome, _ = preconditioned(
            site,
            host,
            Target(device.name, device.role, found.path, device.size, device.endurance),
            _FILLS.model_copy(update={"read_block": max(_FILLS.read_block, found.sector_bytes)}),
            work_dir=work_dir,
            state_path=folder / f".{device.serial or device.name}-preconditioning.json".replace(os.sep, "-"),
            progress=progress,
            run_id=run_id,
        )
    finally:
        host.run(["rm", "-r", "-f", "--", work_dir], check=False)
    if outcome.problems:
        raise HostError("; ".join(outcome.problems), "the device has not the state that was asked for")
    aged_in = outcome.entry.get("aged_in")
    return SlogState(
        kind="aged",
        filled_bytes=outcome.entry["proven_bytes"],
        aged_in=aged_in["run"] if aged_in else None,
    )


def _described(host: Host, device: Device, found: BlockDevice) -> SlogDevice:
    settings = asdict(device_settings(host, {device.name: found.path})[device.name])
    keys = ("firmware", "write_cache", "fua", "driver", "scheduler")
    return SlogDevice(
        name=device.name,
        model=found.model,
        serial=found.serial,
        size_bytes=found.size_bytes,
        sector_bytes=found.sector_bytes,
        transport=found.transport,
        rotational=bool(settings["rotational"]),
        emulated=None if device.is_real else device.title,
        capacitor_health=capacitor_health(host, found),
        **{key: settings[key] for key in keys},
    )
