"""kit.devices.check: all refusals in one message, and no write after a change."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.errors import SafetyRefusal
from kit.devices.check import check, judge, recheck, refuse_any
from kit.devices.reasons import WIPEABLE
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import DISKS, parse, recorded, spec_of

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_fact_never_frees_a_disk_in_use(data: st.DataObject) -> None:
    """One value anywhere in the answer of the host becomes another one: nothing but KitErrors, and a disk
    that is in use does not become free unless it is told to be another one."""
    facts = recorded()
    at: Any = facts
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], (dict, list)) or not at[key] or data.draw(st.integers(0, 9)) == 0:
            break
        at = at[key]
    at[key] = data.draw(json_values)
    try:
        checked = check(ScriptedHost(default=facts), [spec_of(disk) for disk in DISKS])
    except SafetyRefusal:
        return
    for device in checked:
        # vd0... each have two witnesses at least; sd1, sd2 and ns2 have one.
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
    before = recorded("pools")
    checked = check(ScriptedHost(default=before), [spec_of("sd2")])
    assert checked[0].reasons == ()
    recheck(ScriptedHost(default=before), checked)
    other = json.loads(json.dumps(before).replace("HSPSD2", "HSPXXX"))
    other["links"][spec_of("sd2").path] = "/dev/sdc"
    elsewhere = copy.deepcopy(before)
    elsewhere["links"][spec_of("sd2").path] = "/dev/sdb"
    again = copy.deepcopy(before)
    again["devices"]["sdc"]["diskseq"] = "999"
    mounted = copy.deepcopy(before)
    mounted["mounts"].append(["1", before["own"], "50 1 8:32 / /srv rw - ext4 /dev/sdc rw"])
    gone = copy.deepcopy(before)
    del gone["devices"]["sdc"], gone["links"][spec_of("sd2").path]
    for now, why in (
        (other, "serial was 'HSPSD2' and is 'HSPXXX'"), (elsewhere, "serial was 'HSPSD2' and is 'HSPSD1'"),
        (again, "sequence was"), (mounted, "it is mounted at /srv"), (gone, "it was there and is not"),
    ):  # fmt: skip
        with pytest.raises(SafetyRefusal, match=f"the plan is void, because .*{why}"):
            recheck(ScriptedHost(default=now), checked)
