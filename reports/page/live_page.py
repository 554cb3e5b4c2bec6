"""The page of a run that goes on, and what it is sent while it does (kit.session.live)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from reports.figures import encoding, phase_maps
from reports.figures.phase_maps import DrawnPhase
from reports.page import document
from reports.page.document import Figures


def page(workload: str, run: str) -> str:
    """The page before its first figure. It asks for `events` beside itself."""
    return document.render("live.html.j2", Figures(), entry="live.js", title=workload, run=run)


def message(
    subject: DrawnPhase, progress: str, rows: Sequence[Sequence[str]], problems: Sequence[str]
) -> str:
    """What live.js shows, deflated as text of one line.

    `subject`: the phase so far; `rows` of the table, in texts. Raises ValueError for counts that cannot be
    drawn.
    """
    _, figure = next(iter(phase_maps.drawings(subject, ())))
    # Nothing on this page is selected.
    spec = {**figure.spec, "layout": {**figure.spec["layout"], "dragmode": "zoom"}}
    spec["about"] = {**spec["about"], "panel": False}
    shown = {**spec, "cells": figure.cells, "caption": figure.caption}
    made = {"title": subject.name, "progress": progress, "rows": rows, "problems": problems, "figure": shown}
    return encoding.packed(json.dumps(made).encode(), 5)
