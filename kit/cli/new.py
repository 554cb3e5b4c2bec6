"""`hsp new`: files to start from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import TypeAdapter, ValidationError

from kit.config.tables.phase_table import Name
from kit.core.errors import ConfigError
from kit.core.output import say
from kit.core.text import safe_text

_TEMPLATES = Path(__file__).parents[1] / "config" / "templates"


def new_command(
    kind: Annotated[Literal["workload"], typer.Argument(help="What to write.")],
    name: Annotated[str, typer.Argument(help="Its name, such as database-log.")],
    directory: Annotated[
        Path, typer.Option("--directory", "-C", metavar="DIR", help="Where to write it.")
    ] = Path(),
) -> None:
    """Write a workload with comments, and its fio jobs, to start from. Overwrites nothing."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise ConfigError(
            f"'{safe_text(name)}' is not a name of a {kind}",
            "a name has lower-case letters, digits and -, begins with a letter, at most 41 characters",
        ) from None
    if not directory.is_dir():
        raise ConfigError(f"{directory} is no directory", "make it first, or name another")
    files = {
        directory / template.name.replace(kind, name, 1): template.read_text().replace("@NAME@", name)
        for template in sorted(_TEMPLATES.glob(f"{kind}*"))
    }
    for path in files:
        if path.exists() or path.is_symlink():
            raise ConfigError(f"{path} is there already", "choose another name, or another --directory")
    _write(files)
    say(f"wrote {', '.join(str(path) for path in files)}")
    say(f"next: hsp plan {directory / name}.toml")


def _write(files: Mapping[Path, str]) -> None:
    """All of them, or none. Raises ConfigError."""
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
