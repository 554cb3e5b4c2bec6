"""The steps of a run and their undos: a JSON line before and after each step.

The journal drives teardown. The undo of a step is written before the step, so that another process can do it
if this one is killed (`hsp clean`). Undos run in reverse order; one that fails does not stop the others. Each
is safe to repeat, and safe if its step never ran.

The file is locked (flock) for the life of the process that writes it: a run, its resumption, `hsp clean`.

Lines of journal.jsonl, each with `time` (seconds since 1970):

    {"run": ID, "plan": DIGEST, "token_sha256": HEX}       a process starts or resumes the run
    {"host": KEY, "machine_id": ..., "boot_id": ...}       the first contact with a host in that process
    {"step": NAME, "state": "begin", ...}                  then "done", or "failed" with `error`
    {"undo": N, "kind": KIND, "host": KEY, "text": ..., "arguments": {...}}
    {"undo": N, "known": {...}}                            arguments known only after the step
    {"undone": N}
    {"finished": true}                                     nothing is left to undo
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from kit.core.errors import ConfigError, HostError, SafetyRefusal, error_text
from kit.core.files import AppendLog
from kit.core.own_file import open_own, read_own
from kit.hosts.base import HostLost
from kit.hosts.identity import HostIdentity
from kit.store.json_file import parse_json

_MAX_BYTES = 64 << 20
# Of filesystems without locks.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


class RunGoesOn(SafetyRefusal):
    """Another process holds the journal."""

    def __init__(self, journal: Path, pid: int | None) -> None:
        process = f"process {pid}" if pid else "its process is not known"
        super().__init__(
            f"the run {journal.parent} still goes on ({process})",
            "wait for its end, or interrupt that process: it then cleans up itself",
        )


class LeftAlone(HostError):
    """What is there is not the run's any more. It stays, and is said once: the undo is not tried again."""


class NotTried(HostError):
    """Another undo, or the host of another one, comes first. It stays pending."""


@dataclass(frozen=True)
class Undo:
    """A pending undo. `kind` is a key of kit.recovery.undo.KINDS, `host` a key of the site's hosts."""

    number: int
    kind: str
    host: str
    text: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Leftover:
    """A failed undo: its reason, and commands for a person.

    `item`: what stays pending, None if nothing does. `lost`: its host is; `waits`: for that, or for another.
    """

    text: str
    why: str
    by_hand: tuple[str, ...] = ()
    item: Undo | None = None
    lost: bool = False
    waits: bool = False

    def __str__(self) -> str:
        return f"{self.text}: {self.why}"

    @property
    def problem(self) -> str:
        """As the manifest has it."""
        return f"not undone: {self}"


@dataclass(frozen=True)
class Record:
    """The content of a journal. `pending`: oldest first; `highest`: number of the newest undo, 0 without one.

    `run`: its id; `token_sha256`: of the token that the run has put on its hosts; `hosts`: by key.
    """

    pending: tuple[Undo, ...]
    finished: bool
    run: str = ""
    token_sha256: str = ""
    hosts: dict[str, HostIdentity] = field(default_factory=dict)
    highest: int = 0


# Performs an undo; gets the kinds of failed undos. Raises if it fails.
Doer = Callable[[Undo, frozenset[str]], object]
# The commands of an undo for a person.
ByHand = Callable[[Undo], tuple[str, ...]]


