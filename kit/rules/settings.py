"""Settings that a workload asks of the server, and that the testbed does not have. Pure."""

from __future__ import annotations

from kit.config.device_model import has_write_cache
from kit.config.testbed import Testbed
from kit.config.toml import nearest
from kit.config.toml_lines import KeyProblems
from kit.config.workload import Workload


def problems(workload: Workload, testbed: Testbed) -> KeyProblems:
    """`testbed`: with the devices that the run uses."""
    names = [each.name for each in testbed.setting]
    for name in workload.setting:
        if name not in names:
            text = (
                f"{nearest(name, names, 'it has')}; or add a [[setting]] with get and set to it"
                if names
                else "it has none: add [[setting]] with name, get and set to it"
            )
            yield ("setting", name), f"the testbed '{testbed.name}' has no setting '{name}', {text}"
    if workload.host.write_cache and testbed.is_lab:
        devices = testbed.device
        if not any(has_write_cache(device.emulated) for device in devices):
            yield (
                ("host", "write_cache"),
                f"no device of this run has a volatile write cache: {' and '.join(d.name for d in devices)}: "
                "take a disk with a write_cache, or an SSD with power_loss_protection = false",
            )
