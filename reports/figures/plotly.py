"""What Plotly takes: dictionaries whose keys plotly.js defines. Nothing else of the reports is one."""

from __future__ import annotations

from typing import Any

# A trace, or a part of one.
Trace = dict[str, Any]
# A layout, or a part of one: an axis, a legend, a shape, an annotation.
Layout = dict[str, Any]
