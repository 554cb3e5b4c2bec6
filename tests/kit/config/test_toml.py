"""kit.config.toml: every mistake in a file is named with file, line, key and what was found."""

from __future__ import annotations

import os
import string
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, field_validator

from kit.config.toml import MAX_BYTES, Table, dotted, load
from kit.config.toml_lines import KeyLines, KeyPath
from kit.core.errors import ConfigError
from kit.core.units import DurationNs, SizeBytes

pytestmark = pytest.mark.any_python


class Server(Table):
    host: str


class Flash(Table):
    kind: Literal["flash"]
    wear: float = 0.0


class Device(Table):
    role: Literal["data", "log", "cache"]
    path: Path = Path("/dev/null")
    size: SizeBytes | None = None
    latency: Annotated[DurationNs, Field(gt=0)] = 1
    medium: Flash | None = None

    @field_validator("path")
    @classmethod
    def _by_id(cls, path: Path) -> Path:
        if not str(path).startswith("/dev/"):
            raise ValueError(f"{str(path)!r}: not below /dev")
        return path


class Dataset(Table):
    recordsize: SizeBytes = 131072
    compression: str = "off"
    either: int | str = 0


class Testbed(Table):
    __test__ = False
    server: Server
    device: tuple[Device, ...] = ()
    dataset: Dataset = Dataset()
    properties: dict[str, Dataset] = Field(default_factory=dict)
    share: float = 1.0


GOOD = 'server.host = "local"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "testbed.toml"


