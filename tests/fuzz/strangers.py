"""Files of strangers: changed by chance, as a seed says, and given to what reads them.

`python -m tests.fuzz.strangers KIND FIRST LAST` reads the inputs of these numbers; each must be accepted, or
refused with an error for people, in 10 s, and nothing may be written or started meanwhile. A line for each
finding. In a process of its own: what ends it is a finding.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from kit.config.need import read_need
from kit.core.errors import KitError
from kit.plan.known_failures import read_known
from kit.recovery.journal import Journal, read_journal
from kit.session.live.run_reader import RunReader
from kit.session.live.terminal import drawn
from kit.session.live.watch import message_of
from kit.session.side import Side
from kit.store import latency
from kit.store.json_file import write_json
from kit.store.manifest import Manifest
from kit.store.run_directory import RunDir
from kit.store.series import read_series
from reports.analysis.summary import summarise
from reports.output.export import exported
from reports.output.junit import junit, series_junit
from reports.output.series_export import frame as series_frame
from reports.output.series_table import series_lines
from reports.series.analyse import analysed_series
from tests.kit.store.mutations import places
from tests.kit.store.stored_runs import counts_of, stored
from tests.reports import synthetic, synthetic_series
from tests.reports.candidates import NEED

ROOT = Path(__file__).parents[2]
DEADLINE_S, MOST_BYTES = 10, 2 << 30
_DATA = ROOT / "tests" / "kit" / "data"
_NUMBERS = (-1, 0, 1, 7, 2**31, 2**53, 2**62, 2**63, 2**64, 10**30, 10**400, 1.5, -1e300, 1e308)
_TEXTS = ("", "x" * 5000, "\x1b[31m\x9b2J", "\u202egnp\u2069", "</script>", "=cmd|' /C'!A1", "\ud800",
          "../..", "nan", "-", "*", "read", "\n", "9" * 5000, "/dev/zero")  # fmt: skip
_TOKENS = (b"[", b"]", b"=", b'"', b"\n", b"{", b"}", b"[[phase]]\n", b"phase = 2\n", b"nan", b"inf",
           b"1e999", b"true", b"-1", b"''", b"[[known]]\n", b"9" * 20, b"\xff", b"\x00", b"2026-01-01",
           b"[a.b]\n", b"0x1F")  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A directory of its own, and an example of each file."""

    folder: Path
    run: RunDir
    journal: Journal


def value_of(chance: random.Random) -> Any:
    """Any JSON value."""
    pick = chance.randrange(8)
    if pick < 3:
        return chance.choice(_NUMBERS)
    if pick < 5:
        return chance.choice(_TEXTS)
    return chance.choice((None, True, False, [], {}, [None], [[]], {"a": {}}, [1] * 50, {"name": 3}))


def changed(value: Any, chance: random.Random) -> Any:
    """`value` with one to four places of it replaced, removed or repeated."""
    made = copy.deepcopy(value)
    for _ in range(chance.randint(1, 4)):
        listed = list(places(made))
        if not listed:
            break
        *above, last = chance.choice(listed)
        parent = made
        for key in above:
            parent = parent[key]
        pick = chance.randrange(6)
        if pick == 0:
            del parent[last]
        elif pick == 1 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        elif pick == 2 and isinstance(parent[last], int):
            parent[last] += chance.choice((-1, 1, 10**6))
        else:
            parent[last] = value_of(chance)
    return made


def spoilt(content: bytes, chance: random.Random) -> bytes:
    """`content` with bytes replaced, removed, repeated or inserted."""
    made = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(made) + 1)
        end = min(len(made), at + chance.choice((1, 1, 2, 8, 40)))
        pick = chance.randrange(5)
        if pick == 0:
            del made[at:end]
        elif pick == 1:
            made[at:at] = made[at:end] * chance.choice((1, 2, 50))
        elif pick == 2:
            made[at:at] = chance.choice(_TOKENS)
        elif made:
            made[min(at, len(made) - 1)] = chance.randrange(256)
    return bytes(made)


def lines_changed(text: str, chance: random.Random) -> bytes:
    """Lines of TOML left out, repeated, moved, or with another value."""
    lines = text.splitlines()
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(lines))
        pick = chance.randrange(5)
        if pick == 0:
            del lines[at]
        elif pick == 1:
            lines.insert(chance.randrange(len(lines)), lines[at])
        elif "=" in lines[at]:
            shown = (
                json.dumps(value_of(chance), ensure_ascii=True)[:6000]
                .replace("null", "''")
                .replace(": ", " = ")
            )
            lines[at] = f"{lines[at].partition('=')[0]}= {shown}"
        if not lines:
            lines = [""]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _toml(text: str, chance: random.Random) -> bytes:
    return spoilt(text.encode(), chance) if chance.random() < 0.3 else lines_changed(text, chance)


