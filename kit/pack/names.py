"""Names of machines, disks, people and places in a stored result, and what stands for each in a pack.

Names are collected from where they stand by themselves, and then replaced wherever they stand. In sentences
only words stay that the kit's own sources have, or that are not for people: so a name of a machine that the
result has nowhere else is replaced, too.
"""

from __future__ import annotations

import getpass
import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from kit.core.errors import ConfigError
from kit.store.labels import LAYERS, OPS, TIERS

# Kinds, and the word that stands for a name of each; the first that a name is of decides.
KINDS = {
    "serials": "serial", "devices": "device", "hosts": "host", "users": "user", "pools": "dataset",
    "paths": "path", "words": "name",
}  # fmt: skip
_DIGITS = 8
# Names that every lab has, or that say nothing: words of the kit itself.
_PLAIN_WORDS = {
    *LAYERS, *OPS, *TIERS, "lab", "server", "client", "guest", "data", "cache", "log", "dedup",
    "local", "localhost", "root", "zfs", "spl", "nfs", "nfsd", "fio", "pool", "ssd", "none", "auto",
    "unknown", "observe", "import", "name", "hsp", "vd",
}  # fmt: skip
_PLAIN = re.compile(
    rf"(?:(?:{'|'.join(sorted(map(re.escape, _PLAIN_WORDS), key=len, reverse=True))})[0-9]*"
    r"|\*|-|[0-9]{0,3}|hsp-[0-9a-f]{6})(?:/(?:client[0-9]+|bench))?"
)
_DISK = r"(?:sd[a-z]{1,3}|vd[a-z]{1,2}|nvme\d+n\d+|ublkb\d+|md\d+|zd\d+|nullb\d+|loop\d+)(?:p?\d+)?"
# Places of a name in a text: a name in a longer one is part of it. None: the names that are known.
_PATTERNS = (
    ("url", r"\b(?:ssh|nfs|smb|file)://[^\s\"'<>`,;)]+"),
    ("serials", r"/dev/disk/by-[a-z]+/[^\s\"'<>`,;:)]+"),
    ("serials", r"\b(?:wwn-|naa\.|eui\.|nguid\.|uuid\.|0x)[0-9A-Fa-f]{8,32}\b"),
    ("serials", r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b"),
    ("serials", r"\b(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\b"),
    ("at", r"(?<![\w.+-])[\w.+-]{1,64}@(?:\[[0-9A-Fa-f:.]+\]|[\w.-]*\w)"),
    (None, ""),
    ("address", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)"),
    ("address", r"(?<![\w:])[0-9A-Fa-f:]{0,40}:[0-9A-Fa-f:.]{0,40}[0-9A-Fa-f](?:%\w+)?(?![\w:])"),
    ("path", r"(?<![\w/.*])~?/[^\s\"'<>`,;:()\[\]{}|]+"),
)
HOME = re.compile(r"/(?:home|Users)/([^/\s\"'<>`,;:)]+)")
_URL = re.compile(r"(\w+://)(?:([^@/]+)(@))?(\[[^\]]+\]|[^:/]*)((?::\d+)?)(/.*)?")
# Paths of every machine: what stands in them is looked at word by word.
_OF_THE_SYSTEM = re.compile(
    rf"/(?:proc|sys)(?:/|$)|/dev/{_DISK}$|/dev/null$|/etc/(?:zfs|exports|nfs\.conf)\b"
)
_WORD = re.compile(r"\w(?:[\w.+:/=@%'-]*\w)?")
# Numbers with their units, and the kernel's own names of disks.
_SAME = re.compile(rf"[\d.,:/x-]*\d[\d.,:/x-]*[A-Za-z\u00b5%]{{0,3}}(?:/[A-Za-z]{{1,4}})?|{_DISK}|")
_TOKEN = re.compile(rf"(?:{'|'.join(KINDS.values())})(?:[0-9]+|[0-9]*-[0-9a-f]{{{_DIGITS}}})")
_SOURCES = frozenset({".py", ".j2", ".toml", ".bt", ".fio"})


@cache
def _words() -> frozenset[str]:
    """Words of the kit's own sources and workloads, in small letters."""
    top = Path(__file__).parents[2]
    found: set[str] = set()
    for file in (file for room in ("kit", "reports", "workloads") for file in (top / room).rglob("*.*")):
        if file.suffix in _SOURCES:
            found |= _words_of(file.read_text(errors="replace"))
    return frozenset(found)


def _words_of(text: str) -> set[str]:
    text = text.lower()
    return {*re.findall(r"[^\W_]+", text), *_WORD.findall(text)}


class PackNames:
    """`kept`: kinds that stay. `key`: of the digests that stand for names; equal names have equal ones."""

    def __init__(self, key: bytes, kept: Iterable[str]) -> None:
        self._key, self._kept = key, frozenset(kept)
        self._found: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self._tokens: dict[str, str] = {}
        self._vocabulary: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, kind: str, name: str) -> None:
        """A name that stands by itself. An address, URL or `host:/path` is taken apart."""
        if "://" in name and (url := _URL.fullmatch(name)):
            _, user, _, host, _, path = url.groups("")
            for part_kind, part in (("users", user), ("hosts", host), ("paths", path)):
                self.add(part_kind, part)
            return
        if kind == "hosts" and (place := re.match(r"(\[[^\]]+\]|[^\s:/]+):(/[^\s,]*)", name)):
            self.add("hosts", place[1])
            self.add("pools", place[2])
            return
        if name.startswith("/dev/disk/by-"):
            kind = "serials"
            self.add(kind, name.rpartition("/")[2])
        if name.strip() and not _is_plain(name) and not _OF_THE_SYSTEM.match(name):
            self._found[kind].add(name)
            if kind == "hosts" and "." in name and not _address(name):
                self._found[kind].update(part for part in name.split(".", 1) if not _is_plain(part))

    def add_own(self) -> None:
        """This machine, and who uses it: a message may have either. Words of sentences stay."""
        own = [("hosts", socket.gethostname()), ("paths", str(Path.home()))]
        # Some users have no account.
        with suppress(OSError, KeyError):
            own.append(("users", getpass.getuser()))
        for kind, name in own:
            if name.lower() not in _words():
                self.add(kind, name)

    def add_words(self, text: str) -> None:
        """Words that stay in sentences: of models, versions, phases."""
        self._vocabulary |= _words_of(self.text(text))

    def settle(self) -> None:
        """Choose what stands for each name. Of hosts, pools and devices it has their order."""
        for kind, word in KINDS.items():
            names = sorted(name for name in self._found[kind] if name not in self._tokens)
            width = len(str(len(names)))
            for number, name in enumerate(names, 1):
                token = self._digest(kind, name)
                if kind in self._kept:
                    token = name
                    self._vocabulary |= _words_of(name)
                elif kind in ("hosts", "pools"):
                    token = f"{word}{number:0{width}}-{token.rpartition('-')[2]}"
                elif kind == "devices":
                    token = f"{word}{number:0{width}}"
                self._tokens[name] = token
        known = sorted((name for name in self._tokens if len(name) > 1), key=lambda each: (-len(each), each))
        names_ = rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)" if known else r"(?!)"
        parts = (f"(?P<p{at}>{pattern or names_})" for at, (_, pattern) in enumerate(_PATTERNS))
        self._pattern = re.compile("|".join(parts))

    def name(self, value: str) -> str:
        """What stands for a value that is a name as a whole."""
        return self._tokens.get(value) or self.text(value)

    def text(self, text: str) -> str:
        """`text` without names, addresses and paths."""
        assert self._pattern is not None, "settle() first"
        return self._pattern.sub(self._replaced, text)

    def sentence(self, text: str) -> str:
        """The same, and without words that the kit does not know."""
        text = self.text(text)
        return text if "words" in self._kept else _WORD.sub(self._word, text)

    def _replaced(self, match: re.Match[str]) -> str:
        found, kind = match[0], _PATTERNS[int(str(match.lastgroup)[1:])][0]
        if kind is None or found in self._tokens:
            return self._tokens[found]
        if kind == "at":
            user, _, host = found.partition("@")
            return f"{self._token('users', user)}@{self._token('hosts', host)}"
        if kind == "url" and (url := _URL.fullmatch(found)):
            scheme, user, at, host, port, path = url.groups("")
            user, host = self._token("users", user), self._token("hosts", host)
            return f"{scheme}{user}{at}{host}{port}{self._token('paths', path)}"
        if kind == "address":
            return self._token("hosts", found) if _address(found) else found
        if kind == "path":
            return found if _OF_THE_SYSTEM.match(found) else self._token("paths", found)
        return self._token("hosts" if kind == "url" else kind, found)

    def _token(self, kind: str, name: str) -> str:
        if not name or _is_plain(name) or kind in self._kept:
            return name
        return self._tokens.get(name) or self._digest(kind, name)

    def _digest(self, kind: str, name: str) -> str:
        made = hmac.digest(self._key, name.encode(errors="surrogatepass"), "sha256").hex()
        return f"{KINDS[kind]}-{made[:_DIGITS]}"

    def _word(self, match: re.Match[str]) -> str:
        word = match[0]
        return word if self._is_known(_TOKEN.sub("", word)) else self._digest("words", word)

    def _is_known(self, word: str) -> bool:
        small = word.lower()
        if small in _words() or small in self._vocabulary or _SAME.fullmatch(word) or _is_plain(word):
            return True
        # A name of a machine may be made of words; with a dot it is one, and not known.
        parts = re.split(r"[:/=@%'+,_-]|\.(?!\w)", word)
        return len(parts) > 1 and all(not each or self._is_known(each) for each in parts)


def _is_plain(name: str) -> bool:
    # With or without a port.
    address = _address(name.partition(":")[0] if name.count(":") == 1 else name)
    return bool(_PLAIN.fullmatch(name) or (address and address.is_loopback))


def _address(text: str) -> Any:
    try:
        return ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None


def checked_kinds(keep: Iterable[str], more: Iterable[str] = ()) -> tuple[str, ...]:
    """Kinds of `--keep A,B`, sorted. Raises ConfigError."""
    known = (*KINDS, *more)
    asked = {each.strip() for text in keep for each in text.split(",")}
    if unknown := sorted(asked - set(known)):
        raise ConfigError(f"--keep {unknown[0][:40]}: there is no such kind", f"one of {', '.join(known)}")
    return tuple(sorted(asked))
