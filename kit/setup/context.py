"""A run under way: what its steps share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from kit.core.progress import Progress
from kit.hosts.base import CommandResult, Host
from kit.nfs import restarted_by_others
from kit.plan.names import Names
from kit.plan.plan import Plan
from kit.plan.step import Step
from kit.recovery import power_undos, undo
from kit.recovery.journal import Journal
from kit.setup.record import RunRecord
from kit.setup.site import Site
from kit.store.run_directory import RunDir


@dataclass(frozen=True)
class Switched:
    """A setting of the server that the run has switched or watches. `value`: what it is during the run."""

    label: str
    read: Callable[[Host], str]
    value: str


@dataclass(frozen=True)
class Context:
    """`record` is filled in by each step. `token`: what the run puts on its hosts (kit.recovery.registry)."""

    plan: Plan
    site: Site
    run_dir: RunDir
    journal: Journal
    progress: Progress
    record: RunRecord
    token: str
    # By name: what is left of the duration of a phase that goes on in its middle.
    left_ns: Mapping[str, int] = field(default_factory=dict)
    # Grows when settings are switched; compared at the end.
    switched: list[Switched] = field(default_factory=list)
    # Grows when the run restarts the server: what that had before the run set anything in the new boot, and
    # {} until that is known. The last one is what it must have at the end.
    settings_of_boot: list[dict[str, str]] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return self.run_dir.path.name

    @property
    def names(self) -> Names:
        """What the run calls the things that it makes."""
        clients = self.site.clients
        return Names(
            run_id=self.run_id,
            device_paths=self.site.device_paths,
            client_addresses=tuple(client.address for client in clients),
            server_addresses=tuple(client.server_address for client in clients),
            client_names=tuple(client.host.name for client in clients),
        )

    @property
    def hosts(self) -> dict[str, Host]:
        """By the journal's keys: those of the site, and this machine where it has commands of [power]."""
        own = {power_undos.CONTROLLER: self.site.controller} if self.site.controller else {}
        return {**self.site.hosts, **own}

    @contextmanager
    def step(self, step: Step) -> Iterator[int]:
        """Journal the step, its undo first. Gives the number of the undo, 0 where there is none."""
        with self.journal.step(step.name, **step.details):
            host = self.hosts[step.host]
            yield undo.register(self.journal, step.host, host, step.undo) if step.undo else 0

    def undo_now(self, number: int) -> None:
        """Undo one step before the end of the run. Raises KitError: it is pending still."""
        self.journal.undo_now(number, lambda item: undo.undo(item, self.hosts, frozenset(), self.run_id))

    def exported(self, *, over_nfs: bool, restarts: bool = False) -> AbstractContextManager[None]:
        """Name what somebody else does to the NFS server during a block that needs it; not of an appliance.

        `restarts`: the run itself restarts it.
        """
        if not (over_nfs and self.site.server):
            return nullcontext()
        note = partial(self.record.add_problems, "server-activity")
        return restarted_by_others.named(self.site.server, self.names.path, note, restarts=restarts)

    def send(self, step: Step, *, check: bool = True) -> list[CommandResult]:
        """Execute the step's commands. Raises HostError; CommandFailed only with `check`."""
        return [command.run(self.site.hosts[step.host], check=check) for command in step.commands]

    def perform(self, step: Step) -> int:
        """A step of which nothing is looked at; the number of its undo."""
        with self.step(step) as number:
            self.send(step)
        return number