_MANIFESTS = {
    name: stored(name)
    for name in ("traced", "untraced", "sampled", "mixed", "appliance", "import", "dataset")
}
_COUNTS: dict[str, latency.Latency] = {}


def _manifest(chance: random.Random, place: Place) -> None:
    name = chance.choice(sorted(_MANIFESTS))
    if name not in _COUNTS:
        _COUNTS[name] = latency.Latency.of(counts_of(_MANIFESTS[name]))
    manifest = Manifest.from_json(changed(_MANIFESTS[name], chance), "manifest.json")
    junit(summarise(_COUNTS[name], manifest, with_bands=chance.random() < 0.05))


def _series(chance: random.Random, place: Place) -> None:
    write_json(place.folder / "series.json", changed(_SERIES, chance))
    read = read_series(place.folder)
    exported(series_frame(read), "csv", None)
    series_junit(read)
    list(series_lines(read, 80))
    analysed_series(read, {})


def _parquet(chance: random.Random, place: Place) -> None:
    path = place.run.path / "latency.parquet"
    frame = synthetic.latency(3)
    if chance.random() < 0.5:
        column = chance.choice(frame.columns)
        frame = frame.with_columns(
            frame[column].shuffle(seed=chance.randrange(1 << 30)).reverse().alias(column)
        )
        target = io.BytesIO()
        frame.write_parquet(target)
        path.write_bytes(target.getvalue())
    else:
        content = bytearray(_PARQUET)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(bytes(content) if chance.random() < 0.8 else spoilt(_PARQUET, chance))
    manifest = synthetic.parsed(synthetic.manifest(frame, 3))
    summarise(latency.read(place.run, manifest.phases), manifest, with_bands=False)


def _live(chance: random.Random, place: Place) -> None:
    lines = _TRACE.splitlines()
    kept = []
    for line in lines[: chance.randint(3, len(lines))]:
        if chance.random() < 0.3:
            line = json.dumps(changed(json.loads(line), chance)) if line.startswith("{") else line
        kept.append(
            spoilt(line.encode(), chance).decode("utf-8", "replace") if chance.random() < 0.05 else line
        )
    (place.run.raw / "read-trace.json").write_text("\n".join(kept) + "\n", errors="replace")
    about = _UNDER_WAY if chance.random() < 0.7 else changed(_UNDER_WAY, chance)
    write_json(place.run.raw / "under-way.json", about)
    phase = RunReader(place.run).poll()
    if phase is not None and phase.counts.last >= 0:
        console = Console(file=io.StringIO(), width=80, height=30, force_terminal=True)
        console.print(drawn(phase, console, 80, 30))
        message_of(phase)


def _workload(chance: random.Random, place: Place) -> None:
    source = chance.choice(_WORKLOADS)
    path = place.folder / "w.toml"
    path.write_bytes(_toml(source.read_text(), chance))
    side = Side(os.fspath(path), ROOT / "kit" / "lab" / "testbed.toml")
    side.plan().as_json()
    if side.sweeps:
        side.sweep()


def _testbed(chance: random.Random, place: Place) -> None:
    source = chance.choice(_TESTBEDS)
    path = place.folder / "t.toml"
    path.write_bytes(_toml(source.read_text(), chance))
    Side("top-speeds", path).plan().as_json()


def _need(chance: random.Random, place: Place) -> None:
    path = place.folder / "need.toml"
    path.write_bytes(_toml(NEED, chance))
    read_need(path)


def _known(chance: random.Random, place: Place) -> None:
    path = place.folder / "known.toml"
    text = '[[known]]\ncheck = "THERMAL:read"\nreason = "r"\nissue = "#7"\nuntil = "2030-01-01"\n'
    path.write_bytes(_toml(text * chance.randint(1, 3), chance))
    read_known(path, ["read"], [{"phase": "read", "op": "read", "tier": "dram", "p99_us_max": 5.0}])


def _journal(chance: random.Random, place: Place) -> None:
    rows = []
    for line in _JOURNAL.splitlines():
        entry = json.loads(line)
        rows.append(json.dumps(changed(entry, chance) if chance.random() < 0.4 else entry))
    text = "\n".join(rows).encode() + b"\n"
    path = place.folder / "journal.jsonl"
    path.write_bytes(spoilt(text, chance) if chance.random() < 0.3 else text)
    read_journal(path)


