"""Lazy import of commands: only the command that runs is imported, for a fast start."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


class LazyGroup(TyperGroup):
    """A group of commands. `targets`: a command's name to "module:function".

    If the module has a Typer `app`, that is the command or group of commands; the function then provides
    only the help text.
    """

    targets: ClassVar[dict[str, str]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name=name, callback=None) for name in self.targets}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command for a list: only its help text."""
        listed = super().get_command(ctx, cmd_name)
        if listed is not None and listed.help is None:
            listed.help = _docstring(self.targets[cmd_name])
        return listed

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The real command, to run it or to show its options."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, imported(name, self.targets[name]) if name else None, rest


def imported(name: str, target: str) -> Any:
    """The real command behind `target`."""
    module_name, _, function = target.partition(":")
    module = import_module(module_name)
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        app.command()(getattr(module, function))
    command = typer.main.get_command(app)
    command.name = name
    return command


def _docstring(target: str) -> str:
    """Docstring of the function, read from the source: importing all commands would be slow."""
    module, _, function = target.partition(":")
    spec = find_spec(module)
    source = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]
    for node in ast.parse(source or "").body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return ast.get_docstring(node) or ""
    return ""
