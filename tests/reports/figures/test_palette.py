import itertools

import pytest

from reports.figures import palette

PAPERS = {"light": palette.PAGE_LIGHT["box"], "dark": palette.PAGE_DARK["box"]}
HUES = [
    (theme, name, tier)
    for theme, name in itertools.product(("light", "dark"), ("classic", "safe"))
    for tier in palette.HUES[theme][name]
]


def luminance(colour):
    """WCAG 2.2, "relative luminance"."""
    text = colour.lstrip("#")
    text = "".join(c * 2 for c in text) if len(text) == 3 else text
    channels = [int(text[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(factor * c for factor, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_wcag():
    assert contrast("#fff", "#000") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize(("theme", "name", "tier"), HUES)
def test_a_cell_with_few_ios_is_seen(theme, name, tier):
    few, many = palette.HUES[theme][name][tier]
    assert contrast(few, PAPERS[theme]) >= 3
    # More I/Os stand out more.
    assert contrast(many, PAPERS[theme]) > 2 * contrast(few, PAPERS[theme])


@pytest.mark.parametrize("theme", PAPERS)
def test_other_colours_of_figures_are_seen(theme):
    paper = PAPERS[theme]
    assert contrast(palette.HUES[theme]["other"][0], paper) >= 3
    for colour in (palette.PUBLISHED, palette.FAULT, *palette.EVENTS):
        assert contrast(colour, paper) >= 3, colour
    page = palette.PAGE_LIGHT if theme == "light" else palette.PAGE_DARK
    for name in ("ink", "soft", "link", "good", "wrong", "doubt"):
        assert contrast(page[name], paper) >= 4.5, name
    # Paper has the colours of the light page.
    assert palette.PAGE_PAPER["ink"] == palette.PAGE_LIGHT["ink"]


@pytest.mark.parametrize("name", ["classic", "safe"])
@pytest.mark.parametrize("theme", PAPERS)
def test_tiers_beside_each_other_have_hues_of_their_own(theme, name):
    hues = {tier: colours for tier, colours in palette.HUES[theme][name].items() if tier != "all"}
    assert len({tuple(colours) for colours in hues.values()}) == len(hues)
    assert {"all", *hues} == set(palette.HUES["light"]["classic"])


def test_an_unknown_tier_is_grey():
    assert palette.scale("constructor") == palette.scale("nothing") == [[0, "#8a939e"], [1, "#353d45"]]
    assert palette.scale("disk")[0][1] == palette.HUES["light"]["classic"]["disk"][0]


def test_scripts_get_both_themes():
    assert set(palette.FOR_SCRIPTS) == {"light", "dark"}
    for theme in palette.FOR_SCRIPTS.values():
        assert set(theme) == {"template", "ink", "paper", "hues", "difference"}