def refused(file: Path, content: str | bytes) -> list[str]:
    """The lines of the refusal of `content`, without the folder of the file."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        load(file, Testbed)
    return caught.value.message.replace(f"{file.parent}/", "").split("\n")


def test_a_good_file(file: Path) -> None:
    file.write_text(
        'share = 1\n[server]\nhost = "local"\n[[device]]\nrole = "log"\npath = "/dev/x"\nsize = "96MiB"\n'
        'latency = "130us"\nmedium = {kind = "flash", wear = 0.5}\n[properties."a b"]\nrecordsize = "8KiB"\n'
    )
    testbed = load(file, Testbed)
    assert testbed.device[0].size == 96 << 20
    assert testbed.device[0].latency == 130_000
    assert testbed.device[0].medium == Flash(kind="flash", wear=0.5)
    assert testbed.properties["a b"].recordsize == 8192
    assert testbed.model_dump()["device"][0]["latency"] == 130_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "[dataset]\nrecordsiez = 1\n",
            "testbed.toml:2: dataset.recordsiez: unknown key, did you mean 'recordsize'?",
        ),
        (
            "zzz = 1",
            "testbed.toml:1: zzz: unknown key, valid keys: server, device, dataset, properties, share",
        ),
        (
            "[properties.p]\ncompresion='on'",
            "testbed.toml:2: properties.p.compresion: unknown key, did you mean 'compression'?",
        ),
        (
            "[[device]]\nrole='log'\n[[device]]\nrole='log'\n# latency\nlatency = 130\n",
            'testbed.toml:6: device[1].latency: expected a duration such as "130us", found the integer 130',
        ),
        (
            "device = [\n {role = 'log', latency = '10usecs'} ]",
            "testbed.toml:1: device[0].latency: '10usecs': unknown unit 'usecs', did you mean 'us'?",
        ),
        (
            "[[device]]\nrole='log'\nlatency='0us'",
            'testbed.toml:3: device[0].latency: must be greater than 0, found the string "0us"',
        ),
        (
            "[[device]]\nrole='cahce'",
            "testbed.toml:2: device[0].role: unknown value \"cahce\", did you mean 'cache'?",
        ),
        (
            "[[device]]\nrole=['log']",
            "testbed.toml:2: device[0].role: must be 'data', 'log' or 'cache', found an array",
        ),
        ("[[device]]\n\npath='/dev/x'", "testbed.toml:1: device[0].role: required, but missing"),
        ("[[device]]\nrole='log'\npath='/etc/x'", "testbed.toml:3: device[0].path: '/etc/x': not below /dev"),
        (
            "[[device]]\nrole='log'\npath=7",
            "testbed.toml:3: device[0].path: expected a string, found the integer 7",
        ),
        ("[device]\nrole='log'", "testbed.toml:1: device: expected an array, found a table"),
        ("dataset = 'x'", 'testbed.toml:1: dataset: expected a table, found the string "x"'),
        (
            "[dataset]\neither = true",
            "testbed.toml:2: dataset.either: expected an integer or a string, found true",
        ),
        ("share = '1'", 'testbed.toml:1: share: expected a number, found the string "1"'),
        ("share = nan", "testbed.toml:1: share: expected a finite number, found nan"),
        ("share = 99999999999999999999", "testbed.toml:1: share: integer beyond 64 bits"),
        ("share = 1979-05-27", "testbed.toml:1: share: expected no date or time; in quotes it is a string"),
        (
            "dataset.compression = 1",
            "testbed.toml:1: dataset.compression: expected a string, found the integer 1",
        ),
        (
            "[[device]]\nrole='log'\n[device.medium]\nkind='flash'\nweer=1",
            "testbed.toml:5: device[0].medium.weer: unknown key, did you mean 'wear'?",
        ),
        ("share = 1\nshare = 2", "testbed.toml:2: share: given twice, first in line 1"),
        ("[dataset]\n[dataset]\n", "testbed.toml:2: dataset: given twice, first in line 1"),
        ("share = 1\n=", "testbed.toml:2: not valid TOML: invalid statement"),
        ("share = [1,", "testbed.toml:2: not valid TOML: invalid value"),
        ("share = " + "[" * 5000, "testbed.toml:1: nested more than 16 deep"),
        ("a" + ".a" * 5000 + "=1", "testbed.toml:1: nested more than 16 deep"),
        ("share = {" + "a.a" * 60 + "=1}", None),
        (
            'x."\\u001b[31m" = 1',
            "testbed.toml:1: x: unknown key, valid keys: server, device, dataset, properties, share",
        ),
        ('dataset."\\u001b[31m" = 1', None),
        ("share = '" + "a\u202eb'", 'testbed.toml:1: share: expected a number, found the string "a\\u202eb"'),
        ("share = " + "9" * 6000, "testbed.toml:1: integer beyond 64 bits"),
        ("share = 0x" + "9" * 6000, "testbed.toml:1: share: integer beyond 64 bits"),
    ],
)
def test_a_mistake_is_named(file: Path, content: str, message: str | None) -> None:
    lines = refused(file, content + "\n[server]\nhost='local'\n")
    assert len(lines) == 1
    assert message is None or lines == [message]
    assert lines[0].isprintable()
    assert "testbed.toml:1: " in lines[0] or message


def test_all_mistakes_in_line_order(file: Path) -> None:
    assert refused(file, "[dataset]\ncompression=1\nrecordsize=2\nfoo=3\n[[device]]\nrole=4\n") == [
        "testbed.toml:1: server: required, but missing",
        "testbed.toml:2: dataset.compression: expected a string, found the integer 1",
        'testbed.toml:3: dataset.recordsize: expected a size such as "96MiB", found the integer 2',
        "testbed.toml:4: dataset.foo: unknown key, valid keys: recordsize, compression, either",
        "testbed.toml:6: device[0].role: must be 'data', 'log' or 'cache', found the integer 4",
    ]


def test_bytes_that_are_no_toml(file: Path) -> None:
    assert "byte order mark" in refused(file, b"\xef\xbb\xbf" + GOOD.encode())[0]
    assert refused(file, b"# \n#\xff\n") == ["testbed.toml:2: not UTF-8: byte 0xff"]
    assert "larger than 1 MiB" in refused(file, b"#" * (MAX_BYTES + 1))[0]
    assert refused(file, "x = 'a\x1b'")[0].isprintable()


def test_paths_that_are_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, reason in [
        (tmp_path, "a directory"),
        (tmp_path / "none", "no such file"),
        (fifo, "not a file"),
        (tmp_path / "a\0b", "cannot be read"),
        (tmp_path / ("a" * 5000), "cannot be read"),
    ]:
        with pytest.raises(ConfigError, match=reason) as caught:
            load(path, Testbed)
        assert caught.value.exit_code == 2
        assert caught.value.message.isprintable()

    good = tmp_path / "good"
    good.write_text(GOOD)

    def deny(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load(good, Testbed)


def test_content_of_values_is_not_keys() -> None:
    lines = KeyLines(
        's = """\nk = 1\n[t]\n\\"""\n"""""\n'
        "l = '''\nk = 1\n''''\n"
        "a = [ # ]\n  \"]\", '[', {k = 1},\n  2\n]\r\n"
        "k = 3 # k = 4\n[t] # [u]\nk = 5\n'q.r'.\"s\\u0041\" . t = 6\n[ t . u ]\nk = 7\n"
    )
    assert {path: lines.line_of(path) for path in [("s",), ("l",), ("a",), ("k",), ("t",), ("t", "k")]} == {
        ("s",): 1,
        ("l",): 6,
        ("a",): 9,
        ("k",): 13,
        ("t",): 14,
        ("t", "k"): 15,
    }
    assert lines.line_of(("t", "q.r", "sA", "t")) == 16
    assert lines.line_of(("t", "u", "k")) == 18
    assert lines.line_of(("t", "u", "none", 3)) == 17
    assert lines.line_of(("none",)) == 1
    assert not lines.repeated


