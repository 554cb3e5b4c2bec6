"""Every colour of pages and figures. Templates and scripts get them from here as data.

Figures are made for a light page; the page's script gives them the colours of the theme that is chosen.
"""

from __future__ import annotations

from kit.store.stored import Json

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

# What figures are made of. `classic` and `safe` (for colour-blind readers): from few I/Os to many;
# `difference`: less, as much, more (ColorBrewer PuOr), readable with every kind of colour blindness.
LIGHT: Json = {
    "ink": PAGE_LIGHT["ink"], "grid": "#e3e6ea", "rule": PAGE_LIGHT["soft"], "paper": "#ffffff",
    "gap": "#cfd4da", "mark": "#7a4800", "bars": PAGE_LIGHT["link"], "published": "#d98a1f",
    "classic": ["#0d1033", "#1b2a9c", "#1f6fe0", "#19b5d8", "#2fbf5b", "#d9d326", "#f28a1c", "#d8201f"],
    "safe": ["#f9a11a", "#e55c30", "#ba3655", "#85216b", "#4b0c6b", "#160b39"],
    "difference": ["#2d004b", "#8073ac", "#d8daeb", "#f7f7f7", "#fee0b6", "#e08214", "#7f3b08"],
}  # fmt: skip
# On a dark page few is dark and none darker.
DARK: Json = {
    "ink": PAGE_DARK["ink"], "grid": "#2b3138", "rule": "#8b949e", "paper": PAGE_DARK["box"],
    "gap": "#3d454e", "mark": "#f0b060", "bars": "#5b9be0", "published": LIGHT["published"],
    "classic": ["#5a63e8", "#2f86f0", "#19b5d8", "#2fbf5b", "#d9d326", "#f28a1c", "#ff4a3d"],
    "safe": ["#85216b", "#ba3655", "#e55c30", "#f9a11a", "#f6d746", "#fcffa4"],
    "difference": ["#b9a7ff", "#8073ac", "#463a63", "#23272e", "#6b431a", "#e08214", "#ffc37a"],
}  # fmt: skip
# One hue per tier: what a few I/Os look like on white, and what many do. The safe ones are Okabe and Ito's.
HUES: Json = {
    "classic": {
        "dram": ["#9ad3ac", "#0b5a28"], "l2arc": ["#9cc4ee", "#0d3f7d"], "disk": ["#f2aaa2", "#8f1a13"],
        "slog": ["#cdb2ec", "#532388"], "pool": ["#f4be8f", "#8a3a02"], "shared": ["#c3c8ce", "#3a424b"],
        "indirect": ["#8fd6dc", "#07555f"], "direct": ["#ddd08a", "#5d4b00"],
    },
    "safe": {
        "dram": ["#7fceb9", "#009e73"], "l2arc": ["#7fb8d8", "#0072b2"], "disk": ["#eaae7f", "#d55e00"],
        "slog": ["#e5bcd3", "#b8568c"], "pool": ["#f2cf7f", "#c98a00"], "shared": ["#c3c8ce", "#5b6470"],
        "indirect": ["#aad9f4", "#3a9fd8"], "direct": ["#e8e08a", "#a89c00"],
    },
    "other": ["#c3c8ce", "#3a424b"],
}  # fmt: skip
# The percentiles of an ageing curve.
PERCENTILES = {"p50": "#2b9c55", "p99": "#d98a1f", "p99.9": "#c2352b"}
# A fault has a colour that no other event has.
FAULT = "#d8201f"
EVENTS = ["#8a6fd1", "#c0662a", "#2f9e8f", "#c2457f", "#7d8b1f", "#5b7fb0"]

# What the scripts of a page get.
FOR_SCRIPTS: Json = {"light": LIGHT, "dark": DARK, "hues": HUES, "fault": FAULT, "events": EVENTS}
