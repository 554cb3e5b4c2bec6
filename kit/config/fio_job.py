"""Parser of fio job files; it allows only I/O on files of the dataset, or on the device of a phase.

A fio job file is code: `exec_prerun` goes through system(3), `ioengine=external` loads an object file, a
`$keyword` in a value starts a shell for its arithmetic, `include` reads any file. So there is an allow-list
of options and values, and the checked text (`FioJob.text`) is the text to run. The kit sets logs and output
on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from kit.config.toml import KeyProblem, Place, Problem, nearest, placed_refusal, read_text, refusal, shorten
from kit.core.units import parse_size_bytes

DIRECTORY = "${HSP_DIRECTORY}"
DEVICE = "${HSP_DEVICE}"
SIZE = "${HSP_SIZE}"
RUNTIME = "${HSP_RUNTIME}"
SEED = "${HSP_SEED}"

# fio's default kb_base: k, M... are powers of 1024. "Ki" is refused, because there it means 1000.
_MULTIPLIER = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MAX_LINE = 1000  # fio splits lines at 4096 bytes: the rest would become an unchecked option

_Kind = tuple[str, str]  # pattern of allowed values, its description for messages
_BYTES_PATTERN = r"[0-9]{1,18}(?:[kKmMgGtT][bB]?)?"
_COUNT: _Kind = (r"[0-9]{1,9}", "a whole number")
_POSITIVE: _Kind = (r"[1-9][0-9]{0,5}", "a whole number from 1")
_FLAG: _Kind = (r"[01]?", "0, 1 or no value")
_ZERO: _Kind = (r"0", "0")
_BLOCK: _Kind = (rf"(?=[^a-zA-Z]*[1-9]){_BYTES_PATTERN}", "one size such as 512, 8k or 1m")
_BYTES: _Kind = (rf"{_BYTES_PATTERN}|[0-9]{{1,3}}%|{re.escape(SIZE)}", f"a size such as 512m, or {SIZE}")
_TIME: _Kind = (
    rf"[0-9]{{1,12}}(?:us|usec|ms|msec|s|m|h)?|{re.escape(RUNTIME)}",
    f"a time such as 30s, or {RUNTIME}",
)
_SEED: _Kind = (rf"[0-9]{{1,9}}|{re.escape(SEED)}", f"a whole number, or {SEED}")
_NAME: _Kind = (
    rf"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_.-]{{0,99}}|{re.escape(DEVICE)}",
    f"a plain file name without '/', ':' or '..', or {DEVICE}",
)
_DISTRIBUTION: _Kind = (
    r"random|(?:zipf|pareto|normal|gauss)(?::[0-9.]+){0,2}|zoned(?:_abs)?:[0-9.:/,%kKmMgG]+",
    "random, zipf:theta, pareto:h, normal:sigma or zoned:...",
)


def _one_of(*choices: str) -> _Kind:
    return "|".join(map(re.escape, choices)), f"one of {', '.join(choices)}"


_FLAGS = (
    "time_based", "direct", "thread", "norandommap", "randrepeat", "allrandrepeat", "group_reporting",
    "refill_buffers", "scramble_buffers", "zero_buffers", "invalidate", "end_fsync", "create_on_open",
    "stonewall", "disable_slat", "disable_clat", "disable_lat",
)  # fmt: skip
_OPTIONS: Mapping[str, _Kind] = {
    "rw": (
        rf"(?:read|write|randread|randwrite|rw|readwrite|randrw)(?::{_BYTES_PATTERN})?",
        "one of read, write, randread, randwrite, rw, readwrite, randrw",
    ),
    "sync": _one_of("none", "0", "sync", "1", "dsync"),
    "ioengine": _one_of("psync", "sync", "libaio", "pvsync", "io_uring"),
    "directory": _one_of(DIRECTORY),
    "random_generator": _one_of("tausworthe", "tausworthe64", "lfsr"),
    "rate_process": _one_of("linear", "poisson"),
    "fallocate": _one_of("none", "native", "posix", "keep", "truncate", "0", "1"),
    "clocksource": _one_of("gettimeofday", "clock_gettime", "cpu"),
    "random_distribution": _DISTRIBUTION,
    "file_service_type": (
        r"(?:random|roundrobin|sequential)(?::[0-9]+)?|(?:zipf|pareto|normal|gauss)(?::[0-9.]+){0,2}",
        "random, roundrobin, sequential, zipf, pareto or gauss",
    ),
    "filename": _NAME,
    "randseed": _SEED,
    "bs": _BLOCK,
    "percentile_list": (r"[0-9.]+(?::[0-9.]+){0,19}", "percentages with ':' between, at most 20"),
    "rate_iops": (r"[0-9]{1,9}[kK]?(?:,[0-9]{0,9}[kK]?){0,2}", "I/Os per second, such as 500 or 500,100"),
    # Without the characters of shells and of fio's own substitution, as everywhere.
    "description": (r"[^$`'\"\\]*", "text without $, quotes and backslashes"),
    "gtod_reduce": _ZERO,  # 1 would disable latency measurement
    **dict.fromkeys(("iodepth", "numjobs", "nrfiles", "loops"), _POSITIVE),
    "offset": (rf"{_BYTES_PATTERN}|[0-9]{{1,2}}%", "a place such as 512m or 90%"),
    **dict.fromkeys(("size", "filesize", "io_size"), _BYTES),
    **dict.fromkeys(("runtime", "ramp_time", "thinktime"), _TIME),
    **dict.fromkeys(
        ("number_ios", "rwmixread", "buffer_compress_percentage", "fsync", "fdatasync", "openfiles"), _COUNT
    ),
    **dict.fromkeys(_FLAGS, _FLAG),
}
_ALIASES = {"readwrite": "rw", "blocksize": "bs"}

# Reason of a refusal, by prefix of the option.
_REASONS = {
    "exec_": "runs a command through a shell",
    "include": "reads another file; put its options here",
    "write_": "the kit sets the logs itself",
    "log_": "the kit sets the logs itself",
    "read_iolog": "replays operations from an unchecked file",
    "trim": "discards data",
    "verify": "not supported: the kit measures, it does not verify",
}


@dataclass(frozen=True)
class FioSection:
    """One job of the file, including the options of the global sections before it.

    Option names are fio's canonical ones (`rw`, `bs`); an option without value has "1". `place` is that of
    the heading, `places` those of the options: in the job file, or in the workload that has the option.
    """

    name: str
    options: Mapping[str, str]
    place: Place = field(default=(Path(), 1), compare=False)
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)

    def place_of(self, option: str) -> Place:
        """File and line of an option; of the heading where it has its default."""
        return self.places.get(option, self.place)

    @property
    def operations(self) -> frozenset[str]:
        """The operations: "read", "write" or both; fio's default is read."""
        pattern = self.options.get("rw", "read").partition(":")[0].removeprefix("rand")
        return frozenset(("read", "write") if pattern in ("rw", "readwrite") else (pattern,))

    @property
    def is_random(self) -> bool:
        """Whether each I/O goes to a random place; fio's default is in order."""
        return self.options.get("rw", "read").startswith("rand")

    @property
    def block_bytes(self) -> int:
        """Bytes of one I/O; fio's default is 4 KiB."""
        return parse_fio_bytes(self.options.get("bs", "4k"))

    @property
    def is_sync_write(self) -> bool:
        """Whether it writes synchronously: each write is on stable storage before it returns."""
        return "write" in self.operations and self.options.get("sync", "none") in ("sync", "dsync", "1")

    @property
    def is_async_write(self) -> bool:
        """Whether it writes, and its writes return before they are on stable storage."""
        return "write" in self.operations and not self.is_sync_write

    def span(self, whole_bytes: int) -> tuple[int, int]:
        """See FioJob.span; fio's default is from the offset to the end."""
        first, size = (part_bytes(self.options.get(each, ""), whole_bytes) for each in ("offset", "size"))
        return first, min(first + (size or whole_bytes), whole_bytes)

    @property
    def copies(self) -> int:
        """How many jobs fio makes of it."""
        return int(self.options.get("numjobs", "1"))

    @property
    def outstanding(self) -> int:
        """Most I/Os in flight: numjobs x iodepth."""
        return self.copies * int(self.options.get("iodepth", "1"))


