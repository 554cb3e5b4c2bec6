"""Files at the top that forges and other programs read (`tox -e lint` checks their schemas, and REUSE)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from kit import __version__

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_the_citation_is_of_this_version_and_names_the_same_authors() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [__version__]
    assert re.findall(r"^license: (.+)$", citation, re.MULTILINE) == [project["license"]]
    (author,) = project["authors"]
    assert f"- name: {author['name']}\n" in citation
    (annotations,) = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]
    assert annotations["SPDX-License-Identifier"] == project["license"]
    assert annotations["SPDX-FileCopyrightText"].endswith(author["name"])


def test_the_licence_is_where_reuse_looks_and_where_people_look() -> None:
    assert (ROOT / "LICENSES" / "Apache-2.0.txt").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_forge_runs_what_everybody_runs() -> None:
    assert re.findall(r"^ +- run: (.*run.*)$", WORKFLOW, re.MULTILINE) == [".ci/run"]
    assert "permissions:\n  contents: read\n" in WORKFLOW


def test_each_action_is_pinned_to_a_commit() -> None:
    used = re.findall(r"uses: (.*)$", WORKFLOW, re.MULTILINE)
    assert (
        used and [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", each)] == []
    )
