"""Queues of which the waiting time is known: exact formulas and simulations, independent of the kit.

M/D/1: A. K. Erlang 1909, C. D. Crommelin 1932: of Poisson arrivals at `rate` and a constant service of 1,
P(W <= t) = (1 - rate) * sum over k from 0 to floor(t) of (rate (k - t))^k / k! * exp(-rate (k - t)).
M/M/k: Erlang's C formula; see L. Kleinrock, Queueing Systems I, 1975.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def md1_above(rate: float, limit: float) -> float:
    """The part of requests whose waiting and service of 1 together take longer than `limit`."""
    t, least = limit - 1, 0.0
    if t < 0:
        return 1.0
    # The terms alternate, and are large: they are added up as fractions of 30 digits and more.
    exact_rate, exact_t = Fraction(rate).limit_denominator(10**9), Fraction(t).limit_denominator(10**9)
    total = Fraction(0)
    for k in range(math.floor(t) + 1):
        x = exact_rate * (k - exact_t)
        total += x**k / math.factorial(k) * _exp(-x)
    least = float((1 - exact_rate) * total)
    return min(1.0, max(0.0, 1 - least))


def _exp(x: Fraction) -> Fraction:
    """To 40 digits: the series, of a small argument, and its powers."""
    parts = max(1, math.ceil(abs(x)))
    small, term, total = x / parts, Fraction(1), Fraction(1)
    for n in range(1, 60):
        term = _rounded(term * small / n)
        total += term
    result = Fraction(1)
    for _ in range(parts):
        result = _rounded(result * total)
    return result


def _rounded(value: Fraction) -> Fraction:
    return Fraction(round(value * 10**60), 10**60)


def mmk_above(rate: float, limit: float, servers: int) -> float:
    """As md1_above, of `servers` with exponential services of mean 1 and one queue."""
    a = rate
    last = a**servers / math.factorial(servers) * servers / (servers - a)
    wait = last / (sum(a**n / math.factorial(n) for n in range(servers)) + last)
    free = servers - a
    if abs(free - 1) < 1e-9:
        return math.exp(-limit) * (1 + wait * limit)
    slow = (math.exp(-limit) - math.exp(-free * limit)) / (free - 1)
    return (1 - wait) * math.exp(-limit) + wait * (slow * free + math.exp(-free * limit))


def highest(above: Callable[[float], float], most: float, share: float = 0.01) -> float:
    """The rate at which so many are above: `above` grows with it, up to `most`."""
    low, high = 0.0, most
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) <= share else (low, middle)
    return low


def quantile(above: Callable[[float], float], q: float, most: float) -> float:
    """The latency above which there are 1 - q: `above` falls with it."""
    low, high = 0.0, most
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) <= 1 - q else (middle, high)
    return high


def lindley(arrivals: Floats, service: float) -> Floats:
    """The time of each request in a queue of one server (D. V. Lindley 1952), by arrivals."""
    # W_n = max over m <= n of the work since arrival m: a running maximum.
    free = arrivals - service * np.arange(len(arrivals))
    return np.maximum.accumulate(free) - free + service


def md1_times(random: np.random.Generator, rate: float, ios: int) -> Floats:
    return lindley(np.cumsum(random.exponential(1 / rate, ios)), 1.0)


def mmk_times(random: np.random.Generator, rate: float, ios: int, servers: int) -> Floats:
    arrivals = np.cumsum(random.exponential(1 / rate, ios)).tolist()
    services = random.exponential(1.0, ios).tolist()
    free = [0.0] * servers
    made = []
    for arrival, service in zip(arrivals, services, strict=True):
        end = max(arrival, free[0]) + service
        heapq.heapreplace(free, end)
        made.append(end - arrival)
    return np.array(made)
