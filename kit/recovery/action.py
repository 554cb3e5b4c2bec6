"""What an undo is: a value whose arguments are checked, and the names and paths that they may have."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kit.core.seed import RUN_ID
from kit.hosts.base import Host
from kit.recovery import work_directory

WorkDirectoryPath = Annotated[str, Field(pattern=rf"^/run/hsp/{RUN_ID}$")]
MountPoint = Annotated[str, Field(pattern=rf"^/mnt/hsp-{RUN_ID}$")]
BY_ID = re.compile(r"/dev/disk/by-[a-z]+/(?!\.\.?$)[A-Za-z0-9#+.:=@_\\-]{1,200}")
PoolName = Annotated[str, Field(pattern=r"^hsp-[0-9a-f]{6}$")]
RunId = Annotated[str, Field(pattern=rf"^{RUN_ID}$")]
Guid = Annotated[str, Field(pattern=r"^[0-9]{0,20}$")]
Serial = Annotated[str, Field(max_length=500)]
_Word = Annotated[str, Field(min_length=1, max_length=600)]
Argv = Annotated[list[_Word], Field(min_length=1, max_length=50)]
Number = Annotated[str, Field(pattern=r"^-?[0-9]{1,20}$")]
MaybeNumber = Annotated[str, Field(pattern=r"^(-?[0-9]{1,20})?$")]


def _checked_device(path: str) -> str:
    parts = path.split("/")
    if (
        parts[:2] != ["", "dev"]
        or len(parts) < 3
        or set(parts[2:]) & {"", ".", ".."}
        or not path.isprintable()
    ):
        raise ValueError("not the path of a device below /dev")
    return path


DevicePath = Annotated[str, Field(max_length=500), AfterValidator(_checked_device)]


def digest_of(*commands: Any) -> str:
    """Of the user's own commands, and of what they are for: an undo's `permit`."""
    return hashlib.sha256(json.dumps(commands).encode()).hexdigest()


def names_of(run: str) -> frozenset[str]:
    """All that a run calls something on a host: its pool, paths, mount point, and directory in an export."""
    work_dir = work_directory.path_of(run)
    return frozenset(
        {
            run,
            work_dir,
            f"{work_dir}/pool/bench",
            f"/mnt/hsp-{run}",
            f"hsp-{run}",
            f"hsp-{run.rsplit('-', 1)[1]}",
        }
    )


class Action(BaseModel):
    """An undo. `after`: kinds that must be undone on all hosts before this one; `is_last`: all others must.

    `named`: its arguments that are names of the run; `used`: those that are paths of devices, or lists of
    these. `noun`: what is there until then. `does`: its text, with arguments, and the host, in braces.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    kind: ClassVar[str]
    noun: ClassVar[str] = "setting"
    does: ClassVar[str] = ""
    after: ClassVar[frozenset[str]] = frozenset()
    is_last: ClassVar[bool] = False
    named: ClassVar[tuple[str, ...]] = ()
    used: ClassVar[tuple[str, ...]] = ()

    @property
    def permit(self) -> str:
        """Digest of the user's own commands that it runs, which this machine's kit must know; or ""."""
        return ""

    @property
    def devices_used(self) -> list[str]:
        """Paths of devices among its arguments."""
        given = (getattr(self, name) for name in self.used)
        return [path for one in given for path in ([one] if isinstance(one, str) else one)]

    def text(self, host: str) -> str:
        """The text of the undo. `host`: the host's name."""
        return self.does.format(host=host, **dict(self))

    def undo(self, host: Host) -> None:
        """Raises KitError if it fails."""
        raise NotImplementedError

    def undo_proven(self, host: Host) -> None:
        """The same on a host without the run's directory: only what proves to be the run's own.

        What has the run's id there, or in its name, does.
        """
        self.undo(host)

    def commands(self) -> list[list[str]]:
        """argv of commands for a person."""
        raise NotImplementedError

    def changes(self) -> list[tuple[list[str], str]]:
        """argv of the commands of `undo` in the normal case, each with a text for its input."""
        return [(argv, "") for argv in self.commands()]
