"""Creates datasets and snapshots. Runs on the server with its Python and pyzfs.

    python3 -I - create   DATASET RUN_ID RECORDSIZE [ENCRYPTION KEY_FILE]   with the run id as a property
    python3 -I - snapshot DATASET@NAME RUN_ID

KEY_FILE, which is made, gets a random key. It stays on the server until the run's directory is removed.

libzfs_core does not create pools or mounts and does not change properties; the kit uses zpool and
zfs for these (OpenZFS contrib/pyzfs). Numbers of properties: enum zio_encrypt and enum zfs_keyformat
(include/sys/zio.h, include/sys/fs/zfs.h). Prints one JSON line.
"""

import json
import os
import sys

import libzfs_core as lzc

ENCRYPTION = (
    "inherit", "on", "off", "aes-128-ccm", "aes-192-ccm", "aes-256-ccm", "aes-128-gcm", "aes-192-gcm",
    "aes-256-gcm",
)  # fmt: skip
RAW, KEY_BYTES = 1, 32


def encrypted(encryption: str, path: str) -> dict:
    """Properties and key of an encrypted dataset, with a key of its own in a new file."""
    key = os.urandom(KEY_BYTES)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key)
    location = b"file://" + os.fsencode(path)
    props = {b"encryption": ENCRYPTION.index(encryption), b"keyformat": RAW, b"keylocation": location}
    return {"props": props, "key": key}


def main(verb: str, name: str, *rest: str) -> object:
    target = name.encode()
    if verb == "create":
        run_id, recordsize, *encryption = rest
        more = encrypted(*encryption) if encryption else {"props": {}}
        props = {b"recordsize": int(recordsize), b"hsp:run": run_id.encode(), **more.pop("props")}
        lzc.lzc_create(target, props=props, **more)
    elif verb == "snapshot":
        (run_id,) = rest
        lzc.lzc_snapshot([target], props={b"hsp:run": run_id.encode()})
    else:
        raise SystemExit(f"unknown verb {verb}")
    return {"name": name, "exists": lzc.lzc_exists(target)}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
