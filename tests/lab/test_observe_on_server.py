"""`hsp observe` on the server itself, as root: the kit runs in the guest, with the guest's Python.

The guest's emulated CPU has no cmpxchg16b (kit/lab/qemu.py). NumPy needs it from 2.4 on, so an older one is
there; the check by which the kit would refuse the CPU is off; and Polars ends where it reads a file, so the
report is drawn on this machine. Needs the package registry.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kit.lab.qemu import HAND_OVER
from tests.lab.conftest import ROOT, LabAndGuest
from tests.lab.hoststate import differences, state_of
from tests.lab.pools import dataset, mounted

PROTECTS = ("kit/observe", "kit/trace", "kit/hosts/local.py")
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(900, func_only=True)]

READS, WRITES, BLOCK = 64, 50, 4096
_PLACE = "/run/kit-under-test"
_HSP = (
    f"mkdir -p /root/own && cd /root/own && exec env HOME=/root/own PYTHONPATH={_PLACE}:{_PLACE}/packages "
    "PYTHONDONTWRITEBYTECODE=1 POLARS_SKIP_CPU_CHECK=1 python3 -m kit.cli"
)
_OBSERVING = (
    "until grep -q '\"observe\"' /root/own/results/observe/2*/journal.jsonl; do sleep 0.1; done 2>/dev/null"
)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk with the kit and its packages for Python 3.13 of Debian 13."""
    tree = tmp_path_factory.mktemp("kit")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    older = [name for name in wanted if not name.startswith("numpy")] + ["numpy<2.4"]
    for_guest = "--python-version", "3.13", "--implementation", "cp", "--only-binary", ":all:"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", os.fspath(tree / "packages")]
    subprocess.run([*pip, *for_guest, *older], check=True, timeout=600)
    for folder in ("kit", "reports", "workloads"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = tree.with_suffix(".ext4")
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", tree, path, "1500M"], check=True, timeout=300)
    shutil.rmtree(tree)
    return path


def test_what_is_seen_on_the_server_itself_is_what_its_clients_did(
    running_lab: LabAndGuest, disk: Path, tmp_path: Path
) -> None:
    guest = running_lab.guest
    with disk.open("rb") as source, (running_lab.lab.state / HAND_OVER).open("r+b") as target:
        shutil.copyfileobj(source, target, 16 << 20)
    guest.run(["mkdir", "-p", _PLACE, "/run/hsp"])
    guest.run(["mount", "-o", "ro", "-t", "ext4", f"/dev/disk/by-id/virtio-hsp-{HAND_OVER}", _PLACE])
    with (
        dataset(guest, "own", file=f"bs=64k count={READS * BLOCK >> 16}") as (_, path),
        mounted(guest, path, 9, "/mnt/own") as client,
    ):
        before = state_of(guest)
        observed = guest.start(["sh", "-c", f"{_HSP} observe --for 10min --results /root/own/results"])
        guest.run(["sh", "-c", _OBSERVING], deadline_s=300)
        dd = f"iflag=direct bs={BLOCK}"
        client.host.run(["sh", "-c", f"dd if=/mnt/own/file of=/dev/null {dd} count={READS}"])
        dd = f"of=/mnt/own/file oflag=direct,dsync conv=notrunc bs={BLOCK} count={WRITES}"
        client.host.run(["sh", "-c", f"dd if=/dev/urandom {dd}"])
        ended = observed.stop(300, "INT")
        assert "not a readable Parquet file" in ended.stderr, ended.stderr
        guest.run(["sh", "-c", "cd /root/own && tar -cf /tmp/run.tar results && rm -r /root/own"])
        (tmp_path / "run.tar").write_bytes(guest.get("/tmp/run.tar", limit_bytes=64 << 20))
        guest.run(["rm", "/tmp/run.tar"])
        assert differences(before, state_of(guest)) == []
    guest.run(["umount", _PLACE])
    subprocess.run(["tar", "-xf", tmp_path / "run.tar", "-C", tmp_path], check=True)
    [run] = (tmp_path / "results" / "observe").glob("2*")
    show = [sys.executable, "-m", "kit.cli", "show", os.fspath(run), "--json"]
    shown = subprocess.run(show, cwd=ROOT, capture_output=True, text=True, check=True)
    summary: dict[str, Any] = json.loads(shown.stdout)
    assert summary["verdict"] == "valid", summary["reasons"]
    ios = {op: sum(row["ios"] for row in summary["observed"] if row["op"] == op) for op in ("read", "write")}
    assert ios == {"read": READS, "write": WRITES}
