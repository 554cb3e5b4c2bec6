"""A tree of files that is made, looked at and removed: the load of a phase with `metadata`, on each client.

The program kit.remote.load.metadata_load prints lines as kit.remote.load.count_ios, with more in them: a
phase counts and stores them as fio's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kit.config.tables.tree_table import MetadataJob
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.load.common_start import Member
from kit.load.fio_windows import read_counts
from kit.load.force_load import Line, read_lines
from kit.load.force_program import TREE_FILE, TREE_PROGRAM, tree_command
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult, output_of
from kit.store.parts.metadata import Metadata
from kit.store.run_directory import RunDir

# NFS operations of each system call that changes a directory, by major version.
_CALLS = {
    "3": {"create": "create", "mkdir": "mkdir", "rename": "rename", "unlink": "remove", "rmdir": "rmdir"},
    "4": {"create": "open", "mkdir": "create", "rename": "rename", "unlink": "remove", "rmdir": "remove"},
}


class MetadataLoad(PhaseLoad):
    """One program a client, each with a tree of its own."""

    program = "the program of files and directories"

    def prepare(self) -> None:
        """Put the program and the tree of each client there."""
        for member in self._members:
            seed = self.spec.values(member.worker, member.number)["HSP_SEED"]
            self._make_directory(member)
            self._write(member, TREE_PROGRAM.name, TREE_PROGRAM.read_bytes())
            self._write(member, TREE_FILE, self._job.shape(seed).to_json().encode())

    @property
    def _job(self) -> MetadataJob:
        assert isinstance(self.spec.job, MetadataJob)
        return self.spec.job

    def _command(self, member: Member) -> list[str]:
        to_host_ns = self.spec.clock.to_host_ns
        times_ns = self.spec.window_ms * 10**6, to_host_ns(self.spec.duration_ns)
        argv = tree_command(self._job, member.directory, member.worker.place, member.number, times_ns)
        return self.spec.by(argv)

    def _result(self, member: Member, run_dir: RunDir) -> ClientResult | None:
        """Of a failed worker, what has arrived."""
        path = output_of(self.spec, member.name)
        lines = read_lines(path)
        windows = read_counts(path, self.spec.window_ms, alone=True)
        if not windows.ios:
            member.fail("nothing has ended")
            return None
        if not lines[-1].get("end"):
            member.fail("it was ended before its end: what has arrived is kept")
        metadata, sum_ns = metadata_of(self._job, lines)
        windows = replace(windows, sums_ns={int(windows.direction[0]): sum_ns})
        return ClientResult(member.worker, windows.by_op(), windows, metadata=metadata)


def metadata_of(job: MetadataJob, lines: list[Line]) -> tuple[Metadata, int]:
    """What was done, by the last line, and the sum of its latencies. Raises MeasurementUnknown."""
    least, most = job.least_and_most_bytes
    try:
        calls = {str(name): int(count) for name, count in lines[-1]["calls"].items()}
        sum_ns = int([line[job.action]["sum"] for line in lines if job.action in line][-1])
        nfs: Counter[str] = Counter()
        for name, op in _CALLS[job.version[0]].items():
            nfs[op] += calls.get(name, 0)
        value = {
            "action": job.action, "files": job.files, "directories": job.directories,
            "depth": job.depth, "least_bytes": least, "most_bytes": most, "fsync": job.tree.fsync,
            "version": job.version, "calls": calls, "expected": dict(nfs),
        }  # fmt: skip
        return Metadata.from_json(value, "the output of the program of files and directories"), sum_ns
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, ConfigError) as error:
        raise MeasurementUnknown(f"the counts of files and directories are damaged: {error}") from error
