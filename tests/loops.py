"""Loop devices with a link below /dev/disk/by-id, and a host on which they have serial numbers."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.hosts.local import LocalHost

BY_ID = Path("/dev/disk/by-id")
# Real tools, but for what a loop device does not have: a serial number.
_LSBLK = """\
#!/usr/bin/python3 -I
import json, os, subprocess, sys
with open(os.path.join(os.path.dirname(__file__), "serials.json")) as file:
    serials = json.load(file)
if "SERIAL" in sys.argv:
    print(serials.get(os.path.basename(os.path.realpath(sys.argv[-1])), ""))
    sys.exit(0)
done = subprocess.run(["/usr/bin/lsblk", *sys.argv[1:]], stdout=subprocess.PIPE)
if "--json" in sys.argv:
    found = json.loads(done.stdout)
    for entry in found["blockdevices"]:
        entry["serial"] = serials.get(entry["kname"], entry["serial"])
    print(json.dumps(found))
else:
    sys.stdout.buffer.write(done.stdout)
sys.exit(done.returncode)
"""


@dataclass(frozen=True)
class Loop:
    """`link`: its name for the kit; `image`: the file below it."""

    node: str
    link: Path
    image: Path
    serial: str

    @property
    def kernel_name(self) -> str:
        return self.node.removeprefix("/dev/")

    def content(self) -> bytes:
        """What is on the medium."""
        subprocess.run(["blockdev", "--flushbufs", self.node], check=True)
        return self.image.read_bytes()


@contextlib.contextmanager
def loop_device(folder: Path, size_bytes: int = 64 << 20) -> Iterator[Loop]:
    """A new one. Skips the test where that is not possible."""
    if os.geteuid():
        pytest.skip("loop devices need root")
    serial = f"HSPTEST{secrets.token_hex(6).upper()}"
    image = folder / f"{serial}.img"
    with image.open("wb") as file:
        file.truncate(size_bytes)
    made = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=off", image],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    loop = Loop(made.stdout.strip(), BY_ID / f"hsp-test-{serial}", image, serial)
    BY_ID.mkdir(parents=True, exist_ok=True)
    loop.link.symlink_to(loop.node)
    try:
        yield loop
    finally:
        loop.link.unlink(missing_ok=True)
        # A partition would outlive the loop.
        subprocess.run(["partx", "--delete", loop.node], check=False, capture_output=True)
        subprocess.run(["losetup", "--detach", loop.node], check=True)
        image.unlink()


def host_with_serials(folder: Path, loops: Mapping[str, str], more: Mapping[str, str]) -> LocalHost:
    """This machine, where the loops have serials (by kernel name); `more`: texts of further programs."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "serials.json").write_text(json.dumps(dict(loops)))
    for name, text in {"lsblk": _LSBLK, **more}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return LocalHost(env={"PATH": f"{programs}:{os.environ['PATH']}"})
