"""The versions of the stored formats: `format` in manifest.json and summary.json.

Both begin at 1 with version 0.1.0. A new key that old readers may ignore leaves the number. A key that
changes its meaning raises it, and is listed here.
"""

from __future__ import annotations

SUMMARY_FORMAT = 1
MANIFEST_FORMAT = 1
# series.json: the build that measures the base once more, after all others.
AGAIN = "base-again"
