"""`inside` is refused where the file itself asks for it and the phase is not like the published one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError
from kit.session.side import Side

HEAD = 'format = 1\nbase = "{base}"\nname = "mine"\ntitle = "Mine"\n'
INSIDE = '\n[[expect]]\nphase = "read"\nop = "read"\ntier = "dram"\n'


def planned(folder: Path, more: str, base: str = "top-speeds", name: str = "mine.toml") -> None:
    (folder / name).write_text(HEAD.format(base=base) + more)
    Side(str(folder / name), LAB_TESTBED).plan()


@pytest.mark.parametrize("line", ["inside = true", "inside_share_min = 0.9", "inside = false", ""])
def test_a_phase_like_the_published_one(tmp_path: Path, line: str) -> None:
    planned(tmp_path, INSIDE + line)


@pytest.mark.parametrize(
    ("options", "unlike"),
    [
        ('[job]\nbs = "4k"\n[dataset.properties]\nrecordsize = 4096\n', "with 512 B, this phase has 4 KiB."),
        ("[job]\nnumjobs = 4\n", "with 1 I/O outstanding, this phase has 4 I/Os outstanding."),
        ('[nfs]\nversion = "4.2"\noptions = ["hard"]\n', "with NFSv3, this phase has NFSv4.2."),
        ('[job]\nnumjobs = 2\n[nfs]\nversion = "4.2"\noptions = ["hard"]\n',
         "with 1 I/O outstanding and NFSv3, this phase has 2 I/Os outstanding and NFSv4.2."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("line", ["inside = true", "inside_share_min = 0.9"])
def test_another_load_is_refused_where_the_file_asks_for_the_range(
    tmp_path: Path, options: str, unlike: str, line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, options + INSIDE + line)
    number = (HEAD + options + INSIDE + line).count("\n") + 1
    assert caught.value.exit_code == 2
    key = line.partition(" ")[0]
    assert caught.value.message == (
        f"{tmp_path}/mine.toml:{number}: expect[0].{key}: No published range: measured {unlike} "
        "Remove the key, or measure with the same"
    )
    planned(tmp_path, options + INSIDE)


def test_what_a_base_asks_for_is_not_asked_of_a_workload_on_it(tmp_path: Path) -> None:
    planned(tmp_path, INSIDE + "inside = true", name="base.toml")
    planned(tmp_path, "[job]\nnumjobs = 4\n", base="base.toml")


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        (INSIDE + "inside = true\n" + INSIDE.replace('"dram"', '"disk"') + "inside = true", None, None),
        ('reference = "sun-7410-2008"\n', "5: reference", "did you mean 'sun-7410-2009'?"),
        ('reference = ""\n' + INSIDE + "inside = true", "11: expect[0].inside",
         "'' has no range for read/dram"),
        (INSIDE.replace('op = "read"', 'op = "commit"') + "inside = true", "8: expect[0].op",
         "does no such I/O"),
    ],
)  # fmt: skip
def test_ranges_that_do_not_exist(tmp_path: Path, lines: str, place: str | None, words: str) -> None:
    if place is None:
        planned(tmp_path, lines)
        return
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, lines)
    assert f"mine.toml:{place}: " in caught.value.message and words in caught.value.message