@dataclass(frozen=True)
class FioJob:
    """A checked job file: its text (with Unix line ends) and its jobs, in order."""

    text: str
    sections: tuple[FioSection, ...]

    @property
    def operations(self) -> frozenset[str]:
        """The operations of all jobs: "read", "write" or both."""
        return frozenset().union(*(section.operations for section in self.sections))

    @property
    def op(self) -> str:
        """What a phase with it is about: "read", "write", or "mixed" (as fio calls it)."""
        return "mixed" if len(self.operations) > 1 else next(iter(self.operations))

    @property
    def is_random(self) -> bool | None:
        """Whether each I/O goes to a random place; None where the jobs differ, or there are no sections."""
        kinds = {section.is_random for section in self.sections}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def block_bytes(self) -> int | None:
        """Bytes of one I/O; None where the jobs differ, or there are no sections."""
        sizes = {section.block_bytes for section in self.sections}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def block_bytes_by_op(self) -> dict[str, int]:
        """Bytes of one I/O of each operation that sections have; the plan refuses one where they differ."""
        sizes = {
            op: [each.block_bytes for each in self.sections if op in each.operations]
            for op in sorted(self.operations)
        }
        return {op: max(found) for op, found in sizes.items() if found}

    @property
    def is_sync_write(self) -> bool:
        """Whether any of the jobs writes synchronously."""
        return any(section.is_sync_write for section in self.sections)

    @property
    def is_async_write(self) -> bool:
        """Whether any of the jobs writes asynchronously."""
        return any(section.is_async_write for section in self.sections)

    def span(self, whole_bytes: int) -> tuple[int, int]:
        """The bytes of a device of that size that its I/Os are between: first, and after the last."""
        spans = [section.span(whole_bytes) for section in self.sections]
        return min(first for first, _ in spans), max(end for _, end in spans)

    @property
    def writes_per_io(self) -> int | None:
        """Writes that the storage gets for an I/O that writes; None: not known (see force_table)."""
        return 1

    @property
    def spare_bytes(self) -> int:
        """Bytes that the storage may get for an I/O beside its own."""
        return 0

    @property
    def outstanding(self) -> int:
        """Most I/Os in flight: jobs run in parallel up to a `stonewall`, which waits for them."""
        highest = parallel = 0
        for section in self.sections:
            is_wall = section.options.get("stonewall", "0") == "1"
            parallel = section.outstanding + (0 if is_wall else parallel)
            highest = max(highest, parallel)
        return highest


