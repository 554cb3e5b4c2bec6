"""The gallery in a real browser: filters and sorting, without network."""

import pytest

from kit.session.packs.gallery import gallery
from reports.page import gallery_page
from tests.browser.page import ATTACK, violations
from tests.kit.pack import packs
from tests.kit.session.packs.test_gallery import verdict

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
# As a page shows it: shortened.
SHORT = f"{ATTACK[:97]}..."
SHOWN = """() => [...document.querySelectorAll("[data-row]")].filter(row => row.checkVisibility())
    .map(row => row.cells[0].textContent)"""


def hostile(manifest, summary):
    manifest["testbed"]["devices"][0]["identity"]["model"] = ATTACK
    verdict("unknown", ATTACK)(manifest, summary)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    files = {f"{n}.hsp": packs.of_pool(n) for n in (3, 1, 2)}
    aged = packs.preconditioned(method="fills", proven_bytes=1)
    files |= {"aged.hsp": packs.changed(packs.of_pool(1), aged), "slog.hsp": packs.of_slog()}
    files |= {"hostile.hsp": packs.changed(packs.of_pool(2), hostile), "bad.hsp": b"<script>"}
    folder = packs.put(tmp_path_factory.mktemp("packs"), files)
    (folder / "gallery.html").write_text(gallery_page.render(gallery(folder)))
    return folder / "gallery.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_is_accessible_and_runs_no_script_of_a_pack(show, path, width, scheme):
    page = show(path, width, color_scheme=scheme)
    assert violations(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.hit") is None
    # Each is on the phone, too.
    assert len(page.evaluate(SHOWN)) == page.locator("[data-row]").count() > 30


def test_filters_leave_the_rows_that_fit_all_of_them(show, path):
    page = show(path)
    every = page.evaluate(SHOWN)
    page.get_by_role("combobox", name="Measured at").select_option("NFS server")
    assert page.evaluate(SHOWN) == ["ACME 1", "ACME 1", "ACME 2", "ACME 3", SHORT]
    page.get_by_role("combobox", name="State").select_option("as found")
    page.get_by_role("spinbutton", name="p99, at most").fill("180")
    assert page.evaluate(SHOWN) == ["ACME 1"]
    assert page.locator("#shown").inner_text() == f"1 of {len(every)} rows"
    # No row is left below it.
    assert not page.get_by_text("Not ranked").is_visible()
    page.get_by_role("button", name="Show all").click()
    assert page.evaluate(SHOWN) == every and page.get_by_text("Not ranked").is_visible()


def test_sorted_either_way_rows_that_are_not_ranked_stay_last(show, path):
    page = show(path, 360)
    page.get_by_role("combobox", name="Measured at").select_option("NFS server")
    page.get_by_role("button", name="p99").click()
    assert page.evaluate(SHOWN) == ["ACME 3", "ACME 2", "ACME 1", "ACME 1", SHORT]
    page.get_by_role("button", name="p99").click()
    assert page.evaluate(SHOWN) == ["ACME 1", "ACME 1", "ACME 2", "ACME 3", SHORT]
    page.get_by_role("button", name="Capacity").click()
    assert page.evaluate(SHOWN) == ["ACME 1", "ACME 1", "ACME 2", "ACME 3", SHORT]
