"""fio on the clients runs as an ordinary user, not as root.

A user who may write beside the working set can put a link to a disk of the client in its place. Root would
write through it; an ordinary user cannot open the disk. The user is that of the login; a login of root
becomes the user that root of an NFS client is squashed to. Besides, a link is refused before each start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kit.core.errors import HostError
from kit.hosts.base import Host

# nobody and nogroup of Linux. Not the owner that a server names: that may be a real user of the client.
UID = "65534"
# Not from the home directory of the login, where that user may not be.
_DROP = (
    'cd / || exit; test "$(id -u)" != 0 || '
    f'set -- setpriv --reuid={UID} --regid={UID} --clear-groups --no-new-privs -- "$@"; exec "$@"'
)
# Fails if there is anything of that name. Afterwards every user may write: other clients have other ones.
_FILL = 'file=$1 && set -C && : >"$file" && shift && "$@" && chmod 0666 -- "$file"'
_WRITE = 'umask 077 && cat >"$1.new" && mv -T "$1.new" "$1"'
# Type, mode and size of a path itself, and whether the user may read and write it.
_PRINT = r"-printf|%y %m %s |(|-readable|-writable|-printf|rw\n|-o|-printf|-\n|)".split("|")
_LOOK_DEADLINE_S = 60.0
_STICKY, _OTHERS_WRITE = 0o1000, 0o002
_TYPES = {"l": "a symbolic link", "d": "a directory", "b": "a block device", "c": "a character device",
          "p": "a FIFO", "s": "a socket", "f": "a file"}  # fmt: skip


def ordinary(argv: Sequence[str]) -> list[str]:
    """argv that runs `argv` as an ordinary user: with `env` first, sudo is not used for it."""
    return ["env", "sh", "-c", _DROP, "sh", *argv]


def fill_command(path: str, argv: Sequence[str]) -> list[str]:
    """argv that makes the new file `path`, then runs `argv`, which writes it, as an ordinary user."""
    return ordinary(["sh", "-c", _FILL, "sh", path, *argv])


def make_directory(host: Host, directory: str, above: str) -> None:
    """A private directory of the ordinary user, who may pass through `above`. Raises HostError."""
    uid = host.run(["id", "-u"]).stdout.strip()
    host.run(["install", "-d", "-m", "0700", "-o", UID if uid == "0" else uid, directory])
    host.run(["chmod", "0711", above])


def write(host: Host, path: str, content: bytes) -> None:
    """Write a file of the ordinary user atomically. Raises HostError."""
    host.run(ordinary(["sh", "-c", _WRITE, "sh", path]), stdin=content)


def take_over(host: Host, directory: str, files: Sequence[str]) -> None:
    """Make the directory root's, so that `files` can be read as root: none is a link. Raises HostError."""
    if host.run(["id", "-u"]).stdout.strip() != "0":
        return  # The user of the login may do what root may (docs/hosts.md).
    host.run(["install", "-d", "-m", "0700", "-o", "0", directory])
    others = ["!", "(", "-type", "f", "-links", "1", ")", "-print"]
    result = host.run(["find", "-P", *files, "-maxdepth", "0", *others], check=False)
    if result.stdout.strip():
        raise HostError(
            f"{host.name}: not a file of fio, and not read: {result.stdout.split()[0]}",
            f"a process of the user {UID} of this client has put it there",
        )


def may_use(host: Host, path: str) -> bool:
    """Whether an ordinary user may read and write what is at `path`; False where that cannot be asked."""
    argv = ["find", "-P", path, "-maxdepth", "0", *_PRINT]
    return host.run(ordinary(argv), deadline_s=_LOOK_DEADLINE_S, check=False).stdout.endswith(" rw\n")


def note_of_root(client: str) -> str:
    """A sentence for the report."""
    return (
        f"An ordinary user of {client} could not write where the working set is, so fio ran as root on the "
        "clients (docs/hosts.md)."
    )


def check_working_set(host: Host, directory: str, file: str, *, as_root: bool) -> None:
    """That the working set is a file, in a directory in which others cannot replace it. Raises HostError."""
    argv = ["find", "-P", directory, f"{directory}/{file}", "-maxdepth", "0", *_PRINT]
    result = host.run(argv if as_root else ordinary(argv), deadline_s=_LOOK_DEADLINE_S, check=False)
    rows = re.findall(r"^(\S) ([0-7]+) ([0-9]+) (rw|-)$", result.stdout, re.MULTILINE)
    if result.returncode or len(rows) != 2:
        raise HostError(
            f"{host.name}: {directory}/{file} cannot be looked at: {result.stderr.strip()[-300:]}",
            "was it removed, or the export unmounted, during the run?",
        )
    (of_directory, mode, *_), (of_file, _, _, access) = rows
    if of_directory != "d" or of_file != "f":
        path, kind = (directory, of_directory) if of_directory != "d" else (f"{directory}/{file}", of_file)
        raise HostError(
            f"{host.name}: {path} is {_TYPES.get(kind, 'of an unknown type')}, not what the run made: fio "
            "was not started",
            "somebody has replaced it; who may write in this export? Look at it before you remove it",
        )
    if int(mode, 8) & _OTHERS_WRITE and not int(mode, 8) & _STICKY:
        raise HostError(
            f"{host.name}: {directory} has mode {mode}: everybody may replace the working set in it by "
            "a link, so fio was not started",
            "somebody has changed it, or the server does not keep the sticky bit; give the run an export in "
            "which only its clients may write",
        )
    if access != "rw" and not as_root:
        raise HostError(
            f"{host.name}: an ordinary user may not read and write {directory}/{file}",
            f"fio runs as the user of the login, for root as {UID}; was its mode changed during the run?",
        )
