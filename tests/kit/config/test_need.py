"""need.toml: what is refused, with its line."""

from pathlib import Path

import pytest

from kit.config.need import read_need
from kit.core.errors import ConfigError

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "need.toml"


def read(tmp_path, text):
    path = tmp_path / "need.toml"
    path.write_text(text)
    return read_need(path)


def test_the_example_is_read():
    need = read_need(EXAMPLE)
    assert (need.sync_write_p99_us, need.read_p99_us, need.survives_power_loss) == (300, 400, True)
    assert (need.written_per_day_bytes, need.years, need.budget, need.drives) == (
        200 * 10**9,
        5,
        "600 EUR",
        4,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sync_write_p99 = 200", "need.toml:1: sync_write_p99: expected a duration such as"),
        ('sync_write_p99 = "-5us"', "need.toml:1: sync_write_p99"),
        ('sync_write_p99 = "0us"', "need.toml:1: sync_write_p99"),
        ('sync_write_p99 = "99999999999999999999s"', "need.toml:1: sync_write_p99"),
        (
            'read_p99 = "5us"\nsync_writes_p99 = "1us"',
            "need.toml:2: sync_writes_p99: unknown key, did you mean",
        ),
        ("years = -1", "need.toml:1: years"),
        ("years = 1e300", "need.toml:1: years"),
        ("years = nan", "need.toml:1: years"),
        ('years = "5"', "need.toml:1: years: expected a number"),
        ('survives_power_loss = "yes"', "need.toml:1: survives_power_loss: expected true or false"),
        ('budget = "cheap"', "need.toml:1: budget"),
        ("budget = 300", "need.toml:1: budget: expected a string"),
        ('budget = "0 EUR"', "need.toml:1: budget"),
        ("reads_answered_min = 1.5", "need.toml:1: reads_answered_min"),
        (
            'written_per_day = "1GB"\nread_p99 = "1us"',
            "need.toml:1: written_per_day: for how long? add years",
        ),
        ("years = 5\nsame_within = 0", "need.toml:2: same_within"),
        ("years = 5\ndrives = 1000000000", "need.toml:2: drives"),
        ('title = "nothing asked for"', "nothing is needed, so nothing can be judged"),
        ("format = 2\nyears = 5", "need.toml:1: format"),
        ("[years]\na = 1", "need.toml:1: years"),
        ("years = 5\nyears = 6", "need.toml:2"),
    ],
)
def test_a_mistake_is_refused_with_its_line(tmp_path, text, said):
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert said in refused.value.message
