"""The commands of fio's client/server mode (kit.load.fio_server), and the names that they use. Pure."""

from __future__ import annotations

from collections.abc import Sequence

# They run as the user of the SSH connection and not through sudo: they begin with `env`.
# fio binds and connects by names without directory: those of Unix sockets are short, and fio makes a part of
# a file's name of them. Arguments: directory, then the command.
_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'
# Without SIGPIPE: a client that breaks off must not end the fio that speaks with the others.
_IN_DIRECTORY_NO_PIPE = "trap '' PIPE; " + _IN_DIRECTORY


def socket_name(number: int) -> str:
    """Of the client of that number, from 0."""
    return f"c{number}"


def directory_of(work_dir: str, number: int, phase: str) -> str:
    """Where the client of that number has its files."""
    return f"{work_dir}/fio{number}-{phase}"


def server_command(directory: str, socket: str) -> list[str]:
    """argv of a fio server on a Unix socket."""
    return ["env", "sh", "-c", _IN_DIRECTORY, "sh", directory, "fio", f"--server=sock:{socket}"]


def leader_command(directory: str, sockets: Sequence[str]) -> list[str]:
    """argv of the fio that gives the orders.

    No estimates of the time left are asked for: each would wake every server. With them go fio's deadlines
    of 5 s for each answer, which an idle guest's clock passes before an answer can be there.
    """
    clients = [word for socket in sockets for word in (f"--client=sock:{socket}", "job.fio")]
    return [
        "env", "sh", "-c", _IN_DIRECTORY_NO_PIPE, "sh", directory,
        "fio", "--eta=never", "--eta-interval=12h", "--output-format=json+", "--output=fio.json", *clients,
    ]  # fmt: skip
