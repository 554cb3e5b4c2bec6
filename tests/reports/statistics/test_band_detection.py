"""Bands on histograms whose truth is known."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from reports.statistics import band_detection as bands
from reports.statistics import modes

NORMAL = NormalDist()


def binned(latency_ns):
    """Samples as (lo_ns, hi_ns, count)."""
    index, counts = np.unique(bin_index(np.clip(latency_ns, 1, 1e13).astype(np.int64)), return_counts=True)
    lo, hi = bin_edges(index)
    return list(zip(lo.tolist(), hi.tolist(), counts.tolist(), strict=True))


def component(generator, kind, median, sigma, number):
    """One band as devices give it; `sigma` is that of the logarithm."""
    if kind == "gamma":
        shape = 1 / sigma**2
        return median * generator.gamma(shape, 1, number) / shape
    made = median * np.exp(sigma * generator.standard_normal(number))
    if kind == "tail":
        # One in a hundred took longer, by half of the median on average, in the end by several times.
        slow = generator.random(number) < 0.01
        made = np.where(slow, made * (1 + generator.exponential(0.5, number)), made)
    return made


def mixture(generator):
    """1 to 5 bands, shares down to 1 %, 500 to 100 000 I/Os; one bin wide, or two octaves.

    Neighbours are 4.5 standard deviations of each apart or more (of a bin's width, where they are narrower).
    """
    parts = int(generator.integers(1, 6))
    number = int(np.exp(generator.uniform(np.log(500), np.log(100_000))))
    sigma = np.exp(generator.uniform(np.log(0.002), np.log(0.35), parts))
    place = [float(np.log(generator.uniform(3e3, 3e4)))]
    for left, right in itertools.pairwise(np.maximum(sigma, 0.012)):
        place.append(place[-1] + 4.5 * (left + right) * generator.uniform(1, 1.5) + generator.uniform(0, 2))
    share = np.maximum(generator.dirichlet(np.ones(parts)), 0.01)
    share /= share.sum()
    counts = generator.multinomial(number, share)
    kinds = generator.choice(["lognormal", "gamma", "tail"], parts)
    latencies = [
        component(generator, k, math.exp(p), s, n)
        for k, p, s, n in zip(kinds, place, sigma, counts, strict=True)
    ]
    return latencies, share


def two(generator, apart, sigma=(0.1, 0.1), share=0.5, number=20_000):
    """Two lognormal bands, `apart` mean standard deviations from each other."""
    first = generator.binomial(number, share)
    low = 100_000 * np.exp(sigma[0] * generator.standard_normal(first))
    high = 100_000 * np.exp(sum(sigma) / 2 * apart + sigma[1] * generator.standard_normal(number - first))
    return np.concatenate([low, high])


def test_the_number_of_bands_in_60_mixtures():
    generator = np.random.default_rng(5)
    right, covered, apart = 0, [], 0
    for _ in range(60):
        latencies, share = mixture(generator)
        result = bands.find(binned(np.concatenate(latencies)))
        if len(result.bands) != len(latencies):
            continue
        right += 1
        apart += result.separable == (len(latencies) > 1)
        covered += [
            b.share_interval[0] <= s <= b.share_interval[1] for b, s in zip(result.bands, share, strict=True)
        ]
        for border, (low, high) in zip(result.borders_ns, itertools.pairwise(latencies), strict=True):
            # One in a hundred is tail, and of the smallest bands there are only a few I/Os.
            assert np.sum(low >= border) <= 0.02 * low.size + 3 and np.sum(high < border) <= 0.02 * high.size
    assert right >= 0.95 * 60
    assert apart == right
    assert np.mean(covered) > 0.9


def wrong_side(apart, share=0.5):
    """The larger share of a band beyond the emptiest place between two of equal width."""
    x = np.linspace(0, apart, 4001)
    density = share * np.exp(-(x**2) / 2) + (1 - share) * np.exp(-((apart - x) ** 2) / 2)
    border = float(x[np.argmin(density)])
    return 1 - NORMAL.cdf(min(border, apart - border))


def test_the_stated_limit_of_overlap_in_60_mixtures():
    generator = np.random.default_rng(6)
    right = 0
    for case in range(60):
        share = generator.uniform(0.2, 0.8)
        # Half of them clearly over the limit, half clearly under it.
        overlaps = case % 2 == 0
        while True:
            apart = generator.uniform(1, 6)
            truth = wrong_side(apart, share)
            if (truth > 1.4 * bands.OVERLAP_LIMIT) if overlaps else (truth < bands.OVERLAP_LIMIT / 1.4):
                break
        number = int(np.exp(generator.uniform(np.log(1000), np.log(100_000))))
        sigma = float(np.exp(generator.uniform(np.log(0.03), np.log(0.4))))
        result = bands.find(binned(two(generator, apart, (sigma, sigma), share, number)))
        right += (not result.separable and len(result.bands) == 1) if overlaps else len(result.bands) == 2
    assert right >= 0.95 * 60


def test_what_overlaps_says_so_with_the_limit():
    result = bands.find(binned(two(np.random.default_rng(1), 3.0)))
    assert not result.separable and len(result.bands) == 1
    assert "overlap" in result.reason and "5 %" in result.reason
    assert len(result.bands[0].modes_ns) == 2
    low, high = result.bands[0].modes_ns
    assert low == pytest.approx(100_000, rel=0.05) and high == pytest.approx(135_000, rel=0.05)


def test_overlap_is_that_of_the_truth():
    for apart in (3.5, 4.0, 5.0):
        result = bands.find(binned(two(np.random.default_rng(2), apart, number=100_000)))
        assert result.bands[0].overlap == pytest.approx(1 - NORMAL.cdf(apart / 2), rel=0.35)


@pytest.mark.parametrize("number", [500, 5_000, 100_000])
def test_heavy_tails_are_no_bands(number):
    generator = np.random.default_rng(number)
    cut = 0
    for _ in range(20):
        median, sigma = math.exp(generator.uniform(8, 16)), generator.uniform(0.01, 0.4)
        body = median * np.exp(sigma * generator.standard_normal(number))
        pareto = body * (
            1 + generator.pareto(generator.uniform(1, 3), number) * (generator.random(number) < 0.1)
        )
        student = median * np.exp(np.clip(sigma * generator.standard_t(3, number), -8, 8))
        exponential = median * (1 + generator.exponential(1, number))
        for latencies in (body, pareto, student, exponential):
            result = bands.find(binned(latencies))
            cut += len(result.bands) > 1
            assert result.separable == (len(result.bands) > 1)
    assert cut <= 1


def test_one_bin_beside_two_octaves():
    generator = np.random.default_rng(4)
    broad = generator.uniform(np.log(4e6), np.log(16e6), 3000)
    result = bands.find(binned(np.concatenate([np.full(2000, 6_200), np.full(40, 140_000), np.exp(broad)])))
    assert [b.count for b in result.bands] == [2000, 40, 3000]
    assert result.separable


def test_all_in_one_bin():
    result = bands.find([(4096, 4224, 10**9)])
    assert (result.reason, result.borders_ns, len(result.bands)) == ("one mode", (), 1)
    assert result.bands[0].range_ns == (4096, 4224)


def test_few_ios_are_told():
    result = bands.find([(4096, 4224, 10), (139264, 143360, 10)])
    assert "20 I/Os" in result.reason and not result.separable


def test_whole_microseconds_are_not_a_comb_of_bands():
    generator = np.random.default_rng(8)
    latencies = np.round(8 + 1.2 * generator.standard_normal(20_000)).clip(1) * 1000
    bins = binned(latencies)
    assert 1000 in modes.possible_ticks_ns(bins)
    result = bands.find(bins)
    assert len(result.bands) == 1 and result.bands[0].count == 20_000
    slow = np.round(200 + 9 * generator.standard_normal(20_000)) * 1000
    both = bands.find(binned(np.concatenate([latencies, slow])))
    assert [b.count for b in both.bands] == [20_000, 20_000]


@pytest.mark.parametrize(
    "bad",
    [[], [(0, 10, 0)], [(10, 5, 3)], [(-4, 5, 3)], [(0, 10, -3)], [(0, 10, 20), (5, 15, 20)], [(7, 7, 40)]],
)
def test_impossible_histograms(bad):
    with pytest.raises(ValueError):
        bands.find(bad)


def test_a_span_that_no_clock_has():
    with pytest.raises(ValueError, match="octaves"):
        bands.find([(1, 2, 50), (2**70, 2**71, 50)])


@st.composite
def histograms(draw):
    """Ascending bins of any widths; 1 to 60 of them."""
    edge, made = draw(st.integers(0, 10_000)), []
    bins = st.tuples(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 10**5))
    for gap, width, count in draw(st.lists(bins, min_size=1, max_size=60)):
        made.append((edge + gap, edge + gap + width, count))
        edge += gap + width
    return made


@settings(max_examples=25, deadline=None)
@given(histograms())
def test_counts_are_conserved(bins):
    result = bands.find(bins)
    total = sum(c for *_, c in bins)
    assert sum(b.count for b in result.bands) == total
    assert sum(b.share for b in result.bands) == pytest.approx(1)
    assert result.bands[0].from_ns == bins[0][0] and result.bands[-1].to_ns == bins[-1][1]
    assert [b.to_ns for b in result.bands[:-1]] == list(result.borders_ns)
    assert list(result.borders_ns) == sorted(set(result.borders_ns))
    for band in result.bands:
        assert band.count == sum(c for lo, hi, c in bins if band.from_ns <= lo and hi <= band.to_ns)
        assert band.from_ns <= band.range_ns[0] < band.range_ns[1] <= band.to_ns
        assert 0 <= band.share_interval[0] <= band.share <= band.share_interval[1] <= 1
    assert result.separable == (len(result.bands) > 1 and all(len(b.modes_ns) == 1 for b in result.bands)
                               and total >= bands.LEAST_IOS)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 30), st.integers(2, 1000))
def test_scaling_latencies_scales_borders(seed, factor):
    latencies, _ = mixture(np.random.default_rng(seed))
    bins = binned(np.concatenate(latencies))
    # A clock that ticks has a scale: here none does.
    original = bands.find(bins, 1)
    scaled = bands.find([(lo * factor, hi * factor, c) for lo, hi, c in bins], 1)
    assert [b.count for b in original.bands] == [b.count for b in scaled.bands]
    # Borders are whole nanoseconds.
    for x, y in zip(original.borders_ns, scaled.borders_ns, strict=True):
        assert abs(x * factor - y) <= factor


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 100), st.integers(2, 50))
def test_more_of_the_same_keeps_what_was_found(seed, times):
    latencies, _ = mixture(np.random.default_rng(seed))
    bins = binned(np.concatenate(latencies))
    assert len(bands.find([(lo, hi, c * times) for lo, hi, c in bins]).bands) >= len(bands.find(bins).bands)


@settings(max_examples=25, deadline=None)
@given(histograms())
def test_the_density_holds_all_ios(bins):
    assert modes.density(bins).counts.sum() == pytest.approx(sum(c for *_, c in bins))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**7), st.integers(1, 9)), min_size=1, max_size=200))
def test_a_coarse_clock_loses_no_io(samples):
    for tick in (1, 10, 1000):
        bins = binned(np.repeat([s * tick for s, _ in samples], [n for _, n in samples]))
        wide = modes.widened(bins, float(tick))
        assert sum(c for *_, c in wide) == sum(c for *_, c in bins)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(wide))
        assert all(lo < hi for lo, hi, _ in wide)