class Journal:
    """Append-only journal.jsonl; each line is on disk before the step continues.

    Raises RunGoesOn while another process has it, ConfigError for a file that is damaged or not the caller's.
    """

    def __init__(self, path: Path, run: str = "", plan: str = "") -> None:
        self._path = path
        try:
            self._file = AppendLog(path, exclusive=True)
        except BlockingIOError:
            raise RunGoesOn(path, _holder(path)) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            raise HostError(
                f"{path} cannot be locked: {error.strerror}",
                "choose a directory on another filesystem with --results",
            ) from None
        try:
            self.record = read_journal(path)
            self._next_number = self.record.highest + 1
        except BaseException:
            self._file.close()
            raise
        self.run = self.record.run
        self._unwritten: OSError | None = None
        self._pending = {undo.number: undo for undo in self.record.pending}
        if run:
            self.begin(run, plan)

    def begin(self, run: str, plan: str, token_sha256: str = "") -> None:
        """A process starts or resumes the run."""
        self.run = run
        token = {"token_sha256": token_sha256} if token_sha256 else {}
        self._write({"run": run, "plan": plan, **token})

    def know_host(self, key: str, identity: HostIdentity) -> None:
        self._write({"host": key, "machine_id": identity.machine_id, "boot_id": identity.boot_id})

    @contextmanager
    def step(self, name: str, **details: Any) -> Iterator[None]:
        """Write the begin and the outcome of a step."""
        self._write({"step": name, "state": "begin", **details})
        try:
            yield
        except BaseException as error:
            self._note({"step": name, "state": "failed", "error": str(error) or type(error).__name__})
            raise
        self._write({"step": name, "state": "done"})

    def on_teardown(self, kind: str, host: str, text: str, **arguments: Any) -> int:
        """Write the undo of the next step. Returns its number, for `know`."""
        number = self._next_number
        self._next_number += 1
        self._pending[number] = Undo(number, kind, host, text, arguments)
        self._write({"undo": number, "kind": kind, "host": host, "text": text, "arguments": arguments})
        return number

    def know(self, number: int, **arguments: Any) -> None:
        """Add arguments that became known by the step."""
        undo = self._pending[number]
        self._pending[number] = replace(undo, arguments={**undo.arguments, **arguments})
        self._write({"undo": number, "known": arguments})

    def undo_now(self, number: int, do: Callable[[Undo], object]) -> None:
        """Undo one step before the teardown. Raises what `do` raises: it is pending still."""
        undo = self._pending[number]
        with self.step(f"undo: {undo.text}"):
            do(undo)
        self._write({"undone": number})
        del self._pending[number]

    @property
    def pending(self) -> tuple[Undo, ...]:
        return tuple(self._pending.values())

    def teardown(self, do: Doer, by_hand: ByHand = lambda _: ()) -> list[Leftover]:
        """Undo everything, newest first. Returns the failed undos, which stay pending.

        If the journal cannot be written (a full disk), the undos still run; `hsp clean` repeats them later,
        which is safe.
        """
        left, kinds = [], set[str]()
        for undo in reversed(self.pending):
            step = f"undo: {undo.text}"
            self._note({"step": step, "state": "begin"})
            try:
                do(undo, frozenset(kinds))
            except Exception as error:  # the other undos must run
                why = error_text(error)
                self._note({"step": step, "state": "failed", "error": why})
                alone, lost = isinstance(error, LeftAlone), isinstance(error, HostLost)
                left.append(
                    Leftover(
                        undo.text,
                        why,
                        _commands(by_hand, undo),
                        None if alone else undo,
                        lost,
                        waits=lost or isinstance(error, NotTried),
                    )
                )
                if not alone:
                    kinds.add(undo.kind)
                    continue
            else:
                self._note({"step": step, "state": "done"})
            self._note({"undone": undo.number})
            del self._pending[undo.number]
        if not self._pending:
            self._note({"finished": True})
        if self._unwritten:
            run = shlex.quote(os.fspath(self._path.parent))
            why = f"{self._unwritten.strerror}, so the journal does not record what was undone"
            left.append(Leftover(os.fspath(self._path), why, (f"free some space, then: hsp clean {run}",)))
        return left

    @property
    def settled(self) -> bool:
        """Whether nothing is left to undo, and the journal says so."""
        return not self._pending and self._unwritten is None

    def _write(self, entry: dict[str, Any]) -> None:
        self._file.append(json.dumps({"time": time.time(), **entry}), sync=True)

    def _note(self, entry: dict[str, Any]) -> None:
        """As `_write`, but keeps a write error for later."""
        try:
            self._write(entry)
        except OSError as error:
            self._unwritten = self._unwritten or error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(path: Path) -> Record:
    """Read the journal at `path`. A missing or empty one has nothing to undo.

    Ignores a last line that a crash cut off: its step never ran. Raises ConfigError for other damage: it is
    then not known what is left on the hosts.
    """
    reader = _Reader()
    for number, line in enumerate(_lines(path), start=1):
        try:
            reader.take(parse_json(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConfigError(
                f"{path}:{number}: this is not a line of a journal: {line[:80]!r}",
                "it is not known what this run left on its hosts: look there for a pool hsp-*, mounts of "
                "/mnt/hsp-* and directories in /run/hsp; when nothing is left, move the directory away",
            ) from None
    return reader.record()


class _Reader:
    """Takes the lines of a journal in order."""

    def __init__(self) -> None:
        # By number; None: it is undone.
        self._undos: dict[int, Undo | None] = {}
        self._finished = True
        self._run = self._token_sha256 = ""
        self._hosts: dict[str, HostIdentity] = {}

    def record(self) -> Record:
        pending = tuple(undo for undo in self._undos.values() if undo)
        highest = max(self._undos, default=0)
        return Record(pending, self._finished, self._run, self._token_sha256, self._hosts, highest)

    def take(self, entry: dict[str, Any]) -> None:
        """One line. Raises ValueError, KeyError, TypeError, AttributeError if it is none of a journal."""
        if "known" in entry:
            undo = self._undos[entry["undo"]]
            # What two processes did at once in older versions: it was undone meanwhile.
            if undo:
                self._undos[undo.number] = replace(undo, arguments={**undo.arguments, **entry["known"]})
        elif "undo" in entry:
            self._take_undo(entry)
        elif "undone" in entry:
            # A second time is no damage: the undo was repeated, which is safe.
            if entry["undone"] not in self._undos:
                raise ValueError("it was never to be undone")
            self._undos[entry["undone"]] = None
        elif {"run", "plan"} <= entry.keys():
            self._take_run(entry)
        elif {"host", "boot_id", "machine_id"} <= entry.keys():
            self._hosts[str(entry["host"])] = HostIdentity(str(entry["machine_id"]), str(entry["boot_id"]))
        elif not ({"step", "state"} <= entry.keys() or "finished" in entry):
            raise ValueError("an unknown line")
        self._finished = "finished" in entry

    def _take_undo(self, entry: dict[str, Any]) -> None:
        """One without a kind or arguments stays pending: kit.recovery.undo refuses it, and no other."""
        number, arguments = entry["undo"], entry.get("arguments")
        if type(number) is not int or number in self._undos:
            raise ValueError("not a new number")
        kind, host, text = (str(entry.get(key, "")) for key in ("kind", "host", "text"))
        known = arguments if isinstance(arguments, dict) else {}
        self._undos[number] = Undo(number, kind, host, text or f"undo {number} of the journal", known)

    def _take_run(self, entry: dict[str, Any]) -> None:
        run = str(entry["run"])
        if self._run not in ("", run):
            raise ValueError("two runs")
        self._run, self._token_sha256 = run, str(entry.get("token_sha256", ""))


def _commands(by_hand: ByHand, undo: Undo) -> tuple[str, ...]:
    try:
        return by_hand(undo)
    except Exception:  # an undo that cannot be described must not stop the others
        return ()


def held_by(path: Path) -> RunGoesOn | None:
    """That another process has the journal; None if none has, or it is not there. Raises ConfigError."""
    try:
        handle = open_own(path)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return RunGoesOn(path, _holder(path))
    finally:
        os.close(handle)
    return None


def _holder(path: Path) -> int | None:
    """The process that has the lock, from proc_locks(5); None if that does not say."""
    status = path.stat()
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    fields = (line.split() for line in lines)
    return next((int(f[4]) for f in fields if len(f) > 5 and f[1] == "FLOCK" and f[5] == place), None)


def _lines(path: Path) -> list[str]:
    """The complete lines. Raises ConfigError for a file that is not the caller's own."""
    try:
        text = read_own(path, _MAX_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "look at its permissions") from None
    return text.split("\n")[:-1]
