"""The wheel on a bare Debian: installed, used, removed without a trace.

pytest -m long tests/packages        needs root, mmdebstrap, and the package registries
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kit import __version__
from kit.core.errors import EXIT_HOST
from tests.packages.bare import APT, Bare
from tests.reports import synthetic

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

# What the tool itself needs; how the wheel is installed; where `hsp` is then; how it is removed.
_VENV = "python3 -m venv /opt/hsp && /opt/hsp/bin/pip install --quiet /root/*.whl"
WAYS = {
    "venv": ("", _VENV, "/opt/hsp/bin/hsp", "rm -r /opt/hsp"),
    "pip": (
        "python3 -m venv /opt/hsp",
        "/opt/hsp/bin/pip install --quiet /root/*.whl",
        "/opt/hsp/bin/hsp",
        "/opt/hsp/bin/pip freeze --exclude-editable >/tmp/all && /opt/hsp/bin/pip uninstall -qy -r /tmp/all",
    ),
    "pipx": (
        f"{APT} install --no-install-recommends pipx && mkdir -p /root/.local/bin",
        "pipx install /root/*.whl",
        "/root/.local/bin/hsp",
        "pipx uninstall zfs-hsp-kit",
    ),
    "uv": (
        "python3 -m venv /opt/uv && /opt/uv/bin/pip install -q uv && mkdir -p /root/.local/bin",
        "/opt/uv/bin/uv tool install --no-python-downloads /root/*.whl",
        "/root/.local/bin/hsp",
        "/opt/uv/bin/uv tool uninstall zfs-hsp-kit",
    ),
}  # fmt: skip


def use(bare: Bare, hsp: str) -> None:
    """What works without a server and without the lab; nothing of it writes but the report."""
    assert bare.sh(f"{hsp} --version") == f"hsp {__version__}\n"
    assert "phase" in bare.sh(f"{hsp} plan top-speeds")
    testbed = bare.root / "root" / "here.toml"
    testbed.write_text('name = "here"\n[server]\nhost = "local"\n[[client]]\nhost = "local"\n')
    done = bare.run(f"{hsp} host check --testbed /root/here.toml --json")
    assert done.returncode == EXIT_HOST and "Traceback" not in done.stderr, done.stderr
    found = {each["check"]: each["state"] for each in json.loads(done.stdout)["findings"]}
    assert (found["python"], found["zfs-module"]) == ("ok", "fail")
    testbed.unlink()
    run = bare.root / "root" / "run"
    synthetic.write(run, synthetic.manifest(), synthetic.latency())
    bare.sh(f"{hsp} show /root/run -o /root/report.html && {hsp} show /root/run --json >/root/summary.json")
    assert "<html" in (bare.root / "root" / "report.html").read_text()
    assert len(json.loads((bare.root / "root" / "summary.json").read_text())["rows"]) >= 5
    shutil.rmtree(run)
    for name in ("report.html", "summary.json"):
        (bare.root / "root" / name).unlink()


@pytest.mark.parametrize("way", WAYS)
def test_installed_used_and_removed_without_a_trace(bare: Bare, wheel: Path, way: str) -> None:
    before, install, hsp, remove = WAYS[way]
    shutil.copy(wheel, bare.root / "root")
    bare.sh(before)
    # Directories that they have made for themselves, and for others, are left by pip, pipx and uv.
    found = bare.files(directories=False)
    bare.sh(install)
    assert len(bare.files() - found) > 1000 or way == "pipx"
    use(bare, hsp)
    bare.sh(remove)
    left = {path for path in bare.files(directories=False) ^ found if "__pycache__" not in path}
    assert left == set()