names = st.one_of(
    st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=4),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=4),
)
noise = st.sampled_from(["\n", "# k = 1\n", "#[t]\n", "  \n"])
values = st.sampled_from(
    [
        ["1"],
        ["'# [x]'"],
        ['"\\" = ["'],
        ["[", "'k = 1', # k = 2", "'[t]' ]"],
        ["'''", "k = 1", "[t]''''"],
        ['"""\\"""', "[[t]]", '""""'],
        ["{k = 1, l = [", "{}, 3 ] }"],
    ]
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[KeyPath, int]]:
    """A TOML text with unique keys, and the line of each."""
    text: list[str] = []
    where: dict[KeyPath, int] = {}

    def keys(path: KeyPath, used: list[str]) -> None:
        for name in draw(st.lists(names.filter(lambda name: name not in used), unique=True, max_size=3)):
            used.append(name)
            parts: KeyPath = (name, *draw(st.lists(names, max_size=2)))
            text.extend(draw(st.lists(noise, max_size=2)))
            where[path + parts] = "".join(text).count("\n") + 1
            text.append(f"{' . '.join(map(quoted, parts))} = " + "\n".join(draw(values)) + "\n")

    def quoted(name: str | int) -> str:
        bare = str(name)
        escaped = bare.replace("\\", "\\\\").replace('"', '\\"')
        return bare if dotted((bare,)) == bare and bare else f'"{escaped}"'

    top: list[str] = []
    keys((), top)
    for name in draw(st.lists(names.filter(lambda name: name not in top), unique=True, max_size=3)):
        if draw(st.booleans()):
            where[(name,)] = "".join(text).count("\n") + 1
            text.append(f"[{quoted(name)}]\n")
            keys((name,), [])
            continue
        for index in range(draw(st.integers(1, 3))):
            where[(name, index)] = "".join(text).count("\n") + 1
            text.append(f"  [[ {quoted(name)} ]] # {index}\n")
            used = ["sub"]
            keys((name, index), used)
            where[(name, index, "sub")] = "".join(text).count("\n") + 1
            text.append(f"[{quoted(name)}.sub]\n")
            keys((name, index, "sub"), [])
    return "".join(text), where


@given(documents())
def test_every_key_is_found(document: tuple[str, dict[KeyPath, int]]) -> None:
    text, where = document
    tomllib.loads(text)  # the generator makes TOML
    lines = KeyLines(text)
    assert {path: lines.line_of(path) for path in where} == where
    assert not lines.repeated


WORDS = ["server", "device", "host", "latency", "= 1\n", "1979-05-27", "-inf", "9" * 20, "true", "[[device]]"]
tomlish = st.lists(st.sampled_from([*"\"'[]{}=.,\n#\\ a\x1b\r", '"""', "'''", *WORDS]), max_size=40).map(
    lambda parts: "".join(parts).encode()
)


@settings(max_examples=100)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode()), tomlish))
def test_nothing_but_config_errors(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(data)
    try:
        load(file, Testbed)
    except ConfigError as error:
        assert all(line.isprintable() and line.startswith(f"{file}:") for line in error.message.split("\n"))


leaves: Any = st.one_of(st.integers(), st.booleans(), st.floats(), st.text(max_size=3))
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["server", "device", "dataset", "properties", "share", "x"]), trees))
def test_any_types_in_any_place(tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]) -> None:
    file = tmp_path_factory.getbasetemp() / "typed.toml"
    file.write_text("".join(f"{key} = {inline(value)}\n" for key, value in tree.items()))
    try:
        load(file, Testbed)
    except ConfigError as error:
        assert "not valid TOML" not in error.message


def inline(value: Any) -> str:
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(char):08x}" for char in value) + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{inline(key)} = {inline(item)}" for key, item in value.items()) + "}"
    return str(value).lower()
