import pytest

from kit.config.toml import load
from kit.core.errors import ConfigError
from reports.analysis import references
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