def parse_fio_bytes(text: str) -> int:
    """Parse a size in fio's syntax ("512", "4k", "1m"; k = 1024); returns bytes. Raises ValueError."""
    if not re.fullmatch(_BYTES_PATTERN, text):
        raise ValueError(f"{text!r}: expected {_BLOCK[1]}")
    digits = re.match("[0-9]+", text)
    assert digits is not None  # the pattern above starts with digits
    return int(digits[0]) * _MULTIPLIER[text[digits.end() :][:1].lower()]


def part_bytes(value: str, whole_bytes: int) -> int:
    """A size of a checked job where the whole is known; 0 for none."""
    if value == SIZE:
        return whole_bytes
    if value.endswith("%"):
        return whole_bytes * int(value[:-1]) // 100
    return parse_fio_bytes(value) if value and not value.startswith("$") else 0


def read_job(path: Path, by: Path | None = None) -> FioJob:
    """Read and check the job file at `path`, which the workload `by` names.

    Raises ConfigError with a line `file:line: option: problem` for each problem.
    """
    text = read_text(path, by)
    problems: list[Problem] = []
    shared: dict[str, str] = {}
    shared_lines: dict[str, int] = {}
    sections: list[FioSection] = []
    for line, name, options, lines in _sections(text, problems):
        # For fio every name that starts with "global" is a global section, for the jobs that follow.
        if name.startswith("global"):
            shared.update(options)
            shared_lines.update(lines)
        else:
            if any(section.name == name for section in sections):
                problems.append(
                    (line, f"[{name}]: a second job of this name; their results could not be distinguished")
                )
            both = MappingProxyType({**shared, **options})
            places = {option: (path, at) for option, at in {**shared_lines, **lines}.items()}
            sections.append(FioSection(name, both, (path, line), places))
    if not sections and not problems:
        problems.append((1, "no job in it: expected a [section] besides [global]"))
    if problems:
        raise refusal(path, problems)
    return FioJob(text, tuple(sections))


def with_options(job: FioJob, options: Mapping[str, tuple[str, Place]]) -> FioJob:
    """The job with other options in each of its sections: value and place by canonical name."""
    if not options:
        return job
    values = {name: value for name, (value, _) in options.items()}
    places = {name: place for name, (_, place) in options.items()}
    return _of_sections(
        replace(
            section,
            options=MappingProxyType({**section.options, **values}),
            places={**section.places, **places},
        )
        for section in job.sections
    )


def on_clock(job: FioJob, dilation: int) -> FioJob:
    """The job with rates and pauses on the host's clock; those of a workload are in the experiment's time.

    Raises ConfigError with file and line for a rate that has no whole number there: fio knows no others.
    """
    convert = {"rate_iops": _host_rate, "thinktime": _host_pause}
    if dilation == 1 or not any(convert.keys() & section.options.keys() for section in job.sections):
        return job
    problems: list[tuple[Place, str]] = []
    sections = []
    for section in job.sections:
        options = dict(section.options)
        for name in [name for name in convert if name in options]:
            try:
                options[name] = convert[name](options[name], dilation)
            except ValueError as error:
                problems.append((section.place_of(name), f"[{section.name}] {name}: {error}"))
        sections.append(replace(section, options=MappingProxyType(options)))
    if problems:
        raise placed_refusal(problems)
    return _of_sections(sections)


