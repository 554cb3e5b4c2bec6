"""Each option in each mode of its command: it has an effect, or it is refused; it is never ignored."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.cli import clean, lab, new, run, slog
from kit.cli.host import check, disks
from kit.cli.main import TARGETS, command_of
from kit.cli.stored import watch
from kit.cli.usage import UNUSED
from kit.devices.check import Checked
from kit.devices.refusal_reasons import Code, DeviceSpec, Reason
from kit.devices.wipe import Wipe
from kit.doctor.finding import Finding
from kit.doctor.report import make_report
from kit.session import new_testbed
from tests.conftest import Called
from tests.kit.session.test_new_testbed import DISKS, HOST, SSDS
from tests.reports import synthetic, synthetic_series

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
NAS = str(ROOT / "docs" / "examples" / "mynas.toml")
IDS = [f"2026112{day}T053000Z-ab12cd" for day in (1, 2, 3)]
SERIES = synthetic_series.ID
# A mode of UNUSED, or None: no table names it; to words that bring the command there.
MODES: list[tuple[str | None, str]] = [
    (None, "demo"),
    ("a run that is resumed", "run --resume w"),
    ("a run without B", "run top-speeds"),
    ("so few runs", "run top-speeds --versus-workload top-speeds --repeat 3"),
    ("A and B", "run top-speeds --versus-workload top-speeds --repeat 4"),
    ("several runs", "run top-speeds --repeat 2"),
    ("a sweep", "run addresses"),
    ("the lab", "run top-speeds"),
    ("the lab", "slog log0"),
    ("hosts of your own", f"run top-speeds --testbed {NAS}"),
    ("hosts of your own", f"slog log0 --testbed {NAS}"),
    ("hosts of your own", f"host check --testbed {NAS}"),
    (None, f"host check --testbed {ROOT}/kit/lab/testbed.toml --boot"),
    (None, f"host disks --testbed {NAS}"),
    (None, f"host wipe log0 --testbed {NAS} --erase-serial PHKE730000AB375AGN"),
    ("JSON", f"host check --testbed {NAS} --json"),
    ("JSON", f"host disks --testbed {NAS} --json"),
    ("JSON", "plan top-speeds --json"),
    ("a workload that sweeps nothing", "plan top-speeds"),
    ("a plan of a sweep", "plan addresses"),
    (None, "plan addresses --build base"),
    (None, "list"),
    ("a list of anything but runs", "list baselines"),
    ("a list of what is not stored", "list presets"),
    ("the report of a run", "show w"),
    ("the report of a series", f"show {SERIES}"),
    ("checks", "show w --checks"),
    ("a result without text", "show w --checks --json"),
    ("a page that is served", "show w --live"),
    ("counts", "show w --format csv"),
    ("counts of a series", f"show {SERIES} --format csv"),
    ("counts that are not OpenMetrics", "show w --format csv"),
    ("OpenMetrics", "show w --format openmetrics"),
    ("totals", "show w --format openmetrics --totals"),
    (None, f"compare {IDS[0]} {IDS[1]} -- {IDS[2]}"),
    ("a result without text", f"compare {IDS[0]} {IDS[1]} -- {IDS[2]} --format csv"),
    ("a comparison of series", f"compare {SERIES} -- other/sizes/{SERIES}"),
    (None, "trend w"),
    ("a result without text", "trend w --format markdown"),
    (None, "import plain.log --from fio-log"),
    (None, "tag w"),
    ("a clean-up of runs", "clean"),
    ("all unfinished runs", "clean"),
    ("images of the lab", "clean --cache"),
    (None, "lab up"),
    ("the lab's image", "lab up --build"),
    ("devices of this machine", "lab up --here disks.toml"),
    ("a fault other than stall", "lab fault log0 error --sectors 1+1"),
    ("a fault other than error", "lab fault log0 stall --for 1ms"),
    ("a fault other than stall", "lab fault log0 heal"),
    ("a new workload", "new workload x"),
    (None, "new testbed --candidates sdx sdy"),
    ("the help of commands", "help run"),
    ("one schema", "help schema testbed"),
    ("a list of claims", "reproduce --list"),
]  # fmt: skip
# Values with an effect where the option has one: mostly what cannot be; who does not look refuses none.
VALUES = {
    "--speed": "2",
    "--seed": "7", "--repeat": "5", "--port": "1", "--per-octave": "4", "--every": "100ms", "--number": "1",
    "--last": "2", "--writes": "100", "--state": "fresh", "--verdict": "failed", "--by": "version",
    "--of": "read", "--op": "write", "--layer": "client", "--unit": "ms",
    "--time-unit": "ms", "--log-vdev": "3", "--from": "fio-json", "--format": "json", "--set": "job.bs=4k",
    "--length": "smoke", "--host": "other", "--name": "other", "--after": "1ms", "--across": "x",
    "--worse-than": "1000%", "--agree": "x", "--kernel": "amd64", "--suite": "bookworm",
    "--pin": "zfs-linux=2.3.2-2", "--versus": NAS, "--versus-workload": "top-speeds",
    "--role": "cache", "--data": "vdb",
    "--erase-serial": "x", "--output": "out.json", "--lab": "x", "--need": "x",
}  # fmt: skip
# Of all commands, and about the terminal alone.
SHARED = {"--help", "--quiet", "--color"}


def command_in(words: str) -> str:
    return max((each for each in TARGETS if f"{words} ".startswith(f"{each} ")), key=len)


@cache
def options_of(command: str) -> list[tuple[str, bool]]:
    """Each option, and whether it takes a value."""
    params = [each for each in command_of(command).params if each.param_type_name == "option"]
    return [(each.opts[0], not each.is_flag) for each in params if not {*each.opts} & SHARED]


def refused(mode: str | None, option: str) -> bool:
    return mode is not None and option in UNUSED[mode][0].split()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of a workload, a series, and a log."""
    folder = tmp_path_factory.mktemp("modes")
    for number, name in enumerate(IDS):
        frame = synthetic.realistic(intervals=4, per_interval=60, seed=number)
        started = {"run": name, "started_utc": f"2026-11-2{number + 1}T05:30:02Z"}
        manifest = synthetic.manifest(frame, 4) | started
        reports.analyse(synthetic.write(folder / "results" / "w" / name, manifest, frame))
    for place, name in (("results", SERIES), ("other", f"{SERIES[:-6]}bbbbbb")):
        reports.analyse_series(synthetic_series.series(folder / place, id=name), ended=True)
    (folder / "plain.log").write_text("".join(f"{n}, {150_000 + n}, 0, 512, 0, 0\n" for n in range(200)))
    return folder


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would be done to machines; commands are taken up to there."""
    calls: list[Any] = []

    def record(name: str, answer: Any = 0) -> Callable[..., Any]:
        def called(*words: Any, **named: Any) -> Any:
            shown = [each for each in (*words, *named.values()) if "Progress" not in type(each).__name__]
            # Where objects lie in memory is no effect of an option.
            calls.append((name, re.sub(r" at 0x[0-9a-f]+", "", repr(shown))))
            return answer

        return called

    @contextmanager
    def opened(*words: Any) -> Iterator[Any]:
        yield record("opened")(*words) or type("Host", (), {"name": "nas"})()

    for module, names in (
        (run, ("once", "repeat", "measure_sweep")), (lab, ("_boot", "_build", "prune_cache")),
        (watch, ("watch",)), (slog, ("measure_each",)), (disks, ("wipe",)),
    ):  # fmt: skip
        for name in names:
            monkeypatch.setattr(module, name, record(name, [] if module is slog else 0))
    disk = Wipe(Checked(DeviceSpec("/dev/x"), DISKS[0].node, ()), (), (("wipefs", "/dev/x"),), ())
    monkeypatch.setattr(disks, "plan_wipe", lambda *_: disk)
    unknown = tuple(Reason(Code.UNDETERMINED, probe, "") for probe in ("lsof", "mdadm"))
    monkeypatch.setattr(disks, "list_devices", lambda _: (*DISKS, replace(DISKS[0], reasons=unknown)))
    monkeypatch.setattr(disks, "Locks", lambda *_: nullcontext())
    for module in (disks, lab):
        monkeypatch.setattr(module, "open_server" if module is disks else "open_host", opened)
    testbed = ROOT / "kit" / "lab" / "testbed.toml"
    monkeypatch.setattr(run, "sources", lambda _: (ROOT / "workloads" / "top-speeds.toml", testbed, (), ""))
    monkeypatch.setattr(run.resuming, "agree", record("agree"))
    report = make_report((), [Finding("nas", "swap", "ok", "none")])
    for name in ("_diagnose_lab", "_diagnose"):
        monkeypatch.setattr(check, name, record(name, report))
    monkeypatch.setattr(check, "targets_of", record("targets_of", []))
    monkeypatch.setattr("kit.cli.emulated_device.serve", record("serve"))
    monkeypatch.setattr(new, "open_server", lambda testbed: record("server")(testbed) or HOST)
    monkeypatch.setattr(new_testbed, "list_devices", lambda host: (*SSDS, *DISKS))
    monkeypatch.setattr(clean, "_clean_named", record("_clean_named", []))
    state = {"state": "x", "clock": "real", "dilation": 1}
    monkeypatch.setattr(lab, "_selected_lab", lambda name: record("lab")(name) or state)
    monkeypatch.setattr(lab.ServedDevices, "tell", record("tell"))
    return calls


Outcome = tuple[int, str, str, str, set[str]]
OUTCOMES: dict[str, Outcome] = {}


def outcome(
    hsp_here: Called, folder: Path, recorded: list[Any], words: list[str], last: list[str]
) -> Outcome:
    """Exit code, output, what would be done, and the files beside those that were there."""
    recorded.clear()
    before = files(folder)
    # Options stand before the --.
    at = words.index("--") if "--" in words else len(words)
    done: subprocess.CompletedProcess[str] = hsp_here(*words[:at], *last, *words[at:], cwd=folder)
    new = files(folder) - before
    for path in map(folder.joinpath, sorted(new)):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    return done.returncode, done.stdout, done.stderr, repr(recorded), new


def files(folder: Path) -> set[str]:
    places = ("*", "results/*", "results/other/*")
    return {str(path.relative_to(folder)) for each in places for path in folder.glob(each)}


PAIRS = [
    pytest.param(mode, words, option, takes, id=f"{words.replace(str(ROOT), '')} {option}")
    for mode, words in MODES
    for option, takes in options_of(command_in(words))
]


@pytest.mark.parametrize(("mode", "words", "option", "takes"), PAIRS)
def test_an_option_has_an_effect_or_is_refused(
    hsp_here: Called,
    stored: Path,
    recorded: list[Any],
    mode: str | None,
    words: str,
    option: str,
    takes: bool,
) -> None:
    more = [option, VALUES.get(option, "nowhere/x.toml")] if takes else [option]
    if option == "--format" and "--json" in words:
        more = [option, "text"]
    found = outcome(hsp_here, stored, recorded, words.split(), more)
    if refused(mode, option):
        assert found[0] == 2 and f"{option} has no effect on {mode}: " in found[2]
        return
    if words not in OUTCOMES:
        OUTCOMES[words] = outcome(hsp_here, stored, recorded, words.split(), [])
    assert found != OUTCOMES[words] or option in words.split(), "it is ignored"


def test_each_mode_is_looked_at_and_each_option_there_is_one() -> None:
    assert {mode for mode, _ in MODES} - {None} == UNUSED.keys()
    of_mode: Mapping[str, set[str]] = {
        mode: {option for each, words in MODES if each == mode for option, _ in options_of(command_in(words))}
        for mode in UNUSED
    }
    named = {mode: {*options.split()} - {"WORKLOAD", "RUN"} for mode, (options, *_) in UNUSED.items()}
    assert {mode: names - of_mode[mode] for mode, names in named.items() if names - of_mode[mode]} == {}
