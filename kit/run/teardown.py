"""The end of a run: everything is undone, also after a host was lost, and compared with before."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial

from kit.core.errors import HostError, KitError, error_text
from kit.core.text import listed
from kit.hosts.base import Host, HostLost
from kit.hosts.connect import LoginRefused, open_host, open_when_up
from kit.hosts.identity import read_identity
from kit.hosts.known_hosts import HostKeyRefused
from kit.recovery import clean, remains, undo
from kit.recovery.journal import Leftover, NotTried, Undo, read_journal
from kit.setup.context import Context
from kit.setup.site import Site
from kit.zfs import settings_snapshot
from kit.zfs.settings_snapshot import Settings

# How long a lost host is waited for. A switch or a link is back within a minute or two (50 s of spanning
# tree), a virtual machine that restarts too. A server with firmware takes longer than a person waits at a
# prompt, and `hsp clean` does the same later.
RECONNECT_S = 180.0
# Within this time after a connection to it broke, the lab says why it ended.
_GONE_S = 5.0
_POLL_S = 0.1


def why_gone(site: Site) -> str:
    """Why the lab is gone; "" if it is not, or the hosts outlive a run."""
    return site.gone() if site.gone else ""


def explained(error: Exception, site: Site) -> Exception:
    """The error that ended the run; of a lab that died, in one line."""
    end = time.monotonic() + (_GONE_S if site.gone and isinstance(error, HostLost) else 0)
    while not (why := why_gone(site)) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return lab_ended(why) if why else error


def lab_ended(why: str) -> HostError:
    return HostError(
        f"the lab ended during the run: {' '.join(why.split())}",
        "what the run made lived only in the lab and is gone with it: nothing is left to clean up. If it was "
        "killed, was memory short (see `dmesg`)? Run it again, or resume it with `hsp run --resume`",
    )


def read_settings(site: Site) -> Settings | None:
    """What must be at the end as it is now; None for an appliance."""
    return settings_snapshot.read(site.server, tuple(site.device_paths.values())) if site.server else None


def tear_down(run: Context, before: Settings | None) -> list[Leftover]:
    """Undo everything that is pending, then compare. Returns what is not as it was.

    When a host is lost nothing more is tried without it until it was waited for.
    """
    site = run.site
    if site.guard:
        site.guard.release()
    left, lost = _undone(run)
    of_hosts = {key: host.name for key, host in site.hosts.items()}
    said = remains.grouped(left, of_hosts, run.run_dir.path)
    if why_gone(site):
        return said
    try:
        if not lost:
            return said + (_compared(site.server, run, before) if before and site.server else [])
    except HostLost as error:
        lost.add("server")
        if site.gone:
            return [*said, _not_compared(error)]
    names = listed([site.hosts[key].name for key in sorted(lost)])
    if site.gone:
        return said
    after = _waited_for(run, names, said, before)
    # What was left alone is not pending any more: it is said now, or never.
    return [*(each for each in left if each.item is None and each not in after), *after]


def _undone(run: Context) -> tuple[list[Leftover], set[str]]:
    """Undo until a host is lost. Returns what is left, and the keys of lost hosts."""
    site, journal = run.site, run.journal
    names, lost = {key: host.name for key, host in site.hosts.items()}, set[str]()

    def perform(item: Undo, kinds: frozenset[str]) -> None:
        # What lived only in a lab that died is gone with it.
        if why_gone(site):
            return
        if lost:
            raise (HostLost if item.host in lost else NotTried)("not tried: a host is lost")
        try:
            undo.undo(item, site.hosts, kinds, journal.run, lost=lost)
        except HostLost as error:
            if explained(error, site) is error:
                raise

    left = journal.teardown(perform, lambda item: undo.by_hand(item, names, journal.run))
    return left, lost


def _not_compared(error: Exception) -> Leftover:
    return Leftover("settings of the server", f"cannot be compared: {error_text(error)}")


def _compared(server: Host, run: Context, before: Settings) -> list[Leftover]:
    try:
        after = settings_snapshot.read(server, tuple(run.site.device_paths.values()))
    except HostLost:
        raise
    except Exception as error:
        return [_not_compared(error)]
    changes = settings_snapshot.between(before, after)
    return [Leftover(change, "it was changed and is not what it was") for change in changes]


def _waited_for(run: Context, lost: str, left: list[Leftover], before: Settings | None) -> list[Leftover]:
    """Wait for the lost hosts, then go on as `hsp clean` does, on new connections."""
    site = run.site
    run.progress.note(f"{lost}: the connection broke; trying to reach it again for {RECONNECT_S:g} s")
    # What still runs on the others ends with its connection.
    if site.guard:
        site.guard.locks.close()
    for host in site.hosts.values():
        with suppress(HostError):
            host.close()
    try:
        cleaned = clean.clean(run.run_dir.path, run.progress, journal=run.journal, patience_s=RECONNECT_S)
    except KitError as error:
        return [Leftover("cleaning up once more", error_text(error)), *left]
    refused = [each for each in cleaned.unreachable if isinstance(each, (HostKeyRefused, LoginRefused))]
    if cleaned.said or before is None:
        return [*(Leftover("not reached", each.message) for each in refused), *cleaned.said]
    testbed = run.plan.testbed
    try:
        opening = partial(open_host, testbed.server.at, testbed.ssh_config)
        with open_when_up(opening, RECONNECT_S) as server:
            then = read_journal(run.run_dir.journal).hosts.get("server")
            # After a restart they are what the server begins with.
            return _compared(server, run, before) if read_identity(server) == then else []
    except KitError as error:
        return [_not_compared(error)]
