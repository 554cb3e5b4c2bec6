import pytest

from kit.store import ConfigError
from reports import references


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