_TRACE = (_DATA / "trace-read.json").read_text()
_UNDER_WAY = {
    "phase": "read", "part": 1, "duration_ns": 8 * 10**9, "interval_ns": 10**9, "clock": "virtual",
    "dilation": 4, "trace": "read-trace.json", "log_vdevs": [], "clients": [],
}  # fmt: skip
_WORKLOADS = sorted((ROOT / "workloads").glob("*.toml"))
_TESTBEDS = [ROOT / "kit" / "lab" / "testbed.toml", *(_DATA / "plan" / name for name in ("testbed.toml",
             "six-disks.toml")), *sorted((ROOT / "docs" / "examples").glob("*.toml"))]  # fmt: skip
KINDS: dict[str, Callable[[random.Random, Place], None]] = {
    "manifest": _manifest, "series": _series, "parquet": _parquet, "live": _live, "workload": _workload,
    "testbed": _testbed, "need": _need, "known": _known, "journal": _journal,
}  # fmt: skip
_SERIES: Any = None
_PARQUET, _JOURNAL = b"", ""


def _prepare(folder: Path) -> Place:
    """Examples that only the kit can make."""
    global _SERIES, _PARQUET, _JOURNAL
    path = synthetic_series.series(folder / "series")
    _SERIES = json.loads((path / "series.json").read_text())
    run = synthetic.write(folder / "run", synthetic.manifest(), synthetic.latency(3))
    run.raw.mkdir()
    _PARQUET = (run.path / "latency.parquet").read_bytes()
    journal = Journal(folder / "made.jsonl")
    journal.begin("20260101T000000Z-abcdef", "digest", "token")
    with journal.step("x"):
        journal.on_teardown("mount", "client0", "unmount /mnt/x", path="/mnt/x")
        journal.on_teardown("pool", "server", "destroy pool x", name="x")
    _JOURNAL = (folder / "made.jsonl").read_text()
    return Place(folder, run, journal)


class _Outside(Exception):
    """Something was started, or written elsewhere."""


_watched: list[Path] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    # What reads tables first (kit.store.trial) is the kit's own.
    if event == "subprocess.Popen" and Path(arguments[1][-1]).name == "reader.py":
        return
    if event in (
        "subprocess.Popen",
        "os.exec",
        "os.posix_spawn",
        "os.fork",
        "os.forkpty",
        "os.system",
        "socket.connect",
    ):
        raise _Outside(event)
    if (
        event == "open"
        and isinstance(arguments[0], str | bytes)
        and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    ):
        path = Path(os.fsdecode(arguments[0]))
        if path.is_absolute() and path != Path(os.devnull) and not path.is_relative_to(_watched[0]):
            raise _Outside(f"write of {path}")


def _late(*_: object) -> None:
    raise TimeoutError(f"more than {DEADLINE_S} s")


def one(kind: str, number: int, place: Place) -> str:
    """What is wrong with an input; "" if it was read or refused."""
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_S)
    _watched.append(place.folder)
    try:
        KINDS[kind](random.Random(f"{kind} {number}"), place)
    except KitError as error:
        return "" if error.message else "an error without a message"
    except BaseException:
        return traceback.format_exc(limit=-6)
    finally:
        _watched.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


def found(kind: str, first: int, last: int) -> list[str]:
    """The findings of the inputs [first, last), read in processes of their own."""
    made = []
    while first < last:
        words = [sys.executable, "-m", "tests.fuzz.strangers", kind, str(first), str(last)]
        environ = {**os.environ, "RUST_BACKTRACE": "0"}
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=environ, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        made += [f"{kind} {each['number']}: {each['text']}" for each in lines if each.get("text")]
        reached = max((each["number"] for each in lines), default=first - 1)
        if done.returncode:
            made.append(f"{kind} {reached}: ended with {done.returncode}: {done.stderr[-600:]}")
        first = reached + 1 if done.returncode else last
    return made


def main(kind: str, first: int, last: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="hsp-strangers-"))
    os.environ["XDG_STATE_HOME"] = os.fspath(folder / "state")
    place = _prepare(folder)
    sys.addaudithook(_watch)
    signal.signal(signal.SIGALRM, _late)
    try:
        for number in range(first, last):
            # First the number: what ends the process must be known.
            print(json.dumps({"number": number}), flush=True)
            if text := one(kind, number, place):
                print(json.dumps({"number": number, "text": text}), flush=True)
    finally:
        place.journal.close()
        shutil.rmtree(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if peak > MOST_BYTES:
        print(json.dumps({"number": last, "text": f"{peak >> 20} MiB of memory"}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
