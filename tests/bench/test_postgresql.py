"""PostgreSQL itself beside the kit's forced writes: its own figure for its log's writes, within 5 %.

Debian's PostgreSQL (package postgresql-15 or another) runs in the lab's guest, in a tree of its own, on a
pool with a log device. pgbench inserts a row a transaction. pg_stat_wal (track_wal_io_timing) has the number
and the time of the log's writes, each of which is forced (wal_sync_method open_datasync): the means are
compared. pgbench's own figure for END is the wait of a commit: that write, and PostgreSQL's work. The guest's
clock is the experiment's times the lab's dilation.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.config.tables.force_table import ForceTable
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.core.progress import Progress
from kit.hosts.base import Host
from kit.lab.image.image import ImageInputs, build
from kit.lab.site import lab_site
from kit.load.programs import force_load
from kit.load.programs.force_program import command, put_program, run_words, words_of
from kit.load.programs.program_load import lines_of
from kit.setup.site import Site
from kit.store.parts.forces import Forces
from tests.bench.conftest import ROOT, Tell

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3000)]

WITHIN, TRANSACTIONS = 0.05, 500
USED = ("data0", "data1", "log0")
BLOCK = "8KiB"
# Of the guest's clock.
WINDOW_AND_MOST_NS = (100_000_000, 2_000_000_000)
TREE, USER = "/run/postgresql-tree", "65534:65534"
MAKE = """\
set -eu
zpool create -o ashift=12 -o autotrim=off {properties} tank mirror {data0} {data1} log {log0}
mkdir -p /tank/kit/force/log {tree}
tar -xf /run/tree.tar -C {tree}
rm /run/tree.tar
mkdir -p {tree}/tank {tree}/tmp {tree}/dev {tree}/proc
chmod 1777 {tree}/tmp
mkdir /tank/db
chown {user} /tank/db
mount --bind /tank {tree}/tank
mount --bind /dev {tree}/dev
mount -t proc proc {tree}/proc
"""
START = """\
set -eu
PATH={bin}:$PATH
export LC_ALL=C
initdb --pgdata=/tank/db/data --auth=trust --no-sync --username=it --wal-segsize=4 >/tmp/initdb
cat >>/tank/db/data/postgresql.conf <<'CONF'
listen_addresses = ''
unix_socket_directories = '/tmp'
shared_buffers = 16MB
wal_sync_method = open_datasync
wal_level = replica
full_page_writes = off
checkpoint_timeout = 1h
autovacuum = off
track_wal_io_timing = on
dynamic_shared_memory_type = mmap
CONF
pg_ctl start --pgdata=/tank/db/data --log=/tmp/messages --wait --timeout=600 >/tmp/start
ask() {{ psql --host=/tmp --username=it --no-align --tuples-only --command="$1" postgres; }}
ask 'CREATE TABLE rows (number int, words text)' >/tmp/table
cat >/tmp/insert.sql <<'SQL'
BEGIN;
INSERT INTO rows VALUES (1, repeat('x', 100));
END;
SQL
bench() {{ pgbench --host=/tmp --username=it --no-vacuum --file=/tmp/insert.sql "$@" postgres; }}
bench --transactions=20 >/tmp/first
ask "SELECT pg_stat_reset_shared('wal')" >/tmp/reset
bench --transactions={transactions} --report-per-command
sleep 5
ask 'SELECT wal_write, wal_write_time FROM pg_stat_wal'
pg_ctl stop --pgdata=/tank/db/data --mode=immediate >/tmp/stop
"""


def tree(binaries: Path) -> bytes:
    """The programs with all that they load, as a tar of a root directory."""
    version = binaries.parent.name
    programs = [*binaries.iterdir(), *map(Path, ("/bin/sh", "/bin/cat", "/bin/sleep"))]
    loaded = [binaries.parent / "lib" / f"{name}.so" for name in ("plpgsql", "dict_snowball")]
    needs = re.findall(r"\s(/\S+) \(0x", ldd([*programs, *loaded]))
    paths = {*needs, *map(str, (*programs, *loaded, Path("/usr/share/postgresql") / version))}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as tar:
        for path in sorted(paths):
            tar.add(path, path)
        accounts = b"it:x:65534:65534::/tmp:/bin/sh\n"
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(accounts)
        tar.addfile(entry, io.BytesIO(accounts))
    return buffer.getvalue()


def ldd(paths: list[Path]) -> str:
    words = ["ldd", *map(str, paths)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False).stdout


@pytest.fixture(scope="module")
def binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("PostgreSQL is missing: apt-get install postgresql")
    return found[-1].parent


@pytest.fixture(scope="module")
def site(binaries: Path) -> Iterator[Site]:
    progress = Progress(quiet=True)
    testbed = read_testbed(LAB_TESTBED)
    testbed = testbed.model_copy(update={"device": tuple(d for d in testbed.device if d.name in USED)})
    properties = tomllib.loads((ROOT / "workloads" / "etcd.toml").read_text())["dataset"]["properties"]
    words = " ".join(f"-O {key}={value}" for key, value in (properties | {"recordsize": "8K"}).items())
    with lab_site(testbed, build(ImageInputs(), progress), progress, 1) as made:
        host = made.server
        assert host
        host.put(tree(binaries), "/run/tree.tar")
        host.put(b"2\n", "/sys/module/zfs/parameters/spa_asize_inflation")
        script = MAKE.format(properties=words, tree=TREE, user=USER, **made.device_paths)
        host.run(["sh", "-c", script], deadline_s=600)
        yield made


@pytest.fixture(scope="module")
def theirs(site: Site, binaries: Path) -> dict[str, float]:
    """us of the experiment: `write`, the mean of the log's writes, and `commit`, pgbench's of END."""
    host = site.server
    assert host
    script = START.format(bin=binaries, transactions=TRANSACTIONS)
    done = host.run(["chroot", f"--userspec={USER}", TREE, "/bin/sh", "-c", script], deadline_s=2400)
    print(done.stdout)
    writes, ms = map(float, done.stdout.split()[-1].split("|"))
    assert writes > 0.9 * TRANSACTIONS
    (commit,) = re.findall(r"^\s*([0-9.]+)\s+(?:\d+\s+)?END;$", done.stdout, re.MULTILINE)
    scale = 1e3 / site.clock.dilation
    return {"write": ms / writes * scale, "commit": float(commit) * scale}


def ours(site: Site, host: Host) -> Forces:
    """Writes of a block, each forced, through the page cache's place in ZFS: the ARC, as PostgreSQL's."""
    table = ForceTable.model_validate({"record": BLOCK, "method": "open_datasync", "file": "4MiB"})
    put_program(host, "/tmp")
    words = words_of(table, "log", "/tank/kit", 0, 3, is_device=False)
    host.run(command("/tmp", ["prepare", *words]), deadline_s=300)
    text = host.run(command("/tmp", run_words(words, table, 0, *WINDOW_AND_MOST_NS)), deadline_s=600).stdout
    return force_load.forces_of(table, lines_of(text, "it"), site.clock)


def test_writes_of_the_log_take_as_long_as_the_kits(site: Site, theirs: dict[str, float], tell: Tell) -> None:
    host = site.server
    assert host
    mine = ours(site, host)
    assert mine.group.ios > TRANSACTIONS / 2
    ratio = mine.group.mean_ns / 1e3 / theirs["write"]
    tell("", f"the mean write of the log: ours / PostgreSQL's ({theirs['write']:.4g} us)", ratio, "x")
    tell("", "the mean wait of a commit, by pgbench, / that write", theirs["commit"] / theirs["write"], "x")
    assert ratio == pytest.approx(1, abs=WITHIN)
