import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def synthetic():
    """The module synthetic.py beside this file."""
    path = Path(__file__).with_name("synthetic.py")
    spec = importlib.util.spec_from_file_location("reports_synthetic", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
