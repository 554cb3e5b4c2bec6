"""The tree of a workload, and the order in which phases make it, look at it and remove it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from kit.config.tables.tree_table import MetadataJob, Tree, problem
from kit.config.workload import read_workload
from kit.core.errors import ConfigError

WORKLOAD = """\
format = 1
name = "tree"
title = "tree"
working_set = { file = "file", size = "1MiB" }
"""
TREE = "[tree]\nfiles = 10\n"


def phase(metadata: str, name: str = "first", more: str = "") -> str:
    return f'[[phase]]\nname = "{name}"\ntitle = "t"\nduration = "1s"\nmetadata = "{metadata}"\n{more}\n'


def test_the_numbers_of_a_tree() -> None:
    tree = Tree.model_validate({"files": 10, "depth": 2, "width": 3, "size": "4KiB"})
    assert (tree.directories, tree.most_bytes) == (13, 4096)
    assert Tree(files=1, depth=0).directories == 1


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"files": 0}, "greater than or equal to 1"),
        ({"files": 10_000_000}, "less than or equal to"),
        ({"files": 1, "depth": 16, "width": 1000}, "at most 100,000"),
        ({"files": 1, "size": "1TiB"}, "at most 64MiB"),
        ({"files": 1, "size": "2KiB", "size_max": "1KiB"}, "make it larger"),
        ({"files": 1, "size": "0B", "size_max": "1KiB"}, "size above 0"),
        ({}, "how many"),
        ({"files": 1, "list": "a.txt"}, "files, directories and sizes of its own"),
        ({"list": "a.txt", "depth": 2}, "directories and sizes of its own"),
    ],
)
def test_trees_that_are_too_large_or_impossible_are_refused(values: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Tree.model_validate(values)


def test_a_tree_is_made_before_it_is_looked_at_and_removed_before_it_is_made_again() -> None:
    assert problem([], "stat").startswith("there is no tree by then")
    assert problem(["create"], "untar").startswith("the tree is there already")
    assert problem(["create", "rm"], "ls").startswith("there is no tree by then")
    assert not problem(["create", "stat", "rm"], "untar") and not problem(["untar", "ls"], "rename")


def test_a_job_knows_what_its_files_are_called_by_then() -> None:
    tree = Tree(files=1)
    before = ["create", "rename", "remove", "untar", "rename", "rename"]
    assert MetadataJob.of("stat", tree, before, "3").renames == 2  # type: ignore[arg-type]
    assert MetadataJob.of("untar", tree, ["create", "rename", "rm"], "3").renames == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (phase("create"), r"tree: which files do phases with metadata make"),
        (TREE + phase("stat"), r'metadata: "stat": there is no tree'),
        (TREE + phase("make"), r"metadata: "),
        (TREE + phase("create", more='tiers = ["disk"]'), r"tiers: .*this one has metadata"),
        (TREE + phase("create", more='job = "x.fio"'), r"job: .*this one has metadata"),
        (TREE + phase("create", more='target = "dataset"'), r"target: files are made over NFS"),
        (TREE + phase("create", more='log = "every-io"'), r"a log of fio"),
        (
            TREE + '[nfs]\nengine = "libnfs"\n' + phase("create"),
            r"nfs.engine: .*through a mount",
        ),
    ],
)
def test_phases_that_cannot_be_are_refused_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "w.toml"
    path.write_text(WORKLOAD + text)
    with pytest.raises(ConfigError, match=rf"w.toml:\d+: .*{problem}"):
        read_workload(path)


def test_the_workload_of_the_kit_is_one() -> None:
    workload = read_workload(Path(__file__).parents[4] / "workloads" / "metadata.toml")
    assert [each.metadata for each in workload.phase][:2] == ["create", "stat"]
