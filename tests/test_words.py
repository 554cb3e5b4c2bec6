"""Nothing is decided by the words of a sentence: what a program needs has a key, a class or an attribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# So sentences are called, and attributes and keys with one; `text` alone is often the content of a file.
_SENTENCES = frozenset({"message", "problem", "reason", "said", "sentence", "title", "why", "words"})
_PARTS = frozenset({
    "endswith", "partition", "removeprefix", "removesuffix", "rpartition", "split", "startswith",
})  # fmt: skip
_PATTERNS = frozenset({"findall", "finditer", "fullmatch", "match", "search", "split", "sub"})
# Modules that look at such words, and whose words they are.
ALLOWED = {
    "kit/config/toml.py": "tomllib",
    "kit/devices/probe.py": "the kernel",
    "kit/load/fio.py": "a job file",
    "kit/nfs/libnfs.py": "a job file",
    "kit/nfs/mount.py": "mount(8)",
    "kit/trace/support.py": "the program of the tracer",
    "kit/zfs/openzfs_version.py": "zfs(8)",
    "reports/analysis/disclosure.py": "exportfs(8)",
    "reports/devices/prices.py": "a price of the testbed",
}


def _is_sentence(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=name)):
            return name in _SENTENCES
        case ast.Attribute(value=ast.Name(id="check" | "missing"), attr="name"):
            return True
        case ast.Attribute(attr=name):
            return name == "text" or name in _SENTENCES
    return False


def _is_value_as_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str"


def by_words(tree: ast.AST) -> Iterator[int]:
    """Lines that take a sentence apart, or search it."""
    for node in (each for each in ast.walk(tree) if isinstance(each, ast.Call | ast.Compare)):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=[_, *_] as args):
                # Without arguments, split() only joins what is printed.
                is_part = method in _PARTS and (_is_sentence(value) or _is_value_as_text(value))
                if is_part or (method in _PATTERNS and any(map(_is_sentence, args))):
                    yield node.lineno
            case ast.Compare(
                left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()], comparators=[value]
            ) if _is_sentence(value) or _is_value_as_text(value):
                yield node.lineno


def test_nothing_is_decided_by_words() -> None:
    found = []
    for path in sorted(path for top in ("kit", "reports") for path in (ROOT / top).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in ALLOWED and not name.startswith("kit/remote/"):
            found += [f"{name}:{line}" for line in by_words(ast.parse(path.read_text()))]
    assert found == [], "give the value that is meant a key, a class or an attribute"


def test_words_that_decide_are_found() -> None:
    """Each line of these did so in the kit."""
    lines = [
        'entry.text.startswith("preconditioning")', "error.message.removeprefix('set.')",
        'skipped.reason.partition(": ")[2]', 'f"NFS {op} " in check.name', '"x" in check.name',
        '_BYTES.fullmatch(check.name)', '"part" in str(each)', "_DAMAGED.search(problem)",
        're.sub(r"^\\S*: ", "", error.message)', 'entry["reason"].startswith("x")',
    ]  # fmt: skip
    fine = ["' '.join(why.split())", "path.name.startswith('x')", "id_of_sum(check.name)", "part in reasons"]
    found = [line for line in (*lines, *fine) if [*by_words(ast.parse(line))]]
    assert found == [line for line in lines if "{op}" not in line]
