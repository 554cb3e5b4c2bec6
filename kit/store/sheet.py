"""The buyer's sheet: what is needed, and what each candidate is (docs/sheet.md). Latencies in us."""

from __future__ import annotations

from typing import Literal

from kit.store.format import FORMAT, Format
from kit.store.stored import Count, Many, Printed, Stored
from kit.store.summary import Range

Decision = Literal["buy", "too-slow", "not-met", "worse", "no-change", "cannot-tell", "today"]


class Need(Stored):
    """need.toml. None: not asked for. `today`: the candidate that is in the server now, if one is.

    `same_within`: clients see no change where a latency changes by less than this part. `drives`: of a
    stripe.
    """

    title: str = ""
    today: str | None = None
    sync_write_p99_us: float | None = None
    read_p99_us: float | None = None
    reads_answered_min: float | None = None
    disk_reads_answered_min: float | None = None
    written_per_day_bytes: Count | None = None
    years: float | None = None
    survives_power_loss: bool = False
    power_losses_min: Count = 60
    budget: str | None = None
    log_size_bytes: Count | None = None
    cache_size_bytes: Count | None = None
    same_within: float = 0.05
    drives: Count = 4


class SheetLine(Stored):
    """A line of the table. `need`: what is asked for, "" where nothing is."""

    key: str
    group: str
    label: str
    need: str = ""


class SheetValue(Stored):
    """A candidate's value on a line. `met`: None where nothing is asked for, or it is not known.

    `range`: what holds it: of three runs or more with 95 % confidence; of fewer within them alone, as far
    as the number of their I/Os says. Of hsp size: of 95 %. `note`: where it is from.
    """

    text: str
    value: float | None = None
    range: Range | None = None
    met: bool | None = None
    note: str = ""


class Candidate(Stored):
    """A column. `factor`: how many times too slow. `values`: by the key of the line."""

    name: str
    decision: Decision
    sentence: str
    reasons: Many[str] = ()
    factor: float | None = None
    runs: Many[str] = ()
    emulated: bool = False
    values: dict[str, SheetValue]


class Sheet(Printed):
    """The page. `baseline`: what "a change for clients" is against. `choice`: name of the one to buy."""

    format: Format = FORMAT
    kit: str
    need: Need
    advice: str
    choice: str | None
    baseline: str
    lines: Many[SheetLine]
    candidates: Many[Candidate]
    notes: Many[str] = ()
