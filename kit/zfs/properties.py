"""Properties that a workload may set, and their values, by version of OpenZFS. Pure.

Only those that change how the pool stores and answers may be set. All others are refused: some share the data
or run files of it beyond the run's clients, some would move what the kit mounts and removes, and the rest was
not looked at. Sources: zfsprops(7), zpoolprops(7), zpool-features(7) and module/zcommon of the tags
zfs-2.1.16, 2.2.11, 2.3.9 and 2.4.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kit.config.toml import Setting, nearest, shorten, suggested
from kit.config.toml_lines import KeyProblems
from kit.core.units import format_size_bytes, parse_size_bytes
from kit.zfs.openzfs_version import ZfsVersion
from kit.zfs.pool import setting

Kind = Literal["dataset", "pool"]

_EXABYTES = 2**63 - 1
_MAX_RECORD_BYTES = 16 << 20
_COMMENT = 32


@dataclass(frozen=True)
class _Property:
    """Values: the `words`, and numbers or sizes from `low` to `high` (no numbers if `high` is None)."""

    words: tuple[str, ...] = ()
    low: int = 0
    high: int | None = None
    is_size: bool = False
    since: tuple[int, int] = (2, 1)

    @property
    def expected(self) -> str:
        """The values, for a message."""
        texts = _shortened(self.words)
        if self.high is not None and not self.is_size:
            texts.append(f"a number from {self.low} to {self.high}")
        elif self.low:
            low, high = format_size_bytes(self.low), format_size_bytes(self.high or 0)
            texts.append(f"a power of two from {low} to {high}")
        elif self.high is not None:
            most = "" if self.high == _EXABYTES else f" up to {format_size_bytes(self.high)}"
            texts.append(f'a size such as "1MiB"{most}')
        return " or ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def _words(text: str, since: tuple[int, int] = (2, 1)) -> _Property:
    return _Property(tuple(text.split()), since=since)


def _size(words: str = "", high: int = _EXABYTES, since: tuple[int, int] = (2, 1)) -> _Property:
    return _Property(tuple(words.split()), high=high, is_size=True, since=since)


_ZSTD = [f"zstd-{level}" for level in range(1, 20)]
_FAST = [f"zstd-fast-{level}" for level in (*range(1, 11), *range(20, 101, 10), 500, 1000)]
_GZIP = [f"gzip-{level}" for level in range(1, 10)]
_SUMS = "sha256 sha512 skein edonr blake3"

_DATASET: Mapping[str, _Property] = {
    "aclinherit": _words("discard noallow restricted passthrough passthrough-x secure"),
    "aclmode": _words("discard groupmask passthrough restricted"),
    "acltype": _words("off posix nfsv4 noacl posixacl disabled"),
    "atime": _words("on off"),
    "checksum": _words(f"on off fletcher2 fletcher4 noparity {_SUMS}"),
    "compression": _words(" ".join(("on off lz4 lzjb zle gzip zstd zstd-fast", *_GZIP, *_ZSTD, *_FAST))),
    "copies": _words("1 2 3"),
    "dedup": _words(
        f"on off verify {_SUMS.replace('edonr ', '')} "
        "sha256,verify sha512,verify skein,verify edonr,verify blake3,verify"
    ),
    "direct": _words("disabled standard always", since=(2, 3)),
    "dnodesize": _words("legacy auto 1k 2k 4k 8k 16k"),
    "encryption": _words("on off aes-128-ccm aes-192-ccm aes-256-ccm aes-128-gcm aes-192-gcm aes-256-gcm"),
    "logbias": _words("latency throughput"),
    "prefetch": _words("all none metadata", since=(2, 2)),
    "primarycache": _words("all none metadata"),
    "quota": _size("none"),
    "recordsize": _Property(low=512, high=_MAX_RECORD_BYTES, is_size=True),
    "redundant_metadata": _words("all most some none"),
    "refquota": _size("none"),
    "refreservation": _size("none auto"),
    "relatime": _words("on off"),
    "reservation": _size("none"),
    "secondarycache": _words("all none metadata"),
    "special_small_blocks": _size(high=_MAX_RECORD_BYTES),
    "sync": _words("standard always disabled"),
    "xattr": _words("on off dir sa"),
}
_POOL: Mapping[str, _Property] = {
    "ashift": _Property(("0",), low=9, high=16),
    "autoexpand": _words("on off"),
    "autotrim": _words("on off"),
    "comment": _Property(),
    "compatibility": _Property(),
    "dedup_table_quota": _size("auto none", since=(2, 3)),
    "failmode": _words("wait continue"),
    "listsnapshots": _words("on off"),
}
# The first version with a value, where the property is older.
_VALUES_SINCE = {
    ("checksum", "blake3"): (2, 2),
    **dict.fromkeys((("dedup", "blake3"), ("dedup", "blake3,verify")), (2, 2)),
}
_FEATURES: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(
        (
            "allocation_classes", "async_destroy", "bookmark_v2", "bookmark_written", "bookmarks",
            "device_rebuild", "device_removal", "draid", "edonr", "embedded_data", "empty_bpobj",
            "enabled_txg", "encryption", "extensible_dataset", "filesystem_limits", "hole_birth",
            "large_blocks", "large_dnode", "livelist", "log_spacemap", "lz4_compress",
            "multi_vdev_crash_dump", "obsolete_counts", "project_quota", "redacted_datasets",
            "redaction_bookmarks", "resilver_defer", "sha512", "skein", "spacemap_histogram", "spacemap_v2",
            "userobj_accounting", "zpool_checkpoint", "zstd_compress",
        ),
        (2, 1),
    ),
    **dict.fromkeys(("blake3", "block_cloning", "head_errlog", "vdev_zaps_v2", "zilsaxattr"), (2, 2)),
    **dict.fromkeys(
        ("fast_dedup", "large_microzap", "longname", "raidz_expansion", "redaction_list_spill"), (2, 3)
    ),
    **dict.fromkeys(("block_cloning_endian", "dynamic_gang_header", "physical_rewrite"), (2, 4)),
}  # fmt: skip
_FEATURE = "feature@"

_SHARED = "the kit shares the dataset itself, with the run's clients alone"
_MOUNTED = "the kit mounts the dataset itself, in the run's own directory, and removes it there"
_RUNS = "files of a measurement must never run, nor be devices, on the server"
_OWN = "the kit marks its own pools with it"
_KEPT = "the kit keeps its pool out of the server's list, so that no boot imports it"
_REASONS = {
    **dict.fromkeys(("sharenfs", "sharesmb"), _SHARED),
    **dict.fromkeys(("mountpoint", "canmount", "overlay", "altroot", "zoned"), _MOUNTED),
    **dict.fromkeys(("setuid", "exec", "devices"), _RUNS),
    **dict.fromkeys(("cachefile", "bootfs"), _KEPT),
    **dict.fromkeys(("keyformat", "keylocation", "pbkdf2iters"), "the kit makes a key for each run itself"),
    "readonly": "the kit could not write the working set",
    "delegation": "only the kit's user works on its pool",
}


def problems(kind: Kind, properties: Mapping[str, Setting], version: ZfsVersion | None = None) -> KeyProblems:
    """Key and text for each property that a workload may not set, or not to that value.

    `version`: of the server; None before it is known: then any of 2.1 to 2.4 may have name and value.
    """
    for name, value in properties.items():
        if reason := why_refused(kind, name, value, version):
            yield (kind, "properties", name), reason


def why_refused(kind: Kind, name: str, value: Setting, version: ZfsVersion | None = None) -> str:
    """Why a workload may not set this property, and what to do; "" if it may."""
    if kind == "pool" and name.startswith(_FEATURE):
        return _feature_problem(name.removeprefix(_FEATURE), value, version)
    valid, others = (_DATASET, _POOL) if kind == "dataset" else (_POOL, _DATASET)
    if name in valid:
        return _value_problem(name, valid[name], value, version)
    if name.startswith("hsp:"):
        return f"{_OWN}; remove it"
    # Others' user properties are data, but for those that systemd's generator reads.
    if kind == "dataset" and ":" in name and not name.startswith("org.openzfs.systemd:"):
        return ""
    if reason := _REASONS.get(name):
        return f"{reason}; remove it"
    if name in others or name.startswith(_FEATURE):
        other = "pool" if kind == "dataset" else "dataset"
        return f"a property of the {other}: write it into {other}.properties"
    close = suggested(name, sorted(valid), 0.75)
    hint = f", {close}" if close else f"; remove it, or use one of: {', '.join(sorted(valid))}"
    return f"not a {kind} property that a workload may set{hint}"


def exact(name: str, value: Setting) -> str:
    """A dataset's value as `zfs get -p` prints it: sizes in bytes, and none of them as 0.

    OpenZFS takes GB for GiB; here units are those of other sizes of the workload.
    """
    if name not in _DATASET or not _DATASET[name].is_size or value == "auto":
        return setting(value)
    return "0" if value == "none" else str(_size_bytes(name, value))


def _size_bytes(name: str, value: Setting) -> int:
    """Also in zfs's own spelling, a letter for a power of 1024, but for records. Raises ValueError."""
    if not isinstance(value, str):
        return int(value)
    letter = re.fullmatch(r"([0-9]+)([KMGT])", value) if name != "recordsize" else None
    return parse_size_bytes(f"{letter[1]}{letter[2]}iB" if letter else value)


