"""One question: something is shown, and a person agrees to it by a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kit.core.errors import SafetyRefusal
from kit.core.output import say
from kit.core.text import safe_text
from kit.session.agreement.erasing import Ask


def agree(
    word: str,
    given: Sequence[str],
    ask: Ask | None,
    shown: tuple[str, Iterable[str]],
    what: str,
    refusal: tuple[str, str],
) -> None:
    """`shown`: a title and lines; `what`: what the word agrees to; `given`: words of --agree.

    `ask`: None without a terminal. `refusal`: message and hint of the SafetyRefusal; the hint goes on with
    "add --agree". Raises SafetyRefusal: nothing was run or contacted.
    """
    if word in given:
        return
    title, lines = shown
    say(title)
    for line in lines:
        say(f"  {safe_text(line)}")
    try:
        answer = ask(f"Type {word} to agree to {what}: ").strip() if ask else ""
    except EOFError:
        answer = ""
    if answer != word:
        message, hint = refusal
        raise SafetyRefusal(
            f"{message}; nothing was run and nothing was contacted", f"{hint}, add --agree {word}"
        )
