"""`open` of a phase and `[capacity]`: what is refused, and what the job of such a phase says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.tables.capacity_table import OpenJob, OpenTable
from kit.config.workload import read_workload
from kit.core.errors import ConfigError

HEAD = 'format = 1\nname = "w"\ntitle = "W"\nprecondition = "none"\n'
PHASE = '[[phase]]\nname = "p"\ntitle = "P"\ntarget = "device:log"\nduration = "10s"\ninterval = "100ms"\n'
OPEN = 'open = { op = "read", block = "4KiB" }\n'
CAPACITY = '[capacity]\np99_max = "1ms"\n'


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "w.toml"
    path.write_text(HEAD + text)
    with pytest.raises(ConfigError) as error:
        read_workload(path)
    return error.value.message


def test_a_rate_is_given_or_looked_for(tmp_path: Path) -> None:
    assert "at which rate?" in refused(tmp_path, PHASE + OPEN)
    fixed = PHASE + 'open = { op = "write", rate = 100 }\n'
    assert "of which load?" in refused(tmp_path, CAPACITY + fixed)
    path = tmp_path / "w.toml"
    for text in (CAPACITY + PHASE + OPEN, fixed):
        path.write_text(HEAD + text)
        assert read_workload(path).phase[0].open


@pytest.mark.parametrize(
    ("ios", "expected_s"),
    # 28 looks of 10 s; at 100, 200 and 400 a second 5,000 I/Os take 40, 15 and 2.5 s more.
    [(1000, 280), (5000, 280 + 57.5), (10**7, 280 + sum(10**7 / (100 * 2**n) - 10 for n in range(14)))],
)
def test_looks_at_low_rates_last_until_they_have_their_ios(
    tmp_path: Path, ios: int, expected_s: float
) -> None:
    path = tmp_path / "w.toml"
    path.write_text(f"{HEAD}{CAPACITY}ios = {ios}\n{PHASE}{OPEN}")
    workload = read_workload(path)
    assert workload.expected_ns(workload.phase[0]) / 1e9 == pytest.approx(expected_s, abs=0.1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CAPACITY + PHASE + OPEN + 'job = "x.fio"\n', "job does not go with open"),
        (CAPACITY + PHASE + OPEN + "ios = 100\n", "ios does not go with open"),
        (CAPACITY + PHASE + OPEN + "resumable = true\n", "resumable does not go with open"),
        (CAPACITY + PHASE + OPEN + 'log = "every-io"\n', "a phase with open counts"),
        (CAPACITY + PHASE + OPEN + 'each = "together"\n', "a rate of one place"),
        (CAPACITY + PHASE + 'open = { block = "700B" }\n', "a multiple of 512"),
        (CAPACITY + "rate_min = 10\nrate_max = 5\n" + PHASE + OPEN, "above rate_max"),
        (CAPACITY + PHASE.replace("100ms", "1s") + OPEN, "20 intervals"),
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_the_job_is_that_of_a_fio_with_such_ios() -> None:
    place = (Path("w.toml"), 3)
    job = OpenJob.of(
        OpenTable.model_validate({"op": "write", "block": "512B", "threads": 4}), "set", 1, place
    )
    assert (job.op, job.is_sync_write, job.is_random, job.block_bytes, job.outstanding) == (
        "write", True, False, 512, 4,
    )  # fmt: skip
    assert OpenJob.of(OpenTable(), "", 1, place).op == "read" and OpenTable().text == "4KiB random reads"