def _value_problem(name: str, valid: _Property, value: Setting, version: ZfsVersion | None) -> str:
    if reason := _too_new(valid.since, version, "this property"):
        return reason
    text = setting(value)
    if name == "comment":
        return f"{len(text)} characters, a comment has at most {_COMMENT}" if len(text) > _COMMENT else ""
    if name == "compatibility":
        return ""  # names of files of the server, which may have more than OpenZFS brings along
    if text in valid.words:
        return _too_new(_VALUES_SINCE.get((name, text), (2, 1)), version, f"the value {shorten(text)}")
    if name == "failmode":
        return "a lost device must not bring the server down; wait or continue"
    if valid.high is None:
        return _unknown(text, valid)
    return _number_problem(name, valid, value, version)


def _unknown(text: str, valid: _Property) -> str:
    close = _nearest_level(text, valid.words) or suggested(text, list(valid.words))
    hint = f"{close} expected" if close else "expected"
    return f"unknown value {shorten(text)}, {hint} {valid.expected}"


def _nearest_level(text: str, words: tuple[str, ...]) -> str:
    """zstd-19 for zstd-20."""
    name, dash, level = text.rpartition("-")
    levels = [int(word[len(name) + 1 :]) for word in words if re.fullmatch(f"{re.escape(name)}-[0-9]+", word)]
    if not (dash and level.isdecimal() and levels):
        return ""
    return f"did you mean '{name}-{min(levels, key=lambda each: abs(each - int(level[:9])))}'?"


