import pytest

from kit.config.toml import load
from kit.core.errors import ConfigError
from reports.published import references
from tests.reports import synthetic


def test_published_ranges_in_microseconds():
    sun = references.load("sun-7410-2009")
    assert sun.ranges_us == {
        ("read", "dram"): (0, 10),
        ("read", "l2arc"): (128, 260),
        ("read", "disk"): (1900, 9700),
        ("write", "slog"): (137, 181),
        ("write", "pool"): (1950, 9170),
    }
    assert "Brendan Gregg" in sun.source and "2009" in sun.source


@pytest.mark.parametrize("name", ["", "sun", "../references/sun-7410-2009", "sun-7410-2009.toml"])
def test_unknown_name_lists_the_known(name):
    with pytest.raises(ConfigError) as caught:
        references.load(name)
    assert "sun-7410-2009" in " ".join(str(v) for v in (caught.value, *vars(caught.value).values()))


@pytest.mark.parametrize(
    "text", ["x", "title = 1", 'title="a"\nsource="b"\n[[ranges]]\nop="read"\ntier="dram"\nrange_us=[9, 1]']
)
def test_damaged_reference(tmp_path, text):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ConfigError):
        references.load("bad", tmp_path)


def test_the_set_up_of_the_article_is_what_it_states():
    """As in "Hybrid Storage Pool: Top Speeds", 8 October 2009."""
    stated = references.setup_of("sun-7410-2009").model_dump(exclude_unset=True, exclude={"notes"})
    assert stated == {
        "server": "Sun Storage 7410 (Barcelona)", "disk_rpm": 7200, "cache_devices": 6,
        "record_size": 512, "io_size": 512, "nfs_version": "3", "clients": 1, "threads": 1,
        "working_set_min": 10**9, "aged": True,
    }  # fmt: skip
    with pytest.raises(ConfigError):
        references.setup_of("sun")


GOOD = 'title = "mine"\nsource = "me"\n[[ranges]]\nop = "read"\ntier = "l2arc"\nrange_us = [50, 90.5]\n'


def test_a_file_of_ones_own(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD)
    reference = load(tmp_path / "mine.toml", references.Document).reference("mine")
    assert reference.ranges_us == {("read", "l2arc"): (50, 90.5)}
    assert synthetic.summary_of(reference=reference.as_json()).reference == reference


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("[50, 90.5]", "[90, 50]", "range_us"),
        ("[50, 90.5]", "[-1, 50]", "range_us"),
        ("[50, 90.5]", "[50]", "range_us"),
        ("[50, 90.5]", "[50, inf]", "range_us"),
        ("[50, 90.5]", '["50", 90]', "range_us"),
        ("l2arc", "l2ark", "tier"),
        ('"l2arc"', '"all"', "tier"),
        ('"read"', '"trim"', "op"),
        ('title = "mine"', "title = 3", "title"),
        ('source = "me"\n', "", "source"),
        ("[[ranges]]", "[[range]]", "range"),
        ("range_us", "range_ms", "range_ms"),
        (GOOD, GOOD + GOOD[GOOD.index("[[") :], "ranges"),
    ],
)
def test_a_bad_file_is_refused_with_file_and_key(tmp_path, old, new, key):
    (tmp_path / "mine.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "mine.toml", references.Document)
    assert f"{tmp_path / 'mine.toml'}:" in caught.value.message and key in caught.value.message


def test_a_mistake_deep_in_a_file_of_ones_own_is_the_only_one_that_is_told(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace("90.5", '"90"'))
    with pytest.raises(ConfigError) as caught:
        load(file, references.Document)
    told = 'ranges[0].range_us[1]: expected a number, found the string "90"'
    assert caught.value.message == f"{file}:6: {told}"


def test_two_ranges_for_one_tier_are_told_with_their_numbers(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD + GOOD[GOOD.index("[[") :])
    with pytest.raises(ConfigError) as caught:
        load(file, references.Document)
    assert caught.value.message == f"{file}:3: ranges: [0] and [1] are both for op 'read' and tier 'l2arc'"


SETUP = """[setup]
server = "nas"
disks = 3
record_size = "128KiB"
nfs_version = "4.2"
aged = false
duration = "1.5s"
[setup.notes]
disks = "in a shelf"
"""


def test_a_set_up_of_ones_own_changes_nothing_of_the_reference(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD)
    alone = load(tmp_path / "mine.toml", references.Document)
    (tmp_path / "mine.toml").write_text(GOOD + SETUP)
    document = load(tmp_path / "mine.toml", references.Document)
    assert alone.setup is None and references.setup_of("mine", tmp_path) == document.setup
    assert (document.setup.record_size, document.setup.duration) == (131072, 1_500_000_000)
    assert document.setup.threads is None and document.setup.notes.disks == "in a shelf"
    assert document.reference("mine").as_json() == alone.reference("mine").as_json()


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("disks = 3", "discs = 3", 9, "setup.discs: unknown key, did you mean 'disks'?"),
        ("disks = 3", "disks = true", 9, "setup.disks: expected an integer, found true"),
        ("disks = 3", "disks = 3.0", 9, "setup.disks: expected an integer"),
        ("disks = 3", "disks = -1", 9, "setup.disks: must be greater than or equal to 0"),
        ("disks = 3", "disks = 9999999", 9, "setup.disks: must be less than or equal to 1000000"),
        ('"128KiB"', "131072", 10, "setup.record_size: expected a size such as"),
        ('"128KiB"', '"128K"', 10, "did you mean 'KiB'?"),
        ('"128KiB"', '"0B"', 10, "setup.record_size: must be greater than 0"),
        ('"4.2"', '"5"', 11, "setup.nfs_version: unknown value"),
        ('"4.2"', "4.2", 11, "setup.nfs_version: "),
        ("aged = false", 'aged = "no"', 12, "setup.aged: expected true or false"),
        ("1.5s", "0s", 13, "setup.duration: must be greater than 0"),
        ('server = "nas"', 'server = ""', 8, "setup.server: must have at least 1 character"),
        ('"nas"', '"' + "x" * 100_000 + '"', 8, "setup.server: must have at most 200 characters"),
        ('"nas"', r'"a\u001b[31m"', 8, "setup.server: control characters cannot be shown: 'a?[31m'"),
        ('"nas"', r'"a\nb"', 8, "setup.server: control characters"),
        ('"nas"', r'"\u202egnp.exe"', 8, "setup.server: control characters"),
        ('"in a shelf"', r'"\u0007"', 15, "setup.notes.disks: control characters"),
        ('"in a shelf"', "3", 15, "setup.notes.disks: expected a string, found the integer 3"),
        ('disks = "in', 'discs = "in', 15, "setup.notes.discs: unknown key, did you mean 'disks'?"),
        ("[setup.notes]", "[[setup.notes]]", 14, "setup.notes: expected a table, found an array"),
        (SETUP, "setup = 1", 7, "unknown key, valid keys: op, tier, range_us"),
        (SETUP, "[[setup]]", 7, "setup: expected a table, found an array"),
    ],
)
def test_a_bad_set_up_is_refused_with_file_line_and_key(tmp_path, old, new, line, problem):
    file = tmp_path / "mine.toml"
    file.write_text((GOOD + SETUP).replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load(file, references.Document)
    told = caught.value.message
    assert told.startswith(f"{file}:{line}: ") and problem in told and "\n" not in told
    assert len(told) < len(str(file)) + 400 and "\x1b" not in told
