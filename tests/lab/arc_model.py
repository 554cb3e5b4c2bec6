"""The plan's model of the ARC's memory and of the tiers, held against what a run had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kit.sizes.tier_sizes import Sizes, content, tiers
from kit.sizes.workload_sizes import READ_TIERS

# The tiers of a pool without special vdevs.
WITHOUT_SPECIAL = ("dram", "l2arc", "disk")


def check_shares(seen: Mapping[str, float], sizes: Sizes) -> None:
    """The model against the share of random reads that each tier answered."""
    held = tiers(sizes)
    for tier in READ_TIERS if sizes.special else WITHOUT_SPECIAL:
        # Large records at the head of the ARC's lists are not fed, and the L2ARC has others (decision 0025).
        apart = 0.15 if sizes.record > 64 << 10 and tier != "dram" else 0.1
        assert seen[tier] == pytest.approx(held.of(tier) / sizes.working_set, abs=apart), tier


def check_arc(seen: dict[str, int], sizes: Sizes) -> None:
    """The model against arcstats, for the size that ARC and L2ARC had at that moment.

    Within a tenth; the data, which are what the other parts leave, within 15 %: one run in seven at 512 B was
    10.4 % above the model (decision 0025).

    Headers of ARC and L2ARC together: what the ARC remembers as ghost counts among the first, otherwise among
    the second, and how many ghosts the L2ARC has differs from run to run.
    """
    then = replace(sizes, arc=seen["size"], l2arc=seen["l2_asize"])
    model = content(then)
    names_of_parts = (["data"], ["metadata"], ["hdr"], ["hdr", "l2_hdr"])
    if seen["dbuf_size"] < model.dbuf / 2:
        # The kernel dropped the file's inode just before. Its dbufs released their indirect blocks, and the
        # ARC has not filled that room yet: the other parts are those of the size before.
        released = model.metadata + model.dbuf - seen["metadata_size"] - seen["dbuf_size"]
        model = content(replace(then, arc=seen["size"] + released))
        names_of_parts = (["data"], ["hdr"], ["hdr", "l2_hdr"])
    least = 0.005 * seen["size"]
    for names in names_of_parts:
        expected = sum(getattr(model, name) for name in names)
        found = sum(seen[f"{name}_size"] for name in names)
        apart = 0.15 if names == ["data"] else 0.1
        assert expected == pytest.approx(found, rel=apart, abs=least), (names, seen, model)
