import re

import pytest
from plotly.offline import get_plotlyjs

from reports.page import plotly_bundle


def test_the_installed_bundle_keeps_what_pages_draw_and_no_more():
    whole = get_plotlyjs()
    script = plotly_bundle.reduced(whole)
    assert script is not None and len(script.encode()) < 1_500_000 < len(whole.encode())
    assert plotly_bundle.plotly_js() == script
    kinds = set(re.findall(r'moduleType:"trace",name:"(\w+)"', script))
    assert kinds == {"scatter", *plotly_bundle.TRACES}
    # The components that figures have: shapes, annotations, legends, colour bars, selections.
    for name in ("shapes", "annotations", "legend", "colorbar", "selections"):
        assert f'name:"{name}"' in script or f'"{name}"' in script
    # Nothing that the kept modules call is missing.
    declared = set(re.findall(r"\bvar ([\w$]+)=[\w$]+\(\(", script))
    dropped = set(re.findall(r"\bvar ([\w$]+)=[\w$]+\(\(", whole)) - declared
    assert dropped and not dropped & set(re.findall(r"([\w$]+)\(\)", script))


MODULES = "".join(
    f'var m{n}=w((e,t)=>{{t.exports={{moduleType:"trace",name:"{name}"}}}});'
    for n, name in enumerate(["bar", "heatmap", "pie", *(f"k{n}" for n in range(10))])
)
ENTRY = "var last=w((e,t)=>{core.register([m0,m1,m2])});last();"


def test_a_small_bundle_of_the_same_shape():
    script = plotly_bundle.reduced("var w=f=>f;" + MODULES + ENTRY)
    assert 'name:"bar"' in script and 'name:"heatmap"' in script and 'name:"pie"' not in script
    assert script.startswith("var w=f=>f;") and script.endswith("last();")
    assert "register([m0(),m1()])" in script


@pytest.mark.parametrize(
    "bundle",
    [
        "",
        "window.Plotly = {};",
        "var a=1;var b=w((e,t)=>{});",
        "var w=f=>f;" + MODULES,
        "var w=f=>f;" + MODULES + ENTRY.replace("register", "listed"),
        "var w=f=>f;" + MODULES.replace("heatmap", "warmap") + ENTRY,
        # Twice the same name: which one is meant?
        "var w=f=>f;" + MODULES + MODULES + ENTRY,
    ],
)
def test_a_bundle_of_another_shape_is_used_whole(bundle, monkeypatch):
    assert plotly_bundle.reduced(bundle) is None
    monkeypatch.setattr(plotly_bundle, "get_plotlyjs", lambda: bundle)
    assert plotly_bundle.plotly_js.__wrapped__() == bundle
