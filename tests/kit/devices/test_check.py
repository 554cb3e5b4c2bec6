"""kit.devices.check: all refusals in one message, and no write after a change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.errors import SafetyRefusal
from kit.devices.check import check, judge, recheck, refuse_any
from kit.devices.refusal_reasons import WIPEABLE
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import DISKS, parse, recorded, spec_of
from tests.kit.store.mutations import VALUES


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_changed_fact_never_frees_a_disk_in_use(data: st.DataObject) -> None:
    """A value anywhere in the output is replaced: only KitErrors are raised, and a disk in use stays in use,
    unless its identity changed."""
    facts = recorded()
    at: Any = facts
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], (dict, list)) or not at[key] or data.draw(st.integers(0, 9)) == 0:
            break
        at = at[key]
    at[key] = data.draw(VALUES)
    try:
        checked = check(ScriptedHost(default=facts), [spec_of(disk) for disk in DISKS])
    except SafetyRefusal:
        return
    for device in checked:
        # Two facts at least show the use of these; of sd1, sd2 and ns2 one.
        if device.spec in [spec_of(disk) for disk in ("vd1", "vd2", "vd3", "vd4", "ns1")]:
            assert device.reasons


def test_all_refusals_are_in_one_message() -> None:
    checked = judge(parse("server", recorded()), [spec_of("vd2"), spec_of("sd2"), spec_of("sd1")])
    with pytest.raises(SafetyRefusal) as caught:
        refuse_any("server", checked)
    assert caught.value.exit_code == 4
    assert [line.split(" ")[0] for line in caught.value.message.splitlines()] == [
        spec_of(disk).path for disk in ("vd2", "sd2", "sd1")
    ]
    refuse_any("server", checked[2:], WIPEABLE)


def test_the_plan_is_void_if_anything_changed() -> None:
    checked = check(ScriptedHost(default=recorded("pools")), [spec_of("sd2")])
    assert checked[0].reasons == ()
    recheck(ScriptedHost(default=recorded("pools")), checked)
    elsewhere, again, mounted, gone = (recorded("pools") for _ in range(4))
    other = json.loads(json.dumps(elsewhere).replace("HSPSD2", "HSPXXX"))
    other["links"][spec_of("sd2").path] = "/dev/sdc"
    elsewhere["links"][spec_of("sd2").path] = "/dev/sdb"
    again["devices"]["sdc"]["diskseq"] = "999"
    mounted["mounts"].append(["1", mounted["own"], "50 1 8:32 / /srv rw - ext4 /dev/sdc rw"])
    del gone["devices"]["sdc"], gone["links"][spec_of("sd2").path]
    for now, why in (
        (other, "serial was 'HSPSD2' and is 'HSPXXX'"), (elsewhere, "serial was 'HSPSD2' and is 'HSPSD1'"),
        (again, "sequence was"), (mounted, "it is mounted at /srv"), (gone, "it was there and is not"),
    ):  # fmt: skip
        with pytest.raises(SafetyRefusal, match=f"the plan is void, because .*{why}"):
            recheck(ScriptedHost(default=now), checked)
