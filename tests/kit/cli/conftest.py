"""Stored runs for commands that read them, and the command line in this process."""

import pytest

from kit.store.json_file import write_json
from tests.reports import synthetic


@pytest.fixture
def make_run(tmp_path):
    def make(name, seed=1, change=None, plan=None, counts=lambda frame: frame):
        frame = synthetic.realistic(intervals=20, per_interval=90, seed=seed)
        manifest = synthetic.manifest(frame, 20)
        manifest["run"] = name
        if change:
            change(manifest)
        synthetic.write(tmp_path / name, manifest, counts(frame))
        if plan:
            write_json(tmp_path / name / "plan.json", plan)
        return str(tmp_path / name)

    return make


@pytest.fixture
def hsp(hsp_here):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        done = hsp_here(*arguments)
        return done.returncode, done.stdout, done.stderr

    return run
