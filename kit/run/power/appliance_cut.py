"""The power of an appliance, which is seen from its first client alone: that it went, and came back.

It went: nothing answers at its address, and its write verifier, which "must vary at each server event that
may lead to a loss of uncommitted data" (RFC 1813, 3.3.7 and 3.3.21), is another one afterwards. Both prove no
more than another start: that memory was lost as well shows the control, unstable writes without a COMMIT.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import HostError, SafetyRefusal
from kit.core.text import safe_text
from kit.hosts.base import CommandResult, Host, HostLost
from kit.nfs import mount as nfs_mount
from kit.nfs.export_directory import RECORDS
from kit.plan import load_steps
from kit.plan.plan import export_of
from kit.run.power.cut import Counts, RealCut

_HELPER = Path(__file__).parents[2] / "remote" / "nfs3_writes.py"
_POLL_S, _ASK_S = 1.0, 60.0
# Linux writes out by itself what is older than 30 s (vm.dirty_expire_centisecs), OpenZFS each 5 s.
_OLD_S = 40.0


@dataclass
class ApplianceCut(RealCut):
    """`server`, `witness` and `reader` are the first client. `verifier`: the last one; "" without NFSv3."""

    verifier: str = ""
    changes: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scope = "appliance"
        address, _, path = export_of(self.run.plan).rpartition(":/")
        options = dict(each.partition("=")[::2] for each in self.run.plan.workload.nfs.options)
        self.target = {
            "host": address.strip("[]"), "export": f"/{path}",
            **{key: int(options.get(key, "0")) for key in ("port", "mountport")},
        }  # fmt: skip

    @property
    def name(self) -> str:
        return f"the appliance {self.target['host']}"

    def begin(self, directory: str, *, control: bool) -> None:
        """Before the first power loss. Raises HostError: without NFSv3 a `control` cannot be.

        What an appliance keeps in memory longer than it says must not be what the run itself needs.
        """
        self.program = f"{directory}/nfs3.py"
        self.witness.run(["mkdir", "-p", directory])
        self.witness.put(_HELPER.read_bytes(), self.program)
        controller = self.run.site.controller
        assert controller, "there is [power]"
        if "here" in (found := self._port(), self._port(controller, os.fspath(_HELPER))):
            raise SafetyRefusal(
                f"{self.name} is the first client, or the machine that runs hsp: the list of acknowledged "
                "writes, or what turns the power on, would lose its power with it; nothing was cut",
                "run hsp, and the first client, on other machines",
            )
        if found != "open":
            raise HostError(
                f"{self.witness.name} reaches no NFS port of {self.name}, whose export it has mounted",
                "port 2049 over TCP, or port= in nfs.options: that it is gone has to be seen",
            )
        answer = self.ask("verifier", self.run.plan.workload.file_set.file)
        if answer.returncode and control:
            raise HostError(
                f"{self.name} cannot be asked over NFSv3: {safe_text(answer.stderr.strip())[-300:]}",
                "the control and the proof of each power loss need MOUNT 3, NFS 3 over TCP and AUTH_SYS, "
                'whichever version the mount has. With control = "none" a loss is still found, but without '
                "one the run is unknown",
            )
        self.verifier = answer.stdout.strip()
        self.witness.run(["sleep", f"{_OLD_S:g}"], deadline_s=_OLD_S + _ASK_S)

    def argv(self, word: str, *more: str) -> list[str]:
        """Of the NFSv3 client, for a file in the run's directory."""
        words = [json.dumps(self.target), self.run.names.directory, *more]
        return ["python3", "-I", "-S", self.program, word, *words]

    def ask(self, word: str, *more: str) -> CommandResult:
        return self.witness.run(self.argv(word, *more), check=False, deadline_s=_ASK_S)

    def _port(self, host: Host | None = None, program: str = "") -> str:
        argv = ["python3", "-I", "-S", program or self.program, "port", json.dumps(self.target)]
        return (host or self.witness).run(argv, deadline_s=_ASK_S).stdout.strip()

    def _before_cut(self) -> None:
        """Its clients see nothing that would tell its boots apart."""

    def _is_there(self) -> bool:
        # A machine that refuses a connection has power.
        return self._port() != "gone"

    def settle(self) -> None:
        """Nothing but COMMIT could make it write, and each record was acknowledged as stable."""

    def bring_back(self) -> None:
        """Raises HostError. A pool that waits for its key is no loss, so no record is called gone here."""
        self.power_on()
        within_s = self.power.back_within / 1e9
        end = time.monotonic() + within_s
        while not self._is_readable():
            if time.monotonic() > end:
                raise HostError(
                    f"{self.name}: what the run has made in its export cannot be read {within_s:g} s after "
                    f"`{shlex.join(self.power.on)[:200]}` turned its power on (NFS port: {self._port()})",
                    "is it up, is its pool imported and unlocked? Look at its console. Once it serves its "
                    "export, `hsp clean` removes what is left. If it takes longer: back_within in [power]",
                )
            time.sleep(_POLL_S)

    def _is_readable(self) -> bool:
        """The file that was there long before, past the client's cache. A mount may have to be made again."""
        # The kernel's client tries again ever more seldom, so it begins once there is something to find.
        if self._port() != "open":
            return False
        path = f"{self.bench.mount}/{self.run.plan.workload.file_set.file}"
        read = ["dd", f"if={path}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct", "status=none"]
        try:
            if self.witness.run(read, check=False, deadline_s=_ASK_S).returncode == 0:
                return True
            self._mount_again()
        except HostLost:
            raise
        except HostError:
            # It does not answer within the deadline, or does not let mount yet.
            pass
        return False

    def _mount_again(self) -> None:
        """Of a file handle that the appliance does not know any more (ESTALE)."""
        step = next(load_steps.mounts(self.run.plan, self.run.names))
        nfs_mount.unmount(self.witness, self.bench.mount_point)
        nfs_mount.mount(self.witness, step.commands)

    def counts(self) -> Counts:
        """How often its write verifier was another one; nothing if it is not known."""
        if not self.verifier:
            return {}
        end = time.monotonic() + self.power.back_within / 1e9
        while (answer := self.ask("verifier", self.run.plan.workload.file_set.file)).returncode:
            # mountd may start after nfsd.
            if time.monotonic() < end:
                time.sleep(_POLL_S)
                continue
            raise HostError(
                f"{self.name} does not answer over NFSv3 any more: {safe_text(answer.stderr.strip())[-300:]}",
                "it did before its power was cut: does its NFSv3 start by itself?",
            )
        now, before = answer.stdout.strip(), self.verifier
        self.verifier, self.changes = now, self.changes + (now != before)
        return {"export": {"starts by write verifier": self.changes}}

    def stable_anyway(self) -> bool:
        """Whether it says of unstable WRITEs that they are stable, so that there is no control."""
        answer = self.ask("stable", RECORDS)
        if answer.returncode:
            raise HostError(
                f"{self.name} refused an unstable WRITE: {safe_text(answer.stderr.strip())[-300:]}",
                "is the export writable for this client's root, or for the user it is squashed to?",
            )
        return answer.stdout.strip() != "0"

    def write_argv(self, layout: str, log: str) -> list[str]:
        """The writer of the control."""
        return self.argv("write", RECORDS, layout, log)
