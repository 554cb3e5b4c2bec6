"""`hsp lab`: build the guest image, start and stop a lab, inject faults, open a shell."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kit.cli.options import DeviceArgument, JsonOption, KernelOption, PinOption, SuiteOption, duration_ns
from kit.cli.usage import loaded, refuse_unused
from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError
from kit.core.output import emit_json, emit_text, say
from kit.core.progress import Progress
from kit.core.text import counted
from kit.core.units import format_binary_bytes, format_decimal_bytes
from kit.emulation.served import ServedDevices
from kit.hosts.ssh import call
from kit.lab import aged_devices, warm
from kit.lab.clients import make_client
from kit.lab.guest import free_port, is_supervisor, open_host, running_labs
from kit.lab.image.damage import DamagedImage
from kit.lab.image.image import DEFAULT_KERNEL, DEFAULT_SUITE, ImageInputs, build, find
from kit.lab.image.prune import prune
from kit.lab.qemu import LabSpec
from kit.lab.shell import interact, run_command
from kit.lab.site import check_clock, make_devices
from kit.setup.site import SiteClient

_DOWN_DEADLINE_S = 15.0

SETTINGS = {"shell": {"context_settings": {"ignore_unknown_options": True}}}


def up(
    context: typer.Context,
    testbed: Annotated[
        Path,
        typer.Option("--testbed", metavar="FILE", help="Devices, clients and clock.", show_default=False),
    ] = LAB_TESTBED,
    build_only: Annotated[
        bool, typer.Option("--build", help="Only build the image, boot it and save it: minutes, once.")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="The same, even if the image exists.")] = False,
    here: Annotated[
        Path | None,
        typer.Option(
            "--here",
            metavar="FILE",
            help="No lab: serve the \\[\\[device]] tables of FILE on this machine (root, ublk).",
        ),
    ] = None,
    suite: SuiteOption = DEFAULT_SUITE,
    pin: PinOption = None,
    kernel: KernelOption = DEFAULT_KERNEL,
    json_output: JsonOption = False,
) -> None:
    """Boot a lab that stays up until `hsp lab down`.

    Examples:
      hsp lab up --testbed my-lab.toml
      hsp lab up --build --suite bookworm
      hsp lab up --here devices.toml         emulated devices on this machine, until Ctrl-C
    """
    inputs = ImageInputs(suite, tuple(pin or ()), kernel)
    refuse_unused(context, {"devices of this machine": here, "the lab's image": build_only or rebuild})
    if here is not None:
        loaded("kit.cli.emulated_device").serve(here, json_output=json_output)
    elif build_only or rebuild:
        _build(inputs, rebuild, json_output)
    else:
        _boot(testbed, inputs, json_output)


def _build(inputs: ImageInputs, rebuild: bool, json_output: bool) -> None:
    progress = Progress()
    image = build(inputs, progress, rebuild, mend=True)
    plan = read_testbed(LAB_TESTBED)
    warm.saved(LabSpec(image.path, plan.clock, plan.lab.memory >> 20), image, progress, rebuild)
    if json_output:
        emit_json({"path": os.fspath(image.path), **image.manifest})
    else:
        text = f"image: {image.path} (kernel {image.manifest['kernel']}, OpenZFS {image.manifest['zfs']})"
        emit_text([text])


def prune_cache(dry_run: bool, json_output: bool) -> None:
    """Remove images, modules and leftovers that this version does not use. Raises HostError."""
    in_use = {"warm": warm.current, "aged": aged_devices.current}
    pruned = prune(lambda: {Path(lab["image"]) for lab in running_labs() if "image" in lab}, dry_run, in_use)
    removed = [
        {"path": os.fspath(item.path), "what": item.what, "bytes": item.used_bytes} for item in pruned.removed
    ]
    kept = {os.fspath(path): reason for path, reason in pruned.kept.items()}
    if json_output:
        emit_json({"dry_run": dry_run, "bytes": pruned.used_bytes, "removed": removed, "kept": kept})
    else:
        verb, size = "would remove" if dry_run else "removed", format_decimal_bytes
        lines = [f"{verb}: {each.path} ({each.what}, {size(each.used_bytes)})" for each in pruned.removed]
        lines += [f"kept: {path} ({reason})" for path, reason in kept.items()]
        emit_text([*lines, f"{size(pruned.used_bytes)} {'would be freed' if dry_run else 'freed'}"])
    if pruned.failed:
        failed = "\n".join(f"  {path}: {reason}" for path, reason in pruned.failed.items())
        raise HostError(
            f"could not be removed:\n{failed}", "unmount what is mounted there, or remove it by hand"
        )


def _boot(testbed: Path, inputs: ImageInputs, json_output: bool) -> None:
    plan, progress = read_testbed(testbed).without_idle, Progress()
    image = build(inputs, progress)
    spec = LabSpec(image.path, plan.clock, plan.lab.memory >> 20)
    check_clock(spec, progress)
    with warm.open_lab(spec, image, progress) as lab:
        with progress.step("waiting for the guest"):
            lab.wait_ready()
            guest = lab.host()
        with progress.step("making devices and clients"), guest:
            paths = make_devices(guest, plan.device, plan.clock, plan.bus).paths
            clients = [make_client(guest, number) for number, _ in enumerate(plan.client)]
        lab.detach()
    if json_output:
        emit_json({**_detached_lab(), **_parts(plan, paths, clients)})
    else:
        emit_text([f"the lab is up ({plan.clock.kind} clock, dilation {plan.clock.dilation})"])
        emit_text(_words_of(_parts(plan, paths, clients)))
        if plan.clock.kind == "virtual":
            say("its clock skips idle time, so it keeps one core of this machine busy: hsp lab down")


def _parts(plan: Testbed, paths: dict[str, str], clients: list[SiteClient]) -> dict[str, Any]:
    """Which block device is which, and how to reach the clients."""
    return {
        "devices": [
            {
                "name": device.name,
                "role": device.role,
                "path": paths[device.name],
                "size_bytes": device.size,
                "title": device.title,
            }
            for device in plan.device
        ],
        "clients": [
            {
                "name": f"client{number}",
                "address": client.address,
                "server_address": client.server_address,
                "enter": ["ip", "netns", "exec", f"client{number}"],
            }
            for number, client in enumerate(clients)
        ],
    }


def _words_of(parts: dict[str, Any]) -> Iterator[str]:
    yield "the server: hsp lab shell (a root shell), or hsp lab shell -- COMMAND"
    for each in parts["clients"]:
        yield (
            f"{each['name']}: hsp lab shell -- {' '.join(each['enter'])} COMMAND "
            f"(its address is {each['address']}; it reaches the server at {each['server_address']})"
        )
    for each in parts["devices"]:
        size = format_binary_bytes(each["size_bytes"])
        yield f"{each['path']}: {each['name']}, {each['role']}, {size}, {each['title']}"


def status(json_output: bool) -> None:
    """The image, and the labs that are up."""
    image, damage, labs = None, None, list(running_labs())
    try:
        image = find(ImageInputs())
    except DamagedImage as error:
        damage = error
    if json_output:
        path, fault = os.fspath(image.path) if image else None, damage.message if damage else None
        emit_json({"image": path, "damage": fault, "labs": labs})
        return
    if damage:
        lines = [damage.message, f"  {damage.hint}"]
    else:
        lines = [f"image: {image.path if image else 'not built (hsp lab up --build)'}"]
    for lab in labs:
        use = "up" if lab.get("detached") else "in use by a run"
        clock = f"{lab['clock']} clock, dilation {lab['dilation']}"
        lines.append(f"{use}: {lab['state']} ({clock}, QEMU {lab['qemu_pid']})")
    emit_text(lines if labs else [*lines, "no lab is up"])


def down() -> None:
    """End every lab of yours that was left up.

    Examples:
      hsp list labs
      hsp lab down
    """
    labs = [lab for lab in running_labs() if lab.get("detached")]
    for lab in labs:
        if not is_supervisor(lab["supervisor_pid"]):
            raise HostError(
                f"{lab['state']} is up, but its process {lab['supervisor_pid']} is not to be seen here",
                "end it where it was started, for example in another container: hsp lab down",
            )
        os.kill(lab["supervisor_pid"], signal.SIGTERM)
    end = time.monotonic() + _DOWN_DEADLINE_S
    waiting = [Path(lab["state"]) for lab in labs]
    while any(state.exists() for state in waiting):
        if time.monotonic() > end:
            raise HostError(f"the lab did not end within {_DOWN_DEADLINE_S:g} s", "try again")
        time.sleep(0.1)
    emit_text([f"{counted(len(labs), 'lab')} ended" if labs else "no lab was up"])


def fault(
    context: typer.Context,
    name: DeviceArgument,
    what: Annotated[
        Literal["power-loss", "stall", "fail", "error", "heal"],
        typer.Argument(metavar="FAULT", help="power-loss, stall, fail, error or heal."),
    ],
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="Duration of a stall, e.g. 50ms.")
    ] = "",
    sectors: Annotated[
        str, typer.Option("--sectors", metavar="FIRST+COUNT", help="Sectors that return errors.")
    ] = "",
    of: Annotated[
        Literal["read", "write", "any"], typer.Option("--of", help="Requests that return errors.")
    ] = "any",
    after: Annotated[
        str, typer.Option("--after", metavar="DURATION", help="Delay, e.g. 200ms; default: at once.")
    ] = "",
    state: Annotated[
        str, typer.Option("--lab", metavar="LAB", help="Which one, if several are up (hsp list labs).")
    ] = "",
) -> None:
    """Inject a fault into an emulated device of a lab that is up, or of a running run.

    Examples:
      hsp lab fault log0 stall --for 50ms
      hsp lab fault data0 error --sectors 2048+8 --of read
      hsp lab fault data0 heal
    """
    refuse_unused(context, {
        "a fault other than stall": what != "stall",
        "a fault other than error": what != "error",
    })  # fmt: skip
    words = fault_words(what, duration, sectors, of)
    delay_ns = duration_ns("--after", after) if after else 0
    lab = _selected_lab(state)
    clock = Clock(lab["clock"], lab["dilation"])
    with open_host(Path(lab["state"]), free_port()) as guest:
        ServedDevices(guest).tell(name, *words, after_s=clock.to_host_ns(delay_ns) / 1e9)
    emit_text([f"{name}: {' '.join(words)}"])


def fault_words(fault: str, duration: str, sectors: str, of: str) -> list[str]:
    """Words of a command of emulation/server/commands.c, in experiment time. Pure. Raises ConfigError."""
    if fault == "stall" and not duration:
        raise ConfigError("a stall needs --for, how long it lasts", "for example: --for 50ms")
    if fault == "stall":
        return ["stall", str(duration_ns("--for", duration))]
    if fault == "error":
        first, plus, count = sectors.partition("+")
        if not (plus and first.isdecimal() and count.isdecimal() and int(count)):
            raise ConfigError(f"--sectors: '{sectors}' is not FIRST+COUNT", "for example: --sectors 2048+8")
        return ["error", first, count, of]
    return [fault]


def _selected_lab(state: str) -> dict[str, Any]:
    labs = [lab for lab in running_labs() if not state or lab["state"] == state]
    if len(labs) != 1:
        paths = ", ".join(lab["state"] for lab in labs)
        raise ConfigError(
            f"{len(labs)} labs are up{': ' + paths if paths else ''}",
            "choose one with --lab" if labs else "start one (hsp lab up), or use this command during a run",
        )
    return labs[0]


def shell(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="One word is a line for the guest's shell ('a | b; c'); several are a command and its "
            "arguments, passed on as they are. Without any, a shell.",
        ),
    ] = None,
) -> None:
    """Open a root shell in the lab that is up, or run one command with this stdin and its exit code.

    Examples:
      hsp lab shell
      hsp lab shell -- zpool iostat -v 1
      hsp lab shell 'dmesg | tail'
    """
    with open_host(Path(_detached_lab()["state"]), free_port()) as guest:
        raise typer.Exit(run_command(guest, command) if command else call(interact(guest.connection)))


def _detached_lab() -> dict[str, Any]:
    labs = list(running_labs())
    detached = [lab for lab in labs if lab.get("detached")]
    if not detached:
        # A shell during a measurement would disturb it.
        runs = " except those of runs, which allow no other login" if labs else ""
        raise ConfigError(f"no lab is up{runs}", "start one: hsp lab up")
    return detached[-1]
