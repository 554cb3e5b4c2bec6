"""Does one thing to each file of a tree, and counts how long it takes. Runs on a client, on an NFS mount.

    python3 -I metadata_load.py ACTION ROOT TREE FSYNC SUFFIX WINDOW_NS LIMIT_NS

The file TREE (kit.config.tree_shape) has what lies below ROOT: {"parents": the number of the directory that
directory n + 1 is in, "sizes": bytes of each file of directory n}. ACTION:

    create   makes directories and files: open, write, fsync with FSYNC = 1, close
    untar    the same, directory by directory, with mode and times of each file, as tar does
    stat     lstat of each file, by its name
    list     reads each directory
    ls       reads each directory, and lstat of each entry: ls -lR
    rename   to another name in the same directory
    remove   unlink of each file by its name, then the directories
    rm       reads each directory, removes what it finds, then itself: rm -r

SUFFIX: what renames have added to each name before; "-" for nothing. A line is printed once WINDOW_NS are
over, when something ends, and at the end:

    {"from_ns", "asked_ns", "to_ns", "calls", ACTION: {"bins": {latency: count}, "min", "max", "sum"}, "end"}

What is counted is a file; with list, ls and rm a directory. "min", "max", "sum" and "calls" (system calls
that make, change, remove or look, by name) are since the start. What ended last was begun at "asked_ns"; the
rest had ended by then. "end" is true in the last line. Bins are fio's, called by their middle
(kit.load.fio_bins). Times in ns of CLOCK_MONOTONIC. It ends with an error after LIMIT_NS, at the first call
that fails, and where it does not find the files of its tree.
"""

import json
import os
import subprocess
import sys
import time

BIN_BITS = 6
MOST_BIN_NS = 1 << 34
CHUNK = 1 << 20


def directories_of(root, parents):
    """Each after the one that it is in."""
    found = [root]
    for number, parent in enumerate(parents, start=1):
        found.append(f"{found[parent]}/d{number}")
    return found


class Counts:
    """What has ended, for the next line."""

    def __init__(self, action, window_ns, limit_ns):
        self.action, self.window_ns = action, window_ns
        self.from_ns = time.monotonic_ns()
        self.limit_ns = self.from_ns + limit_ns
        self.bins, self.calls = {}, {}
        self.least_ns, self.most_ns, self.sum_ns = 1 << 63, 0, 0

    def call(self, name):
        self.calls[name] = self.calls.get(name, 0) + 1

    def ended(self, begun_ns):
        now_ns = time.monotonic_ns()
        took_ns = now_ns - begun_ns
        is_over = now_ns - self.from_ns >= self.window_ns
        if is_over and self.bins and 2 * took_ns > self.window_ns:
            # What had ended before a long wait did not end in it.
            self.line(begun_ns, begun_ns)
        shift = max(took_ns.bit_length() - BIN_BITS - 1, 0)
        low = min(took_ns, MOST_BIN_NS) >> shift << shift
        key = low + ((1 << shift) >> 1)
        self.bins[key] = self.bins.get(key, 0) + 1
        self.least_ns, self.most_ns = min(self.least_ns, took_ns), max(self.most_ns, took_ns)
        self.sum_ns += took_ns
        if is_over:
            self.line(now_ns, begun_ns)
        if now_ns > self.limit_ns:
            sys.exit(
                "it did not get through its tree in the time of the phase: "
                "give the phase a longer duration, or the tree fewer files"
            )

    def line(self, now_ns, asked_ns, **more):
        row = {"from_ns": self.from_ns, "asked_ns": asked_ns, "to_ns": now_ns, "calls": self.calls}
        if self.bins:
            row[self.action] = {
                "bins": self.bins,
                "min": self.least_ns,
                "max": self.most_ns,
                "sum": self.sum_ns,
            }
        row.update(more)
        print(json.dumps(row, separators=(",", ":")), flush=True)
        self.from_ns, self.bins = now_ns, {}


