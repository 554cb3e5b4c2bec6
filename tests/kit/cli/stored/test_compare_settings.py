"""`hsp compare`: which settings of two runs may differ, and how a difference is reported."""

import json
import re

import pytest

from tests.kit.cli.stored.test_compare import version

pytestmark = pytest.mark.slow


def test_unlike_versions_are_refused_with_both_values(hsp, make_run):
    a, b = make_run("a"), make_run("b", 2, version("2.4.0"))
    code, out, err = hsp("compare", a, "--", b)
    assert code == 2 and out == ""
    assert 'versions.zfs: A has "2.3.9", B has "2.4.0"' in err and "--across versions.zfs" in err
    code, out, _ = hsp("compare", a, "--", b, "--across", "versions.zfs", "--json")
    assert code == 0 and json.loads(out)["across"] == {"versions.zfs": ["2.3.9", "2.4.0"]}


def test_every_key_that_differs_is_listed(hsp, make_run):
    def change(manifest):
        manifest["versions"]["zfs"] = "2.4.0"
        manifest["clock"]["dilation"] = 8
        manifest["testbed"]["devices"][0]["latency_ns"] = 7
        manifest["tunables"][0]["set"] = "1"
        manifest["phases"][0]["job"] = "other.fio"
        manifest["workload"] = "mine"
        manifest["dataset"]["properties"]["recordsize"] = "4096"

    a, b = make_run("a"), make_run("b", 2, change)
    code, _, err = hsp("compare", a, "--", b, "--across", "versions.zfs")
    assert code == 2 and "versions.zfs: A" not in err
    for line in (
        "clock.dilation: A has 4, B has 8",
        "testbed.devices.data0.latency_ns: A has 5000000, B has 7",
        'tunables.zfs_arc_max: A has "67108864", B has "1"',
        'phases.read.job: A has "read.fio", B has "other.fio"',
        'workload: A has "top-speeds", B has "mine"',
        'dataset.properties.recordsize: A has "512", B has "4096"',
    ):
        assert line in err
    flags = re.search(r"what you compare: (.*)", err)[1].split()
    assert hsp("compare", a, "--", b, "--across", "versions.zfs", *flags)[0] == 0


def exported(run, options):
    """As a run has it: path, and the number that follows from it, are of that run alone."""

    def change(manifest):
        line = f"/hsp-{run}/data 10.0.0.2(sync,wdelay,fsid={hash(run)},{options})"
        manifest["export"] = {"lines": [line]}

    return change


def test_an_export_is_told_by_its_options_not_by_whose_it_is(hsp, make_run):
    a = make_run("a", change=exported("a", "rw,root_squash"))
    b = make_run("b", 2, exported("b", "rw,root_squash"))
    other = make_run("c", 3, exported("c", "rw,no_root_squash"))
    assert hsp("compare", a, "--", b)[0] == 0
    code, _, err = hsp("compare", a, "--", other)
    assert code == 2 and "export.options: A has" in err and "fsid" not in err


def identified(serial, place):
    def change(manifest):
        manifest["testbed"]["devices"][0] |= {
            "path": f"/dev/disk/by-id/{place}",
            "identity": {"kernel_name": place, "device_number": place, "sequence": place, "serial": serial},
        }

    return change


def test_a_device_is_told_by_what_it_is_not_by_where_it_was_found(hsp, make_run):
    a, b = make_run("a", change=identified("S1", "sda")), make_run("b", 2, identified("S1", "sdb"))
    assert hsp("compare", a, "--", b)[0] == 0
    code, _, err = hsp("compare", a, "--", make_run("c", 3, identified("S2", "sda")))
    assert code == 2 and 'identity.serial: A has "S1", B has "S2"' in err and "sequence" not in err


def read_back(scheduler):
    def change(manifest):
        if scheduler:
            manifest["testbed"]["devices"][0]["settings"] = {"scheduler": scheduler, "fua": None}

    return change


def test_the_queue_of_a_device_is_a_setting_where_both_runs_have_it(hsp, make_run):
    none, kyber, before = (
        make_run(f"run-{each}", change=read_back(each)) for each in ("none", "kyber", None)
    )
    assert hsp("compare", none, "--", before)[0] == 0
    code, _, err = hsp("compare", none, "--", kyber)
    assert code == 2 and "settings.scheduler" in err


