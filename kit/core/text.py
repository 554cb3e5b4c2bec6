"""What may be shown on a terminal."""

from __future__ import annotations

import re


def safe_text(text: str) -> str:
    """Text from outside, fit for a terminal: no control characters."""
    return re.sub(r"[^\x20-\x7e\u00a0-\uffff]", "?", text)
