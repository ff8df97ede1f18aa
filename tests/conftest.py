"""What every test shares: a cache of the project's own, so that tests never touch the user's."""

import os
from pathlib import Path

os.environ["KRAFLA_CACHE"] = os.environ.get("KRAFLA_TEST_CACHE") or str(
    Path(__file__).resolve().parent.parent / ".pytest_cache" / "krafla"
)
