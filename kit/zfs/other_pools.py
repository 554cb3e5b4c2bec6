"""What a run would do to pools of its server that are not its own: refused while one is imported.

There is one ARC for all pools. And some module parameters switch off, for all of them, what keeps their data
(`S` in parameters.txt).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kit.core.errors import SafetyRefusal
from kit.hosts.base import Host
from kit.zfs import parameters
from kit.zfs.tunables import PlannedTunable, read_effects, read_tunables

# Without them OpenZFS sends no FLUSH: zfs(4).
NO_FLUSH = ("zil_nocacheflush", "zfs_nocacheflush")


def imported(server: Host, own: str = "") -> list[str]:
    """The pools that are imported, but for the run's `own`. Raises HostError."""
    names = server.run(["zpool", "list", "-H", "-o", "name"]).stdout.splitlines()
    return [name for name in names if name != own]


def refuse_settings(server: Host, settings: Iterable[PlannedTunable], *, agreed: bool) -> list[str]:
    """Check that no other imported pool loses ARC or safety. Call it before the run's pool exists.

    Returns notes if the user has `agreed` to it. Raises SafetyRefusal, HostError.
    """
    settings = tuple(settings)
    texts = [*_small_arc(server, settings), *_unsafe(server, settings)]
    pools = imported(server) if texts else []
    if not pools:
        return []
    texts = [f"{text}: {', '.join(pools)}" for text in texts]
    if agreed:
        return texts
    raise SafetyRefusal(
        f"{'; '.join(texts)}; nothing was changed",
        "export these pools, use another server, or agree with --beside-other-pools",
    )


def _small_arc(server: Host, settings: tuple[PlannedTunable, ...]) -> Iterator[str]:
    # 0 leaves the limit as it is.
    arc_max = next((t for t in settings if t.name == "zfs_arc_max" and t.host_value), None)
    if arc_max and arc_max.host_value < int(read_effects(server, [arc_max.name])[arc_max.name]):
        yield (
            f"zfs_arc_max = {arc_max.written} is less than {server.name} has now, and there is one ARC for "
            "all its pools"
        )


def _unsafe(server: Host, settings: tuple[PlannedTunable, ...]) -> Iterator[str]:
    unsafe = [each for each in settings if parameters.known()[each.name].keeps_data]
    now = read_tunables(server, [each.name for each in unsafe])
    for each in unsafe:
        if now[each.name] != str(each.host_value):
            yield (
                f"{each.name} = {each.written} is for all pools of {server.name}, and changes what keeps "
                "their data"
            )


def refuse_power_cut(
    server: Host, own: str = "", *, agreed: bool, how: str = "[power] cuts the power of"
) -> list[str]:
    """Check that no other imported pool loses its power with the server. `how`: what is done to that.

    Returns notes if the user has `agreed` to it. Raises SafetyRefusal, HostError.
    """
    pools = imported(server, own)
    if not pools:
        return []
    text = f"{how} {server.name}, where other pools are imported: {', '.join(pools)}"
    if agreed:
        return [text]
    raise SafetyRefusal(
        f"{text}; nothing was cut or restarted",
        "export these pools, use another server, or agree with --cut-other-pools",
    )
