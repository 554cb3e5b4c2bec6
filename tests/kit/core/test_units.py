"""kit.core.units: exact in both directions; a wrong unit gets a suggestion."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from kit.core.units import (
    DurationNs,
    SizeBytes,
    format_beside,
    format_change,
    format_duration_ns,
    format_duration_s,
    format_factor,
    format_latency,
    format_latency_range,
    format_size_bytes,
    parse_duration_ns,
    parse_size_bytes,
)

pytestmark = pytest.mark.any_python


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_duration_ns, "130us", 130000),
        (parse_duration_ns, "130µs", 130000),
        (parse_duration_ns, "130μs", 130000),
        (parse_duration_ns, "1.5ms", 1500000),
        (parse_duration_ns, "0s", 0),
        (parse_duration_ns, "7ns", 7),
        (parse_duration_ns, "1.0ns", 1),
        (parse_duration_ns, "30s", 30 * 10**9),
        (parse_duration_ns, "2min", 120 * 10**9),
        (parse_duration_ns, "0.5h", 1800 * 10**9),
        (parse_size_bytes, "512B", 512),
        (parse_size_bytes, "96MiB", 96 << 20),
        (parse_size_bytes, "1kB", 1000),
        (parse_size_bytes, "1KiB", 1024),
        (parse_size_bytes, "1.5GB", 1_500_000_000),
        (parse_size_bytes, "4TB", 4 * 10**12),
    ],
)
def test_durations_and_sizes(parse: Callable[[str], int], text: str, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10usecs", "'10usecs': unknown unit 'usecs', did you mean 'us'?"),
        ("10sec", "'10sec': unknown unit 'sec', did you mean 's'?"),
        ("10m", "'10m': unknown unit 'm', did you mean 'min'?"),
        ("10MS", "'10MS': unknown unit 'MS', did you mean 'ms'?"),
        ("10secnds", "'10secnds': unknown unit 'secnds', did you mean 's'?"),
        ("10parsecs!", "'10parsecs!': unknown unit 'parsecs!', valid units: ns, us, ms, s, min, h"),
        ("10", "'10': a duration needs a unit, such as \"130us\""),
        ("1.5ns", "'1.5ns': not a whole number of nanoseconds"),
        ("10 us", "'10 us': expected a duration such as \"130us\""),
        ("10us\n", "'10us\\n': unknown unit 'us\\n', did you mean 'us'?"),
        ("-1us", "'-1us': expected a duration such as \"130us\""),
        ("1e3us", "'1e3us': unknown unit 'e3us', valid units: ns, us, ms, s, min, h"),
        ("٣us", "'٣us': expected a duration such as \"130us\""),
        ("", "'': expected a duration such as \"130us\""),
        ("9" * 30 + "h", f"'{'9' * 30}h': too large for a duration"),
    ],
)
def test_invalid_durations(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration_ns(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("unit", "meant"),
    [
        ("K", "KiB"),
        ("M", "MiB"),
        ("G", "GiB"),
        ("kb", "kB"),
        ("KB", "kB"),
        ("mb", "MB"),
        ("mib", "MiB"),
        ("bytes", "B"),
    ],
)
def test_size_typos(unit: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        parse_size_bytes(f"4{unit}")


def test_a_size_needs_a_unit() -> None:
    with pytest.raises(ValueError, match='a size needs a unit, such as "96MiB"'):
        parse_size_bytes("512")


naturals = (
    st.integers(0, 2**63 - 1)
    | st.integers(0, 10**6).map(lambda n: n * 4096)
    | st.integers(0, 9).map(lambda n: 10**n)
)


@given(naturals)
def test_formatting_loses_nothing(value: int) -> None:
    assert parse_duration_ns(format_duration_ns(value)) == value
    assert parse_size_bytes(format_size_bytes(value)) == value


def test_formats() -> None:
    durations = {
        0: "0ns",
        130_000: "130us",
        1_500_000: "1.5ms",
        90 * 10**9: "90s",
        120 * 10**9: "2min",
        7200 * 10**9: "2h",
    }
    assert {value: format_duration_ns(value) for value in durations} == durations
    sizes = {0: "0B", 512: "512B", 1000: "1kB", 96 << 20: "96MiB", 4 * 10**12: "4TB", 1536 << 20: "1536MiB"}
    assert {value: format_size_bytes(value) for value in sizes} == sizes
    for format_value in (format_duration_ns, format_size_bytes):
        with pytest.raises(ValueError, match="negative"):
            format_value(-1)


@given(st.text())
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    for parse in (parse_duration_ns, parse_size_bytes):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert str(error).isprintable()


class Model(BaseModel):
    model_config = ConfigDict(strict=True)
    latency: DurationNs = 5
    size: SizeBytes | None = None


def test_models_take_strings_and_keep_integers() -> None:
    model = Model.model_validate({"latency": "130us", "size": "1KiB"})
    assert model.model_dump() == {"latency": 130_000, "size": 1024}
    assert Model().latency == 5
    for bare in (130, True, 1.5):
        with pytest.raises(ValidationError, match='expected a duration such as "130us"'):
            Model.model_validate({"latency": bare})


@pytest.mark.parametrize(
    ("value_us", "text"),
    [
        (0, "0"),
        (0.001, "1 ns"),
        (0.0004, "0.4 ns"),
        (0.5, "500 ns"),
        (0.9994, "999 ns"),
        (0.9996, "1 µs"),
        (1, "1 µs"),
        (6.2, "6.2 µs"),
        (9.996, "10 µs"),
        (178.4, "178 µs"),
        (999.4, "999 µs"),
        (999.6, "1 ms"),
        (1127.0, "1.13 ms"),
        (11_270.0, "11.3 ms"),
        (99_960.0, "100 ms"),
        (323_000.0, "323 ms"),
        (999_600.0, "1 s"),
        (1_070_000.0, "1.07 s"),
        (3_600_000_000.0, "3600 s"),
        (1e15, "1000000000 s"),
    ],
)
def test_a_latency_for_people(value_us: float, text: str) -> None:
    assert format_latency(value_us) == text


@pytest.mark.parametrize(
    ("low_us", "high_us", "text"),
    [
        (158.0, 178.0, "158 to 178 µs"),
        (1900.0, 9700.0, "1.9 to 9.7 ms"),
        (128, 260, "128 to 260 µs"),
        (0, 10, "0 to 10 µs"),
        (0, 0, "0 ns"),
        (150.0, 1100.0, "0.15 to 1.1 ms"),
        # Less than a tenth of the upper one's unit: each has its own.
        (90.0, 1100.0, "90 µs to 1.1 ms"),
        (5.4, 8912.9, "5.4 µs to 8.91 ms"),
        (177.6, 178.4, "178 µs"),
        (999.6, 1000.2, "1 ms"),
        (0.0, 0.002, "0 to 2 ns"),
    ],
)
def test_a_range_of_latencies_for_people(low_us: float, high_us: float, text: str) -> None:
    assert format_latency_range(low_us, high_us) == text


LATENCY = re.compile(r"(\d+(?:\.\d+)?) (ns|µs|ms|s)")
US_PER_UNIT = {"ns": 1e-3, "µs": 1.0, "ms": 1e3, "s": 1e6}


@given(st.floats(1e-3, 1e12))
def test_a_latency_is_within_half_a_percent_of_what_it_says(value_us: float) -> None:
    text = format_latency(value_us)
    match = LATENCY.fullmatch(text)
    assert match is not None, text
    number = float(match[1])
    assert number * US_PER_UNIT[match[2]] == pytest.approx(value_us, rel=5.1e-3)
    # The unit suits it: no number of four digits but seconds.
    assert (1 <= number < 1000) or match[2] == "s"


@given(st.just(0.0) | st.floats(1e-3, 1e9), st.floats(1e-3, 1e9))
def test_a_range_has_both_ends(low_us: float, width_us: float) -> None:
    text = format_latency_range(low_us, low_us + width_us)
    high = LATENCY.fullmatch(text.split(" to ")[-1])
    assert high is not None
    first = text.split(" to ")[0]
    low = LATENCY.fullmatch(first if " " in first else f"{first} {high[2]}")
    assert low is not None
    assert float(low[1]) * US_PER_UNIT[low[2]] == pytest.approx(
        low_us, rel=5.1e-3, abs=1e-3 + low_us * 5.1e-3
    )


@pytest.mark.parametrize(
    ("value_us", "limit_us", "texts"),
    [
        (165.89, 150, ("166 µs", "150 µs")),
        (145.0, 144.9, ("145 µs", "144.9 µs")),
        (1000.2, 1000, ("1.0002 ms", "1 ms")),
        (5043.2, 5043.0, ("5.0432 ms", "5.043 ms")),
    ],
)
def test_a_latency_beside_its_limit_has_digits_that_tell_them_apart(
    value_us: float, limit_us: float, texts: tuple[str, str]
) -> None:
    assert format_beside(value_us, limit_us) == texts


def test_a_duration_for_people_has_two_units_at_most() -> None:
    durations_s = (0.8, 1.5, 36, 59.97, 115, 900, 26_820, 7200)
    assert [*map(format_duration_s, durations_s)] == [
        "800 ms", "1.5 s", "36 s", "1 min", "1 min 55 s", "15 min", "7 h 27 min", "2 h",
    ]  # fmt: skip


def test_a_ratio_is_a_factor_or_a_change_in_percent() -> None:
    ratios = (0.1449, 0.9996, 1.2949, 9.997, 99.6, 32.4, 1234.5)
    assert [*map(format_factor, ratios)] == [
        f"{text} times" for text in ("0.145", "1.00", "1.29", "10.0", "99.6", "32.4", "1,234")
    ]
    assert [format_factor(ratio, 2) for ratio in (2.0, 9.96, 32.4)] == ["2 times", "10 times", "32 times"]
    words = ("longer", "shorter", "as long")
    changes = [format_change(ratio, *words) for ratio in (1.291, 0.5, 2, 0.4)]
    assert changes == ["29.1 % longer", "50 % shorter", "2.00 times as long", "0.400 times as long"]
    assert format_change(1.096) == "9.6 %"
