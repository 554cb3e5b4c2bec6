"""Random specs of small devices, for tests that look for what nobody thought of."""

from __future__ import annotations

import random

Spec = dict[str, int | str]


def disk(draw: random.Random) -> Spec:
    settle_ns = draw.randint(1, 10**6)
    average_ns = settle_ns + draw.randint(0, 10**7)
    outer = draw.randint(10**6, 3 * 10**8)
    return {
        "model": "disk",
        "seed": draw.randint(0, 2**64 - 1),
        "rpm": draw.choice([3600, 7200, 10000, 15000]),
        "heads": draw.randint(1, 6),
        "zones": draw.randint(1, 8),
        "stroke_ppm": draw.choice([0, 10**4, 10**6]),
        "settle_ns": settle_ns,
        "average_seek_ns": average_ns,
        "full_seek_ns": average_ns + draw.randint(0, 10**7),
        "head_switch_ns": draw.randint(1, 2 * 10**6),
        "write_settle_ns": draw.choice([0, 300_000]),
        "outer_bytes_per_s": outer,
        "inner_bytes_per_s": draw.randint(10**6, outer),
        "link_bytes_per_s": draw.choice([10**8, 6 * 10**8]),
        "command_ns": draw.choice([0, 10**5]),
        "command_spread_ns": draw.choice([0, 10**5]),
        "destage_idle_ns": draw.choice([0, 10**5, 3 * 10**7]),
        "track_buffer_bytes": draw.choice([0, 4096, 2**20]),
        "read_ahead_bytes": draw.choice([0, 4096, 2**20]),
        "write_cache_bytes": draw.choice([0, 2**16, 2**20]),
    }


def ssd(draw: random.Random) -> Spec:
    return {
        "model": "ssd",
        "seed": draw.randint(0, 2**64 - 1),
        "channels": draw.randint(1, 3),
        "dies_per_channel": draw.randint(1, 3),
        "page_bytes": draw.choice([512, 2048, 4096, 32768]),
        "pages_per_block": draw.choice([2, 3, 8, 32]),
        "over_provisioning_permyriad": draw.choice([0, 700, 9999]),
        "read_ns": draw.randint(1, 10**5),
        "read_spread_ns": draw.choice([0, 10**5]),
        "program_ns": draw.randint(1, 10**6),
        "program_spread_ns": draw.choice([0, 10**6]),
        "erase_ns": draw.randint(1, 5 * 10**6),
        "channel_bytes_per_s": draw.choice([4 * 10**7, 16 * 10**9]),
        "link_bytes_per_s": draw.choice([3 * 10**8, 16 * 10**9]),
        "serial_ns": draw.choice([0, 2 * 10**4]),
        "command_ns": draw.choice([0, 2 * 10**4]),
        "command_spread_ns": draw.choice([0, 2 * 10**4]),
        "write_command_ns": draw.choice([0, 2 * 10**4]),
        "write_command_spread_ns": draw.choice([0, 2 * 10**4]),
        "flush_ns": draw.choice([0, 10**4]),
        "buffer_pages": draw.choice([2, 3, 8, 64]),
        "destage_at_percent": draw.choice([0, 50, 99]),
        "destage_idle_ns": draw.choice([0, 10**5, 10**7]),
        "power_loss_protection": draw.choice([0, 0, 1]),
        "flush": draw.choice(["honoured", "honoured", "honoured", "ignored"]),
    }


def controller(draw: random.Random) -> Spec:
    backing = draw.choice([disk, ssd])(draw)
    return {
        "model": "controller",
        "seed": draw.randint(0, 2**64 - 1),
        "cache": draw.choice(["battery", "battery", "bypass"]),
        "cache_bytes": draw.choice([4096, 2**16, 2**20]),
        "command_ns": draw.choice([0, 10**4]),
        "command_spread_ns": draw.choice([0, 10**4]),
        "link_bytes_per_s": draw.choice([10**9, 16 * 10**9]),
        "destage_idle_ns": draw.choice([0, 10**5, 10**7]),
        **{f"backing.{key}": value for key, value in backing.items()},
    }


def text(spec: Spec) -> str:
    return "".join(f"{key} {value}\n" for key, value in spec.items())


def page_sectors(spec: Spec) -> int:
    return int(spec.get("page_bytes", spec.get("backing.page_bytes", 512))) // 512
