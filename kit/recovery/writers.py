"""Processes of a run that has ended, but that still live: they may write to what an undo gives free."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from kit.core.errors import HostError, SafetyRefusal
from kit.core.text import safe_text
from kit.hosts.base import Host
from kit.recovery import work_directory
from kit.recovery.action import names_of

HELPER = Path(__file__).parents[1] / "remote" / "processes.py"
# The watchers of a killed run need some seconds; udev and monitors open a device for a moment.
_PATIENCE_S = 10.0
_POLL_S = 0.5


def list_command(run: str, devices: Sequence[str]) -> list[str]:
    """argv; its stdin is the helper's text. The tracer of a run is left out: it is ended by its own undo."""
    directory = work_directory.path_of(run)
    request = {
        "names": sorted(names_of(run) - {run}),
        "directory": directory,
        "devices": sorted(set(devices)),
        "but": [f"{directory}/nfsd.bt", f"{directory}/hold"],
    }
    return ["/usr/bin/python3", "-I", "-", "list", json.dumps(request)]


def refuse_any(host: Host, run: str, devices: Sequence[str], more_s: float = 0.0) -> None:
    """Raises SafetyRefusal while a process of the run lives, or has one of `devices` open; HostError.

    `more_s`: how much longer than some seconds it may take them to end.
    """
    end = time.monotonic() + _PATIENCE_S + more_s
    while found := _found(host, run, devices):
        if time.monotonic() > end:
            numbers = " ".join(str(pid) for pid, _, _ in found)
            texts = [f"process {pid} ({name}): {why}" for pid, name, why in found[:5]]
            raise SafetyRefusal(
                f"on {host.name} {len(found)} processes of the run {run} still live: {'; '.join(texts)}",
                f"nothing was undone there, because they may still write; end them there (kill {numbers}), "
                "or what began to use the device, then `hsp clean` once more",
            )
        time.sleep(_POLL_S)


def _found(host: Host, run: str, devices: Sequence[str]) -> list[tuple[int, str, str]]:
    text = host.run(list_command(run, devices), stdin=HELPER.read_bytes()).stdout
    try:
        return [(int(pid), safe_text(name)[:40], safe_text(why)[:200]) for pid, name, why in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        raise HostError(
            f"on {host.name} it cannot be told whether processes of the run {run} still live: "
            f"{safe_text(text)[:200]!r}",
            "the kit looks at them with the host's /usr/bin/python3; nothing was undone there",
        ) from None
