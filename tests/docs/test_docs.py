"""What the documents say is what the program does."""

from __future__ import annotations

import os
import pkgutil
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.cli.main import GROUPS, TARGETS, command_of
from kit.core import errors
from kit.store import tables

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
OUTPUT, RESULTS = ((ROOT / "docs" / "formats" / name).read_text() for name in ("output.md", "results.md"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
DOCUMENTS = [
    path.relative_to(ROOT)
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
]
_PATH = re.compile(
    r"(?<![\w./-])(?P<path>(?:kit|reports|tests|docs|workloads)/[\w./*-]*)"
    r"|`(?!(?:kit|reports|tests|docs|workloads)/)(?P<bare>[\w-]+(?:\.(?:py|c|h|bt|js|j2|sh)|/))`"
)


def test_there_are_few_commands() -> None:
    assert {"demo", "run", "show", "lab up"} < {*TARGETS} and len({*TARGETS} - {"help"}) <= 25


@pytest.mark.parametrize("command", TARGETS)
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"^ *hsp {command}\b", COMMANDS, re.MULTILINE), command


_HSP = re.compile(r"(?<![\w./-])hsp (?=[a-z-])((?:[^`\n#|;)>,.:]|[,.:](?!\s|$))*)")
# In prose, not a command.
_PROSE = frozenset(
    {"and", "does", "has", "is", "knows", "on", "shows", "test", "the", "writes", "cannot", "from", "would"}
)


def said_commands(text: str) -> Iterator[str]:
    yield from (match[1].split("    ")[0].split("<")[0].strip("\"'? ") for match in _HSP.finditer(text))


def mistake_in(said: str) -> str:
    """What of `hsp SAID` there is not; "" if all is."""
    first, *rest = said.split()
    if first in _PROSE or first.startswith("-"):
        return ""
    words = first if first in TARGETS else " ".join([first, *rest[:1]])
    if words not in TARGETS:
        return "" if words in GROUPS else words
    known = {name for each in command_of(words).params for name in (*each.opts, *each.secondary_opts)}
    options = re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]*)", said.partition(" -- ")[0])
    return ", ".join(option for option in options if option not in {*known, "--help", "--version"})


def texts() -> Iterator[tuple[str, str]]:
    """Documents, strings and comments of the product, and workloads."""
    paths = [
        *DOCUMENTS,
        *(
            path.relative_to(ROOT)
            for top in ("kit", "reports", "workloads")
            for path in sorted((ROOT / top).rglob("*"))
            if path.suffix in (".py", ".toml", ".fio", ".j2", ".js")
        ),
    ]
    yield from ((os.fspath(path), (ROOT / path).read_text()) for path in paths)


def test_every_command_that_is_named_exists_with_its_options() -> None:
    found = {f"{name}: hsp {said}": wrong for name, text in texts()
             for said in said_commands(text) if (wrong := mistake_in(said))}  # fmt: skip
    assert found == {}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("run top-speeds --testbed nas.toml", ""), ("lab up --build", ""), ("lab shell -- ls --all", ""),
        ("report RUN", "report RUN"), ("lab build", "lab build"), ("show RUN --html x", "--html"),
    ],
)  # fmt: skip
def test_a_command_that_is_gone_is_found(said: str, wrong: str) -> None:
    assert mistake_in(said) == wrong


@pytest.mark.parametrize("document", [README, OUTPUT])
def test_every_exit_code_is_documented(document: str) -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    text = " ".join(document[document.lower().index("exit codes") :].split())
    for code in codes:
        assert re.search(rf"(^|[ :]){code} [a-z]", text), code


def test_every_column_and_tier_is_documented() -> None:
    for name in (*tables.LATENCY_SCHEMA, *tables.TIERS, *tables.LAYERS):
        if name not in ("vdev",):  # named in the format for later; nothing writes it yet
            assert f"`{name}`" in RESULTS, name


def anchors(path: Path) -> set[str]:
    """As forges make them of headings."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    path = ROOT / document
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text()):
        there = path.parent / target if target else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_each_decision_is_in_their_index() -> None:
    index = ROOT / "docs" / "decisions" / "README.md"
    records = [path.name for path in sorted(index.parent.glob("0*.md"))]
    rows = re.findall(
        r"^\| \[(\d+)\]\((\S+)\) \| .+\. \| (?:holds|replaced|in part)\b", index.read_text(), re.MULTILINE
    )
    assert rows == [(str(int(name[:4])), name) for name in records]


_FEATURES = ROOT / "reports" / "features"


def folders() -> list[str]:
    """Folders of the product in the order of the layers; a nested folder follows its parent."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = " | ".join(layer for contract in contracts for layer in contract.get("layers", ()))
    paths = [ROOT / name.replace(".", "/") for name in layers.split(" | ")]
    layered = [init.parent for path in paths for init in sorted(path.glob("**/__init__.py"))]
    # A feature is judged below the numbers of a run, and drawn above: contracts of their own.
    return [f"{path.relative_to(ROOT)}/" for path in (*layered, _FEATURES)]


