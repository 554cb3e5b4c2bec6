"""Settings of every test."""

import pytest
from hypothesis import settings

# How long one example takes says something about the machine, not about the code.
settings.register_profile("kit", deadline=None)
settings.load_profile("kit")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """`./hsp test -k NAME` goes through every environment: one without such a test has not failed."""
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.option.keyword:
        session.exitstatus = pytest.ExitCode.OK
