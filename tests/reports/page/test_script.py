import re

import pytest

from reports.page.script import joined, script

CELLS = "export const ROWS = 2;\nexport async function open() {}\nfunction own() {}\n"


def test_the_page_has_one_script_without_import_or_export():
    text = script()
    assert "import " not in text and "\nexport " not in text and "</script" not in text
    # What is imported comes first, the entry last.
    words = ("async function numbers", "function openCells", "await openLibrary()")
    places = [text.index(word) for word in words]
    assert places == sorted(places)


@pytest.mark.parametrize("entry", ["main.js", "live.js", "gallery.js"])
def test_no_two_modules_declare_one_name(entry):
    """A browser would refuse the whole script."""
    pattern = r"^(?:const|let|class|(?:async )?function\*?) (\w+)"
    names = re.findall(pattern, script(entry), re.MULTILINE)
    assert len(names) > 5 and sorted(names) == sorted(set(names))


def test_each_module_comes_once_behind_what_it_imports():
    modules = {
        "main.js": 'import {a} from "./a.js";\nimport {\n  ROWS, open,\n} from "./cells.js";\na(ROWS);\n',
        "a.js": 'import {ROWS} from "./cells.js";\nexport function a() { return ROWS; }\n',
        "cells.js": CELLS,
        "unused.js": "export const unused = 1;\n",
    }
    assert joined(modules, "main.js") == (
        "const ROWS = 2;\nasync function open() {}\nfunction own() {}\n"
        "function a() { return ROWS; }\na(ROWS);\n"
    )


@pytest.mark.parametrize(
    ("main", "words"),
    [
        ('import {own} from "./cells.js";\n', "main.js imports own, which cells.js does not export"),
        ('import {ROWS as n} from "./cells.js";\n', "imports ROWS as n, which"),
        ('import * as cells from "./cells.js";\n', "no form of import or export"),
        ("const a = 1;\nexport default a;\n", "no form of import or export"),
        ('import {x} from "./main.js";\nexport const x = 1;\n', "main.js -> main.js"),
    ],
)
def test_what_cannot_be_joined_is_refused(main, words):
    with pytest.raises(ValueError, match=words):
        joined({"main.js": main, "cells.js": CELLS}, "main.js")
