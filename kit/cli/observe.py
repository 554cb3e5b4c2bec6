"""`hsp observe`: which tier answers on a server that serves already."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

import reports
from kit.cli.options import JsonOption, LiveOption, ResultsOption, duration_ns, percentage
from kit.config.address import HostAddress, parse_address
from kit.config.tables.phase_table import MOST_ONE_IN
from kit.config.testbed import read_testbed
from kit.core.clock import Clock
from kit.core.errors import EXIT_HOST, ConfigError
from kit.core.output import emit, emit_json, say
from kit.core.progress import Progress
from kit.hosts.base import Host
from kit.hosts.connect import open_host
from kit.observe import by_hand
from kit.observe.asked import Asked
from kit.observe.observe import observe as observe_server
from kit.observe.observe import refuse_duration, refuse_others
from kit.plan.plan import digest_of
from kit.recovery.journal import Journal, Leftover
from kit.session.live.terminal import LiveView
from kit.session.measure import is_shown, new_run
from kit.session.presentation import code_of, print_result
from kit.store import run_directory
from kit.trace.support import MOST_LINES

_NAME = "observe"
HostArgument = Annotated[
    str | None,
    typer.Argument(metavar="[USER@]HOST", help="The server, as in `ssh [USER@]HOST`. Without: this machine."),
]
DatasetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset", metavar="NAME", help="Only this pool or dataset, and all below it. Repeatable."
    ),
]
ProgramOption = Annotated[
    str | None,
    typer.Option(
        "--program",
        metavar="VERSION",
        help="Print the tracer for this OpenZFS, to run it by hand where hsp cannot be.",
    ),
]
LocalOption = Annotated[bool, typer.Option("--local", help="Its own programs, in place of NFS clients.")]
FilesOption = Annotated[
    bool, typer.Option("--files", help="By file, too. The names of files are in the result.")
]
SplitOption = Annotated[
    bool, typer.Option("--split", help="Where the time of requests goes, too: devices, FLUSH, software.")
]
KeysOption = Annotated[
    int | None,
    typer.Option(
        "--keys",
        metavar="K",
        min=1,
        max=MOST_ONE_IN,
        help="A sample of the blocks that requests are for, too: one in K, as hashes.",
    ),
]
CaptureOption = Annotated[
    bool,
    typer.Option("--capture", help="Each request, too, in capture.parquet: `hsp run replay` repeats them."),
]
CaptureMaxOption = Annotated[
    int | None,
    typer.Option("--capture-max", metavar="N", min=1, max=MOST_LINES, help="So many at most (1 million)."),
]
CostOption = Annotated[
    str,
    typer.Option(
        "--cost-max",
        metavar="PERCENT",
        help="Remove the tracer when its probes take more of the mean latency.",
    ),
]


def observe(
    host: HostArgument = None,
    testbed: Annotated[
        Path | None, typer.Option("--testbed", metavar="FILE", help="The server of this testbed instead.")
    ] = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long; Ctrl-C ends it earlier.")
    ] = "10min",
    dataset: DatasetOption = None,
    live: LiveOption = False,
    program: ProgramOption = None,
    local: LocalOption = False,
    files: FilesOption = False,
    split: SplitOption = False,
    keys: KeysOption = None,
    capture: CaptureOption = False,
    capture_max: CaptureMaxOption = None,
    cost_max: CostOption = "5%",
    results: ResultsOption = Path("results"),
    json_output: JsonOption = False,
) -> None:
    """Look at a server that is in use: which tier answers NFS clients or programs, and what that costs.

    Changes nothing there that stays: no pool, export, load or setting. Needs root there, or sudo.

    Examples:
      sudo hsp observe                 this server, 10 minutes
      hsp observe root@nas --for 1h --live
      hsp observe root@nas --dataset tank/home --capture      then: hsp run replay --capture RUN
      hsp observe --program 2.3 >nfsd.bt
      hsp observe root@db --local --cost-max 60%
    """
    if program is not None:
        emit(by_hand.program(program))
        return
    span_ns = duration_ns("--for", for_)
    refuse_duration(span_ns)
    _refuse_local(local, {"--split": split, "--keys": keys, "--capture": capture})
    most = percentage("--cost-max", cost_max)
    captured = _captured(capture, capture_max)
    asked = Asked(tuple(dataset or ()), local, files, split, most, keys or 0, captured)
    address, config = _server(host, testbed)
    progress = Progress()
    with progress.step("connecting"):
        server = open_host(address, config)
    with server:
        refuse_others(server)
        plan = {"hosts": {"server": str(address)}, "ssh_config": config}
        run_dir = new_run(results, _NAME, plan | {"digest": digest_of(plan)})
        if live and is_shown(progress, json_output=json_output):
            progress.show_below(LiveView(run_dir))
        analysed, left = _observed(server, run_dir, span_ns, progress, asked)
    if json_output:
        emit_json(analysed.summary.as_json())
    else:
        print_result(analysed, run_dir)
    for each in left:
        say(each.problem)
    raise typer.Exit(EXIT_HOST if left else code_of(analysed.summary))


def _captured(capture: bool, most: int | None) -> int:
    """How many requests are captured at most; 0: none. Raises ConfigError."""
    if most is not None and not capture:
        raise ConfigError("--capture-max has no effect without --capture", "add --capture, or leave it out")
    return (most or MOST_LINES) if capture else 0


def _refuse_local(local: bool, of_nfs: Mapping[str, object]) -> None:
    """Raises ConfigError for what only NFS requests have."""
    for option, given in of_nfs.items():
        if local and given:
            raise ConfigError(f"{option} is of NFS requests", f"leave out --local, or {option}")


def _observed(
    server: Host,
    run_dir: run_directory.RunDir,
    span_ns: int,
    progress: Progress,
    asked: Asked,
) -> tuple[reports.Analysed, list[Leftover]]:
    """The observation with its report, and what could not be undone. Raises KitError."""
    command = ["hsp", *sys.argv[1:]]
    # It is held until the report is there: who looks at the run waits for that.
    with Journal(run_dir.journal) as journal:
        run_directory.point_latest(run_dir)
        left = observe_server(server, Clock("real"), run_dir, span_ns, command, progress, journal, asked)
        with progress.step("drawing the report"):
            return reports.analyse(run_dir), left


def _server(host: str | None, testbed: Path | None) -> tuple[HostAddress, str | None]:
    """Its address and the SSH configuration. Raises ConfigError."""
    if testbed is not None:
        if host is not None:
            raise ConfigError(f"{host} and --testbed {testbed} are two servers", "name one of them")
        read = read_testbed(testbed)
        if read.is_lab or read.is_appliance:
            raise ConfigError(
                f"{testbed}: it has no server to log in to", "name the server: hsp observe HOST"
            )
        return read.server.at, read.ssh_config
    if host is None:
        return parse_address("local"), None
    try:
        return parse_address(host if host.startswith("ssh://") else f"ssh://{host}"), None
    except ValueError as error:
        raise ConfigError(f"{host}: {error}", "for example: hsp observe root@nas") from None
