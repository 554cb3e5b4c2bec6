"""reports.analysis.resource_use: shares and rates while the load ran, sums of all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.store.manifest import Manifest
from kit.store.summary import PhaseUse
from reports.analysis import resource_use

SECOND = 10**9
MANIFESTS = Path(__file__).parents[2] / "kit" / "store" / "manifests"
FLASH = {"ssd": {"page": 4096, "pages_per_block": 16, "channels": 8}}


def cpu(at_s: float, idle_s: float, user_s: float = 0, system_s: float = 0) -> dict[str, int]:
    times = {"at": at_s, "idle": idle_s, "user": user_s, "system": system_s, "softirq": 0}
    return {f"{name}_ns": round(value * SECOND) for name, value in times.items()}


def disk(at_s: float, written_bytes: int, busy_s: float = 0, flushes: int | None = 0) -> dict[str, Any]:
    at_ns, busy_ns = round(at_s * SECOND), round(busy_s * SECOND)
    return {
        "at_ns": at_ns, "reads": 0, "read_bytes": 0, "read_ns": 0, "writes": written_bytes // 512,
        "written_bytes": written_bytes, "write_ns": busy_ns, "in_flight": 0, "busy_ns": busy_ns,
        "queue_ns": 2 * busy_ns, "discards": 0, "flushes": flushes, "flush_ns": 0,
    }  # fmt: skip


def model(written_bytes: int, programmed: int, copied: int) -> dict[str, int]:
    return {
        "read_bytes": 0, "written_bytes": written_bytes, "flushes": 0, "pages_read": 0,
        "pages_programmed": programmed, "pages_copied": copied, "blocks_erased": 0,
    }  # fmt: skip


def described(parameters: Any = None, **phase: Any) -> PhaseUse:
    """Of a phase whose load ran from second 10 to 20, 1000 I/Os of 512 B."""
    client = {"host": "c", "ios": 1000, "skew_ns": 0, "clock_offset_ns": 0, "clock_error_ns": 0}
    value = {
        "testbed": {"devices": [{"name": "log0", "role": "log", "parameters": parameters}]},
        "phases": [
            {
                "name": "p", "start_ns": 9 * SECOND, "end_ns": 21 * SECOND, "interval_ns": SECOND,
                "client_ios": 1000, "server_ios": 1000, "lost_events": 0, "block_bytes": 512,
                "clients": [{**client, "first_ns": 10 * SECOND, "last_ns": 20 * SECOND}], **phase,
            }
        ],
    }  # fmt: skip
    (found,) = resource_use.describe(Manifest.from_json(value, "x"))
    return found


# From before the load (idle) over the load (half busy, then nine tenths) to after it (idle).
SAMPLES = [cpu(8, 0), cpu(10, 4), cpu(15, 9, 2, 3), cpu(20, 10, 4, 8), cpu(22, 14, 4, 8)]


def test_a_machine_is_busy_while_the_load_runs_not_before_and_after() -> None:
    use = described(cpu=[{"host": "s", "cpus": 2, "samples": SAMPLES}])
    (machine,) = use.cpu
    assert machine.busy == pytest.approx(0.7)
    assert (machine.user, machine.system) == (pytest.approx(0.2), pytest.approx(0.4))
    assert (use.seconds, use.iops, use.bytes_per_s) == (10, 100, 51200)


@pytest.mark.parametrize(("idle_s", "bound"), [(1.6, False), (1.4, True)])
def test_more_than_85_percent_is_bound_by_cpu(idle_s: float, bound: bool) -> None:
    samples = [cpu(10, 0), cpu(20, idle_s)]
    idle = {"host": "other", "cpus": 4, "samples": [cpu(10, 0), cpu(20, 40)]}
    use = described(cpu=[idle, {"host": "s", "cpus": 1, "samples": samples}])
    assert use.is_cpu_bound is bound
    sentences = [*resource_use.sentences([use])]
    assert len(sentences) == bound
    if bound:
        assert "p was bound by CPU: s was 86 % busy" in sentences[0]


@pytest.mark.parametrize(
    ("busiest_s", "said"),
    [
        (9.9, "p may be bound by CPU: of s one of 16 CPUs was 99 % busy, all together 6 %."),
        (8.4, ""),
        (None, ""),
    ],
)
def test_one_cpu_of_many_can_be_the_limit(busiest_s: float | None, said: str) -> None:
    """A thread of nfsd, or an interrupt, on one CPU of 16: the mean of all is 6 %."""
    ends = [cpu(10, 0), cpu(20, 150)]
    if busiest_s is not None:
        ends = [
            {**each, "busiest_ns": round(s * SECOND)}
            for each, s in zip(ends, (1, 1 + busiest_s), strict=True)
        ]
    use = described(cpu=[{"host": "s", "cpus": 16, "samples": ends}])
    assert use.is_cpu_bound is bool(said) and use.cpu[0].busy == pytest.approx(0.0625)
    assert said in " ".join(resource_use.sentences([use])) and bool(said) == bool(
        [*resource_use.sentences([use])]
    )


def test_sums_have_all_of_the_load_and_rates_are_of_it() -> None:
    samples = [
        disk(5, 0),
        disk(9, 512),
        disk(12, 1024, 1),
        disk(18, 7024, 4),
        disk(21, 9216, 4),
        disk(30, 10**6, 9),
    ]
    (device,) = described(devices=[{"device": "log0", "samples": samples}]).devices
    assert (device.role, device.written_bytes, device.writes) == ("log", 9216 - 512, 17)
    assert device.written_bytes_per_s == 1000 and device.tbw_per_day == pytest.approx(1000 * 86400 / 1e12)
    assert (device.busy, device.queue) == (0.5, 1.0)
    assert device.model_written_bytes is None and device.write_amplification is None


def test_without_samples_in_the_load_it_is_all_that_there_is() -> None:
    (device,) = described(devices=[{"device": "log0", "samples": [disk(8, 0), disk(22, 14000)]}]).devices
    assert (device.written_bytes, device.written_bytes_per_s) == (14000, 1000)


def test_write_amplification_is_of_the_flash_of_a_model() -> None:
    used = {"device": "log0", "samples": [disk(10, 0), disk(20, 81920)], "model": model(81920, 30, 10)}
    (device,) = described(FLASH, devices=[used]).devices
    assert (device.model_written_bytes, device.pages_programmed, device.pages_copied) == (81920, 30, 10)
    assert device.write_amplification == 1.5
    (cached,) = described({"controller": {"cache": "battery", **FLASH}}, devices=[used]).devices
    assert cached.write_amplification == 1.5
    (spinning,) = described({"disk": {"rpm": 7200}}, devices=[used]).devices
    assert (spinning.model_written_bytes, spinning.write_amplification) == (81920, None)
    unused = {**used, "model": model(0, 3, 3)}
    (device,) = described(FLASH, devices=[unused]).devices
    assert device.pages_programmed == 3 and device.write_amplification is None


def test_flushes_that_a_kernel_does_not_count_are_absent() -> None:
    samples = [disk(10, 0, flushes=None), disk(20, 0, flushes=None)]
    (device,) = described(devices=[{"device": "log0", "samples": samples}]).devices
    assert device.flushes is None


def test_parts_of_a_phase_are_added_and_the_time_between_is_not() -> None:
    common = {"client_ios": 500, "server_ios": 500, "end": "itself"}
    parts = [
        {**common, "number": 1, "start_ns": 10 * SECOND, "end_ns": 12 * SECOND},
        {**common, "number": 2, "start_ns": 100 * SECOND, "end_ns": 103 * SECOND},
    ]
    first = {"host": "s", "cpus": 1, "samples": [cpu(9, 0), cpu(10, 1), cpu(12, 2), cpu(13, 3)]}
    more = {"host": "s", "cpus": 1, "samples": [cpu(99, 0), cpu(100, 1), cpu(103, 1), cpu(104, 2)]}
    disks = [
        {"device": "log0", "samples": [disk(9, 0), disk(13, 1024)], "model": model(1024, 1, 0)},
        {"device": "log0", "samples": [disk(99, 0), disk(104, 2048)], "model": model(2048, 2, 0)},
    ]
    use = described(FLASH, parts=parts, cpu=[first, more], devices=disks)
    assert use.seconds == 5 and use.iops == 200
    (machine,) = use.cpu
    assert machine.busy == pytest.approx(1 - 1 / 5)
    (device,) = use.devices
    assert (device.written_bytes, device.model_written_bytes) == (3072, 3072)
    assert device.write_amplification == 4


def test_bytes_on_their_way() -> None:
    check = {
        "id": "NFS-BYTES", "name": "bytes of NFS WRITE calls", "source": "x", "expected": 1, "found": 7,
        "tolerance": 0, "ok": False,
    }  # fmt: skip
    used = {"device": "log0", "samples": [disk(10, 0), disk(20, 4096)], "model": model(4096, 1, 0)}
    use = described(FLASH, checks=[check], devices=[used], arc={"span_ns": 1, "log_block_bytes": 4096})
    assert use.bytes.as_json() == {
        "clients": 512000, "nfs": 7, "log_blocks": 4096, "log_devices": 4096, "log_models": 4096,
    }  # fmt: skip
    unknown = described(devices=[{**used, "model": None}], block_bytes=None).bytes
    assert unknown.log_devices == 4096
    assert unknown.clients is unknown.nfs is unknown.log_blocks is unknown.log_models is None


def test_bytes_to_l2arc_and_log_a_second() -> None:
    arc = {"span_ns": 20 * SECOND, "data_bytes": 7, "l2arc_written_bytes": 4000, "log_bytes": 5120}
    use = described(arc=arc)
    assert (use.l2arc_written_bytes_per_s, use.log_bytes_per_s) == (200, 512)
    assert use.arc is not None and use.arc.data_bytes == 7 and use.arc.metadata_bytes is None
    none = described(arc={"span_ns": 0, "l2arc_written_bytes": 4000})
    assert (none.l2arc_written_bytes_per_s, none.log_bytes_per_s) == (None, None)


def test_what_was_not_sampled_is_said() -> None:
    why = "3 samples arrived, and not the last"
    missing = {"id": "USE-SAMPLES", "of": "lab", "name": "resource use of lab", "source": "x", "why": why}
    use = described(unavailable=[missing, {**missing, "id": "THERMAL"}])
    assert use.missing == ("lab: 3 samples arrived, and not the last",)
    assert use.cpu == use.devices == () and not use.is_cpu_bound


@pytest.mark.parametrize("name", ["appliance", "import", "traced", "untraced"])
def test_a_run_without_samples_has_none(name: str) -> None:
    manifest = Manifest.from_json(json.loads((MANIFESTS / f"{name}.json").read_text()), "x")
    assert resource_use.describe(manifest) == []


@pytest.mark.parametrize("samples", [[], [cpu(10, 0)], [cpu(20, 5), cpu(10, 0)], [cpu(10, 0), cpu(10, 99)]])
def test_samples_that_cannot_be_make_no_share_beyond_1(samples: list[dict[str, int]]) -> None:
    (machine,) = described(cpu=[{"host": "s", "cpus": 1, "samples": samples}]).cpu
    assert 0 <= machine.busy <= 1
