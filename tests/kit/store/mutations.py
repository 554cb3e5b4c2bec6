"""Changes of a JSON value at any place of it, as damage or as an attack."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]
_LEAVES = (
    st.none() | st.booleans() | st.sampled_from([-1, 0, 1, 2**62, 2**63, 10**30, 1.5, -1e300])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)  # fmt: skip
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of every value inside `value`."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one to three places of it replaced or removed."""
    changed = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        listed = list(places(changed))
        if not listed:
            break
        *above, last = draw(st.sampled_from(listed))
        parent = changed
        for key in above:
            parent = parent[key]
        if draw(st.booleans()):
            parent[last] = draw(VALUES)
        else:
            del parent[last]
    return changed
