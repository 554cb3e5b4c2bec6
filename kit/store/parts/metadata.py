"""What a phase with `metadata` did to its trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field

from kit.store.labels import NFS_METADATA
from kit.store.stored import Count, Stored

Action = Literal["create", "untar", "stat", "list", "ls", "rename", "remove", "rm"]
_Call = Literal["create", "mkdir", "fsync", "chmod", "utimes", "stat", "readdir", "rename", "unlink", "rmdir"]
_NfsOp = Annotated[str, Field(pattern=f"^(?:{'|'.join(NFS_METADATA)})$")]


class Metadata(Stored):
    """Files and directories of all clients; a file has `least_bytes` to `most_bytes`.

    `version`: of NFS. `calls`: system calls of the clients. `expected`: how many operations of NFS those that
    change a directory need; of those that only look, the client's cache answers some.
    """

    action: Action
    files: Count
    directories: Count
    depth: Count
    least_bytes: Count
    most_bytes: Count
    fsync: bool = False
    version: Annotated[str, Field(pattern=r"^(?:3|4\.[0-2])$")]
    calls: dict[_Call, Count] = Field(default_factory=dict)
    expected: dict[_NfsOp, Count] = Field(default_factory=dict)

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of several clients with one load."""
        sums = {name: sum(getattr(each, name) for each in parts) for name in ("files", "directories")}
        counts = {
            name: dict(sum((Counter(getattr(each, name)) for each in parts), Counter[str]()))
            for name in ("calls", "expected")
        }
        return parts[0].model_copy(update=sums | counts)


class MetadataRow(Stored):
    """A phase with a tree. `matched`: nfsd, the tracer and the load counted the same."""

    phase: str
    title: str = ""
    load: Metadata
    matched: bool
