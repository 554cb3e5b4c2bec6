"""The ZIL of the pool under test: which devices have its log blocks, how it is made and how it is emptied."""

from __future__ import annotations

import re

from kit.core.errors import HostError
from kit.hosts.base import Command, Host
from kit.zfs.pool import label_of

_LABEL_ID = re.compile(r"^\s+id: (\d+)$", re.MULTILINE)
_LABEL_LOG = re.compile(r"^\s+is_log: 1$", re.MULTILINE)


def vdev_ids(server: Host, devices: tuple[str, ...], *, logs: bool = True) -> frozenset[int]:
    """Ids of the top-level vdevs of these devices, from their own labels. `logs`: they are log devices.

    The vdev tree of a label is that of the top-level vdev: the first id is the mirror's, then come those of
    its devices within it (OpenZFS module/zfs/vdev_label.c, vdev_config_generate). Blocks have its id, too:
    of a mirror all labels name one vdev. Raises HostError if a label does not say.
    """
    ids = set()
    for path in devices:
        label = label_of(server, path)
        match = _LABEL_ID.search(label)
        if not match or (logs and not _LABEL_LOG.search(label)):
            what = "that it is a log device" if logs else "which vdev it is of"
            raise HostError(f"the label of {path} on {server.name} does not say {what}")
        ids.add(int(match[1]))
    return frozenset(ids)


def empty_log_command(pool: str) -> Command:
    """A command after which no block of the log devices is in use or kept back.

    A log block is freed by the txg of its write, and is kept back for two more (TXG_DEFER_SIZE). `zpool sync`
    waits for them (OpenZFS module/zfs/txg.c, txg_wait_synced of txg 0).
    """
    return Command(("zpool", "sync", pool))


def begin_zil_commands(pool: str, path: str) -> list[Command]:
    """A synchronous write to the dataset at `path`, and the end of the txgs that it dirties.

    Who removes a log device destroys the ZILs of the pool (OpenZFS module/zfs/vdev_removal.c,
    spa_vdev_remove_log; zil.c, zil_suspend). The first synchronous write after it makes a new one and waits
    for a whole txg (zil_create), which is no property of the devices (docs/decisions/0023).
    """
    file = f"{path}/.hsp-begin-zil"
    # As fill does: fio is allowed to an ordinary user with sudo, and the dataset's root directory is root's.
    write = ("--rw=write", "--bs=512", "--size=512", "--sync=1", "--ioengine=psync", "--thread=1")
    words = ("fio", "--name=begin-zil", f"--filename={file}", *write)
    fio = Command((*words, "--fallocate=none", "--output-format=json"))
    return [fio, Command(("rm", "--", file)), empty_log_command(pool)]
