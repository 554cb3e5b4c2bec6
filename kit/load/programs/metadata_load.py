"""A tree of files that is made, looked at and removed: the load of a phase with `metadata`, on each client.

The program is kit.remote.load.metadata_load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kit.config.tables.tree_table import MetadataJob
from kit.load.common_start import Member
from kit.load.programs.force_program import TREE_FILE, TREE_PROGRAM, tree_command
from kit.load.programs.program_load import Line, ProgramLoad, damaged
from kit.store.parts.metadata import Metadata

# NFS operations of each system call that changes a directory, by major version.
_CALLS = {
    "3": {"create": "create", "mkdir": "mkdir", "rename": "rename", "unlink": "remove", "rmdir": "rmdir"},
    "4": {"create": "open", "mkdir": "create", "rename": "rename", "unlink": "remove", "rmdir": "remove"},
}


class MetadataLoad(ProgramLoad[MetadataJob]):
    """One program a client, each with a tree of its own."""

    program = "the program of files and directories"
    counted_calls, alone = "call", True

    def prepare(self) -> None:
        """Put the program and the tree of each client there."""
        for member in self._members:
            seed = self.spec.values(member.worker, member.number)["HSP_SEED"]
            self._make_directory(member)
            self._write(member, TREE_PROGRAM.name, TREE_PROGRAM.read_bytes())
            self._write(member, TREE_FILE, self._job.shape(seed).to_json().encode())

    def _command(self, member: Member) -> list[str]:
        return self.spec.by(self._words(member))

    def _words(self, member: Member) -> list[str]:
        place = member.worker.place
        return tree_command(self._job, member.directory, place, member.number, self.spec.times_ns)

    def _part(self, member: Member, lines: Sequence[Line], *, has_ended: bool) -> Metadata:
        return metadata_of(self._job, lines)


def metadata_of(job: MetadataJob, lines: Sequence[Line]) -> Metadata:
    """What was done, by the last line. Raises MeasurementUnknown."""
    least, most = job.extent.least_and_most_bytes
    with damaged("files and directories"):
        calls = {str(name): int(count) for name, count in lines[-1]["calls"].items()}
        nfs: Counter[str] = Counter()
        for name, op in _CALLS[job.version[0]].items():
            nfs[op] += calls.get(name, 0)
        value = {
            "action": job.action, "files": job.files, "directories": job.extent.directories,
            "depth": job.extent.depth, "least_bytes": least, "most_bytes": most, "fsync": job.tree.fsync,
            "version": job.version, "calls": calls, "expected": dict(nfs),
        }  # fmt: skip
        return Metadata.from_json(value, "the output of the program of files and directories")
