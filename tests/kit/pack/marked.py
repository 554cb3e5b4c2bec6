"""Runs whose machines, disks, people and places have names that nothing else has."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from kit.store import tables
from kit.store.json_file import write_json
from kit.store.manifest import Manifest
from kit.store.run_directory import RunDir
from tests.kit.store import stored_runs
from tests.reports import synthetic
from tests.reports.features.observed.test_observed import observed

Json = dict[str, Any]
STORED = ("appliance", "asynchronous", "dataset", "mixed", "sampled", "traced", "untraced")
RUN = "20261121T053000Z-ab12cd"


@dataclass
class Markers:
    """Unique names; `secret`: parts of them that must be nowhere in a pack."""

    seed: int
    secret: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def word(self, prefix: str = "q") -> str:
        """Letters and digits that no source of the kit has."""
        made = prefix + "".join(self._random.choices("bcdfghjkmnpqrtvwxz23456789", k=9))
        self.secret.append(made)
        return made

    def host(self) -> str:
        domain = self.word()
        return self._random.choice(
            [self.word(), f"{self.word()}.{domain}.example", f"{self.word('x')}-{domain}"]
        )

    def address(self) -> str:
        numbers = [self._random.randrange(11, 255) for _ in range(4)]
        groups = [f"{self._random.randrange(4096, 65536):x}" for _ in range(3)]
        made = self._random.choice([".".join(map(str, numbers)), f"fd00:{':'.join(groups)}::7"])
        self.secret.append(made)
        return made

    def serial(self) -> str:
        return self._random.choice([self.word("S"), self.word().upper(), self.number()])

    def number(self) -> str:
        made = str(self._random.randrange(10**17, 10**18))
        self.secret.append(made)
        return made

    def path(self) -> str:
        user = self.word()
        return self._random.choice(
            [f"/home/{user}/{self.word()}", f"/srv/{user}/{self.word()}.toml", f"~/{user}"]
        )

    def sentence(self) -> str:
        """Names that the run has nowhere else."""
        mac = ":".join(f"{self._random.randrange(16, 256):02x}" for _ in range(6))
        uuid = f"{self._random.getrandbits(32):08x}-1a2b-3c4d-5e6f-{self._random.getrandbits(48):012x}"
        self.secret += [mac, uuid]
        return (
            f"The pool {self.word()} of {self.host()} ({self.address()}) is imported by "
            f"{self.word()}@{self.host()}: {self.path()}, /dev/disk/by-id/nvme-{self.word()}, "
            f"nfs://{self.host()}{self.path()}, {mac}, {uuid}, process {self.word()} of "
            f"{self.address()}:2049."
        )


def renamed(value: Any, names: dict[str, str]) -> Any:
    """All names in keys and values, as whole words."""
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<![\w./-]){re.escape(each)}(?![\w.-])" for each in longest_first))

    def text(of: str) -> str:
        return pattern.sub(lambda match: names[match[0]], of)

    if isinstance(value, dict):
        # What power was cut of is a word of the kit.
        return {text(key): inner if key == "scope" else renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner, names) for inner in value]
    return text(value) if isinstance(value, str) else value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str):
        yield value


def names_of(manifest: Json, of: Markers) -> dict[str, str]:
    """The names in a stored manifest, and a marker for each."""
    testbed, found = manifest["testbed"], dict[str, str]()
    for host in (testbed.get("server", "").partition(":/")[0], *testbed.get("clients", ())):
        found.setdefault(host, of.host())
    for device in testbed.get("devices", ()):
        found[device["name"]] = of.word()
        found[device["path"]] = f"/dev/disk/by-id/nvme-{of.word()}"
        if serial := (device.get("identity") or {}).get("serial"):
            found[serial] = of.serial()
    pool = manifest.get("pool") or {}
    if pool:
        found |= {pool["name"]: of.word(), pool.get("guid", "1"): of.number()}
        found[manifest["dataset"]["name"]] = f"{found[pool['name']]}/{of.word()}"
    for text in _strings(manifest):
        for path in re.findall(r"(?<![\w.])/run/[^\s,;:()`]+", text):
            found.setdefault(path, f"/export/{of.word()}/{of.word()}")
        for address in re.findall(r"\b10\.\d+\.\d+\.\d+\b", text):
            found.setdefault(address, of.address())
    found |= {testbed.get("name", ""): of.word(), testbed.get("file", ""): f"{of.word()}.toml"}
    found.pop("", None)
    return found


def run(directory: Path, name: str, seed: int) -> Markers:
    """Write a run with markers wherever a name can be."""
    of = Markers(seed)
    if name == "observed":
        frame, manifest = observed()
        names = {"nas": of.host(), "10.0.0.5": of.address(), "tank": of.word(), "plain": of.word()}
        names["tank/home"] = f"{names['tank']}/{of.word()}"
    elif name == "synthetic":
        frame, manifest = synthetic.latency(), synthetic.manifest()
        names = {"lab": of.host(), "lab/client0": of.host(), "data0": of.word(), "/dev/data0": of.path()}
        names |= {
            "tank": of.word(),
            "tank/bench": f"{of.word()}/{of.word()}",
            "lab.toml": f"{of.word()}.toml",
        }
    else:
        manifest = stored_runs.stored(name)
        frame, names = stored_runs.counts_of(manifest), names_of(manifest, of)
    manifest = renamed(manifest, names) | {"run": RUN}
    frame = frame.with_columns(pl.col("host").replace(names))
    _add_to(manifest, of, frame)
    directory.mkdir(parents=True)
    stored = RunDir(directory)
    write_json(directory / "manifest.json", Manifest.from_json(manifest, name).as_json())
    tables.write_latency(stored, frame)
    tables.write_keys(stored, _keys(of))
    write_json(directory / "plan.json", _plan(of, manifest))
    stored.raw.mkdir()
    (stored.raw / "commands.jsonl").write_text(json.dumps([of.sentence()]))
    stored.journal.write_text(json.dumps({"host": of.host(), "machine_id": of.word()}) + "\n")
    return of


def _add_to(manifest: Json, of: Markers, frame: pl.DataFrame) -> None:
    """Sentences, and keys that not every run has."""
    manifest["command"] = ["hsp", "run", "--testbed", of.path(), "--erase-serial", of.serial()]
    manifest["notes"] = [*manifest.get("notes", ()), of.sentence()]
    # Last: a newer version may have keys that this one does not know.
    manifest["newer"] = {"host": of.host(), of.word(): [of.sentence()]}
    manifest["modules"] = {"zfs": {"zfs_arc_max": "0"}, "spl": {"spl_hostid": of.number()}}
    manifest["export"] = {"lines": [f"{of.path()} {of.host()}(rw,fsid=0) {of.address()}/24(ro)"]}
    manifest["mount"] = {"source": f"{of.host()}:{of.path()}", "options": f"rw,vers=3,addr={of.address()}"}
    server = manifest["testbed"]["server"]
    manifest["findings"] = [
        {"host": server, "check": "other-pools", "state": "warn", "found": of.sentence(),
         "meaning": of.sentence(), "remedy": of.sentence()}
    ]  # fmt: skip
    manifest["problems"] = [*manifest.get("problems", ()), {"code": "error", "text": of.sentence()}]
    phase = manifest["phases"][0]
    start = phase["start_ns"]
    phase["events"] = [{"time_ns": start, "end_ns": start + 1, "kind": "fault", "text": of.sentence(),
                        "fault": {"declared": False, "what": of.sentence()}}]  # fmt: skip
    phase["newer"] = of.sentence()
    if "observed" in manifest:
        row = {"number": 4, "op": "read", "tier": "disk", "ios": 2, "waited_ns": 10}
        system = manifest["observed"]["file_systems"][0]
        manifest["observed"]["files"] = [{"name": of.word(), "file_system": system, **row}]
        manifest["observed"]["cost"] = [of.sentence()]


def _keys(of: Markers) -> pl.DataFrame:
    row = {"phase": "", "dataset": f"{of.word()}/{of.word()}", "time_ns": 1, "key": 7, "op": "read",
           "tier": "disk", "block_bytes": 4096, "one_in": 64}  # fmt: skip
    return pl.DataFrame([row], schema=tables.KEYS_SCHEMA)


def _plan(of: Markers, manifest: Json) -> Json:
    user, home = of.word(), of.path()
    phases = [
        {"name": each["name"], "job": each.get("job"), "title": each.get("title")}
        for each in manifest["phases"]
    ]
    device = {
        "name": of.word(),
        "role": "log",
        "path": f"/dev/disk/by-id/ata-{of.word()}",
        "serial": of.serial(),
    }
    return {
        "format": 1, "workload_file": home, "testbed_file": of.path(), "ssh_config": of.path(),
        "hosts": {"server": f"ssh://{user}@{of.host()}:22", "client0": f"ssh://{of.address()}"},
        "workload": {"name": "x", "phase": phases, "pool": {"data": "mirror"}, "fill": of.sentence(),
                     "working_set": {"fill_block": "1MiB", "note": of.sentence()}},
        "testbed": {"name": of.word(), "server": {"host": f"ssh://{user}@{of.host()}"},
                    "device": [device], "lab": None, "setting": [{"commands": [of.sentence()]}]},
        "jobs": {"read.fio": f"[global]\ndirectory={of.path()}\nrw=randread\n"},
        "digest": "0" * 64, "sources": [of.path()],
    }  # fmt: skip
