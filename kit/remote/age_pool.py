"""Makes a pool as full and as fragmented as an old one. Runs on the server with its Python (3.7 or later).

    python3 -I - '{"pool": P, "file": F, "capacity": C, "fragmentation": G, "filled_to": T, "block_bytes": B,
                   "reserve_bytes": R, "seed": S}'

Fills the file F, in a dataset of the pool P whose record size is B, until T percent of the pool are used or
its room is: ZFS keeps some for itself. Then, until C percent are used, less R bytes that are to be written
later: blocks at places in a random order are freed while the property `fragmentation` is below G; otherwise
the end of the file is, which leaves large segments. Prints a line of JSON at each step:

    {"size": bytes, "allocated": bytes, "fragmentation": percent, "file_bytes": N, "part": 0 to 1}

The content does not compress. Sources: zpoolprops(7); fallocate(2), FALLOC_FL_PUNCH_HOLE.
"""

import ctypes
import errno
import json
import math
import os
import random
import subprocess
import sys

MIB = 1 << 20
# Of the pool, or of what is to be freed: after each the pool is looked at.
PARTS = 20
# Of the room that a dataset has; the last of it is slow to get.
MOST_OF_ROOM = 0.95
# As in kit.zfs.vdev_listing.
FRAGMENTATION = 6
CLASSES = ("logs", "cache", "spare", "spares", "special", "dedup")
PUNCH_HOLE = 0x01 | 0x02
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def state_of(pool):
    # What was freed can be used again two transaction groups later, and this waits for that.
    subprocess.run(["zpool", "sync", pool], check=True)
    argv = ["zpool", "list", "-v", "-H", "-P", "-p", pool]
    output = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
    whole, *lines = [line.strip().split("\t") for line in output.splitlines()]
    if whole[FRAGMENTATION] == "-":
        sys.exit("the pool has no fragmentation: the feature spacemap_histogram is off")
    size = allocated = 0
    for name, *numbers in lines:
        # Data vdevs come first (zpool_main.c, print_list_stats).
        if name.split(" ")[0] in CLASSES:
            break
        # A device of a mirror has no allocation of its own.
        if numbers[1].isdigit() and numbers[2].isdigit():
            size, allocated = size + int(numbers[1]) + int(numbers[2]), allocated + int(numbers[1])
    return size, allocated, int(whole[FRAGMENTATION].rstrip("%"))


def say(state, file_bytes, part):
    size, allocated, fragmentation = state
    step = {"size": size, "allocated": allocated, "fragmentation": fragmentation, "file_bytes": file_bytes}
    print(json.dumps(dict(step, part=round(part, 3))), flush=True)


def room(path):
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def fill(asked, file):
    """Returns the pool's state and the bytes of the file."""
    pool, block_bytes = asked["pool"], asked["block_bytes"]
    content, state, written = os.urandom(max(MIB, block_bytes)), state_of(asked["pool"]), 0
    goal = state[0] * asked["filled_to"] // 100
    first_room, begun = room(asked["file"]), state[1]
    while state[1] < goal:
        left = min(goal - state[1], int(first_room * MOST_OF_ROOM) - written, state[0] // PARTS)
        # Copies and parity: what was written is not all that is allocated.
        ratio = (state[1] - begun) / written if written else 1.0
        blocks = int(left / max(ratio, 1.0)) // len(content)
        if blocks < 1:
            break
        try:
            for _ in range(blocks):
                written += file.write(content)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            first_room = 0
        state = state_of(pool)
        say(state, written, 0.5 * min(1.0, state[1] / goal))
    return state, written, (state[1] - begun) / written if written else 1.0


def order(blocks, seed):
    """Each number below `blocks` once, as if at random: a step that has no divisor in common with it."""
    chance = random.Random(seed)
    step = chance.randrange(1, blocks + 1)
    while math.gcd(step, blocks) != 1:
        step = chance.randrange(1, blocks + 1)
    place = chance.randrange(blocks)
    for _ in range(blocks):
        place = (place + step) % blocks
        yield place


def free(asked, file, state, size, ratio):
    """Until as much is used as asked for. Returns the state and the bytes of the file."""
    block_bytes, pool = asked["block_bytes"], asked["pool"]
    goal = state[0] * asked["capacity"] // 100 - int(asked["reserve_bytes"] * ratio)
    full, most = state[1], max(1, size // block_bytes)
    places = order(most, asked["seed"])
    while state[1] > goal and size:
        excess = state[1] - goal
        blocks = max(1, int(min(excess, max(1, full - goal) // PARTS) / ratio) // block_bytes)
        if state[2] < asked["fragmentation"]:
            for _ in range(blocks):
                place = next(places, None)
                if place is None:
                    sys.exit("all blocks of the file are freed, and the pool is not as asked for")
                if (place + 1) * block_bytes <= size and LIBC.fallocate(
                    file.fileno(), PUNCH_HOLE, place * block_bytes, block_bytes
                ):
                    sys.exit("fallocate: " + os.strerror(ctypes.get_errno()))
        else:
            size = max(0, size - blocks * block_bytes)
            file.truncate(size)
        state = state_of(pool)
        say(state, size, min(1.0, 0.5 + 0.5 * (full - state[1]) / max(1, full - goal)))
    return state, size


def main():
    asked = json.loads(sys.argv[1])
    with open(asked["file"], "wb", buffering=0) as file:
        state, size, ratio = fill(asked, file)
        state, size = free(asked, file, state, size, ratio)
    say(state, size, 1.0)


if __name__ == "__main__":
    main()
