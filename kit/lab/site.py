"""The lab as a site of a run: guest, devices, clients, hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kit.config.testbed import Testbed
from kit.config.testbed_devices import NO_BUSES, Buses, Device
from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.devices import udev
from kit.emulation import compilation
from kit.emulation.devices_file import keep_states, load_states, served_devices
from kit.emulation.served import ServedDevices
from kit.hosts.base import Host
from kit.lab.aged_devices import AgedStates
from kit.lab.clients import lab_clients
from kit.lab.guest import probe_real_clock
from kit.lab.image.image import Image
from kit.lab.qemu import LabSpec
from kit.lab.warm import open_lab
from kit.setup.site import Site

_NULLB = "/sys/kernel/config/nullb"

# Each device: made through configfs (Documentation/block/null_blk.rst). irqmode 2 completes
# a request by a timer after completion_nsec; queue_mode 2 is blk-mq. Arguments: directory,
# then name=value pairs in order, `power` last.
_MAKE_NULLB = 'd=$1; shift; mkdir "$d" && for s; do echo "${s#*=}" >"$d/${s%%=*}" || exit 1; done'


@dataclass(frozen=True)
class MadeDevices:
    """Devices of the lab: `paths` by name; `served` controls the devices with a model, if there are any."""

    paths: dict[str, str]
    served: ServedDevices | None


@contextmanager
def lab_site(
    testbed: Testbed, image: Image, progress: Progress, seed: int, age_again: bool = False
) -> Iterator[Site]:
    """Start the lab and make the testbed in it; end the lab afterwards. Raises HostError.

    `age_again`: do not use the aged states of earlier runs.
    """
    spec = LabSpec(image.path, testbed.clock, testbed.lab.memory >> 20, seed=seed)
    check_clock(spec, progress)
    with open_lab(spec, image, progress) as lab, ExitStack() as stack:
        with progress.step("starting the lab"):
            lab.wait_ready()
            guest = stack.enter_context(lab.host())
            clients = stack.enter_context(lab_clients(lab, guest, len(testbed.client)))
        made = make_devices(guest, testbed.device, testbed.clock, testbed.bus)
        modelled = [device for device in testbed.device if device.emulated is not None]
        dilation = testbed.clock.dilation
        aged = None
        if made.served:
            aged = AgedStates(lab, made.served, modelled, dilation, progress, age_again, testbed.bus)
        yield Site(
            server=guest,
            clients=clients,
            device_paths=made.paths,
            clock=testbed.clock,
            emulated=True,
            devices=made.served,
            aged=aged,
            seed=seed,
            versions={"image": image.path.name, **lab.versions()},
            gone=lab.diagnose,
        )
        if made.served:
            keep_states(made.served, testbed.device)


def check_clock(spec: LabSpec, progress: Progress) -> None:
    """Allow the real clock only after a successful test boot. Raises HostError."""
    if spec.clock.kind == "virtual":
        return
    with progress.step("trying KVM"):
        reason = probe_real_clock(spec)
    if reason:
        raise HostError(
            f'the lab cannot have clock = "real" on this machine: {reason}',
            'use clock = "virtual", which needs no KVM',
        )


def make_devices(
    guest: Host, devices: tuple[Device, ...], clock: Clock, buses: Buses = NO_BUSES
) -> MadeDevices:
    """Make the emulated devices, on the guest's clock. Raises HostError."""
    paths = {}
    for device in devices:
        if device.model == "null_blk":
            _make_null_blk(guest, device, clock)
            paths[device.name] = f"/dev/{device.name}"
    modelled = [device for device in devices if device.emulated is not None]
    served = ServedDevices(guest) if modelled else None
    if served:
        paths |= served.start(compilation.server(), served_devices(modelled, buses), clock.dilation)
        load_states(served, modelled)
        udev.settle(guest)
    return MadeDevices(paths, served)


def _make_null_blk(guest: Host, device: Device, clock: Clock) -> None:
    settings = {
        "size": device.size >> 20,
        "blocksize": 512,
        "memory_backed": 1,
        "discard": 1,
        "queue_mode": 2,
        "hw_queue_depth": 64,
        "irqmode": 2,
        "completion_nsec": clock.to_host_ns(device.latency or 0),
        "power": 1,
    }
    pairs = [f"{name}={value}" for name, value in settings.items()]
    guest.run(["sh", "-c", _MAKE_NULLB, "sh", f"{_NULLB}/{device.name}", *pairs])
    udev.settle(guest)
    guest.run(["test", "-b", f"/dev/{device.name}"])
