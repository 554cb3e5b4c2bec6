"""The version of the stored formats: `format` in each JSON file that the kit writes.

    1  first, with version 0.1.0.

A new key that readers of this version may ignore leaves the number. A key that changes its meaning raises it,
for all files at once.
"""

from __future__ import annotations

from typing import Final, Literal

FORMAT: Final = 1
Format = Literal[1]
# series.json: the build that measures the base once more, after all others.
AGAIN = "base-again"
