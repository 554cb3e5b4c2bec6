import pytest

from kit.store.labels import BELOW, NAMES, tier_name, tier_names
from reports.figures.palette import HUES
from reports.figures.text import plotly_text


@pytest.mark.parametrize(
    ("tier", "name"),
    [
        ("dram", "DRAM (ARC)"), ("l2arc", "SSD cache (L2ARC)"), ("slog", "log SSD (SLOG)"),
        ("disk", "disk"), ("pool", "disk"), ("nvme-special", "nvme-special"), ("", ""),
    ],
)  # fmt: skip
def test_names_are_those_of_the_article(tier, name):
    assert tier_name(tier) == name


def test_a_tier_with_a_hue_has_a_name():
    assert set(HUES["light"]["classic"]) <= set(NAMES)
    # Two tiers of one op never share a name: "disk" is that of reads and that of writes.
    reads = [tier for tier in NAMES if tier not in ("pool", "slog")]
    assert len({NAMES[tier] for tier in reads}) == len(reads)
    assert {*BELOW, *(tier for _, tier in BELOW.values())} <= set(NAMES)


def test_figures_and_legends_show_every_letter_of_a_name():
    assert [plotly_text(name) for name in NAMES.values()] == list(NAMES.values())


def test_reads_of_the_disk_and_the_zil_on_it_are_told_apart() -> None:
    assert tier_names(["disk", "pool"]) == {"disk": "disk", "pool": "disk (ZIL)"}
    assert tier_names(["pool", "slog"]) == {"pool": tier_name("pool"), "slog": tier_name("slog")}
