"""The NFSv3 client of the kit, with a real nfsd: what the control of an appliance's power losses needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kit.remote
from kit.hosts.base import CommandResult
from kit.run.power.records import RecordLayout, judge, parse_acknowledged, parse_found
from tests.lab.conftest import RunningLab
from tests.lab.pools import dataset, exported

PROTECTS = ("kit/remote/nfs3_writes.py", "kit/remote/power_loss_records.py")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

_PLACE, _CLIENT = "/run/nfs3", 23
_AWAIT = 'until [ "$(wc -l <"$1")" -gt 100 ]; do sleep 0.05; done'


def test_unstable_writes_arrive_and_a_server_that_starts_again_is_seen(running_lab: RunningLab) -> None:
    guest = running_lab.guest
    with (
        dataset(guest, "v3", file="bs=4k count=1") as (_, path),
        exported(guest, path, _CLIENT) as client,
    ):
        host, log = client.host, f"{_PLACE}/acknowledged"
        host.run(["mkdir", "-p", _PLACE])
        for name in ("nfs3_writes.py", "power_loss_records.py"):
            host.put((Path(kit.remote.__path__[0]) / name).read_bytes(), f"{_PLACE}/{name}")
        target = {"host": client.server_address, "export": path, "port": 0, "mountport": 0}
        program = ["python3", "-I", "-S", f"{_PLACE}/nfs3_writes.py"]

        def ask(word: str, *more: str) -> CommandResult:
            return host.run([*program, word, json.dumps(target), *more], check=False, deadline_s=120)

        first = ask("verifier", "file").stdout
        assert len(first) == 17 and ask("verifier", "file").stdout == first
        assert (ask("port").stdout, ask("stable", "file").stdout) == ("open\n", "0\n")
        absent = ask("verifier", "absent")
        assert absent.returncode == 1 and "LOOKUP of absent: No such file" in absent.stderr

        layout = RecordLayout(f"{path}/file", 7, 1, (512, 16384), durable=False, direct=False)
        writer = host.start([*program, "write", json.dumps(target), "file", layout.text(), log])
        host.run(["sh", "-c", _AWAIT, "sh", log], deadline_s=300)
        assert writer.stop(60, "INT").returncode == 0
        acknowledged = parse_acknowledged(host.get(log).decode())
        read = ["python3", "-I", "-S", f"{_PLACE}/power_loss_records.py", "read", layout.text()]
        moment = judge(layout, acknowledged, parse_found(guest.run(read).stdout, layout))
        assert moment.acknowledged > 100 and moment.not_there == 0 and moment.looked_at > 50, moment

        guest.run(["rpc.nfsd", "0"])
        closed = ask("port").stdout
        guest.run(["rpc.nfsd", "4"])
        guest.run(["ip", "link", "set", f"srv{_CLIENT}", "down"])
        gone = ask("port").stdout
        guest.run(["ip", "link", "set", f"srv{_CLIENT}", "up"])
        assert (closed, gone) == ("closed\n", "gone\n")
        again = ask("verifier", "file").stdout
        assert len(again) == 17 and again != first
