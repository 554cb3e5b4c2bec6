"""`hsp lab`: build the guest image, start and stop a lab, inject faults, open a shell."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from kit.cli.options import JsonOption, KernelOption, PinOption, QuietOption, SuiteOption, duration_ns
from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError
from kit.core.output import emit_json, emit_text, say
from kit.core.progress import Progress
from kit.core.units import format_size_bytes
from kit.emulation.served import Served
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

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def lab() -> None:
    """The built-in lab: image and virtual machine."""


@app.command("build")
def build_image(
    suite: SuiteOption = DEFAULT_SUITE,
    pin: PinOption = None,
    kernel: KernelOption = DEFAULT_KERNEL,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build even if it exists.")] = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Build the guest image, boot it and save it (once; about four minutes on two cores)."""
    progress = Progress(quiet=quiet)
    image = build(ImageInputs(suite, tuple(pin or ()), kernel), progress, rebuild, mend=True)
    plan = read_testbed(LAB_TESTBED)
    warm.saved(LabSpec(image.path, plan.clock, plan.lab.memory >> 20), image, progress, rebuild)
    if json_output:
        emit_json({"path": os.fspath(image.path), **image.manifest})
    else:
        say(f"image: {image.path} (kernel {image.manifest['kernel']}, OpenZFS {image.manifest['zfs']})")


@app.command("prune")
def prune_cache(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be removed.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Remove images, modules and leftovers that this version does not use."""
    in_use = {"warm": warm.current, "aged": aged_devices.current}
    pruned = prune(lambda: {Path(lab["image"]) for lab in running_labs() if "image" in lab}, dry_run, in_use)
    removed = [
        {"path": os.fspath(item.path), "what": item.what, "bytes": item.used_bytes} for item in pruned.removed
    ]
    kept = {os.fspath(path): reason for path, reason in pruned.kept.items()}
    if json_output:
        emit_json({"dry_run": dry_run, "bytes": pruned.used_bytes, "removed": removed, "kept": kept})
    else:
        for item in removed:
            verb = "would remove" if dry_run else "removed"
            say(f"{verb}: {item['path']} ({item['what']}, {item['bytes']} bytes)")
        for path, reason in kept.items():
            say(f"kept: {path} ({reason})")
        say(f"{pruned.used_bytes} bytes {'would be freed' if dry_run else 'freed'}")
    if pruned.failed:
        lines = "\n".join(f"  {path}: {reason}" for path, reason in pruned.failed.items())
        raise HostError(
            f"could not be removed:\n{lines}", "unmount what is mounted there, or remove it by hand"
        )


@app.command("up")
def up(
    testbed: Annotated[Path, typer.Option("--testbed", help="Devices, clients and clock.")] = LAB_TESTBED,
    suite: SuiteOption = DEFAULT_SUITE,
    pin: PinOption = None,
    kernel: KernelOption = DEFAULT_KERNEL,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Boot a lab that stays up until `hsp lab down`."""
    plan = read_testbed(testbed).without_idle
    progress = Progress(quiet=quiet)
    image = build(ImageInputs(suite, tuple(pin or ()), kernel), progress)
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
        say(f"the lab is up ({plan.clock.kind} clock, dilation {plan.clock.dilation})")
        _say_parts(_parts(plan, paths, clients))
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


def _say_parts(parts: dict[str, Any]) -> None:
    say("the server: hsp lab shell (a root shell), or hsp lab shell -- COMMAND")
    for each in parts["clients"]:
        say(
            f"{each['name']}: hsp lab shell -- {' '.join(each['enter'])} COMMAND "
            f"(its address is {each['address']}; it reaches the server at {each['server_address']})"
        )
    for each in parts["devices"]:
        size = format_size_bytes(each["size_bytes"])
        say(f"{each['path']}: {each['name']}, {each['role']}, {size}, {each['title']}")


@app.command("status")
def status(json_output: JsonOption = False) -> None:
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
        lines = [f"image: {image.path if image else 'not built (hsp lab build)'}"]
    for lab in labs:
        use = "up" if lab.get("detached") else "in use by a run"
        clock = f"{lab['clock']} clock, dilation {lab['dilation']}"
        lines.append(f"{use}: {lab['state']} ({clock}, QEMU {lab['qemu_pid']})")
    emit_text(lines if labs else [*lines, "no lab is up"])


@app.command("down")
def down() -> None:
    """End every lab of yours that was left up."""
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
    say(f"{len(labs)} lab{'s' * (len(labs) != 1)} ended")


@app.command("device")
def device(
    name: Annotated[str, typer.Argument(help="Name of the device in the testbed.")],
    fault: Annotated[str, typer.Argument(help="power-loss, stall, fail, error or heal.")],
    duration: Annotated[str, typer.Option("--for", help="Duration of a stall, e.g. 50ms.")] = "",
    sectors: Annotated[str, typer.Option("--sectors", help="FIRST+COUNT sectors that return errors.")] = "",
    of: Annotated[str, typer.Option("--of", help="Requests that return errors: read, write or any.")] = "any",
    after: Annotated[str, typer.Option("--after", help="Delay, e.g. 200ms; default: at once.")] = "",
    state: Annotated[str, typer.Option("--lab", help="Which lab, if several are up (hsp lab status).")] = "",
) -> None:
    """Inject a fault into an emulated device of a lab that is up, or of a running run."""
    words = fault_words(fault, duration, sectors, of)
    delay_ns = duration_ns("--after", after) if after else 0
    lab = _selected_lab(state)
    clock = Clock(lab["clock"], lab["dilation"])
    with open_host(Path(lab["state"]), free_port()) as guest:
        Served(guest).tell(name, *words, after_s=clock.to_host_ns(delay_ns) / 1e9)
    say(f"{name}: {' '.join(words)}")


def fault_words(fault: str, duration: str, sectors: str, of: str) -> list[str]:
    """Words of a command of emulation/server/commands.c, in experiment time. Pure. Raises ConfigError."""
    if fault in ("power-loss", "fail", "heal"):
        return [fault]
    if fault == "stall":
        return ["stall", str(duration_ns("--for", duration))]
    if fault == "error":
        first, plus, count = sectors.partition("+")
        if not (plus and first.isdecimal() and count.isdecimal() and int(count)):
            raise ConfigError(f"--sectors: '{sectors}' is not FIRST+COUNT", "for example: --sectors 2048+8")
        if of not in ("read", "write", "any"):
            raise ConfigError(f"--of: '{of}' is not read, write or any", "use one of these three")
        return ["error", first, count, of]
    raise ConfigError(f"'{fault}' is not a fault", "there are power-loss, stall, fail, error and heal")


def _selected_lab(state: str) -> dict[str, Any]:
    labs = [lab for lab in running_labs() if not state or lab["state"] == state]
    if len(labs) != 1:
        paths = ", ".join(lab["state"] for lab in labs)
        raise ConfigError(
            f"{len(labs)} labs are up{': ' + paths if paths else ''}",
            "choose one with --lab" if labs else "start one (hsp lab up), or use this command during a run",
        )
    return labs[0]


@app.command("shell", context_settings={"ignore_unknown_options": True})
def shell(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="One word is a line for the guest's shell ('a | b; c'); several are a command and its "
            "arguments, passed on as they are. Without any, a shell."
        ),
    ] = None,
) -> None:
    """Open a root shell in the lab that is up, or run one command with this stdin and its exit code."""
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
