"""`hsp new`: files to start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import TypeAdapter, ValidationError

from kit.cli.usage import refuse_unused
from kit.config.address import parse_address
from kit.config.tables.phase_table import Name
from kit.config.testbed import Testbed
from kit.core.errors import ConfigError
from kit.core.output import emit_text
from kit.core.text import safe_text
from kit.session import new_testbed
from kit.setup.remote_site import open_server

_TEMPLATES = Path(__file__).parents[1] / "config" / "templates"
_candidate = partial(typer.Option, rich_help_panel="Drives to choose from")
DirectoryOption = Annotated[Path, typer.Option("--directory", "-C", metavar="DIR", help="Where to write it.")]
CandidatesOption = Annotated[bool, _candidate("--candidates", help="They are: which one to buy?")]
RoleOption = Annotated[
    Literal["log", "cache"], _candidate("--role", help="What they would be: log device or L2ARC.")
]
DataOption = Annotated[
    list[str] | None,
    _candidate("--data", metavar="DEVICE", show_default="free disks", help="A disk for data. Repeatable."),
]
ServerOption = Annotated[
    str, _candidate("--server", metavar="HOST", help="It has the disks: ssh://USER@HOST.")
]
ClientOption = Annotated[
    list[str] | None,
    _candidate("--client", metavar="HOST", show_default="local", help="A machine that mounts. Repeatable."),
]
NameOption = Annotated[str, _candidate("--name", metavar="NAME", help="Of the files.")]


def new(
    context: typer.Context,
    kind: Annotated[Literal["workload", "testbed"], typer.Argument(metavar="workload|testbed", help="What.")],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|DEVICE",
            help="The workload's name; of a testbed the drives: links in /dev/disk/by-id, names, serials.",
        ),
    ],
    candidates: CandidatesOption = False,
    role: RoleOption = "log",
    data: DataOption = None,
    server: ServerOption = "local",
    client: ClientOption = None,
    name: NameOption = "which-ssd",
    directory: DirectoryOption = Path(),
) -> None:
    """Write files to start from: a workload; or testbed, workload and need for drives to choose from.

    Overwrites nothing, and changes nothing on disks.

    Examples:
      hsp new workload database-log
      hsp new testbed --candidates sdx sdy --server ssh://root@nas --client ssh://root@client1
    """
    if kind == "workload":
        refuse_unused(context, {"a new workload": True})
        if len(words) != 1:
            raise ConfigError("a workload has one name", "for example: hsp new workload database-log")
        _workload(words[0], directory)
        return
    if not candidates:
        raise ConfigError("what are these disks for?", "add --candidates: they are drives to choose from")
    _candidates(words, role, data or (), server, client or ["local"], name, directory)


def _candidates(
    drives: list[str], role: Literal["log", "cache"], data: Sequence[str], server: str,
    client: Sequence[str], name: str, directory: Path,
) -> None:  # fmt: skip
    """Testbed, workload and need file."""
    _check(name, directory)
    hosts = _hosts(name, server, client)
    with open_server(hosts) as host:
        chosen = new_testbed.choose(host, drives, data)
    emit_text(new_testbed.describe(chosen, role))
    clients = [each.host for each in hosts.client]
    files = {
        "": new_testbed.workload_text(name, chosen),
        "-testbed": new_testbed.testbed_text(name, server, clients, chosen, role),
        "-need": new_testbed.need_text(role, new_testbed.names(chosen.candidates)),
    }
    paths = {end: directory / f"{name}{end}.toml" for end in files}
    _write({paths[end]: text for end, text in files.items()})
    of_role = " ".join(f"{role}-{each}" for each in new_testbed.names(chosen.candidates))
    on = f"--testbed {paths['-testbed']}"
    emit_text([
        "next:",
        f"  hsp slog {of_role} {on}    minutes: each alone, side by side",
        f"  hsp plan {paths['']} {on}    how long, and how much is written",
        f"  hsp run {paths['']} {on}    each as the {role} device of a pool",
        f"  hsp sheet {name} --need {paths['-need']}    which one to buy",
    ])  # fmt: skip


def _workload(name: str, directory: Path) -> None:
    """A workload with comments, and its fio jobs."""
    _check(name, directory)
    files = {
        directory / template.name.replace("workload", name, 1): template.read_text().replace("@NAME@", name)
        for template in sorted(_TEMPLATES.glob("workload*"))
    }
    _write(files)
    emit_text([f"next: hsp plan {directory / name}.toml"])


def _hosts(name: str, server: str, clients: Sequence[str]) -> Testbed:
    """The machines as a testbed without devices. Raises ConfigError."""
    try:
        kinds = [parse_address(each).kind for each in (server, *clients)]
        if kinds[0] in ("lab", "none") or not {*kinds[1:]} <= {"local", "ssh"}:
            raise ValueError("server and clients are machines of your own: local, or ssh://USER@HOST")
        hosts = ({"host": each} for each in clients)
        return Testbed.model_validate({"name": name[:31], "server": {"host": server}, "client": tuple(hosts)})
    except ValueError as error:
        raise ConfigError(f"--server, --client: {safe_text(str(error))}", "correct them") from None


def _check(name: str, directory: Path) -> None:
    """Raises ConfigError for a name that no workload can have, and for a directory that is not there."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise ConfigError(
            f"'{safe_text(name)}' is not a name of a workload",
            "a name has lower-case letters, digits and -, begins with a letter, at most 41 characters",
        ) from None
    if not directory.is_dir():
        raise ConfigError(f"{directory} is no directory", "make it first, or name another")


def _write(files: Mapping[Path, str]) -> None:
    """All of them, or none; nothing is overwritten. Raises ConfigError."""
    for path in files:
        if path.exists() or path.is_symlink():
            raise ConfigError(f"{path} is there already", "choose another name, or another --directory")
    written = []
    try:
        for path, text in files.items():
            # Not over a file that another program makes meanwhile.
            with path.open("x") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise ConfigError(
            f"{error.filename or path}: {error.strerror}; nothing was written", "choose another --directory"
        ) from None
    emit_text([f"wrote {', '.join(str(path) for path in files)}"])
