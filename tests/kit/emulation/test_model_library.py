"""The library as Python has it: bound to the interface in model.h."""

from __future__ import annotations

import errno
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kit.config.device_model import find_preset, preset_names, to_spec
from kit.core.errors import ConfigError
from kit.emulation.compilation import HERE as EMULATION
from tests.kit.emulation.model_library import ANSWER, REQUEST, ModelDevice, Op, _library, requests

MIB = 1 << 20


def test_records_are_those_of_the_interface(tmp_path: Path) -> None:
    program = tmp_path / "layout.c"
    program.write_text(
        '#include <stdio.h>\n#include "model.h"\n#define AT(f) (int)offsetof(struct hsp_request, f)\n'
        'int main(void) { printf("%d %d %d %d %d %d %d %d", (int)sizeof(struct hsp_request), AT(arrival_ns), '
        "AT(sector), AT(sectors), AT(op), AT(fua), (int)sizeof(struct hsp_answer), "
        "(int)offsetof(struct hsp_answer, error)); return 0; }\n"
    )
    layout = tmp_path / "layout"
    subprocess.run(["cc", f"-I{EMULATION / 'models'}", program, "-o", layout], check=True, timeout=60)
    output = subprocess.run([layout], check=True, capture_output=True, text=True, timeout=60)
    offsets = [REQUEST.fields[name][1] for name in ("arrival_ns", "sector", "sectors", "op", "fua")]  # type: ignore[index]
    expected = [REQUEST.itemsize, *offsets, ANSWER.itemsize, ANSWER.fields["error"][1]]  # type: ignore[index]
    assert [int(word) for word in output.stdout.split()] == expected


def test_every_function_of_the_interface_is_there() -> None:
    header = (EMULATION / "models" / "model.h").read_text()
    names = set(re.findall(r"\b(hsp_device_[a-z_]+)\(", header))
    library_ = _library()
    assert len(names) > 10
    assert not [name for name in names if not hasattr(library_, name)]


GOOD = to_spec(find_preset("nvme-consumer"))
CONTROLLER = (
    "seed 1\ncache battery\ncommand_ns 1\ncommand_spread_ns 1\nlink_bytes_per_s 1000000\ncache_bytes 4096\n"
    "destage_idle_ns 1\n"
)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("", "text"),
        ("x" * 20000, "text"),
        ("model\n", "key value"),
        ("model \n", "key value"),
        (" model ssd\n", "key value"),
        ("model tape\n", "tape"),
        (GOOD + "seed 1\n", "seed is given twice"),
        (GOOD + "colour 1\n", "colour is not a key"),
        (GOOD.replace("read_ns", "reed_ns"), "read_ns is missing"),
        (GOOD.replace("channels 4", "channels 0"), "channels is 0, not from 1"),
        (GOOD.replace("channels 4", "channels -4"), "not a whole number"),
        (GOOD.replace("channels 4", "channels 4.0"), "not a whole number"),
        (GOOD.replace("channels 4", "channels 99999999999999999999"), "not a whole number"),
        (GOOD.replace("page_bytes 16384", "page_bytes 1536"), "power of two"),
        (GOOD.replace("flush honoured", "flush maybe"), "maybe"),
        (GOOD.replace("write_cache on", "write_cache maybe"), "maybe"),
        (
            GOOD.replace("write_cache on", "write_cache off").replace(
                "loss_protection 0", "loss_protection 1"
            ),
            "the cache is not volatile",
        ),
        ("".join(f"k{n} 1\n" for n in range(200)), "keys"),
        ("model controller\nbacking.model controller\n" + CONTROLLER, "behind a controller"),
    ],
)
def test_a_spec_that_is_none_is_refused(spec: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        ModelDevice(spec, MIB)


@pytest.mark.parametrize("size", [0, -512, 100, 513, 1 << 50])
def test_a_size_that_is_none_is_refused(size: int) -> None:
    with pytest.raises(ConfigError):
        ModelDevice(GOOD, size)


@pytest.mark.parametrize("size", [512, 64 * MIB, 512 * MIB])
@pytest.mark.parametrize("name", preset_names())
def test_the_last_sector_of_every_size_can_be_written(name: str, size: int) -> None:
    with ModelDevice(find_preset(name), size) as device:
        done_ns, error = device.submit(0, Op.WRITE, size // 512 - 1, 1)
        assert error == 0 and done_ns > 0
        assert device.submit(done_ns, Op.WRITE, size // 512, 1) == (done_ns, errno.EIO)


def test_requests_of_another_layout_are_refused() -> None:
    device = ModelDevice(GOOD, MIB)
    with pytest.raises(TypeError):
        device.submit_many(np.zeros(4, np.uint64))
    with pytest.raises(TypeError):
        device.submit_many(requests(8)[::2])
