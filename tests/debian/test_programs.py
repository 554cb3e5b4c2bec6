"""`hsp observe --local` under a database: pgbench on PostgreSQL, whose log lies on a pool with a log device.

pytest -m long tests/debian/test_programs.py        needs root
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from kit.core.errors import EXIT_HOST
from tests.debian.guests import Machine, Site
from tests.debian.look import changes, states

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

_HANG_S = 900.0
_TRANSACTIONS = 200
# The log of PostgreSQL has a dataset of its own, so that its fsyncs are those of pg_stat_wal. Nothing but the
# transactions writes to it: no vacuum, no checkpoint, no snapshots for replicas.
_MAKE = """\
disk() { echo "/dev/$(lsblk -dno NAME,SERIAL | awk -v serial="$1" '$2 == serial {print $1; exit}')"; }
zpool create tank "$(disk TANKSER)" log "$(disk VIRTIOSER)"
zfs create -o recordsize=16k tank/db
zfs create tank/wal
chown postgres: /tank/db /tank/wal
"""
_CLEAR = """\
zpool destroy tank
for serial in TANKSER VIRTIOSER; do
    disk=/dev/$(lsblk -dno NAME,SERIAL | awk -v serial="$serial" '$2 == serial {print $1; exit}')
    part=$(lsblk -pnro NAME "$disk" | sed -n 2p)
    zpool labelclear -f "$part"
    wipefs -aq "$disk"
    blockdev --rereadpt "$disk"
done
udevadm settle
"""
_START = """\
cd /tank/db
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
initdb --pgdata=/tank/db/data --waldir=/tank/wal/log --auth=trust --no-sync >/dev/null
cat >>/tank/db/data/postgresql.conf <<'CONF'
listen_addresses = ''
unix_socket_directories = '/tank/db'
wal_level = minimal
max_wal_senders = 0
full_page_writes = off
checkpoint_timeout = 1h
autovacuum = off
CONF
pg_ctl start --pgdata=/tank/db/data --log=/tank/db/messages --wait
pgbench --host=/tank/db --initialize --scale=1 postgres
psql --host=/tank/db --command='CHECKPOINT' --command='SELECT pg_switch_wal()' postgres
# The first write makes the next file of the log.
pgbench --host=/tank/db --no-vacuum --transactions=1 postgres
"""
_STOP = "$(echo /usr/lib/postgresql/*/bin/pg_ctl) stop --pgdata=/tank/db/data --mode=immediate"
_LOAD = (
    f"/usr/lib/postgresql/*/bin/pgbench --host=/tank/db --no-vacuum --transactions={_TRANSACTIONS} postgres"
)
_SYNCS = "psql --host=/tank/db --tuples-only --no-align --command='SELECT wal_sync FROM pg_stat_wal' postgres"


def as_postgres(machine: Machine, script: str) -> str:
    return machine.run(["su", "postgres", "-s", "/bin/sh", "-c", f"set -eu; {script}"]).stdout


def wal_syncs(machine: Machine) -> int:
    """Of the log of PostgreSQL 17, once its processes have told all of theirs."""
    found, end = -1, time.monotonic() + _HANG_S
    while (now := int(as_postgres(machine, _SYNCS))) != found:
        assert time.monotonic() < end
        found = now
        time.sleep(10)
    return found


@pytest.fixture
def database(site: Site) -> Iterator[Machine]:
    site.nas.sh(_MAKE)
    try:
        as_postgres(site.nas, _START)
        yield site.nas
    finally:
        site.nas.run(["su", "postgres", "-s", "/bin/sh", "-c", _STOP], check=False)
        site.nas.sh(_CLEAR)


def test_fsyncs_of_a_database_wait_for_the_log_device(site: Site, database: Machine) -> None:
    before, results = states(site), site.folder / "programs"
    words = ("--testbed", str(site.testbed()), "--local", "--dataset", "tank", "--results", str(results))
    watching = site.start_hsp("observe", *words, "--for", "1h")
    if "v0.17" in database.sh("bpftrace --version"):
        _, told = watching.communicate(timeout=_HANG_S)
        assert watching.returncode == EXIT_HOST and "bpftrace 0.17" in told, told
        assert changes(site, before) == []
        return
    try:
        end = time.monotonic() + _HANG_S
        while not any('"observe"' in each.read_text() for each in results.glob("observe/2*/journal.jsonl")):
            assert watching.poll() is None and time.monotonic() < end
            time.sleep(0.5)
        syncs = wal_syncs(database)
        print(as_postgres(database, _LOAD))
        syncs = wal_syncs(database) - syncs
    finally:
        watching.send_signal(signal.SIGINT)
        out, told = watching.communicate(timeout=_HANG_S)
    print(out, told)
    assert watching.returncode == 0, told
    summary = json.loads((results / "observe" / "latest" / "summary.json").read_text())
    assert summary["verdict"] == "valid", summary["reasons"]
    rows = [row for row in summary["observed"] if row["program"] == "postgres"]
    forced = [row for row in rows if (row["file_system"], row["op"]) == ("tank/wal", "fsync")]
    by_tier = {row["tier"]: row["ios"] for row in forced}
    print(rows, syncs)
    assert syncs >= _TRANSACTIONS and sum(by_tier.values()) == syncs
    # The log writer of PostgreSQL may force the same block.
    assert set(by_tier) <= {"slog", "shared"} and by_tier["slog"] > 0.9 * syncs
    assert changes(site, before) == []
