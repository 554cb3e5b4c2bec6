"""Each sum that an instrument makes here has an id."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.checks.ids import SUM_IDS
from kit.store.phase import Check, Missing


@pytest.fixture(autouse=True)
def _sums_have_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Check, Missing):
        made = kind.__init__

        def init(self: Any, _made: Any = made, **values: Any) -> None:
            assert values["id"] in SUM_IDS, f"{values['name']}: add its id to kit/store/checks/ids.py"
            _made(self, **values)

        monkeypatch.setattr(kind, "__init__", init)
