"""What an importer read, and what it left out: nothing goes missing in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kit.errors import ConfigError

# `left_out` reasons
TRUNCATED = "a last line without its end"
TRIM = "trims, which have no place among reads and writes"
HEADER = "a line of column names, or a comment"
BEFORE = "lines of text before the data"
AFTER = "lines of text after the data"


@dataclass
class Tally:
    """`read`: I/Os (or rows) that the files hold; `left_out`: reason -> how many of them are not counted.

    `text`: reason -> lines that are no I/Os; `notes`: sentences for the user.
    """

    read: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    text: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out(self, reason: str, count: int, where: str) -> None:
        if count:
            self.left_out[reason] = self.left_out.get(reason, 0) + count
            self.notes.append(f"{where}: {count} left out: {reason}")

    def skip_text(self, reason: str, lines: int, where: str) -> None:
        if lines:
            self.text[reason] = self.text.get(reason, 0) + lines
            self.notes.append(f"{where}: {lines} skipped: {reason}")

    def close(self, counted: int) -> None:
        """That every row was counted or reported. Raises ConfigError: it would be a bug of the kit."""
        if counted != self.read - sum(self.left_out.values()):
            raise ConfigError(
                f"{self.read} I/Os read, {counted} counted, {sum(self.left_out.values())} left out: "
                "this does not add up",
                "this is a mistake in the kit; please report it with the file",
            )

    def as_json(self) -> dict[str, Any]:
        return {"read": self.read, "left_out": self.left_out, "text": self.text, "notes": self.notes}
