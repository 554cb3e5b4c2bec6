"""What acknowledged writes are worth: the power goes in mid-write, and what was promised must be there.

Only where the devices are emulated: they remember what a power loss of all of them would have left
at a moment, while the pool goes on; then it is exported in order, the devices become what the power
loss left, and the pool is imported again. What a client had been told is safe before that moment
has to be in the file. (The method is that of diskchecker.pl by Brad Fitzpatrick, 2005.)
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from kit.config import workload as config
from kit.core.errors import HostError, MeasurementUnknown
from kit.hosts.base import Host
from kit.nfs import export as nfs_export
from kit.setup.bench import Bench, Storage
from kit.setup.site import Devices
from kit.store.manifest import Moment, PowerLoss
from kit.zfs import pool

_HELPER = Path(__file__).parents[1] / "remote" / "power_loss_records.py"
_SLOTS = 4096
_DEADLINE_S = 300.0
# Until the writer has a first write behind it.
_AWAIT = 'n=0; until [ -s "$1" ]; do n=$((n+1)); [ $n -lt 3000 ] || exit 1; sleep 0.01; done'


def judge(acknowledged: list[tuple[int, int]], found: list[int], mark_ns: int) -> Moment:
    """Compare what was promised with what is there. Pure.

    `acknowledged` has number and time (ns) of each write that returned, `found` the number in each
    slot. A slot may hold a later record than the last one promised: it was written, not yet told.
    """
    before = [number for number, at_ns in acknowledged if at_ns < mark_ns]
    newest: dict[int, int] = {}
    for number in before:
        newest[number % _SLOTS] = max(number, newest.get(number % _SLOTS, 0))
    slots = dict(enumerate(found))
    lost = sorted(number for slot, number in newest.items() if slots.get(slot, 0) < number)
    return Moment(
        at_ns=mark_ns, acknowledged=len(before), lost=len(lost), first_lost=lost[0] if lost else None
    )


def run_power_losses(bench: Bench, settings: config.PowerLoss) -> PowerLoss:
    """As many power losses as asked for, each at another moment. Raises HostError, MeasurementUnknown."""
    if bench.site.devices is None or bench.storage is None:
        raise HostError(
            "power_loss: only emulated devices can lose their power at a chosen moment",
            "take [power_loss] out of the workload on real hardware",
        )
    chance = random.Random(settings.seed)
    moments = []
    for number in range(settings.moments):
        delay_ns = chance.randrange(settings.within)
        moments.append(_lose_power(bench, bench.storage, bench.site.devices, number, delay_ns))
    return PowerLoss(
        moments=tuple(moments),
        acknowledged=sum(moment.acknowledged for moment in moments),
        lost=sum(moment.lost for moment in moments),
    )


def _lose_power(bench: Bench, storage: Storage, devices: Devices, number: int, delay_ns: int) -> Moment:
    """Write, lose the power, import what is left, compare; the pool is in use again afterwards."""
    server, client = storage.server, bench.site.clients[0].host
    file = f"power-loss-{number}"
    directory = f"{bench.work_dir}/{client.name.replace('/', '-')}-power-loss"
    for host in {id(server): server, id(client): client}.values():
        host.run(["mkdir", "-p", directory])
        host.put(_HELPER.read_bytes(), f"{directory}/helper.py")
    # The client's root is nobody at the server, and may make no file there.
    server.run(["install", "-m", "0666", "/dev/null", f"{storage.path}/{file}"])
    log = f"{directory}/{file}.log"
    writer = client.start(
        ["python3", "-I", f"{directory}/helper.py", "write", f"{bench.mount}/{file}", str(_SLOTS), log]
    )
    mark_ns = None
    try:
        if client.run(["sh", "-c", _AWAIT, "sh", log], deadline_s=_DEADLINE_S, check=False).returncode == 0:
            server.run(["sleep", f"{bench.site.clock.to_host_ns(delay_ns) / 1e9:.6f}"])
            mark_ns = devices.mark()
    finally:
        ended = writer.stop(_DEADLINE_S)
    if ended.returncode or mark_ns is None:
        raise MeasurementUnknown(f"the writer of power loss {number} failed {ended.describe()}")
    acknowledged = _parse_log(client.get(log).decode())
    _bring_back(bench, storage, devices)
    text = server.run(
        ["python3", "-I", f"{directory}/helper.py", "read", f"{storage.path}/{file}", str(_SLOTS)]
    ).stdout
    moment = judge(acknowledged, json.loads(text), mark_ns)
    if not moment.acknowledged:
        raise MeasurementUnknown(f"power loss {number} came before the first acknowledged write")
    return moment


def _parse_log(text: str) -> list[tuple[int, int]]:
    pairs = (line.split() for line in text.splitlines())
    return [(int(number), int(at_ns)) for number, at_ns in pairs]


def _bring_back(bench: Bench, storage: Storage, devices: Devices) -> None:
    """The pool exported, the devices as the power loss left them, the pool imported and shared again."""
    server, address = storage.server, bench.site.clients[0].address
    device_paths = tuple(bench.site.device_paths.values())
    nfs_export.unexport(server, storage.path, address)
    pool.export_pool(server, storage.pool)
    devices.restore()
    _forget_cached(server, device_paths)
    pool.import_pool(server, storage.pool, device_paths)
    server.run(["zfs", "mount", storage.dataset])
    nfs_export.export(server, storage.path, address)


def _forget_cached(server: Host, devices: tuple[str, ...]) -> None:
    """What the kernel still holds of the devices' content is from after the power loss."""
    for path in devices:
        server.run(["blockdev", "--flushbufs", path])
