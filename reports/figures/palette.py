"""Every colour of pages and figures. Templates and scripts get them from here as data.

Figures are made for a light page; the page's script gives them the colours of the theme that is chosen.
"""

from __future__ import annotations

from kit.store.stored import Json
from reports.figures.plotly import Layout

# What pages are made of, as CSS variables.
PAGE_LIGHT = {
    "ink": "#22262b", "soft": "#5b6470", "line": "#dde1e6", "back": "#f6f7f9", "box": "#fff",
    "head": "#eef1f4", "link": "#1d5fa8", "good": "#1a7a3c", "wrong": "#b3261e", "doubt": "#946200",
}  # fmt: skip
PAGE_DARK = {
    "ink": "#e4e8ec", "soft": "#a3acb6", "line": "#323a43", "back": "#0d1014", "box": "#14181d",
    "head": "#1e242b", "link": "#79b4f2", "good": "#5cc98a", "wrong": "#ff8f84", "doubt": "#e6b450",
}  # fmt: skip
PAGE_PAPER = {**PAGE_LIGHT, "back": "#fff"}

# The two ends of each tier's scale, from few I/Os to many, on a light page and on a dark one. The first is
# 3:1 against the page (WCAG 2.2, 1.4.11), so that a cell with one I/O is seen. "safe": Okabe and Ito's hues.
HUES: Json = {
    "light": {
        "classic": {
            "dram": ["#2da65a", "#09461f"], "l2arc": ["#4f95e6", "#0c3b76"], "disk": ["#eb6a60", "#771610"],
            "slog": ["#ab7ce4", "#502284"], "pool": ["#d47c35", "#652b01"], "shared": ["#8a939e", "#353d45"],
            "special": ["#d66a9b", "#6a1440"], "indirect": ["#2aa0ac", "#05434a"],
            "direct": ["#a9911c", "#493b00"], "all": ["#2aa0ac", "#05434a"],
        },
        "safe": {
            "dram": ["#14a57e", "#004533"], "l2arc": ["#189ae3", "#003f63"], "disk": ["#dc782a", "#642c00"],
            "slog": ["#ca78a6", "#642549"], "pool": ["#be8900", "#503800"], "shared": ["#8a939e", "#353d45"],
            "special": ["#7d8fd6", "#2a356e"], "indirect": ["#4a9ac8", "#11405b"],
            "direct": ["#9f941c", "#423d00"], "all": ["#4a9ac8", "#11405b"],
        },
        "other": ["#8a939e", "#353d45"],
    },
    "dark": {
        "classic": {
            "dram": ["#1f753f", "#bee6cc"], "l2arc": ["#3668a2", "#c9dff8"], "disk": ["#b04138", "#f9d4d0"],
            "slog": ["#7b52ad", "#e5d7f7"], "pool": ["#955725", "#f7d7bc"], "shared": ["#60676e", "#d9dde1"],
            "special": ["#a3527a", "#f4d3e2"], "indirect": ["#1e7179", "#b7e5e9"],
            "direct": ["#766614", "#e7ddaa"], "all": ["#1e7179", "#b7e5e9"],
        },
        "safe": {
            "dram": ["#007555", "#bbe5d9"], "l2arc": ["#006ba6", "#bbe2f7"], "disk": ["#a94a00", "#f4d7bf"],
            "slog": ["#8d5474", "#efd6e4"], "pool": ["#856000", "#f0dba3"], "shared": ["#60676e", "#d9dde1"],
            "special": ["#56639b", "#d5daf3"], "indirect": ["#336c8b", "#bde2f6"],
            "direct": ["#6f6813", "#e3dfa8"], "all": ["#336c8b", "#bde2f6"],
        },
        "other": ["#60676e", "#d9dde1"],
    },
}  # fmt: skip
# Less, as much, more (ColorBrewer PuOr): readable with every kind of colour blindness.
DIFFERENCE: Json = {
    "light": ["#2d004b", "#8073ac", "#d8daeb", "#f7f7f7", "#fee0b6", "#e08214", "#7f3b08"],
    "dark": ["#b9a7ff", "#8073ac", "#463a63", "#23272e", "#6b431a", "#e08214", "#ffc37a"],
}
# These are 3:1 against a light and a dark page.
PUBLISHED = "#b0701a"
PUBLISHED_FILL = "rgba(216, 138, 31, 0.14)"
GAP = "rgba(128, 136, 146, 0.30)"
# A fault has a colour that no other event has.
FAULT = "#d8201f"
EVENTS = ["#8a6fd1", "#c0662a", "#2f9e8f", "#c2457f", "#7d8b1f", "#5b7fb0"]
# Parts of a request (reports.features.split.section), and whether they are hatched: waits.
# Warm: a device; cold: software.
PARTS: dict[str, tuple[str, bool]] = {
    "nfs": ("#7d8b1f", False), "zfs": ("#5b7fb0", False), "zil": ("#2f9e8f", False),
    "log_wait": ("#c0662a", True), "log_write": ("#c0662a", False), "flush": ("#c2457f", False),
    "wake_up": ("#8a6fd1", True), "read": ("#c2544c", False), "verify": ("#8a6fd1", False),
    "unknown": ("#808890", True),
}  # fmt: skip


def _template(page: dict[str, str]) -> Layout:
    """What Plotly takes for all that a figure leaves open: text, axes, paper."""
    axis = {
        "gridcolor": page["line"], "linecolor": page["soft"], "tickcolor": page["soft"], "ticks": "outside",
        "showline": True, "zeroline": False,
    }  # fmt: skip
    return {
        "layout": {
            "font": {"family": "system-ui, sans-serif", "size": 12, "color": page["ink"]},
            "paper_bgcolor": page["box"], "plot_bgcolor": page["box"], "xaxis": axis,
            "yaxis": axis,
            "annotationdefaults": {"bgcolor": page["box"]},
            "hoverlabel": {"bgcolor": page["ink"], "font": {"color": page["box"]}},
            "newselection": {"line": {"color": page["link"]}},
        },
    }  # fmt: skip


# What the scripts of a page paint figures with, by the name of the theme.
FOR_SCRIPTS: Json = {
    name: {
        "template": _template(page), "ink": page["ink"], "paper": page["box"], "hues": HUES[name],
        "difference": DIFFERENCE[name],
    }
    for name, page in (("light", PAGE_LIGHT), ("dark", PAGE_DARK))
}  # fmt: skip


def scale(tier: str) -> list[list[float | str]]:
    """A tier's scale of colours as Plotly has it; greys for a tier without a hue."""
    few, many = HUES["light"]["classic"].get(tier, HUES["light"]["other"])
    return [[0, few], [1, many]]


def line(tier: str) -> str:
    """The colour of what is of a tier and no heat map, such as lines and bars."""
    return str(scale(tier)[1][1])
