"""`hsp new`: files to start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import TypeAdapter, ValidationError

from kit.config.address import parse_address
from kit.config.tables.phase_table import Name
from kit.config.testbed import Testbed
from kit.core.errors import ConfigError
from kit.core.output import say
from kit.core.text import safe_text
from kit.session import new_testbed
from kit.setup.remote_site import open_server

_TEMPLATES = Path(__file__).parents[1] / "config" / "templates"


app = typer.Typer(no_args_is_help=True, add_completion=False)
DirectoryOption = Annotated[Path, typer.Option("--directory", "-C", metavar="DIR", help="Where to write it.")]


@app.callback()
def new_command() -> None:
    """Write files to start from: a workload, or a testbed for disks to choose from. Overwrites nothing."""


@app.command("workload")
def workload(
    name: Annotated[str, typer.Argument(help="Its name, such as database-log.")],
    directory: DirectoryOption = Path(),
) -> None:
    """Write a workload with comments, and its fio jobs."""
    _check(name, directory)
    files = {
        directory / template.name.replace("workload", name, 1): template.read_text().replace("@NAME@", name)
        for template in sorted(_TEMPLATES.glob("workload*"))
    }
    _write(files)
    say(f"next: hsp plan {directory / name}.toml")


@app.command("testbed")
def testbed(
    devices: Annotated[
        list[str],
        typer.Argument(metavar="DEV...", help="The drives: links in /dev/disk/by-id, names, serials."),
    ],
    candidates: Annotated[
        bool, typer.Option("--candidates", help="They are drives to choose from: which one to buy?")
    ] = False,
    role: Annotated[
        Literal["log", "cache"], typer.Option("--role", help="What they would be: log device or L2ARC.")
    ] = "log",
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="DEV", help="A disk for data (repeat it).", show_default="free disks"),
    ] = None,
    server: Annotated[
        str, typer.Option("--server", help="The machine with the disks, ssh://USER@HOST.")
    ] = "local",
    client: Annotated[
        list[str] | None,
        typer.Option("--client", help="A machine that mounts (repeat it).", show_default="local"),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="What the files are called.")] = "which-ssd",
    directory: DirectoryOption = Path(),
) -> None:
    """Write testbed, workload and need file for drives to choose from. Nothing of the disks is changed."""
    if not candidates:
        raise ConfigError("what are these disks for?", "add --candidates: they are drives to choose from")
    _check(name, directory)
    hosts = _hosts(name, server, client or ["local"])
    with open_server(hosts) as host:
        chosen = new_testbed.choose(host, devices, data or ())
    for line in new_testbed.describe(chosen, role):
        say(line)
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
    say("next:")
    say(f"  hsp slog {of_role} {on}    minutes: each alone, side by side")
    say(f"  hsp plan {paths['']} {on}    how long, and how much is written")
    say(f"  hsp run {paths['']} {on}    each as the {role} device of a pool")
    say(f"  hsp sheet results/{name}/SERIES --need {paths['-need']}    which one to buy")


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
            f"{error.filename or path}: {error.strerror}; nothing was written",
            "choose another --directory",
        ) from None
    say(f"wrote {', '.join(str(path) for path in files)}")
