"""Each sum that an instrument makes here has an id, and its name says the same: runs of before have it."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.checks.ids import SUM_IDS
from kit.store.checks.old_names import subject_of
from kit.store.phase import Check, Missing


@pytest.fixture(autouse=True)
def _sums_have_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Check, Missing):
        made = kind.__init__

        def init(self: Any, _made: Any = made, **values: Any) -> None:
            assert values["id"] in SUM_IDS, f"{values['name']}: add its id to kit/store/checks/ids.py"
            assert subject_of(values["name"]).items() <= values.items(), values["name"]
            _made(self, **values)

        monkeypatch.setattr(kind, "__init__", init)
