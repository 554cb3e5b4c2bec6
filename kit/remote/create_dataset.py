"""Runs on the server, with its own Python and pyzfs; the kit sends it over as text.

    python3 - create   DATASET RUN_ID RECORDSIZE      create, tagged with the run id
    python3 - snapshot DATASET@NAME RUN_ID

libzfs_core does datasets and snapshots; pools, mounts and settable properties stay with
the zpool and zfs commands (OpenZFS contrib/pyzfs). Prints one JSON line.
"""

import json
import sys

import libzfs_core as lzc


def main(verb: str, name: str, *rest: str) -> object:
    target = name.encode()
    if verb == "create":
        run_id, recordsize = rest
        lzc.lzc_create(target, props={b"recordsize": int(recordsize), b"hsp:run": run_id.encode()})
    elif verb == "snapshot":
        (run_id,) = rest
        lzc.lzc_snapshot([target], props={b"hsp:run": run_id.encode()})
    else:
        raise SystemExit(f"unknown verb {verb}")
    return {"name": name, "exists": lzc.lzc_exists(target)}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
