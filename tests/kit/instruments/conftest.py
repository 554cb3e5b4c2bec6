"""Each sum that an instrument makes here has an id of its own."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.checks.ids import UNKNOWN_ID, id_of_sum
from kit.store.phase import Check, Missing


@pytest.fixture(autouse=True)
def _sums_have_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Check, Missing):
        made = kind.of

        def of(name: str, *rest: Any, _made: Any = made) -> Any:
            assert id_of_sum(name) != UNKNOWN_ID, f"{name}: add it to kit/store/checks/ids.py"
            return _made(name, *rest)

        monkeypatch.setattr(kind, "of", of)
