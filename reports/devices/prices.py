"""What devices cost by what they hold and do, and how many of one do as much as one of another.

Random I/Os at depth 1 are the measure: a disk moves its arm for each, and no queue hides that. Devices are
held against each other by the same load under the same settings alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kit.core.text import commas, safe_text
from kit.core.units import format_binary_bytes
from kit.store.manifest import Device, Manifest
from kit.store.phase import Phase

_GB, _TB = 10**9, 10**12
# A price beyond it is none, nor is what is not a number.
_MOST = 1e12
# The same load: operation, job, its options, bytes; and the settings of the server.
Load = tuple[object, ...]


@dataclass(frozen=True)
class DeviceRate:
    """A device and its I/Os a second under one load, alone. `aged`: it was preconditioned before."""

    device: str
    load: Load
    what: str
    ios_per_s: float
    aged: bool


@dataclass(frozen=True)
class OfRun:
    """What a run has of devices: their tables by name, and what they did."""

    devices: Mapping[str, Device]
    measured: tuple[DeviceRate, ...]


def of_run(manifest: Manifest) -> OfRun:
    devices = {str(each.name): each for each in manifest.testbed.devices}
    return OfRun(devices, tuple(_measured(manifest)))


def sentences(runs: Sequence[OfRun]) -> Iterator[str]:
    """Of one run, or of the runs of a series: prices, then a line for each pair of unlike devices."""
    devices = {name: device for run in runs for name, device in run.devices.items()}
    measured: dict[tuple[str, Load], DeviceRate] = {}
    for run in runs:
        for each in run.measured:
            measured.setdefault((each.device, each.load), each)
    for name, device in devices.items():
        if price := price_of(device.price):
            yield from _of_price(name, device, *price, [m for m in measured.values() if m.device == name])
    by_load: dict[Load, list[DeviceRate]] = {}
    for each in measured.values():
        by_load.setdefault(each.load, []).append(each)
    for group in by_load.values():
        for one, other in itertools.combinations(group, 2):
            if _model(devices[one.device]) != _model(devices[other.device]):
                yield _replaces(one, other, devices)


def _measured(manifest: Manifest) -> Iterator[DeviceRate]:
    settings = tuple(sorted({(each.name, each.set) for each in manifest.host_settings}))
    prepared = manifest.precondition or {}
    listed = prepared.get("devices")
    entries = listed if isinstance(listed, list) and not prepared.get("fresh") else []
    aged = {str(each.get("device")) for each in entries if isinstance(each, dict)}
    known = {each.name for each in manifest.testbed.devices}
    for phase in manifest.phases:
        rate = _rate(phase)
        if rate and phase.clients[0].host in known:
            name = phase.clients[0].host
            yield DeviceRate(name, _load(phase, settings), _what(phase, settings), rate, name in aged)


def _rate(phase: Phase) -> float | None:
    """I/Os a second of random I/Os of one device at depth 1; None for another phase."""
    if not phase.target or not phase.is_random or phase.outstanding != 1 or len(phase.clients) != 1:
        return None
    row = phase.clients[0]
    if row.first_ns is None or row.last_ns is None or row.last_ns <= row.first_ns:
        return None
    return row.ios * 1e9 / (row.last_ns - row.first_ns)


def _load(phase: Phase, settings: tuple[tuple[str, str], ...]) -> Load:
    sizes = tuple(sorted(phase.block_bytes_by_op.items()))
    return phase.op, phase.job, phase.block_bytes, sizes, settings


def _what(phase: Phase, settings: tuple[tuple[str, str], ...]) -> str:
    size = f" of {format_binary_bytes(phase.block_bytes)}" if phase.block_bytes else ""
    kind = {"read": "random reads", "write": "random writes"}.get(phase.op or "", "random reads and writes")
    under = "".join(f", {name} = {value}" for name, value in settings)
    return f"{kind}{size}, one at a time{under}"


def price_of(price: str | None) -> tuple[float, str] | None:
    """Amount and currency of "180 EUR"; None of what is no price."""
    amount, _, currency = (price or "").partition(" ")
    try:
        value = float(amount)
    except ValueError:
        return None
    return (value, safe_text(currency)) if 0 < value <= _MOST else None


def count_of(value: object) -> int | None:
    """A number above 0 of a device's table, which a stranger may have written."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _of_price(
    name: str, device: Device, amount: float, currency: str, measured: Sequence[DeviceRate]
) -> Iterator[str]:
    parts = []
    if size_bytes := device.size_bytes:
        parts.append(f"{amount / (size_bytes / _GB):,.2f} {currency} per GB")
    if endurance_bytes := device.endurance_bytes:
        parts.append(f"{amount / (endurance_bytes / _TB):,.2f} {currency} per TB of its rated endurance")
    for each in measured:
        state = "aged" if each.aged else "not aged"
        cost = 1000 * amount / each.ios_per_s
        parts.append(f"{cost:,.2f} {currency} per 1,000 a second of {each.what} ({state})")
    yield safe_text(f"{name} costs {amount:,.2f} {currency}: {'; '.join(parts)}.")


def _model(device: Device) -> object:
    return (device.identity or {}).get("model") or device.parameters or device.model


def _replaces(one: DeviceRate, other: DeviceRate, devices: Mapping[str, Device]) -> str:
    fast, slow = (one, other) if one.ios_per_s >= other.ios_per_s else (other, one)
    number = fast.ios_per_s / slow.ios_per_s
    text = (
        f"By {fast.what}: {number:,.1f} {slow.device} for one {fast.device} "
        f"({commas(slow.ios_per_s)} and {commas(fast.ios_per_s)} a second)"
    )
    prices = [price_of(devices[each.device].price) for each in (slow, fast)]
    if prices[0] and prices[1] and prices[0][1] == prices[1][1]:
        text += f", which cost {number * prices[0][0]:,.2f} and {prices[1][0]:,.2f} {prices[1][1]}"
    return safe_text(f"{text}.")