def tuned(**values):
    """`values`: of the clients."""

    def change(manifest):
        path = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
        words = {"name": "governor", "path": path, "before": "powersave"}
        manifest["host_settings"] = [{**words, "set": "performance"}]
        manifest["host_settings"] += [{**words, "set": value, "on": "clients"} for value in values.values()]

    return change


def test_what_the_preset_set_is_a_setting_of_each_kind_of_machine(hsp, make_run):
    a, plain = make_run("a", change=tuned(governor="performance")), make_run("b", 2)
    assert hsp("compare", a, "--", make_run("c", 3, tuned(governor="performance")))[0] == 0
    code, _, err = hsp("compare", a, "--", plain)
    path = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
    assert code == 2 and f'  host.{path}: A has "performance", B has nothing' in err
    code, _, err = hsp("compare", a, "--", make_run("d", 4, tuned()))
    assert code == 2 and f'  host.{path} of clients: A has "performance", B has nothing' in err
    assert f"host.{path}:" not in err
    assert hsp("compare", a, "--", plain, "--across", "host")[0] == 0


def found(threads=8, zfs=None, memory=0, tunables=None, irq="0-3", unknown=False, **checks):
    """What a run found on its server before it set anything."""

    def change(manifest):
        checks.setdefault("load", f"{threads}.00 on 1 CPUs")
        words = {"host": "lab", "state": "note", "meaning": "", "remedy": "", "unknown": unknown}
        manifest["findings"] = [{**words, "check": name, "found": text} for name, text in checks.items()]
        manifest["nfsd_threads"] = threads
        manifest["modules"] = {"zfs": zfs or {}, "spl": {"spl_hostid": str(id(manifest))}}
        controller = {"address": "0000:01:00.0", "link": "8.0 GT/s PCIe x4", "irq_cpus": irq}
        manifest["testbed"]["devices"][0]["settings"] = {"controller": controller}
        manifest["tunables"] += [{"name": name, "set": value} for name, value in (tunables or {}).items()]
        if memory:
            sample = dict.fromkeys(("at_ns", "idle_ns", "user_ns", "system_ns", "softirq_ns"), 0)
            use = {"host": "lab", "cpus": 1, "memory_bytes": memory, "samples": [sample]}
            manifest["phases"][0]["cpu"] = [use]

    return change


GIB = 1 << 30


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        ({"governor": "performance"}, {"governor": "powersave"}, "machines.server.governor"),
        ({"zfs": {"zfs_compressed_arc_enabled": "0"}}, {"zfs": {"zfs_compressed_arc_enabled": "1"}},
         "machines.server.zfs.zfs_compressed_arc_enabled"),
        ({"threads": 8}, {"threads": 64}, "machines.server.nfsd_threads"),
        # Of the one only, as where a kernel has no such file; not known; by nature; of another CPU.
        ({"smt": "on"}, {}, ""),
        ({"smt": "on"}, {"smt": "could not be determined: x", "unknown": True}, ""),
        ({"load": "0.00 on 1 CPUs"}, {"load": "0.40 on 1 CPUs"}, ""),
        ({"irq": "0-3"}, {"irq": "5"}, ""),
        # The run's own are compared as such.
        ({"zfs": {"zfs_txg_timeout": "5"}, "tunables": {"zfs_txg_timeout": "9"}},
         {"zfs": {"zfs_txg_timeout": "7"}, "tunables": {"zfs_txg_timeout": "9"}}, ""),
        # A tenth of the memory, of which the kernel keeps a little more; and what somebody has set.
        ({"zfs": {"zfs_dirty_data_max": "419430400"}, "memory": 4194304000},
         {"zfs": {"zfs_dirty_data_max": "419100000"}, "memory": 4191000000}, ""),
        ({"zfs": {"zfs_dirty_data_max": "419430400"}, "memory": 4194304000},
         {"zfs": {"zfs_dirty_data_max": str(2 * GIB)}, "memory": 4194304000},
         "machines.server.zfs.zfs_dirty_data_max"),
        # The cap of OpenZFS, on machines of unlike memory.
        ({"zfs": {"zfs_dirty_data_max": str(4 * GIB)}, "memory": 64 * GIB},
         {"zfs": {"zfs_dirty_data_max": str(4 * GIB)}, "memory": 128 * GIB}, ""),
    ],
)  # fmt: skip
def test_what_the_machines_were_set_to_is_named(hsp, make_run, one, other, named):
    a, b, before = make_run("a", change=found(**one)), make_run("b", 2, found(**other)), make_run("c", 3)
    code, _, err = hsp("compare", a, "--", b)
    assert (
        code == (2 if named else 0)
        and f"  {named}" * bool(named) in err
        and err.count("A has") == bool(named)
    )
    if named:
        assert hsp("compare", a, "--", b, "--across", "machines.server")[0] == 0
    # A run of before has stored none of it.
    assert "machines" not in hsp("compare", before, "--", b, "--across", "tunables")[2]


