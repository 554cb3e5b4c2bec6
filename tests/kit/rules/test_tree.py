"""Phases with `metadata`: trees that have no room, servers that cannot count, and what a plan lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.sweep import read_sweep
from kit.config.tables.tree_table import MetadataJob
from kit.config.testbed import read_testbed
from kit.config.workload import workload_of
from kit.config.workload_base import read_source
from kit.core.errors import ConfigError
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import of

TESTBED = Path(__file__).parents[3] / "kit" / "lab" / "metadata-testbed.toml"


def plan(folder: Path, tree: str, testbed: Path = TESTBED) -> Plan:
    path = folder / "tree.toml"
    path.write_text(f'format = 1\nname = "tree"\ntitle = "t"\nbase = "metadata"\ntree = {{ {tree} }}\n')
    return make_plan(workload_of(read_source(path)), read_testbed(testbed), path, testbed)


@pytest.mark.parametrize(("tree", "fits"), [("files = 1000", True), ("files = 100000", False)])
def test_a_tree_fits_twice_into_the_data_devices(tmp_path: Path, tree: str, fits: bool) -> None:
    """On average a file has (16 - 1) / ln 16 = 5.4 KiB; the disks of a mirror have 384 MiB."""
    if fits:
        assert plan(tmp_path, tree).workload.tree
        return
    with pytest.raises(ConfigError, match=r"tree\.toml:5: tree\.files: files of .* do not fit twice"):
        plan(tmp_path, tree)


def test_a_tree_of_a_list_replaces_that_of_the_base_and_fits_too(tmp_path: Path) -> None:
    tmp_path.joinpath("files.txt").write_text("1000 a/b\n3 a/c\n")
    made = plan(tmp_path, 'list = "files.txt"')
    jobs = [job for job in made.jobs.values() if isinstance(job, MetadataJob)]
    assert {(job.files, job.extent.directories, job.extent.total_bytes) for job in jobs} == {(2, 2, 1003)}
    # What is measured is another thing with another list.
    tmp_path.joinpath("files.txt").write_text("1000 a/b\n4 a/c\n")
    assert plan(tmp_path, 'list = "files.txt"').digest != made.digest
    tmp_path.joinpath("files.txt").write_text(
        "60000000 a\n" * 1 + "".join(f"60000000 b{n}\n" for n in range(9))
    )
    with pytest.raises(ConfigError, match=r"tree\.toml:5: tree\.list: files of .* do not fit twice"):
        plan(tmp_path, 'list = "files.txt"')
    with pytest.raises(ConfigError, match=r"tree\.toml:5: tree\.list: .*is a path"):
        plan(tmp_path, 'list = "../files.txt"')
    with pytest.raises(ConfigError, match=r"other\.txt: No such file"):
        plan(tmp_path, 'list = "other.txt"')


def test_a_server_that_is_not_traced_is_refused(tmp_path: Path) -> None:
    testbed = tmp_path / "untraced.toml"
    testbed.write_text(TESTBED.read_text().replace('host = "lab"', 'host = "lab"\ntrace = "none"', 1))
    with pytest.raises(ConfigError, match=r'metadata: the tracer counts all operations.*trace = "none"'):
        plan(tmp_path, "files = 10", testbed)


def test_a_plan_lists_the_directory_the_program_and_what_empties_the_caches(tmp_path: Path) -> None:
    made = plan(tmp_path, 'files = 10, depth = 0, size = "1KiB", size_max = "1KiB"')
    argv = [
        " ".join(map(str, command.argv))
        for step in of(made, planned_names(made))
        for command in step.commands
    ]
    assert any("mkdir --mode=1777" in each and each.endswith("/metadata") for each in argv)
    calls = [each for each in argv if "metadata_load.py" in each]
    assert len(calls) == len(made.workload.phase)
    assert [each.split("metadata_load.py ")[1].split()[0] for each in calls] == [
        phase.metadata for phase in made.workload.phase
    ]
    # Phases after the rename know the names.
    assert calls[2].split()[-3] == "-" and calls[4].split()[-3] == "r"
    exported = next(n for n, each in enumerate(argv) if each.startswith("zpool export"))
    assert any("begin-zil" in each for each in argv[exported : argv.index(calls[3])])


READS = 'phase = "stat"\nop = "read"\ntier = "dram"\n'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (f"[[expect]]\n{READS}", r"expect\[0\]\.phase: .* expectations are of reads and writes"),
        (
            '[[expect]]\nphase = "create"\nop = "write"\ntier = "all"\nlayer = "client"\n',
            r"expect\[0\]\.phase: .* expectations are of reads and writes",
        ),
        (
            '[[event]]\nphase = "create"\nat = "10s"\nwhat = "scrub"\n',
            r"event\[0\]\.phase: .* ends when its tree is done",
        ),
    ],
)
def test_what_a_tree_cannot_have_is_refused(tmp_path: Path, more: str, said: str) -> None:
    path = tmp_path / "tree.toml"
    path.write_text(f'format = 1\nname = "tree"\ntitle = "t"\nbase = "metadata"\n{more}')
    with pytest.raises(ConfigError, match=said):
        make_plan(workload_of(read_source(path)), read_testbed(TESTBED), path, TESTBED)


def test_an_axis_expects_nothing_of_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "tree.toml"
    axis = '[sweep.x]\nset = "tree.files"\nto = [1, 2]\n'
    limit = f'[[expect]]\naxis = "x"\n{READS}from = 1\nto = 2\nratio_max = 2.0\n'
    path.write_text(f'format = 1\nname = "tree"\ntitle = "t"\nbase = "metadata"\n{axis}{limit}')
    with pytest.raises(ConfigError, match="expectations are of reads and writes"):
        read_sweep(read_source(path))
