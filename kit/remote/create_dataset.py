"""Creates datasets and snapshots. Runs on the server with its Python and pyzfs.

    python3 -I - create   DATASET RUN_ID RECORDSIZE      create, with the run id as a property
    python3 -I - snapshot DATASET@NAME RUN_ID

libzfs_core does not create pools or mounts and does not change properties; the kit uses zpool and
zfs for these (OpenZFS contrib/pyzfs). Prints one JSON line.
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