def test_every_folder_is_in_a_layer() -> None:
    found = {path.parent for top in ("kit", "reports") for path in (ROOT / top).glob("*/**/__init__.py")}
    assert {f"{path.relative_to(ROOT)}/" for path in found if path.parent != _FEATURES} == set(folders())


def test_the_contributing_page_has_every_folder_in_the_order_of_the_layers() -> None:
    table = re.findall(r"^\| `((?:kit|reports)/[^`]*)` \|", CONTRIBUTING, re.MULTILINE)
    assert table == folders()


@pytest.mark.parametrize("top", ["kit", "reports"])
def test_no_module_stands_outside_of_the_folders(top: str) -> None:
    assert [path.name for path in (ROOT / top).glob("*.py")] == ["__init__.py"]


def missing_paths(text: str) -> list[str]:
    """Paths in `text` that do not exist in the checkout.

    A bare name in backticks (`clean.py`, `models/`) is resolved against the folder, or the folder of the
    file, that its line named last; without such a folder it is skipped.
    """
    missing = []
    for line in text.splitlines():
        folder = ""
        for match in _PATH.finditer(line):
            if match["path"] or folder:
                path = (match["path"] or f"{folder}/{match['bare']}").rstrip("./")
                if not any(ROOT.glob(path)):
                    missing.append(path)
                if match["path"]:
                    folder = path if (ROOT / path).is_dir() else path.rpartition("/")[0]
    return missing


_DOTTED = re.compile(r"(?<![\w./])(?:kit|reports)(?:\.\w+)+")


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    text = (ROOT / document).read_text()
    assert missing_paths(text) == []
    # Modules and functions by their dotted names.
    for name in _DOTTED.findall(text):
        pkgutil.resolve_name(name)


def comments(path: Path) -> str:
    """Comments and docstrings of Python; of another language all of it."""
    if path.suffix != ".py":
        return path.read_text()
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    kinds, begins = (tokenize.COMMENT, tokenize.STRING), ("#", '"""', 'r"""')
    said = [each.string for each in tokens if each.type in kinds and each.string.startswith(begins)]
    return "\n".join(said)


def wrong_names(text: str) -> list[str]:
    """Paths and dotted names of code that lead nowhere; `docs/` may be those of QEMU or Linux."""
    wrong = [path for path in missing_paths(text) if not path.startswith("docs/")]
    for name in _DOTTED.findall(text):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            wrong.append(name)
    return wrong


def test_every_module_that_a_comment_names_exists() -> None:
    paths = [path for top in ("kit", "reports") for path in sorted((ROOT / top).rglob("*.*"))]
    paths = [path for path in paths if path.suffix in (".py", ".bt", ".c", ".h", ".j2", ".js", ".css")]
    wrong = {str(path.relative_to(ROOT)): found for path in paths if (found := wrong_names(comments(path)))}
    assert len(paths) > 700 and wrong == {}
    assert wrong_names("kit.gone, kit.run.gone, kit/gone.py") == ["kit/gone.py", "kit.gone", "kit.run.gone"]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`kit/run/` has `execute.py`; see kit/emulation/models/*.c.", []),
        (
            "`kit/emulation/` has `models/`, `gone/` and `gone.py`",
            ["kit/emulation/gone", "kit/emulation/gone.py"],
        ),
        ("`kit/gone/` and (kit/run/gone.py).", ["kit/gone", "kit/run/gone.py"]),
        ("`kit/cli/clean.py` or `gone.py`", ["kit/cli/gone.py"]),
        ("`fio_script.py` of `kit/run/*.c`", ["kit/run/*.c"]),
    ],
)
def test_a_path_that_does_not_exist_is_reported(text: str, missing: list[str]) -> None:
    assert missing_paths(text) == missing


def test_every_figure_of_the_readme_was_filled_in() -> None:
    assert not re.search(r"@[A-Z]+@|TODO|TBD", README)
