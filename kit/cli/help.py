"""`hsp help`: the help of a command, JSON Schemas, the manual page, and scripts for shells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer._completion_shared import get_completion_script

from kit import __version__
from kit.cli.main import EXIT_CODES, TARGETS, command_of
from kit.cli.usage import refuse_unused, shared_options
from kit.core.errors import ConfigError
from kit.core.output import as_json, emit, emit_json, emit_text, say, write_target
from kit.session import schemas

_ARGUMENTS = """\
RUN is a workload (its latest run), the beginning of a run's id, a directory, or, left out, the newest run of
the results directory. `-o FILE` writes what its ending says: `.html`, `.json`, `.csv`, `.md`; `--format` says
it for stdout.

The result goes to stdout, progress goes to stderr. With `--json` only the summary goes to stdout. One Ctrl-C
stops the load, keeps the data and cleans up; `kill` and a closed terminal do the same (`nohup` keeps a run
going)."""
_SHELLS = ("bash", "fish", "zsh")
_ALSO_NOW = '[ "$funcstack[1]" = _hsp ] && _hsp_completion "$@"\n'
# What groff would take for its own.
_LEADING = re.compile(r"^(?=[.'])", re.MULTILINE)


def help_command(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND|schema|man|reference|completion", help="Of what; see the examples."),
    ] = None,
    all_: Annotated[
        Path | None, typer.Option("--all", metavar="DIR", help="Of schema: write all of them into DIR.")
    ] = None,
) -> None:
    """Show the help of a command, the JSON Schema of a file of the kit, the manual page, or a shell's script.

    Examples:
      hsp help lab up
      hsp help schema            which schemas there are
      hsp help schema testbed    for editors and other programs
      hsp help man | man -l -    all commands; `reference`: in Markdown; `completion zsh`: for the Tab key
    """
    first, *rest = words or [""]
    refuse_unused(context, {"the help of commands": first != "schema", "one schema": rest})
    if first == "schema":
        _schema(rest, all_)
    elif first == "completion":
        emit(_completion(rest))
    elif first in _PAGES and not rest:
        emit("".join(f"{line}\n" for line in _PAGES[first](context.find_root())))
    else:
        root: Any = context.find_root().command
        root.main([*(words or []), "--help"], prog_name="hsp", standalone_mode=False)


def _schema(names: list[str], folder: Path | None) -> None:
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no directory", "make it first, or name another")
        for each in schemas.names():
            write_target(folder / schemas.file_name(each), as_json(schemas.schema(each)).encode())
        say(f"{len(schemas.names())} schemas are in {folder}")
    elif not names:
        emit_text(f"{each:10} {title}" for each, title in schemas.names().items())
    else:
        emit_json(schemas.schema(names[0]))


def _completion(shells: list[str]) -> str:
    """Typer's script for a shell. Raises ConfigError."""
    if len(shells) != 1 or shells[0] not in _SHELLS:
        raise ConfigError("completion is for one shell", f"hsp help completion {'|'.join(_SHELLS)}")
    script = get_completion_script(prog_name="hsp", complete_var="_HSP_COMPLETE", shell=shells[0])
    # zsh looks for #compdef in the first line, and calls what it has loaded only the next time.
    return f"{script.strip()}\n{_ALSO_NOW if shells[0] == 'zsh' else ''}"


@dataclass(frozen=True)
class _Reference:
    """What the manual page and docs/commands.md have of a command; texts are without markup."""

    usage: str
    paragraphs: tuple[str, ...]
    options: tuple[tuple[str, str, str], ...]  # names, value, meaning
    examples: str

    @classmethod
    def of(cls, words: str, root: Any) -> _Reference:
        command = command_of(words)
        context = typer.Context(command, info_name=words, parent=root)
        own = (each for each in command.get_params(context) if each not in shared_options())
        return cls(
            " ".join((f"hsp {words}", *command.collect_usage_pieces(context))),
            tuple(" ".join(_plain(each).split()) for each in command.help.split("\n\n")),
            _options(own, context),
            _plain(command.epilog or "").rstrip(),
        )


