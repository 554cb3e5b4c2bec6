"""Words and round numbers on figures."""

from __future__ import annotations

import re

import numpy as np

_UNSAFE = re.compile(r"[^\w .,:;()+=%@/µ·\u00b1\u00d7\u2192\-]", re.ASCII)


def plotly_text(text: object, limit: int = 120) -> str:
    """`text` without anything that Plotly could take for markup."""
    cleaned = _UNSAFE.sub("", str(text))
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 3] + "..."


def round_up(value: float) -> float:
    """The next number of 1 1.2 1.5 2 2.5 3 4 5 6 8 10 and their powers of ten."""
    power = 10.0 ** np.floor(np.log10(max(value, 1e-9)))
    return float(
        next(step * power for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12) if step * power >= value)
    )