def _shortened(words: tuple[str, ...]) -> list[str]:
    """The words, without the many levels of a compression: zstd-1 to zstd-19."""
    levels = [each for each in (_GZIP, _ZSTD, _FAST) if set(each) <= set(words)]
    many = {word for each in levels for word in each}
    return [*(word for word in words if word not in many), *(f"{each[0]} to {each[-1]}" for each in levels)]


def _number_problem(name: str, valid: _Property, value: Setting, version: ZfsVersion | None) -> str:
    assert valid.high is not None
    if isinstance(value, str) and valid.is_size:
        try:
            number = _size_bytes(name, value)
        except ValueError as error:
            return f"{error}" if value[:1].isdecimal() else _unknown(value, valid)
    elif isinstance(value, bool) or not str(value).isdecimal():
        return _unknown(setting(value), valid)
    else:
        number = int(value)
    if not valid.low <= number <= valid.high:
        return f"{setting(value)} is out of range, expected {valid.expected}"
    if name == "special_small_blocks" and number and (number < 512 or number & (number - 1)):
        # libzfs_dataset.c, zfs_valid_proplist; any size from 2.4 on.
        return _too_new((2, 4), version, f"the value {shorten(str(value))}, no power of two from 512 on")
    if name == "recordsize" and number & (number - 1):
        near = 1 << (number.bit_length() - 1)
        nearby = " and ".join(f'"{format_size_bytes(size)}"' for size in (near, 2 * near))
        return f"{value!r} is not {valid.expected}; the nearest are {nearby}"
    return ""


def _feature_problem(name: str, value: Setting, version: ZfsVersion | None) -> str:
    if name not in _FEATURES:
        return f"OpenZFS 2.1 to 2.4 have no such feature, {nearest(name, sorted(_FEATURES), 'there are')}"
    if setting(value) not in ("enabled", "disabled"):
        return f"unknown value {shorten(setting(value))}, there are enabled and disabled"
    return _too_new(_FEATURES[name], version, "this feature")


def _too_new(since: tuple[int, int], version: ZfsVersion | None, noun: str) -> str:
    if version is None or version >= ZfsVersion(*since):
        return ""
    return (
        f"OpenZFS {version.text or f'{version.major}.{version.minor}'} of the server does not have {noun}: "
        f"it came with {since[0]}.{since[1]}; remove it, or use a newer server"
    )


def record_problem(record_bytes: int, version: ZfsVersion, most_bytes: int | None) -> str:
    """Why this server cannot have such records; "" if it can. `most_bytes`: of zfs_max_recordsize, if it is "
    "set."""
    limit = most_bytes or (1 << 20 if version < ZfsVersion(2, 2) else _MAX_RECORD_BYTES)
    if record_bytes <= limit:
        return ""
    return (
        f"{format_size_bytes(record_bytes)} is above {format_size_bytes(limit)}, the most of OpenZFS "
        f"{version.major}.{version.minor} of the server (zfs_max_recordsize): make it smaller, or set that "
        "tunable"
    )
