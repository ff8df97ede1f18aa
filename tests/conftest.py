"""What every test shares: a cache and a data folder of the project's own, so that tests never touch the user's."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

os.environ["KRAFLA_CACHE"] = os.environ.get("KRAFLA_TEST_CACHE") or str(
    Path(__file__).resolve().parent.parent / ".pytest_cache" / "krafla"
)
os.environ["KRAFLA_DATA"] = tempfile.mkdtemp(prefix="krafla-data-")
atexit.register(shutil.rmtree, os.environ["KRAFLA_DATA"], ignore_errors=True)

#: What needs most builds comes last: .ci/run makes them while the others run.
LAST = ("test_leaks", "test_cross")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the order but for LAST."""
    items.sort(key=lambda item: item.path.stem in LAST)
