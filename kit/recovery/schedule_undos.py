"""The undos of what is done to a server at set times of a phase."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.core.errors import HostError
from kit.hosts import file_settings
from kit.hosts.base import Host, HostLost
from kit.hosts.identity import HostIdentity, read_identity
from kit.nfs import server_threads
from kit.recovery.action import Action, DevicePath, PoolName, RunId, digest_of
from kit.recovery.journal import LeftAlone
from kit.zfs import pool


class Online(Action):
    """A device of the run's pool that was taken offline."""

    kind = "online"
    noun = "device that is offline"
    does = "bring {device} of {pool} online again"
    named = ("pool", "run_id")
    used = ("device",)
    pool: PoolName
    run_id: RunId
    device: DevicePath

    def undo(self, host: Host) -> None:
        """Nothing without the pool: its devices are not in use then."""
        listed = host.run(["zpool", "list", "-H", "-o", "name"], check=False)
        if self.pool not in listed.stdout.split():
            return
        pool.find_pool(host, self.pool, self.run_id)
        host.run(self.commands()[0])

    def commands(self) -> list[list[str]]:
        return [["zpool", "online", self.pool, self.device]]


class NfsdThreads(Action):
    """The threads of the NFS server, which the run stops for a time. `value`: how many there were.

    `listeners`: what it listened on.
    """

    kind = "nfsd-threads"
    noun = "stopped NFS server"
    does = "start the {value} threads of nfsd again"
    value: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,4}$")]
    listeners: list[Annotated[str, Field(pattern=server_threads.LISTENER)]]
    machine_id: str
    boot_id: str

    def undo(self, host: Host) -> None:
        """Only where nfsd is stopped: another number is somebody else's."""
        observed = host.run(["cat", server_threads.THREADS]).stdout.strip()
        if observed == self.value:
            return
        if read_identity(host) != HostIdentity(self.machine_id, self.boot_id):
            raise LeftAlone(f"nfsd on {host.name} was stopped before this boot, or on another machine")
        if observed != "0":
            raise LeftAlone(
                f"nfsd on {host.name} has {observed} threads and was left so: not the run's number"
            )
        server_threads.start(host, self.value, self.listeners)

    def commands(self) -> list[list[str]]:
        return [["systemctl", "restart", "nfs-server"]]

    def changes(self) -> list[tuple[list[str], str]]:
        argv = server_threads.start_command(self.value, self.listeners)
        return [(argv, f"kit/remote/{server_threads.HELPER.name}; threads and listeners as before")]


class FaultCommand(Action):
    """The user's own `undo` of a fault; run only if this machine's kit has listed it."""

    kind = "fault-command"
    noun = "fault"
    does = "end the fault that `{argv[0]}` ends"
    argv: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=500)]], Field(min_length=1, max_length=50)
    ]
    machine_id: str

    @property
    def permit(self) -> str:
        return digest_of(self.machine_id, "fault", self.argv)

    def undo(self, host: Host) -> None:
        if read_identity(host).machine_id != self.machine_id:
            raise LeftAlone(f"{host.name} is another machine than the run's: nothing was run there")
        answer = file_settings.run_own(host, tuple(self.argv))
        if answer.returncode:
            raise HostError(
                answer.describe(),
                "it is `undo` of a [[command]]: end the fault by hand, remove the run's directory in "
                "/run/hsp there, then `hsp clean` once more",
            )

    def undo_proven(self, host: Host) -> None:
        """A command that still fails does not hold up the rest: who removed the directory has looked."""
        try:
            self.undo(host)
        except HostLost:
            raise
        except HostError as error:
            raise LeftAlone(error.message) from error

    def commands(self) -> list[list[str]]:
        return [self.argv]
