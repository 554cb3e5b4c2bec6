"""What an image is made from, and where it comes from. The build itself is the lab suite's."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from kit.lab.image import inputs as image_inputs
from kit.lab.image.inputs import HERE, ImageInputs, pick_mirror

BACKPORTS = "zfs-linux/trixie-backports"


def test_preferences_pin_every_package_of_a_source() -> None:
    text = ImageInputs(pins=(BACKPORTS, "nfs-utils=1:2.8.3-1~bpo13+1")).preferences()
    assert text == (
        "Package: src:zfs-linux\nPin: release n=trixie-backports\nPin-Priority: 1001\n\n"
        "Package: src:nfs-utils\nPin: version 1:2.8.3-1~bpo13+1\nPin-Priority: 1001\n\n"
    )


def test_releases_beside_the_suite_come_from_pins_once() -> None:
    pins = (BACKPORTS, "fio/trixie-backports", "fio=3.39-1", "bpftrace/trixie", "nfs-utils/sid")
    assert ImageInputs(pins=pins).releases == ("sid", "trixie-backports")


@pytest.mark.parametrize(
    "pin", ["zfs", "=1", "a b=1", "zfs=1\nPin: x", "zfs/../x", "zfs=$(x)", "zfs/", "-o=1", "zfs-linux=1\n"]
)
def test_a_pin_that_is_none_is_refused(pin: str) -> None:
    with pytest.raises(ConfigError, match="--pin"):
        ImageInputs(pins=(pin,))


@pytest.mark.parametrize("suite", ["", "Trixie", "../x", "trixie main", "trixie\nx", "trixie\n", "-x"])
def test_a_suite_that_is_none_is_refused(suite: str) -> None:
    with pytest.raises(ConfigError, match="--suite"):
        ImageInputs(suite=suite)


@pytest.mark.parametrize("kernel", ["", "Cloud", "../x", "cloud amd64", "x,bash", "-cloud", "cloud-amd64\n"])
def test_a_kernel_that_is_none_is_refused(kernel: str) -> None:
    with pytest.raises(ConfigError, match="--kernel"):
        ImageInputs(kernel=kernel)


def test_another_kernel_takes_its_image_and_its_headers() -> None:
    inputs = ImageInputs(kernel="7.2.12+deb13-cloud-amd64")
    assert "linux-image-7.2.12+deb13-cloud-amd64" in inputs.guest_packages
    assert inputs.builder_packages == ("dkms", "linux-headers-7.2.12+deb13-cloud-amd64")
    assert inputs.modules_digest() != ImageInputs().modules_digest()
    assert not any("{" in name for name in (*inputs.guest_packages, *inputs.builder_packages))


def test_the_digest_tells_everything_apart() -> None:
    variants = [
        ImageInputs(),
        ImageInputs(suite="forky"),
        ImageInputs(pins=(BACKPORTS,)),
        ImageInputs(pins=("zfs-linux=2.3.2-2",)),
        ImageInputs(kernel="rt-amd64"),
    ]
    assert len({inputs.digest() for inputs in variants}) == len(variants)
    assert ImageInputs().digest() == ImageInputs().digest()


@pytest.mark.parametrize(
    ("name", "modules_too"),
    [("guest/hsp-init", False), ("make-root.sh", False), ("build-modules.sh", True)],
)
def test_a_changed_guest_file_makes_another_image_but_not_other_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, modules_too: bool
) -> None:
    shutil.copytree(HERE, tmp_path / "image")
    monkeypatch.setattr(image_inputs, "HERE", tmp_path / "image")
    image, modules = ImageInputs().digest(), ImageInputs().modules_digest()
    with (tmp_path / "image" / name).open("a") as file:
        file.write("# changed\n")
    assert ImageInputs().digest() != image
    assert (ImageInputs().modules_digest() != modules) is modules_too


INDEX_TARGETS = """\
https://example.org/security/|bookworm-security|Debian|Debian-Security|main
https://example.org/debian/|bookworm-backports|Debian|Debian Backports|main
https://example.org/debian/|bookworm-updates|Debian|Debian|main
https://example.org/extra/|bookworm|Extra|Extra|main
https://example.org/contrib/|bookworm|Debian|Debian|contrib
https://example.org/debian/|bookworm|Debian|Debian|main
"""


def test_the_mirror_is_the_plain_archive_of_debian() -> None:
    assert pick_mirror(INDEX_TARGETS) == "https://example.org/debian"


def test_without_debian_there_is_no_mirror() -> None:
    assert pick_mirror("https://example.org/ubuntu/|noble|Ubuntu|Ubuntu|main\n") == ""
    assert pick_mirror("") == ""
    assert pick_mirror("half a line\n") == ""


def add_releases(root: Path, releases: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HERE / "add-releases.sh", root],
        env={**os.environ, "HSP_SUITE": "trixie", "HSP_RELEASES": releases},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_release_of_a_pin_comes_from_the_mirror_that_the_suite_has(tmp_path: Path) -> None:
    apt = tmp_path / "etc" / "apt"
    (apt / "sources.list.d").mkdir(parents=True)
    (apt / "sources.list").write_text(
        "deb [signed-by=/k.gpg] http://example.org/debian trixie main contrib\n"
        "deb http://example.org/debian trixie-updates main contrib\n"
    )
    done = add_releases(tmp_path, "sid trixie-backports")
    assert done.returncode == 0, done.stderr
    added = {file.name: file.read_text() for file in (apt / "sources.list.d").iterdir()}
    line = "deb [signed-by=/k.gpg] http://example.org/debian {} main contrib\n"
    assert added == {
        "hsp-sid.list": line.format("sid"),
        "hsp-trixie-backports.list": line.format("trixie-backports"),
    }


def test_a_release_that_cannot_be_added_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "etc" / "apt" / "sources.list.d").mkdir(parents=True)
    (tmp_path / "etc" / "apt" / "sources.list").write_text("deb http://example.org/ubuntu noble main\n")
    done = add_releases(tmp_path, "trixie-backports")
    assert done.returncode == 1
    assert "trixie-backports" in done.stderr
