"""The directories and files of a tree: as many as the workload says, or those of a list of the user's.

A list has a line for each file, `BYTES PATH`; a path that ends in `/` is a directory. It is made by

    find DIRECTORY -type d -printf '0 %P/\\n' -o -type f -printf '%s %P\\n'

Of its names only the structure is kept: no name of the list reaches a client, a command or a stored file.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.config import named_files
from kit.config.toml import Problem, printable, refusal, shorten
from kit.core.errors import ConfigError
from kit.core.units import commas, format_size_bytes

# Names and latencies of a client are held in memory; a run has a tree of each client.
MOST_FILES, MOST_DIRECTORIES, MOST_BYTES, MOST_DEPTH = 1_000_000, 100_000, 64 << 20, 64
_MOST_LIST_BYTES = 256 << 20
# More of them are not read.
_MOST_PROBLEMS = 100


@dataclass(frozen=True)
class Shape:
    """`parents[n]`: the number of the directory that directory n + 1 is in; 0 is the one that all are in.

    A directory has a higher number than the one that it is in. `sizes[n]`: bytes of each file of directory n.
    """

    parents: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]

    @property
    def files(self) -> int:
        return sum(map(len, self.sizes))

    @property
    def directories(self) -> int:
        """With the one that all are in."""
        return len(self.sizes)

    @property
    def depth(self) -> int:
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return max(depths)

    @property
    def least_and_most_bytes(self) -> tuple[int, int]:
        each = [size for sizes in self.sizes for size in sizes]
        return min(each), max(each)

    @property
    def total_bytes(self) -> int:
        return sum(map(sum, self.sizes))

    def to_json(self) -> str:
        """As kit/remote/load/metadata_load.py reads it."""
        return json.dumps({"parents": self.parents, "sizes": self.sizes}, separators=(",", ":"))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def even(files: int, depth: int, width: int, least: int, most: int, seed: str) -> Shape:
    """`width` directories in each, `depth` deep; each has as many files, one more or less.

    They have `least` to `most` bytes, log-uniform, by `seed`.
    """
    parents: list[int] = []
    level = [0]
    for _ in range(depth):
        first = len(parents) + 1
        parents += [above for above in level for _ in range(width)]
        level = [*range(first, len(parents) + 1)]
    drawn, directories = random.Random(seed), len(parents) + 1
    counts = [len(range(number, files, directories)) for number in range(directories)]
    sizes = tuple(
        tuple(round(least * (most / least) ** drawn.random()) if least else most for _ in range(count))
        for count in counts
    )
    return Shape(tuple(parents), sizes)


def read_list(path: Path, by: Path) -> Shape:
    """Of the list at `path`, which the workload `by` names. Raises ConfigError, with each line at fault."""
    try:
        data = named_files.content(path, by, _MOST_LIST_BYTES)
        if len(data) > _MOST_LIST_BYTES:
            most = format_size_bytes(_MOST_LIST_BYTES)
            raise ConfigError(f"{path}: larger than {most}", "take a part of the tree")
    except OSError as error:
        raise ConfigError(
            f"{printable(str(path))}: {error.strerror}", "check the name and who may read it"
        ) from None
    read = _List()
    for number, line in enumerate(io.BytesIO(data), start=1):
        if (line := line.removesuffix(b"\n")) and (text := read.problem(line)):
            read.problems.append((number, text))
        if read.is_full:
            break
    if not read.problems:
        read.problems += [(1, text) for text in read.limits()]
    if read.problems:
        raise refusal(path, read.problems)
    return Shape(tuple(read.parents), tuple(map(tuple, read.sizes)))


class _List:
    """What has been read of a list. Names are bytes, as those of a file system are."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.parents: list[int] = []
        self.sizes: list[list[int]] = [[]]
        self.files = 0
        # By directory and name: the number of a directory, None for a file.
        self._names: dict[tuple[int, bytes], int | None] = {}

    @property
    def is_full(self) -> bool:
        """Whether the rest of the list cannot make it better."""
        too_many = self.files > MOST_FILES or len(self.sizes) > MOST_DIRECTORIES
        return too_many or len(self.problems) >= _MOST_PROBLEMS

    def problem(self, line: bytes) -> str:
        """Take one line; "" or why it cannot be taken."""
        if line.endswith(b"\r"):
            return "it ends in a carriage return: write the list with line ends of Unix"
        size, _, path = line.partition(b" ")
        if not size.isdigit() or len(size) > 18 or not path:
            return f"{shorten(line.decode(errors='replace'))} is not BYTES PATH, such as 4096 src/main.c"
        if int(size) > MOST_BYTES:
            return f"a file of {commas(int(size))} bytes: at most {format_size_bytes(MOST_BYTES)}"
        *above, name = path.removesuffix(b"/").split(b"/") if path != b"/" else [b""]
        is_directory = path.endswith(b"/")
        if is_directory and not above and not name:
            return ""
        if text := _bad_names([*above, name]):
            return f"{shorten(path.decode(errors='replace'))}: {text}"
        directory: int | None = 0
        for part in above if not is_directory else [*above, name]:
            directory = self._directory(directory or 0, part)
            if directory is None:
                return f"{shorten(part.decode(errors='replace'))} is a file further up in the list"
        if is_directory:
            return ""
        if (directory or 0, name) in self._names:
            return f"{shorten(path.decode(errors='replace'))} is in the list already"
        self._names[directory or 0, name] = None
        self.files += 1
        self.sizes[directory or 0].append(int(size))
        return ""

    def _directory(self, above: int, name: bytes) -> int | None:
        """Its number, a new one for a new name; None: a file has the name."""
        if (above, name) not in self._names:
            self.parents.append(above)
            self.sizes.append([])
            self._names[above, name] = len(self.parents)
        return self._names[above, name]

    def limits(self) -> Iterator[str]:
        counts = (self.files, MOST_FILES, "files"), (len(self.sizes), MOST_DIRECTORIES, "directories")
        for found, most, what in counts:
            if found > most:
                yield f"more than {commas(most)} {what}: take a part of the tree"
        if not self.files and len(self.sizes) <= MOST_DIRECTORIES:
            yield "no file in it: a line for each file, such as 4096 src/main.c"


def _bad_names(names: list[bytes]) -> str:
    if len(names) > MOST_DEPTH:
        return f"{len(names)} names in it, at most {MOST_DEPTH}"
    if any(name in (b"", b".", b"..") for name in names):
        return "a path below the directory, without //, . and .., such as src/main.c"
    return "a name is longer than 255 bytes" if any(len(name) > 255 for name in names) else ""
