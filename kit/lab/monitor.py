"""Client of QEMU's monitor: one command, one answer (QMP, docs/interop/qmp-intro.txt of QEMU)."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from kit.core.errors import HostError

_DEADLINE_S = 120.0


def command(state: Path, name: str, **arguments: Any) -> Any:
    """Run the QMP command `name`; returns its result. `state` is the lab's directory. Raises HostError."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_DEADLINE_S)
        try:
            line.connect(os.fspath(state / "qmp.sock"))
            with line.makefile("rw") as stream:
                stream.readline()
                for request in ({"execute": "qmp_capabilities"}, {"execute": name, "arguments": arguments}):
                    stream.write(json.dumps(request) + "\n")
                    stream.flush()
                    answer: dict[str, Any] = {"event": None}
                    while "event" in answer:
                        answer = json.loads(stream.readline())
        except (OSError, ValueError) as error:
            raise HostError(f"the monitor of QEMU does not answer to {name}: {error}") from error
    if "error" in answer:
        raise HostError(f"QEMU refuses {name}: {answer['error']['desc']}")
    return answer["return"]
