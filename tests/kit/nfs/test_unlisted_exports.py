"""kit.nfs.unlisted_exports: no pool is made beside exports that ZFS would remove with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kit.core.errors import SafetyRefusal
from kit.nfs.unlisted_exports import READ, read, refuse
from tests.fakes import ScriptedHost

FILES = r"""
# /srv/not 10.0.0.9(rw)
/srv/home  10.0.0.0/24(rw,sync) nas-client(ro) # and no more
/srv/all
/srv/open (ro)
"/srv/a b" -sync,rw @group *.lan(rw) \
    fd00::2
/srv/c\040d 10.0.0.1(rw)
"""
EXPORTED = """\
/srv/home      \t10.0.0.0/24(sync,rw)
/srv/home      \tnas-client.example.net(sync,ro)
/srv/all       \t<world>(sync,ro)
/srv/open      \t<world>(sync,ro)
/srv/a b       \t@group(sync,rw)
/srv/a b       \t*.lan(sync,rw)
/srv/a b       \tfd00::2(sync,rw)
/srv/c d       \t10.0.0.1(sync,rw)
"""


def test_what_the_files_name_is_no_reason() -> None:
    paths, unlisted = read(f"{EXPORTED}\0{FILES}")
    assert paths == ["/srv/a b", "/srv/all", "/srv/c d", "/srv/home", "/srv/open"] and not unlisted
    assert read("\0") == ([], [])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/srv/cluster   \t10.0.0.7(rw)", "/srv/cluster to 10.0.0.7"),
        ("/srv/not       \t10.0.0.9(rw)", "/srv/not to 10.0.0.9"),
        # One more client than the file has, whose name may be another there.
        ("/srv/home      \t10.0.0.7(rw)", "/srv/home to 10.0.0.7"),
        ("/srv/a/very/long/path/of/a/cluster\n\t\t<world>(ro)", "/srv/a/very/long/path/of/a/cluster to *"),
    ],
)
def test_an_export_without_a_file_is_a_reason(line: str, found: str) -> None:
    assert found in read(f"{EXPORTED}{line}\n\0{FILES}")[1]
    with pytest.raises(SafetyRefusal, match="in no file") as refused:
        refuse(ScriptedHost({"sh": f"{line}\n\0{FILES if 'home' not in line else ''}"}))
    assert found in refused.value.message and "exportfs -s" in refused.value.hint


@pytest.mark.parametrize("printed", ["", EXPORTED, "exportfs: something\0", "/srv\0"])
def test_what_cannot_be_read_is_refused(printed: str) -> None:
    with pytest.raises(SafetyRefusal, match="is not known"):
        refuse(ScriptedHost({"sh": printed}))


@pytest.mark.parametrize("exported", ["", "/srv 10.0.0.1(rw)\n"])
def test_the_command_reads_both(tmp_path: Path, exported: str) -> None:
    """With an exportfs that prints a list, or fails."""
    program = tmp_path / "exportfs"
    program.write_text(f"#!/bin/sh\nprintf %s '{exported}'\n")
    program.chmod(0o755)

    def run() -> subprocess.CompletedProcess[str]:
        argv = ["env", f"PATH={tmp_path}:/usr/bin:/bin", *READ]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    done = run()
    assert done.returncode == 0 and done.stdout.partition("\0")[0] == exported and "\0" in done.stdout
    program.write_text("#!/bin/sh\nexit 1\n")
    assert run().returncode == 1
