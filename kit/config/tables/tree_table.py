"""The table `[tree]` of a workload: files and directories for phases with `metadata`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from kit.config.fio_job import FioJob
from kit.config.toml import STORED_IF_SET, Problems, Table
from kit.config.tree_shape import MOST_BYTES, MOST_DIRECTORIES, MOST_FILES, Shape, even
from kit.core.units import SizeBytes, commas, format_size_bytes

# Keys of a tree without a list.
_OF_EVEN = {"files", "depth", "width", "size", "size_max"}
# As in kit.store.labels: what kit/remote/load/metadata_load.py does to each file or directory.
Action = Literal["create", "untar", "stat", "list", "ls", "rename", "remove", "rm"]
MAKERS, REMOVERS = ("create", "untar"), ("remove", "rm")


class Tree(Table):
    """`files` of each client, in directories: `width` in each, `depth` deep. `size` to `size_max`: of a file.

    Sizes are log-uniform. `fsync`: each file is forced before it is closed. `list`: a file beside the
    workload that has each file and its size, instead (kit.config.tree_shape).
    """

    files: Annotated[int | None, Field(ge=1, le=MOST_FILES), STORED_IF_SET] = None
    list: Annotated[str | None, Field(min_length=1), STORED_IF_SET] = None
    depth: Annotated[int, Field(ge=0, le=16)] = 1
    width: Annotated[int, Field(ge=1, le=1000)] = 10
    size: SizeBytes = 4 << 10
    size_max: SizeBytes | None = None
    fsync: bool = False

    @property
    def most_bytes(self) -> int:
        """Of the largest file."""
        return self.size if self.size_max is None else self.size_max

    @property
    def total_bytes(self) -> int:
        """Of the files of a client without a list; the mean of a log-uniform size is (b - a) / ln(b / a)."""
        least, most = self.size, self.most_bytes
        mean = most if least == most else (most - least) / math.log(most / least)
        return int((self.files or 0) * mean)

    @property
    def least_and_most_bytes(self) -> tuple[int, int]:
        """Of a file."""
        return self.size, self.most_bytes

    @property
    def directories(self) -> int:
        """With the one that all are in."""
        return sum(self.width**level for level in range(self.depth + 1))

    def _problems(self) -> Problems:
        if self.files is None and self.list is None:
            yield "files", 'how many? such as files = 1000, or list = "files.txt" instead'
        if self.list is not None and (more := self.model_fields_set & _OF_EVEN):
            yield min(more), "the list has files, directories and sizes of its own: remove it"
        if self.directories > MOST_DIRECTORIES:
            text = f"{self.width} directories in each, {self.depth} deep, are {commas(self.directories)}"
            yield "depth", f"{text}: at most {commas(MOST_DIRECTORIES)}; make one of them smaller"
        key = "size" if self.size_max is None else "size_max"
        if self.most_bytes > MOST_BYTES:
            most = format_size_bytes(MOST_BYTES)
            yield key, f"{format_size_bytes(self.most_bytes)}: at most {most} for a file"
        if self.size_max is not None and not 0 < self.size <= self.size_max:
            yield (
                "size_max",
                f"sizes are from size, {self.size} bytes, to it: make it larger, and size above 0",
            )


@dataclass(frozen=True)
class MetadataJob(FioJob):
    """The load of a phase with `metadata`: what plan and run ask of a job. It has no sections of fio.

    `listed`: of a tree with a list. `renames`: how often each file was renamed before it. `version`: of NFS.
    """

    action: Action
    tree: Tree
    listed: Shape | None
    renames: int
    version: str

    @classmethod
    def of(
        cls, action: Action, tree: Tree, before: Sequence[Action], version: str, listed: Shape | None = None
    ) -> MetadataJob:
        """`before`: what earlier phases did, in order."""
        last = max((n for n, each in enumerate(before) if each in MAKERS), default=0)
        renames = before[last:].count("rename") if action not in MAKERS else 0
        text = f"{action} {tree.model_dump_json()} {renames} {version}"
        text += f" {listed.digest}" if listed else ""
        return cls(text, (), action, tree, listed, renames, version)

    @property
    def extent(self) -> Shape | Tree:
        """What has the numbers and bytes of the files and directories of a client."""
        return self.listed or self.tree

    @property
    def files(self) -> int:
        """Of each client."""
        return self.extent.files or 0

    def shape(self, seed: str) -> Shape:
        """Of the tree of a client, which has its own `seed`."""
        tree = self.tree
        return self.listed or even(tree.files or 0, tree.depth, tree.width, tree.size, tree.most_bytes, seed)

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(("write",) if self.action in MAKERS else ())

    @property
    def op(self) -> str:
        return "read" if self.action in ("stat", "list", "ls") else "write"

    @property
    def is_random(self) -> bool:
        return False

    @property
    def outstanding(self) -> int:
        return 1


def problem(before: Sequence[Action], action: Action) -> str:
    """Why this cannot follow `before`; "" if it can."""
    kinds = [each in MAKERS for each in before if each in (*MAKERS, *REMOVERS)]
    is_there = bool(kinds) and kinds[-1]
    if action in MAKERS:
        return (
            f"the tree is there already: put a phase with {' or '.join(REMOVERS)} before it"
            if is_there
            else ""
        )
    return "" if is_there else f"there is no tree by then: put a phase with {' or '.join(MAKERS)} before it"
