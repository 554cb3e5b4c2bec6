"""The devices of a run: checked, locked, and before each write checked again for changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kit.core.errors import SafetyRefusal
from kit.devices.inventory import Inventory, Node
from kit.devices.locks import ExclusiveClaim, Locks
from kit.devices.probe import probe
from kit.devices.refusal_reasons import CONTENT, Code, DeviceSpec, Reason, reasons
from kit.hosts.base import Host
from kit.hosts.held_device import HeldDevice


@dataclass(frozen=True)
class Checked:
    """A device at the time of the check. `node` is None if it did not exist.

    `kernel_names`: its own and, of a disk with several paths, those of the other paths.
    """

    spec: DeviceSpec
    node: Node | None
    reasons: tuple[Reason, ...]
    kernel_names: tuple[str, ...] = ()

    def reasons_but(self, allowed: frozenset[Code]) -> tuple[Reason, ...]:
        return tuple(reason for reason in self.reasons if reason.code not in allowed)


def check(
    host: Host, specs: Sequence[DeviceSpec], *, content: bool = True, claimer: int | None = None
) -> tuple[Checked, ...]:
    """Check all devices of a testbed with one command; `claimer` as in kit.devices.probe.

    Raises SafetyRefusal if that is not possible.
    """
    return judge(probe(host, [spec.path for spec in specs], content=content, claimer=claimer), specs)


def judge(inventory: Inventory, specs: Sequence[DeviceSpec]) -> tuple[Checked, ...]:
    """Each device with all reasons not to use it; depends on the other devices of the testbed. Pure."""
    checked = []
    for spec in specs:
        node = inventory.find(spec.path)
        found = reasons(inventory, spec, [other for other in specs if other is not spec])
        paths = (node, *inventory.other_paths(node)) if node else ()
        checked.append(Checked(spec, node, found, tuple(path.kernel_name for path in paths)))
    return tuple(checked)


def refuse_any(host: str, checked: Sequence[Checked], allowed: frozenset[Code] = frozenset()) -> None:
    """Raises SafetyRefusal with every device that may not be used, and all reasons."""
    texts, remedies = [], []
    for device in checked:
        path, listed = device.spec.path, device.reasons_but(allowed)
        if listed:
            texts.append(f"{path} on {host} is not touched: " + "; ".join(r.text for r in listed))
            remedies += [f"{path}: {r.remedy}" for r in listed]
    if texts:
        raise SafetyRefusal("\n".join(texts), "\n".join(dict.fromkeys(remedies)))


def recheck(
    host: Host,
    checked: Sequence[Checked],
    paths: Sequence[str] | None = None,
    *,
    content: bool = True,
    claimer: int | None = None,
) -> None:
    """Check that the devices have not changed since they were checked, and have no new reasons.

    Called under the lock before each write. `checked`: all devices of the testbed; those of `paths`
    (None: all) must be unchanged. `content=False` ignores their contents (for a device that the kit
    itself fills). Raises SafetyRefusal: the plan is void.
    """
    now = check(host, [before.spec for before in checked], content=content, claimer=claimer)
    ignored = frozenset[Code]() if content else CONTENT
    changed = {
        before.spec.path: changes
        for before, after in zip(checked, now, strict=True)
        if (paths is None or before.spec.path in paths) and (changes := _changes(before, after, ignored))
    }
    if changed:
        raise SafetyRefusal(
            "\n".join(
                f"{path} on {host.name} is not touched: the plan is void, because {changes}"
                for path, changes in changed.items()
            ),
            "devices were changed since the plan was made; check with `hsp host disks`, and start again",
        )


def _changes(before: Checked, now: Checked, ignored: frozenset[Code]) -> str:
    """The changes as text; empty if there are none."""
    if before.node is None or now.node is None:
        return "" if before.node is now.node else "it was there and is not" if before.node else "it is new"
    old, new = before.node.identity(), now.node.identity()
    changed = [f"{key} was '{old[key]}' and is '{new[key]}'" for key in old if old[key] != new[key]]
    known = {reason.text for reason in before.reasons}
    changed += [reason.text for reason in now.reasons_but(ignored) if reason.text not in known]
    return "; ".join(changed)


@dataclass
class Guard:
    """The devices of this run, as long as the locks are held.

    Until the pool is created nothing of the run has them open, or only for a moment; so they are claimed
    (kit.devices.locks.ExclusiveClaim): others cannot take them then.
    """

    host: Host
    checked: tuple[Checked, ...]
    locks: Locks
    run: str
    _claim: ExclusiveClaim | None = None

    @property
    def claimer(self) -> int | None:
        """The process that holds the devices on the host, None if they are not claimed."""
        return self._claim.pid if self._claim else None

    def held(self, path: str) -> HeldDevice | None:
        """The device of a path as it was checked, for commands that write to it."""
        nodes = [device.node for device in self.checked if device.spec.path == path]
        return HeldDevice(path, nodes[0].device_number, nodes[0].sequence) if nodes and nodes[0] else None

    def claim(self, but: str | None = None) -> None:
        """Claim all devices (but that path). Raises SafetyRefusal if one is in use, HostError."""
        names = [name for device in self.checked if device.spec.path != but for name in device.kernel_names]
        self._claim = ExclusiveClaim(self.host, names, self.run) if names else None

    def release(self) -> None:
        """Let others open the devices: the pool, or the undo of a step. Safe to call twice."""
        claim, self._claim = self._claim, None
        if claim:
            claim.close()

    def take_again(self, *, locks: bool) -> None:
        """After a power loss: that the paths lead to the same devices, and their claims; `locks`: these, too.

        Their contents are the run's own. Raises SafetyRefusal: nothing may be written then.
        """
        self.release()
        if locks:
            nodes = [device.node for device in self.checked if device.node is not None]
            self.locks.close()
            self.locks = Locks(self.host, nodes, self.run)
        else:
            self.locks.check()
        found = check(self.host, [device.spec for device in self.checked], content=False)
        refuse_any(self.host.name, found, CONTENT)
        # A device may have another name in the kernel now.
        self.checked = found
        self.claim()

    @contextmanager
    def lent(self, path: str) -> Iterator[None]:
        """Leave one device to a tool that opens it exclusively itself (blkdiscard, nvme format)."""
        if self._claim is None:
            yield
            return
        self.release()
        self.claim(but=path)
        yield
        self.release()
        self.claim()
        self.before_writing(content=False)

    def before_writing(self, paths: Sequence[str] | None = None, *, content: bool = True) -> None:
        """Check that the devices (all, or those of `paths`) have not changed since they were checked.

        `content=False`: their contents are the run's own. Raises SafetyRefusal (plan void).
        """
        self.locks.check()
        if self._claim:
            self._claim.check()
        recheck(self.host, self.checked, paths, content=content, claimer=self.claimer)


@contextmanager
def guarded(host: Host, specs: Sequence[DeviceSpec], run: str) -> Iterator[Guard]:
    """Lock the devices of a testbed and the host, and check the devices under the lock.

    Raises SafetyRefusal with every device and every reason, or with the owner of a lock; HostError.
    """
    # A first check without the lock, only to know which devices to lock.
    nodes = [device.node for device in check(host, specs, content=False) if device.node is not None]
    with Locks(host, nodes, run) as locks:
        checked = check(host, specs)
        refuse_any(host.name, checked)
        guard = Guard(host, checked, locks, run)
        try:
            guard.claim()
            yield guard
        finally:
            guard.release()
            # Not those of before a power loss.
            guard.locks.close()
