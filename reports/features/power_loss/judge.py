"""Whether writes that were acknowledged were there after a power loss (`power_loss` of the manifest). Pure.

One judge for the lab and for real hardware. A loss makes a run invalid. Without one, the run is unknown if
the positive control lost nothing (the test could not have seen a loss), or if a power loss is not proven.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kit.core.errors import MeasurementUnknown
from kit.core.text import counted
from kit.core.units import commas, format_binary_bytes, format_latency
from kit.store.checks.outcome import Outcome, Verdict
from kit.store.latency import Latency
from kit.store.manifest import Manifest, Moment, PowerLoss
from kit.store.parts.power_loss import Bound, Control, PowerLossResult
from kit.store.stored import Json
from kit.store.summary import Row, Summary
from reports.features.feature import Feature, Judged
from reports.statistics import proportion
from reports.verdict.outcomes import verdict_of

# Ids of the classes, in the order of their weight, and what was there instead.
CLASSES = {
    "gone": ("POWER-LOSS-GONE", "could not be read, or the device was gone"),
    "lost": ("POWER-LOSS-LOST", "were gone"),
    "torn": ("POWER-LOSS-TORN", "were there in part"),
    "old": ("POWER-LOSS-OLD", "were older ones again"),
    "foreign": ("POWER-LOSS-FOREIGN", "were something that was never written there"),
}
_CONTROLS = {
    "no-sync": "the control (no sync)",
    "no-flush": "the control (no FLUSH)",
    "unstable": "the control (unstable writes without a COMMIT)",
}
_APPLIANCE = "appliance"
# Why a control that lost nothing says nothing, and why there was no control.
_NO_TEETH = "either the power did not really go, or it could not have lost any here (docs/power-loss.md)"
_KEPT_MEMORY = (
    "the cut did not reach the memory of the appliance, or a battery keeps that, or it writes all through"
)
_NO_CONTROL = "there was no positive control, so it is not known whether a loss would be seen"
_STABLE_ANYWAY = (
    "there was no control: the appliance says of unstable writes, too, that they are stable, so none of its "
    "writes may be lost, and whether the cut reached its memory is not seen"
)
# By scope: what proves a power loss, and how.
_PROOF = (
    "a count of the devices",
    "unsafe shutdowns, or the starts of the power-loss protection, have to grow with each",
)
_PROOF_OF_APPLIANCE = ("another NFS write verifier", "it changes with each start (RFC 1813, 3.3.7)")
_NOT_PROVEN_SHOWN = 5
# That a device may count for one: of its own, its enclosure, and the power cycle that verifies.
_MOST_COUNTED = 16
# In the order of the page.
_SHOWN = ("lost", "torn", "old", "foreign", "gone")


class JudgedLosses(NamedTuple):
    """`told`: for the summary; `kept`: a sentence, if nothing is wrong."""

    told: PowerLossResult | None = None
    outcomes: Sequence[Outcome] = ()
    kept: str = ""

    @property
    def verdict(self) -> Verdict:
        """By the power losses alone."""
        return verdict_of(self.outcomes)


def judge(power_loss: PowerLoss | None) -> JudgedLosses:
    """Raises MeasurementUnknown if no write was acknowledged."""
    if power_loss is None:
        return JudgedLosses()
    moments = power_loss.moments
    if not moments and power_loss.stopped:
        # The control was the first, and the last.
        return JudgedLosses(outcomes=_open(power_loss))
    if not moments or not sum(moment.acknowledged for moment in moments):
        raise MeasurementUnknown("no write was acknowledged before a power loss")
    broken = [*_broken(power_loss)]
    told = result(power_loss)
    if broken:
        last = broken[-1]
        text = f"{last.text} {_share(told)}".strip()
        return JudgedLosses(told, [*broken[:-1], last.model_copy(update={"text": text})])
    if unsure := [*_open(power_loss)]:
        return JudgedLosses(told, unsure)
    kept = " ".join(filter(None, [*answer(told), _like(told), _control_sentence(power_loss)]))
    return JudgedLosses(told, [Outcome.ok("POWER-LOSS-LOST", subject="power losses", text=kept)], kept)


def answer(told: PowerLossResult | None) -> list[str]:
    """That nothing was lost, of what was looked for, and what that says; of a run with power losses."""
    if told is None:
        return []
    losses = _losses(told.bound.of if told.bound else told.moments)
    records = of_records(told.looked_at, told.acknowledged)
    text = f"{losses} lost none of {records}."
    if told.scope == _APPLIANCE:
        text = f"The export kept its word: {commas(told.looked_at)} of {records} survived {losses}."
    return [f"{text} {_share(told)}".strip()]


def _losses(number: int) -> str:
    return f"{number} power loss{'es' * (number != 1)}"


def counts_of(moment: Moment) -> dict[str, int]:
    """Records by class: found at once, or after one more power cycle, whichever are more."""
    again = moment.again
    return {name: max(getattr(moment, name), getattr(again, name) if again else 0) for name in CLASSES}


def lost_of(moments: Sequence[Moment]) -> int:
    """Records of all classes."""
    return sum(sum(counts_of(moment).values()) for moment in moments)


def is_proven(moment: Moment) -> bool:
    """Whether some count of each device has grown."""
    grown: dict[str, bool] = {}
    for each in moment.proof:
        grown[each.device] = grown.get(each.device, False) or (0 < each.after - each.before <= _MOST_COUNTED)
    return bool(grown) and all(grown.values())


def table(power_loss: PowerLoss) -> Json:
    """What the page shows: a row for each power loss and for the control, and what they say together."""
    named = [(str(number), moment) for number, moment in enumerate(power_loss.moments, 1)]
    named += [("control", moment) for moment in power_loss.control_moments]
    rows = [
        {
            "name": name,
            "is_control": name == "control",
            "idle_ns": moment.idle_ns,
            "acknowledged": moment.acknowledged,
            "looked_at": moment.looked_at,
            "classes": [counts_of(moment)[each] for each in _SHOWN],
            "proof": _proof_text(moment),
        }
        for name, moment in named
    ]
    told = result(power_loss)
    sentence = f"{_share(told)} {_like(told)}".strip()
    return {"rows": rows, "sentence": sentence, "control": _control_sentence(power_loss)}


def _proof_text(moment: Moment) -> str:
    """Such as "log0 unsafe_shutdowns 3 to 4"."""
    texts = [
        f"{each.device} {each.counter} {each.before} to {each.after}"
        for each in moment.proof
        if each.after > each.before
    ]
    return "; ".join(texts) + ("" if is_proven(moment) else " not proven" if texts else "not proven")


def _counted(power_loss: PowerLoss) -> list[Moment]:
    """The power losses that count: proven ones, and those with a loss, which prove themselves."""
    moments = [moment for moment in power_loss.moments if moment.looked_at]
    return [moment for moment in moments if is_proven(moment) or lost_of([moment])]


def _records(moments: Sequence[Moment]) -> str:
    return of_records(sum(each.looked_at for each in moments), sum(each.acknowledged for each in moments))


def of_records(looked_at: int, acknowledged: int) -> str:
    """The denominator of a loss, as words."""
    if looked_at == acknowledged:
        return f"{commas(acknowledged)} acknowledged writes"
    return f"{commas(looked_at)} records looked for ({commas(acknowledged)} acknowledged writes)"


def result(power_loss: PowerLoss) -> PowerLossResult:
    moments, counted = power_loss.moments, _counted(power_loss)
    classes = {name: sum(counts_of(moment)[name] for moment in moments) for name in CLASSES}
    with_loss = sum(lost_of([moment]) > 0 for moment in counted)
    # What is not known is not stored.
    more: dict[str, Any] = {}
    if counted:
        low, high = proportion.interval(with_loss, len(counted))
        more["bound"] = Bound(of=len(counted), low=low, high=high)
    control = power_loss.control_moments
    return PowerLossResult(
        moments=len(moments),
        acknowledged=sum(moment.acknowledged for moment in moments),
        lost=lost_of(moments),
        moments_with_loss=with_loss,
        looked_at=sum(moment.looked_at for moment in moments),
        after_ns=max((moment.after_ns for moment in moments), default=0),
        written_bytes=max((moment.written_bytes for moment in moments), default=0),
        devices=len({each.device for moment in moments for each in moment.proof}),
        scope=power_loss.scope,
        classes=classes,
        proven=sum(map(is_proven, moments)),
        in_flight_torn=sum(moment.in_flight_torn for moment in moments),
        verified_again=sum(moment.again is not None for moment in moments),
        control=Control(
            kind=power_loss.control,
            acknowledged=sum(moment.acknowledged for moment in control),
            looked_at=sum(moment.looked_at for moment in control),
            lost=lost_of(control),
        ),
        **more,
    )


def conditions(told: PowerLossResult) -> str:
    """Of the power losses that a bound is of: "like these"."""
    drives = f"{told.devices} device{'s' * (told.devices != 1)}" if told.devices else "the same devices"
    if told.scope == _APPLIANCE:
        drives = "one export, written by one client"
    after, written = format_latency(told.after_ns / 1e3), format_binary_bytes(told.written_bytes)
    return f"each at most {after} after the first write, with at most {written} written until then, {drives}"


def _share(told: PowerLossResult) -> str:
    """Which share of power losses lose data; "" where none counts."""
    if not told.bound:
        return ""
    low, high = f"{100 * told.bound.low:.1f}", f"{100 * told.bound.high:.1f} %"
    if told.moments_with_loss:
        return f"{low} to {high} of power losses like these lose data (95 % confidence)."
    most = f"fewer than {high} of power losses like these lose data"
    can = f"{_losses(told.bound.of)} can show no more than this"
    return f"{can}: {most} (95 % confidence)."


def _like(told: PowerLossResult) -> str:
    """What such power losses are like."""
    return f"Like these, if they do not depend on each other: {conditions(told)}, one session." * bool(
        told.bound
    )


def _broken(power_loss: PowerLoss) -> list[Outcome]:
    """A cause for each class of records that were not as acknowledged."""
    moments = power_loss.moments
    of, whose = _records(moments), "The export lies: " * (power_loss.scope == _APPLIANCE)
    causes = []
    for name, (id_, words) in CLASSES.items():
        bad = [(n, moment) for n, moment in enumerate(moments, 1) if counts_of(moment)[name]]
        if not bad:
            continue
        count = sum(counts_of(moment)[name] for _, moment in bad)
        number, first = bad[0]
        place = f"power loss {number}"
        if first.first_lost is not None and getattr(first, name):
            worker = "" if first.first_worker is None else f" of worker {first.first_worker}"
            place = f"write {first.first_lost}{worker} of power loss {number}"
        elif not getattr(first, name):
            place += ", found after one more power cycle"
        causes.append(
            Outcome.failed(
                id_,
                f"{whose}{count} of {of} {words} after the power came back, "
                f"in {len(bad)} of {len(moments)} power losses (the first: {place}).",
            )
        )
    return causes


def _open(power_loss: PowerLoss) -> list[Outcome]:
    """Why no loss says nothing."""
    causes = []
    moments = power_loss.moments
    if power_loss.stopped:
        causes.append(
            Outcome.failed(
                "POWER-STOPPED", f"There were fewer power losses than asked for: {power_loss.stopped}."
            )
        )
    elif power_loss.asked and len(moments) != power_loss.asked:
        text = f"There were {len(moments)} power losses of {power_loss.asked}, and nothing says why."
        causes.append(Outcome.failed("POWER-STOPPED", text))
    unproven = [str(number) for number, moment in enumerate(moments, 1) if not is_proven(moment)]
    if unproven:
        more = ", ..." if len(unproven) > _NOT_PROVEN_SHOWN else ""
        by, why = _PROOF_OF_APPLIANCE if power_loss.scope == _APPLIANCE else _PROOF
        causes.append(
            Outcome.failed(
                "POWER-UNPROVEN",
                f"{len(unproven)} of {len(moments)} power losses are not proven by {by} "
                f"(number {', '.join(unproven[:_NOT_PROVEN_SHOWN])}{more}), so they do not count: "
                f"{why}.",
            )
        )
    control = power_loss.control_moments
    if not lost_of(control):
        who, unstable = _CONTROLS.get(power_loss.control), power_loss.control == "unstable"
        why = _KEPT_MEMORY if unstable else _NO_TEETH
        text = f"{who} lost none of {_records(control)}: {why}"
        if not who or not control:
            text = _STABLE_ANYWAY if unstable else _NO_CONTROL
        causes.append(Outcome.failed("POWER-CONTROL", f"The test has no teeth: {text}."))
    return causes


def _control_sentence(power_loss: PowerLoss) -> str:
    control = power_loss.control_moments
    who = _CONTROLS.get(power_loss.control)
    if not control or not who:
        return ""
    return f"{who[0].upper()}{who[1:]} lost {lost_of(control)} of {_records(control)}: the test sees a loss."


def _judged(manifest: Manifest, _: Latency, __: Sequence[Row]) -> Judged:
    try:
        found = judge(manifest.power_loss)
    except MeasurementUnknown as error:
        return Judged({}, [Outcome.unknown("POWER-LOSS-UNKNOWN", f"Power losses: {error.message}.")])
    return Judged({"power_loss": found.told}, found.outcomes, kept=found.kept)


def _measured(summary: Summary) -> list[str]:
    told = summary.power_loss
    return (
        [f"Power was cut {counted(told.moments, 'time')} while records were written. Latency:"]
        if told
        else []
    )


FEATURE = Feature(_judged, lambda summary: answer(summary.power_loss), measured=_measured)