def test_across_is_a_key_or_what_it_begins_with_up_to_a_dot(hsp, make_run):
    a, b = make_run("a"), make_run("b", 2, version("2.4.0"))
    for wrong in ("versions.zf", "zfs", "version", "versions.hsp"):
        assert hsp("compare", a, "--", b, "--across", wrong)[0] == 2
    for right in ("versions", "versions.", "versions.zfs"):
        assert hsp("compare", a, "--", b, "--across", right)[0] == 0
    _, _, err = hsp("compare", a, "--", b, "--across", "versions.zf")
    assert "the runs have no such key" in err and "did you mean: versions.zfs" in err


def preset(title, **ssd):
    """The device as an emulated SSD of that preset."""
    parameters = {
        "format": 1,
        "model": "ssd",
        "title": title,
        "source": [f"the manual of {title}"],
        "ssd": ssd,
    }

    def change(manifest):
        manifest["testbed"]["devices"][0] |= {"model": title, "latency_ns": None, "parameters": parameters}

    return change


def test_one_changed_preset_needs_one_flag_and_the_refusal_names_it(hsp, make_run):
    a = make_run("a", change=preset("old", read=50_000, program=200_000, dies=2, pages=32))
    b = make_run("b", 2, preset("new", read=20_000, program=100_000, dies=8, pages=32))
    code, _, err = hsp("compare", a, "--", b)
    assert code == 2 and "parameters.ssd.read: A has 50000, B has 20000" in err and "pages" not in err
    assert re.search(r"what you compare: (.*)", err)[1] == "--across testbed.devices.data0"
    code, out, _ = hsp("compare", a, "--", b, "--across", "testbed.devices.data0", "--json")
    keys = json.loads(out)["across"]
    assert code == 0
    assert [key.rpartition(".")[2] for key in keys] == ["dies", "program", "read"]
    _, out, _ = hsp("compare", a, "--", b, "--across", "testbed.devices.data0")
    words = " ".join(out.split())
    assert "They differ in testbed.devices.data0: parameters.ssd.dies: A has 2, B has 8; parameters" in words


def test_titles_citations_and_comments_are_no_difference(hsp, make_run):
    def renamed(manifest):
        preset("the same device, described again", read=1)(manifest)
        manifest["title"] = "Another title"
        manifest["phases"][0]["title"] = "Reads"

    jobs = {"read.fio": "; reads\n[read]\nbs=512\n\n# done\n"}
    a = make_run("a", change=preset("a device", read=1), plan={"format": 1, "jobs": jobs})
    jobs = {"read.fio": "[read]\nbs=512\n"}
    b = make_run("b", 2, renamed, {"format": 1, "jobs": jobs})
    code, out, err = hsp("compare", a, "--", b, "--json")
    assert code == 0, err
    assert json.loads(out)["across"] == {}


def test_layouts_are_compared_and_runs_of_before_there_were_groups_have_one(hsp, make_run):
    old, one = {"data": "mirror"}, {"data": "mirror", "cache_size": None}
    other = {**one, "groups": 2, "log": "mirror"}
    runs = [make_run(name, n, plan={"workload": {"pool": pool}}) for n, (name, pool) in
            enumerate((("a", old), ("b", one), ("c", other)), 1)]  # fmt: skip
    assert hsp("compare", runs[0], "--", runs[1])[0] == 0
    code, _, err = hsp("compare", runs[0], "--", runs[2])
    assert code == 2 and "pool.groups: A has nothing, B has 2" in err
    assert 'pool.log: A has nothing, B has "mirror"' in err
    assert hsp("compare", runs[0], "--", runs[2], "--across", "pool")[0] == 0
