"""Sums that were stored before they had an id have it by their name, and are stored again as they were."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.errors import ConfigError
from kit.store.phase import Check, Missing

NUMBERS = {"source": "s", "expected": 1, "found": 1, "tolerance": 0, "ok": True}


@pytest.mark.parametrize(("name", "subject"), [
    ("NFS READ calls", ("NFS-CALLS", "read", "", None)),
    ("NFS WRITE calls of lab/client0", ("NFS-CALLS", "write", "lab/client0", None)),
    ("bytes of NFS WRITE calls", ("NFS-BYTES", "write", "", None)),
    ("bytes written to log0", ("DEVICE-BYTES", "write", "log0", None)),
    ("bytes read from the members of the raid0", ("ARRAY-BYTES", "read", "raid0", None)),
    ("bytes on a log without a COMMIT, of 4096 written asynchronously", ("ZIL-ASYNC-BYTES", None, "", 4096)),
    ("thermal throttling of nas, in ms", ("THERMAL", None, "nas", None)),
    ("thermal throttling of nas", ("THERMAL", None, "nas", None)),
    ("wall clock step of a, in us, in us", ("CLOCK-STEP", None, "a, in us", None)),
    ("something new", ("UNCLASSIFIED", None, "", None)),
])  # fmt: skip
def test_an_id_by_its_name(name: str, subject: tuple[Any, ...]) -> None:
    for kind, value in (
        (Check, {"name": name, **NUMBERS}),
        (Missing, {"name": name, "source": "s", "why": "w"}),
    ):
        read = kind.from_json(value, "x")
        assert (read.id, read.op, read.of, read.out_of) == subject
        assert read.as_json() == value


def test_an_id_that_is_stored_stays() -> None:
    value = {"id": "OF-A-NEWER-VERSION", "name": "NFS READ calls", **NUMBERS}
    read = Check.from_json(value, "x")
    assert read.id == "OF-A-NEWER-VERSION" and read.as_json() == value
    with pytest.raises(ConfigError, match="id"):
        Check.from_json({**value, "id": "EXPECT:a:b"}, "x")