def _host_rate(text: str, dilation: int) -> str:
    rates = []
    for part in text.split(","):
        rate = parse_fio_bytes(part) if part else 0
        if rate % dilation:
            raise ValueError(
                f"{rate} a second is no whole number on the lab's clock, which is {dilation} times slower: "
                f"write a multiple of {dilation}, or a thinktime"
            )
        rates.append(str(rate // dilation) if part else "")
    return ",".join(rates)


def _host_pause(text: str, dilation: int) -> str:
    """A time as fio has it: microseconds, if it has no unit."""
    if text.startswith("$"):
        return text
    digits = re.match("[0-9]+", text)
    assert digits is not None  # the pattern of the option starts with digits
    return f"{int(digits[0]) * dilation}{text[digits.end() :]}"


def _of_sections(changed: Iterable[FioSection]) -> FioJob:
    """The job of these sections alone, written anew."""
    sections = tuple(changed)
    blocks = ("".join(f"{name}={value}\n" for name, value in each.options.items()) for each in sections)
    text = "\n".join(f"[{each.name}]\n{block}" for each, block in zip(sections, blocks, strict=True))
    return FioJob(text, sections)


def check_options(settings: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Options that a workload has itself, as a job file has them: canonical names, values in fio's syntax.

    Sizes may have the workload's units too ("4KiB"), flags may be true or false. Raises KeyProblem.
    """
    options: dict[str, str] = {}
    for key, setting in settings.items():
        value = str(int(setting)) if isinstance(setting, bool) else str(setting)
        name = _ALIASES.get(key, key)
        if _OPTIONS.get(name) in (_BLOCK, _BYTES) and value.endswith("iB"):
            with suppress(ValueError):  # refused below, with what fio takes
                value = str(parse_size_bytes(value))
        for _, problem in _add_option(f"{key}={value}", options):
            raise KeyProblem(key, problem)
    return options


def _sections(
    text: str, problems: list[Problem]
) -> Iterator[tuple[int, str, dict[str, str], dict[str, int]]]:
    """Line, name, options and their lines of each section; adds to `problems`."""
    current: tuple[int, str, dict[str, str], dict[str, int]] | None = None
    for line, raw in enumerate(text.split("\n"), start=1):
        if len(raw) > _MAX_LINE or not raw.replace("\t", " ").isprintable():
            problems.append((line, f"longer than {_MAX_LINE} characters or with control characters"))
        elif raw.lstrip().startswith("["):
            if current:
                yield current
            # A full match: fio uses the line without its last character as name, and names files by it.
            heading = re.fullmatch(r"\[([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})\]", raw)
            if heading is None:
                problems.append((line, f"{shorten(raw)}: expected [name] of letters, digits, _-."))
            current = (line, heading[1] if heading else "?", {}, {})
        elif option := re.split("[;#]", raw, maxsplit=1)[0].strip():  # as fio: comments may follow a value
            if current is None:
                problems.append((line, f"{shorten(option)}: an option outside of a [section]"))
            else:
                problems.extend((line, f"{key}: {text}") for key, text in _add_option(option, current[2]))
                current[3].update({name: line for name in current[2] if name not in current[3]})
    if current:
        yield current


def _add_option(option: str, options: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Add `option` ("name=value" or "name") to `options`; yields its problems: name, text."""
    key, equals, value = (part.strip() for part in option.partition("="))
    name = _ALIASES.get(key, key)
    if name not in _OPTIONS:
        reason = next((reason for prefix, reason in _REASONS.items() if key.startswith(prefix)), "")
        label = key if re.fullmatch(r"[a-z0-9_]{1,40}", key) else shorten(key)
        yield label, f"not allowed, {reason or nearest(key, [*_OPTIONS, *_ALIASES], 'allowed')}"
        return
    pattern, expected = _OPTIONS[name]
    if name in options:
        yield key, "given twice in this section"
    elif not equals and (pattern, expected) != _FLAG:
        yield key, f"expected {expected}, found no value"
    elif not re.fullmatch(pattern, value):
        if "$" in value or "`" in value:
            expected += " (nothing else is substituted)"
        yield key, f"expected {expected}, found {shorten(value)}"
    options[name] = value if equals else "1"
