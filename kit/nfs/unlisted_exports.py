r"""Exports that are in no file: made by `exportfs -o` alone, as by the resource agent of a cluster.

`zpool create`, `zfs create`, `zfs mount` and `zpool destroy` make `exportfs -ra`, which removes all of them.
Their clients get ESTALE. Source: nfs_commit_shares of OpenZFS, lib/libshare/os/linux/nfs.c.
"""

from __future__ import annotations

import re
from collections import Counter

from kit.core import proc_path
from kit.core.errors import SafetyRefusal
from kit.core.text import safe_text, some
from kit.hosts.base import Host

# What is exported, and the files as exports(5) has them. Without exportfs ZFS shares nothing. grep ends the
# last line of a file also where the file does not.
_SCRIPT = r"""
PATH=$PATH:/usr/sbin:/sbin
command -v exportfs >/dev/null || { printf '\0'; exit; }
exportfs -v || exit
printf '\0'
test ! -d /etc/exports.d || test -r /etc/exports.d || exit 2
for file in /etc/exports /etc/exports.d/[!.]*.exports; do
    test -f "$file" || continue
    grep -h '' "$file" || test $? = 1 || exit 2
done
exit 0
"""
READ = ("sh", "-c", _SCRIPT)
_WORD = re.compile(r'(?:"[^"]*"|[^\s"])+')
_MOST = 5


def read(printed: str) -> tuple[list[str], list[str]]:
    """What READ printed: paths that are exported, and exports that no file has, each as path and client.

    A client's name may be another in the file (exportfs looks up its full name), so a path is looked at as a
    whole: it has such an export if it is exported to more clients than its lines name. Raises ValueError.
    """
    exported, zero, files = printed.partition("\0")
    if not zero:
        raise ValueError("the list of exports is cut off")
    listed = {(path, client) for path, client in _listed(files)}
    numbers, found = Counter(path for path, _ in listed), []
    now = list(dict.fromkeys(_exported(exported)))
    more = Counter(path for path, _ in now) - numbers
    for path, client in now:
        if more[path] > 0 and (path, client) not in listed:
            found.append(f"{path} to {client}")
    return sorted({path for path, _ in now}), found


def _exported(text: str) -> list[tuple[str, str]]:
    """`exportfs -v`: the client is the last word, and after a long path it has a line of its own."""
    rows = [row.rsplit(None, 1) for row in text.replace("\n\t\t", " ").split("\n") if row.strip()]
    if not all(len(row) == 2 and row[0].startswith("/") for row in rows):
        raise ValueError("a line of `exportfs -v` is not a path and a client")
    return [(path.rstrip(), client.partition("(")[0].replace("<world>", "*") or "*") for path, client in rows]


def _listed(text: str) -> list[tuple[str, str]]:
    """Lines of exports(5). A word `-options` is of all clients that follow it."""
    found = []
    for line in text.replace("\\\n", " ").split("\n"):
        words = _WORD.findall(re.sub(r"(^|\s)#.*", "", line))
        if not words:
            continue
        path, *clients = words
        clients = [each for each in clients if not each.startswith("-")]
        for client in clients or ["*"]:
            name = client.partition("(")[0].strip('"')
            found.append((proc_path.unescape(path.replace('"', "")), name or "*"))
    return found


def refuse(server: Host) -> None:
    """Before anything is made there. Raises SafetyRefusal, HostError."""
    _, found = _read(server)
    if not found:
        return
    raise SafetyRefusal(
        f"{server.name} has exports that are in no file: {some(found, _MOST)}. ZFS makes `exportfs -ra` "
        "with each pool, which removes them, and their clients get errors; nothing was changed",
        "write them into /etc/exports.d/NAME.exports (`exportfs -s` prints the lines), or take them back; "
        "of an earlier run: hsp clean",
    )


def refuse_restart(server: Host, own: str = "", *, agreed: bool) -> list[str]:
    """Check that nothing but `own` is exported by a server that is to be restarted; clients may use it.

    Returns notes if the user has `agreed` to it. Raises SafetyRefusal, HostError.
    """
    exported, _ = _read(server)
    others = [safe_text(path) for path in exported if path != own]
    if not others:
        return []
    text = f"a phase restarts {server.name}, which has other exports: {some(others, _MOST)}"
    if agreed:
        return [text]
    raise SafetyRefusal(
        f"{text}; nothing was restarted",
        "take them back, use another server, or agree with --cut-other-pools",
    )


def _read(server: Host) -> tuple[list[str], list[str]]:
    """As `read`. Raises SafetyRefusal: it is not known."""
    printed = server.run(READ).stdout
    try:
        return read(printed)
    except ValueError as error:
        raise SafetyRefusal(
            f"which exports of {server.name} would be lost is not known: {error}; nothing was changed",
            "look at `exportfs -v` there",
        ) from error