class Tree:
    """The tree, and what is done to it."""

    def __init__(self, counts, root, parents, sizes, fsync, suffix):
        self.counts, self.root, self.sizes, self.fsync = counts, root, sizes, fsync
        self.directories = directories_of(root, parents)
        self.suffix = suffix
        # Content that does not compress.
        self.content = os.urandom(min(max(map(max, filter(None, sizes))), CHUNK))

    def files(self):
        """Name and size of each file, directory by directory."""
        for at, directory in enumerate(self.directories):
            for number, size in enumerate(self.sizes[at]):
                yield f"{directory}/f{number}{self.suffix}", size

    def names(self):
        return (path for path, _ in self.files())

    def _make_directory(self, path):
        os.mkdir(path, 0o755)
        self.counts.call("mkdir")

    def _write(self, path, size):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        try:
            self.counts.call("create")
            left = size
            while left:
                left -= os.write(file, self.content[: min(left, CHUNK)])
            if self.fsync:
                os.fsync(file)
                self.counts.call("fsync")
        finally:
            os.close(file)

    def create(self):
        for path in self.directories:
            self._make_directory(path)
        for path, size in self.files():
            begun_ns = time.monotonic_ns()
            self._write(path, size)
            self.counts.ended(begun_ns)

    def untar(self):
        made = set()
        for path, size in self.files():
            begun_ns = time.monotonic_ns()
            self._make_above(os.path.dirname(path), made)
            self._write(path, size)
            os.chmod(path, 0o640)
            os.utime(path, (1, 1))
            self.counts.call("chmod")
            self.counts.call("utimes")
            self.counts.ended(begun_ns)
        # Those without a file.
        for path in self.directories:
            self._make_above(path, made)

    def _make_above(self, path, made):
        if path not in made:
            if path != self.root:
                self._make_above(os.path.dirname(path), made)
            self._make_directory(path)
            made.add(path)

    def stat(self):
        for path in self.names():
            begun_ns = time.monotonic_ns()
            os.lstat(path)
            self.counts.call("stat")
            self.counts.ended(begun_ns)

    def list(self):
        self._read(stats=False)

    def ls(self):
        self._read(stats=True)

    def _read(self, stats):
        found = 0
        for path in self.directories:
            begun_ns = time.monotonic_ns()
            entries = os.listdir(path)
            self.counts.call("readdir")
            for entry in entries if stats else ():
                os.lstat(path + "/" + entry)
                self.counts.call("stat")
            found += len(entries)
            self.counts.ended(begun_ns)
        wanted = sum(map(len, self.sizes)) + len(self.directories) - 1
        if found != wanted:
            sys.exit(f"the directories have {found} entries, not the {wanted} of the tree")

    def rename(self):
        for path in self.names():
            begun_ns = time.monotonic_ns()
            os.rename(path, path + "r")
            self.counts.call("rename")
            self.counts.ended(begun_ns)

    def remove(self):
        for path in self.names():
            begun_ns = time.monotonic_ns()
            os.unlink(path)
            self.counts.call("unlink")
            self.counts.ended(begun_ns)
        for path in reversed(self.directories):
            self._remove_directory(path)

    def rm(self):
        # What is deepest is last: a directory is empty when it is its turn.
        for path in reversed(self.directories):
            begun_ns = time.monotonic_ns()
            entries = os.listdir(path)
            self.counts.call("readdir")
            for entry in entries:
                os.unlink(path + "/" + entry)
                self.counts.call("unlink")
            self._remove_directory(path)
            self.counts.ended(begun_ns)

    def _remove_directory(self, path):
        os.rmdir(path)
        self.counts.call("rmdir")


ACTIONS = {
    "create": Tree.create, "untar": Tree.untar, "stat": Tree.stat, "list": Tree.list, "ls": Tree.ls,
    "rename": Tree.rename, "remove": Tree.remove, "rm": Tree.rm,
}  # fmt: skip


def main():
    action, root, path, fsync, suffix, window_ns, limit_ns = sys.argv[1:]
    with open(path) as file:
        made = json.load(file)
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.exists(here + "/start.py"):
        subprocess.check_call([sys.executable, "-I", "start.py"], cwd=here)
    counts = Counts(action, int(window_ns), int(limit_ns))
    suffix = suffix if suffix != "-" else ""
    tree = Tree(counts, root, made["parents"], made["sizes"], int(fsync), suffix)
    counts.from_ns = time.monotonic_ns()
    ACTIONS[action](tree)
    now_ns = time.monotonic_ns()
    counts.line(now_ns, now_ns, end=True)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
