"""Lines of the drive itself: what it is, power loss, endurance, price, and disks it replaces. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.core.text import commas, safe_text
from kit.core.units import (
    format_binary_bytes,
    format_decimal_bytes,
    format_factor,
    format_percent,
    three_digits,
)  # fmt: skip
from kit.store.manifest import Device
from kit.store.parts.power_loss import PowerLossResult
from kit.store.sheet import SheetValue
from reports.devices.prices import count_of, price_of
from reports.features.power_loss import judge as power_loss
from reports.features.slog import write_cache
from reports.sheet.evidence import uses
from reports.sheet.facts import DriveFacts, line, unknown
from reports.sheet.latencies import Line
from reports.sheet.words import REQUIRED
from reports.statistics import proportion

DRIVE, SAFETY, WEAR, PRICE = "The drives", "Power loss", "Endurance", "Price, and disks"
NAMES = {"log": "Log device", "cache": "L2ARC device"}
_DAY_S, _YEAR_DAYS, _GB = 86_400, 365.25, 10**9
_NO_CACHE = {"write through": "no", "write back": "yes"}
# Longer than any drive is used: rates so low say no more than that.
_LONG_YEARS = 1000.0


def drive_lines(facts: DriveFacts) -> Iterator[Line]:
    """Identity and size of each device."""
    for role, name in NAMES.items():
        devices = facts.source.devices(role)
        text = "; ".join(dict.fromkeys(map(identity, devices))) or "none"
        yield line(DRIVE, f"{role}_device", name), SheetValue(text=text)
        least = getattr(facts.need, f"{role}_size_bytes")
        need = f"at least {format_decimal_bytes(least)}" if least else ""
        size = facts.capacity(role)
        if size is None:
            value = unknown("the run has no such device" if not devices else "its size is not stored")
        else:
            met = size >= least if least else None
            value = SheetValue(text=format_decimal_bytes(size), value=size, met=met)
        yield line(DRIVE, f"{role}_size", f"{name}, capacity", need), value


def identity(device: Device) -> str:
    """Model, firmware, sector size and driver, as far as they are stored."""
    real, settings = device.identity or {}, device.settings or {}
    if not real.get("model"):
        return safe_text(f"{device.name}: {device.model or 'model not known'} (emulated)")
    parts = [str(real["model"]), f"firmware {settings.get('firmware') or 'not known'}"]
    sector = count_of(settings.get("logical_block_bytes") or real.get("sector_bytes"))
    parts.append(f"sectors of {format_binary_bytes(sector)}" if sector else "sector size not known")
    parts.append(f"driver {settings.get('driver') or 'not known'}")
    return safe_text(", ".join(parts))


def model_name(device: Device) -> str:
    """For a sentence; "" where it is not stored."""
    return str((device.identity or {}).get("model") or device.model or "")


def safety_lines(facts: DriveFacts) -> Iterator[Line]:
    asked = facts.need.survives_power_loss
    keeps = line(SAFETY, "power_loss", "Survives power loss", REQUIRED if asked else "")
    yield keeps, _power_loss(facts, asked)
    says = {
        _NO_CACHE.get(str((each.settings or {}).get("write_cache")), "")
        for each in facts.source.devices("log")
    } - {""}
    yield (
        line(SAFETY, "volatile_cache", "Declares a volatile write cache"),
        SheetValue(text=", ".join(sorted(says)), note="as the kernel sees the log device") if says
        else unknown("the run does not have it"),
    )  # fmt: skip


def _power_loss(facts: DriveFacts, asked: bool) -> SheetValue:
    """Of power losses of this drive or of one of its model; else what timing says, which is no proof.

    Losses count whatever else is open; that nothing was lost counts where the run shows it (a control that
    lost data, proof of each power loss).
    """
    losses = [run.manifest.power_loss for run in facts.source.power_losses]
    judged = [power_loss.judge(each) for each in losses if each and any(m.acknowledged for m in each.moments)]
    bad = [each.told for each in judged if each.told and each.verdict == "invalid"]
    good = [each.told for each in judged if each.told and each.told.bound and each.verdict == "valid"]
    if bad:
        return _lost(bad, asked)
    if good:
        return _none_lost(good, facts.need.power_losses_min if asked else None)
    if judged:
        return unknown(f"power losses show nothing: {judged[0].outcomes[0].text}")
    note = "no run cut the power of such a drive"
    if facts.source.slog:
        timing = write_cache.judge(facts.source.slog[0])
        note = f"hsp slog: {timing.sentence} Timing is evidence, no proof"
    return SheetValue(text="not tested", note=note)


def _lost(bad: Sequence[PowerLossResult], asked: bool) -> SheetValue:
    lost, cuts = sum(told.lost for told in bad), sum(told.moments for told in bad)
    with_loss = sum(told.moments_with_loss for told in bad)
    return SheetValue(
        text=f"no: lost {commas(lost)} of {_records(bad)}", value=lost, met=False if asked else None,
        note=f"in {with_loss} of {_losses(cuts)} of a drive of this model",
    )  # fmt: skip


def _none_lost(good: Sequence[PowerLossResult], least: int | None) -> SheetValue:
    """`least`: so many power losses are asked for; None: it is not asked whether data is lost."""
    cuts = sum(told.bound.of for told in good if told.bound)
    few = f"; you ask for {least} power losses" if least is not None and cuts < least else ""
    like = "; ".join(dict.fromkeys(map(power_loss.conditions, good)))
    like += f"; {len(good)} session{'s' * (len(good) > 1)}"
    most = format_percent(proportion.interval(0, cuts)[1], 1)
    return SheetValue(
        text=f"none lost of {_records(good)} in {_losses(cuts)}, so fewer than {most} of such lose data "
        "(95 % confidence)",
        value=0,
        met=True if least is not None and not few else None,
        note=f"fewer than {most} with 95 % confidence, if no power loss depends on another ({like}){few}",
    )


def _losses(count: int) -> str:
    return f"{count} power loss{'es' * (count != 1)}"


def _records(told: Sequence[PowerLossResult]) -> str:
    """Those that no later one had replaced."""
    return f"{commas(sum(each.looked_at for each in told))} records that were looked for"


def wear_lines(facts: DriveFacts) -> Iterator[Line]:
    for role, name in NAMES.items():
        amplified = line(WEAR, f"{role}_amplification", f"{name}, write amplification")
        yield amplified, _amplification(facts, role)
        per_day, how, is_worst = _per_day(facts, role)
        yield line(WEAR, f"{role}_per_day", f"{name}, GB written a day"), (
            unknown(how) if per_day is None
            else SheetValue(text=f"{three_digits(per_day / _GB)} GB", value=per_day, note=how)
        )  # fmt: skip
        years = facts.need.years
        need = f"at least {years:g}" if years and facts.source.devices(role) else ""
        lasts = line(WEAR, f"{role}_years", f"{name}, years until its rated endurance", need)
        yield lasts, _years(facts, role, per_day, how, is_worst)


def _amplification(facts: DriveFacts, role: str) -> SheetValue:
    found = [
        (phase.name, device.write_amplification)
        for phase, _, devices in uses(facts.source, role, facts.phases[role])
        for device in devices
        if device.write_amplification is not None
    ]
    if not found:
        return unknown("the drive does not report it, or nothing was written")
    value = max(value for _, value in found)
    note = f"{found[0][0]}: flash programmed / bytes written"
    return SheetValue(text=three_digits(value), value=value, note=note)


def _per_day(facts: DriveFacts, role: str) -> tuple[float | None, str, bool]:
    """Bytes a day to one device, where they are from, and whether that is the most that there can be.

    A day is 86,400 s and a phase a few: each says from how long a phase it is extrapolated.
    """
    asked = facts.need.written_per_day_bytes
    rates, factors, sums = [], [], []
    for phase, clients, devices in uses(facts.source, role, facts.phases[role]):
        measured = f"extrapolated from {three_digits((phase.end_ns - phase.start_ns) / 1e9)} s of load"
        for device in devices:
            rates.append((device.written_bytes_per_s, measured))
            if clients:
                factors.append((device.written_bytes / clients, measured))
        if clients:
            sums.append(sum(device.written_bytes for device in devices) / clients)
    if role == "log" and asked is not None:
        if not factors:
            return None, "no run counted its bytes while clients wrote", False
        if min(sums) < 1:
            text = f"{format_factor(min(sums))} what clients wrote reached log devices"
            return None, f"{text}: less than all, so other devices have the rest", False
        factor, measured = max(factors)
        by_clients = f"{format_decimal_bytes(asked)} a day by clients"
        how = f"{by_clients}, {format_factor(factor)} that on the device; {measured}"
        return asked * factor, how, False
    if not rates:
        return None, "no run counted its bytes", False
    rate, measured = max(rates)
    return rate * _DAY_S, f"if the load that was measured went on all day; {measured}", True


def _years(facts: DriveFacts, role: str, per_day: float | None, how: str, is_worst: bool) -> SheetValue:
    need = facts.need.years
    ratings = [each.endurance_bytes for each in facts.source.devices(role)]
    known = [each for each in ratings if each]
    if not ratings:
        return SheetValue(text="-", note="no such device")
    if len(known) < len(ratings):
        return unknown("the testbed has no endurance of it")
    if per_day is None:
        return unknown(f"its bytes a day are not known: {how}")
    years = min(known) / (per_day * _YEAR_DAYS) if per_day else float("inf")
    met = None if need is None else years >= need
    note = f"rated for {format_decimal_bytes(min(known))}; {how}"
    if is_worst:
        # Less than all day is less wear: only that it suffices can be told.
        met = met or None
    if years > _LONG_YEARS:
        return SheetValue(text=f"more than {commas(_LONG_YEARS)}", met=met, note=note)
    return SheetValue(text=three_digits(years), value=years, met=met, note=note)


def price_lines(facts: DriveFacts) -> Iterator[Line]:
    budget = facts.need.budget
    need = f"at most {budget}" if budget else ""
    yield line(PRICE, "price", "Price of its devices", need), _price(facts, budget)
    for role, name in NAMES.items():
        device = next(iter(facts.source.devices(role)), Device())
        price, size = price_of(device.price), device.size_bytes
        value = _money(price and price[0] / (size / _GB), price, "") if size else unknown("no size")
        yield line(PRICE, f"{role}_per_gb", f"{name}, price per GB"), value
        alone = facts.alone[role]
        cost = price[0] * alone.mean_us / 1e3 if price and alone else None
        value = _money(cost, price, "one at a time, alone") if alone else unknown("not measured alone")
        yield line(PRICE, f"{role}_per_1000", f"{name}, price per 1000 aged I/O/s"), value
        saved = line(PRICE, f"{role}_per_us", f"{name}, price per µs saved at p99")
        yield saved, _per_us(facts, role, price)
        disks = line(PRICE, f"{role}_disks", f"{name}: replaces as many disks (one I/O at a time)")
        yield disks, _disks(facts, role)


def _price(facts: DriveFacts, budget: str | None) -> SheetValue:
    limit, found = price_of(budget), facts.price
    if found is None:
        return unknown("a device has no price in its testbed, or they have several currencies")
    amount, currency = found
    met, note = None, f"{len(facts.devices)} devices"
    if limit and limit[1] == currency:
        met = amount <= limit[0]
    elif limit:
        note = f"the budget is in {limit[1]}"
    return SheetValue(text=f"{amount:,.2f} {currency}", value=amount, met=met, note=note)


def _money(amount: float | None, price: tuple[float, str] | None, note: str) -> SheetValue:
    if amount is None or price is None:
        return unknown("the testbed has no price of it")
    shown = f"{amount:,.2f}" if amount >= 0.1 else f"{amount:.2g}"
    return SheetValue(text=f"{shown} {price[1]}", value=amount, note=note)


def _per_us(facts: DriveFacts, role: str, price: tuple[float, str] | None) -> SheetValue:
    mine, other = facts.served[role], facts.without[role]
    with_it, without = (each.us("p99") if each else None for each in (mine, other))
    if other is None or with_it is None or without is None:
        return unknown("no p99 with the device and without one")
    if (saved := without - with_it) <= 0:
        return SheetValue(text="saves nothing", note=f"against {other.phase} without the device")
    note = f"{commas(saved)} µs saved, against {other.phase} without one"
    return _money(price and price[0] / saved, price, note)


def _disks(facts: DriveFacts, role: str) -> SheetValue:
    mine, other = facts.served[role], facts.without[role]
    if not (mine and other):
        return unknown("not measured with the device and without one")
    means = [each.mean_us for each in (mine, other)]
    kind = "mean" if all(means) else "median"
    with_it, without = means if all(means) else (each.us("p50") for each in (mine, other))
    if not with_it or not without:
        return unknown("too few I/Os with the device or without one")
    number = without / with_it
    return SheetValue(text=three_digits(number), value=number, note=f"{kind} latencies at the NFS server")
