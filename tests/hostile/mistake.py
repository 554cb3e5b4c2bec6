"""A mistake in a file that people write, and how `hsp plan` refuses it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

DATA = ROOT / "tests/kit/data/plan"
W, T, SIX, READ, WRITE, NAS = (
    "top-speeds.toml",
    "testbed.toml",
    "six-disks.toml",
    "top-speeds-read.fio",
    "top-speeds-write.fio",
    "mynas.toml",
)


@dataclass(frozen=True)
class Mistake:
    """`old` becomes `new` in `file`. The refusal names the line of `at` (default: of `new`), and `key`."""

    name: str
    file: str
    old: str
    new: str
    key: str
    remedy: str
    at: str = ""
    testbed: str = T

    @property
    def row(self) -> str:
        """Of the table in the documentation."""
        shown = self.new.strip().replace("\n", " ⏎ ") or f"(without `{self.old.strip()}`)"
        shown = shown if shown.startswith("(") else f"`{shown}`"
        return f"| {self.name} | {shown} | 2 | `{self.file}:{self.line}` | `{self.key}` | {self.remedy} |"

    @property
    def text(self) -> str:
        """The file with the mistake."""
        original = (ROOT / "docs/examples" if self.file == NAS else DATA) / self.file
        text = original.read_text()
        assert self.old in text
        return text.replace(self.old, self.new, 1)

    @property
    def line(self) -> int:
        """That the refusal has to name."""
        at = self.at or self.new
        assert at in self.text
        return self.text.split(at, 1)[0].count("\n") + 1


def properties(name: str, new: str, key: str, remedy: str, old: str = 'atime = "off"') -> Mistake:
    return Mistake(name, W, old, new, key, remedy)