def _options(parameters: Iterable[Any], context: Any) -> tuple[tuple[str, str, str], ...]:
    found = []
    for each in parameters:
        if each.name != "help" and each.help:
            name = ", ".join(each.opts) if each.param_type_name == "option" else each.metavar or each.name
            value = "" if getattr(each, "is_flag", True) else each.metavar or each.display_type(context)
            found.append((name, value, _plain(each.help)))
    return tuple(found)


def _page(root: Any) -> Iterator[str]:
    """Source of the page hsp(1) for man(1), from the helps of all commands."""
    yield f'.TH HSP 1 "" "hsp {__version__}" "ZFS hybrid storage pool test kit"'
    yield from (".SH NAME", f"hsp \\- {_roff(_plain(root.command.help))}")
    yield from (".SH SYNOPSIS", ".B hsp", "COMMAND [OPTIONS] ...", ".SH COMMANDS")
    for words in TARGETS:
        page = _Reference.of(words, root)
        yield from (f".SS {_roff(page.usage)}", _roff(page.paragraphs[0]))
        for paragraph in page.paragraphs[1:]:
            yield from (".PP", _roff(paragraph))
        yield from _roff_options(page.options)
        if page.examples:
            yield from (".PP", ".nf", _roff(page.examples), ".fi")
    yield from (".SH OPTIONS OF ALL COMMANDS", *_roff_options(_options(shared_options(), root)))
    yield from (
        ".SH ARGUMENTS",
        *(line for each in _ARGUMENTS.split("\n\n") for line in (".PP", _roff(each))),
    )
    yield from (".SH EXIT STATUS", ".nf", *map(_roff, EXIT_CODES.splitlines()[1:]), ".fi")
    yield from (".SH ENVIRONMENT", ".TP", "NO_COLOR", "No colours, as --color never.")


def _roff_options(options: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    for name, value, meaning in options:
        yield from (".TP", f"\\fB{_roff(name)}\\fR {_roff(value)}".rstrip(), _roff(meaning))


def _roff(text: str) -> str:
    """Text with nothing that groff would obey."""
    return _LEADING.sub(r"\\&", text.replace("\\", "\\e").replace("-", "\\-"))


def _reference(root: Any) -> Iterator[str]:
    """docs/commands.md: Markdown of the same helps."""
    yield from (
        "# Commands",
        "",
        "Made by `hsp help reference`. The same is in the manual page [hsp.1](hsp.1).",
        "",
    )
    links = {words: f"[{words}](#hsp-{words.replace(' ', '-')})" for words in TARGETS}
    yield from ("| `hsp ...` | |", "|---|---|")
    yield from (
        f"| {links[words]} | {_cell(_Reference.of(words, root).paragraphs[0])} |" for words in TARGETS
    )
    yield from ("", _ARGUMENTS, "", "Options of all commands:", "", *_table(_options(shared_options(), root)))
    for words in TARGETS:
        page = _Reference.of(words, root)
        yield from (f"## hsp {words}", "", f"    {page.usage}", "")
        for paragraph in page.paragraphs:
            yield from (_cell(paragraph), "")
        yield from _table(page.options)
        if page.examples:
            yield from (*(f"    {line.strip()}" for line in page.examples.splitlines()[1:]), "")
    yield from ("## Exit codes", "", *(f"    {line}" for line in EXIT_CODES.splitlines()[1:]))


def _table(options: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    lines = [(f"`{name} {value}`".replace(" `", "`").replace("|", "\\|"), _cell(meaning))
             for name, value, meaning in options]  # fmt: skip
    if lines:
        yield from (
            "| option | meaning |",
            "|---|---|",
            *(f"| {name} | {meaning} |" for name, meaning in lines),
            "",
        )


def _cell(text: str) -> str:
    """Text in a table of Markdown: what is marked as code stays, nothing else is markup."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<\[|])", r"\\\1", each) for each in parts[::2]]
    return "`".join(parts)


def _plain(text: str) -> str:
    """Text of a help, whose markup is rich's."""
    return Text.from_markup(text).plain


_PAGES = {"man": _page, "reference": _reference}
