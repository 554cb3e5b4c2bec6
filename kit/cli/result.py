"""Where the result of a command goes, and as what: -o, --format and --json."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from kit.cli.options import output
from kit.core.errors import ConfigError
from kit.core.output import check_target, emit, emit_text, say, write_target
from kit.core.terminal import terminal_width
from kit.core.text import safe_text

_FILE_WIDTH = 100
_ENDINGS = {
    ".txt": "text", ".json": "json", ".html": "html", ".md": "markdown", ".csv": "csv",
    ".parquet": "parquet", ".prom": "openmetrics",
}  # fmt: skip
# What a terminal is not for.
_FOR_FILES = ("html", "parquet")

OutputOption = Annotated[
    list[Path] | None,
    output(
        "--output",
        "-o",
        metavar="FILE",
        help="Write there, not on stdout; its ending says the format. Repeatable.",
    ),
]


def format_option(kinds: object) -> Any:
    """--format for the members of a Literal."""
    return output("--format", metavar="FORMAT", help=f"One of {', '.join(get_args(kinds))}.")


# How the result is made in each format.
Made = Mapping[str, Callable[[int], str | bytes | Iterable[str]]]


@dataclass(frozen=True)
class OutputTargets:
    """`targets`: each format, and the file it goes to; None: stdout."""

    targets: tuple[tuple[str, Path | None], ...]

    @classmethod
    def of(cls, kind: str | None, files: Sequence[Path] | None, json_output: bool) -> OutputTargets:
        """What the options ask for. Raises ConfigError."""
        for file in files or ():
            check_target(file)
            if not kind and file.suffix and file.suffix not in _ENDINGS:
                raise ConfigError(
                    f"{file}: no format ends in {file.suffix}", f"--format says it, or {' '.join(_ENDINGS)}"
                )
        if json_output and kind not in (None, "json"):
            raise ConfigError(f"--json and --format {kind}", "leave out one of them")
        targets: list[tuple[str, Path | None]] = []
        targets += [(kind or _ENDINGS.get(file.suffix, "text"), file) for file in files or ()]
        if json_output or not files:
            targets.append((kind or ("json" if json_output else "text"), None))
            if targets[-1][0] in _FOR_FILES and sys.stdout.isatty():
                raise ConfigError(f"{kind} is not for a terminal", "add -o FILE, or send stdout to a file")
        return cls(tuple(targets))

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind, _ in self.targets)

    def write(self, made: Made) -> None:
        """Make and write each. Raises ConfigError for a format that is not among `made`, HostError."""
        for kind in self.kinds:
            if kind not in made:
                raise ConfigError(
                    f"there is no {kind} of this", f"there is {', '.join(made)}: --format FORMAT"
                )
        for kind, file in self.targets:
            content = made[kind](_FILE_WIDTH if file else terminal_width())
            if isinstance(content, str | bytes):
                _write(content, kind, file)
            elif file is None:
                emit_text(content)
            else:
                _write("".join(f"{safe_text(line)}\n" for line in content), kind, file)


def _write(content: str | bytes, kind: str, file: Path | None) -> None:
    if file is None:
        emit(content)
        return
    write_target(file, content.encode() if isinstance(content, str) else content)
    say(f"{kind}: {file}")
