"""Text from outside, as it may be shown on a terminal."""

from __future__ import annotations

import re

# C0, DEL, C1, what turns the direction of writing, what some programs take for an end of line, and halves of
# surrogate pairs, which no encoding can write.
_CONTROLS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def safe_text(text: str) -> str:
    """`text` with a question mark for each character that a terminal would obey or could not show."""
    return _CONTROLS.sub("?", text)
