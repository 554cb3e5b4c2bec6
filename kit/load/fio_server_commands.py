"""Commands and names of fio's client/server mode (kit.load.fio_server). Pure."""

from __future__ import annotations

from collections.abc import Sequence

# They begin with `env`, so they run as the user of the SSH connection, without sudo.
# Socket names have no directory: paths of Unix sockets must be short, and fio uses them in file names.
# Arguments: directory, then the command.
_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'
# Without SIGPIPE: a client that disconnects must not end the leading fio.
_IN_DIRECTORY_NO_PIPE = "trap '' PIPE; " + _IN_DIRECTORY


def socket_name(number: int) -> str:
    """The socket of the client of that number, from 0."""
    return f"c{number}"


def directory_of(work_dir: str, number: int, phase: str) -> str:
    """The directory of the client of that number."""
    return f"{work_dir}/fio{number}-{phase}"


def server_command(directory: str, socket: str) -> list[str]:
    """argv of a fio server on a Unix socket."""
    return ["env", "sh", "-c", _IN_DIRECTORY, "sh", directory, "fio", f"--server=sock:{socket}"]


def leader_command(directory: str, sockets: Sequence[str]) -> list[str]:
    """argv of the leading fio.

    Without estimates of the remaining time, which wake every server and have a deadline of 5 s: the clock of
    an idle guest passes it before an answer can arrive.
    """
    clients = [word for socket in sockets for word in (f"--client=sock:{socket}", "job.fio")]
    return [
        "env", "sh", "-c", _IN_DIRECTORY_NO_PIPE, "sh", directory,
        "fio", "--eta=never", "--eta-interval=12h", "--output-format=json+", "--output=fio.json", *clients,
    ]  # fmt: skip
