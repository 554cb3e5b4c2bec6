"""The program that calls NULL on clients: its command, and which mounts it stands for. Pure."""

from __future__ import annotations

from pathlib import Path

from kit.config.tables.nfs_options import value_of
from kit.core.sample_size import sample_needed
from kit.core.text import safe_text

PROGRAM = Path(__file__).parents[1] / "remote" / "load" / "null_calls.py"
SOURCE = "kit/remote/load/null_calls.py"
# Enough for a p99; over a network of more than 5 ms, fewer.
CALLS, _LONGEST_MS = sample_needed(0.99) + 32, 2000


def command(address: str, port: str, version: str) -> list[str]:
    """argv of the program, which is its input; as the user of the login: lines for sudo need not have it."""
    return ["env", "python3", "-I", "-", address, port, version[0], str(CALLS), str(_LONGEST_MS)]


def unlike_null(options: str) -> str:
    """Why NULL over TCP would not be what the mount with these options (of /proc/mounts) uses; or ""."""
    if (proto := value_of("proto", options) or "tcp").startswith("rdma"):
        return "the mount goes over RDMA, and NULL would go over TCP"
    if proto not in ("tcp", "tcp6"):
        return f"the mount goes over {safe_text(proto)}, and NULL would go over TCP"
    if (security := value_of("sec", options) or "sys").startswith("krb5"):
        return f"calls of the mount carry Kerberos tokens (sec={safe_text(security)}), and NULL has none"
    return "" if value_of("addr", options) else "the mount does not show the address of its server"
