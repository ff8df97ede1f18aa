"""What opening a model takes of memory is what was predicted from its header."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from krafla.runtime.resolve import resolve
from krafla.tools.measure_quality import memory

POSITIONS = 4096


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
@pytest.mark.parametrize("kv", ["f32", "f16", "q8"])
def test_a_long_context_takes_what_was_predicted(kv: str, tmp_path: Path) -> None:
    """Downloads SmolLM2 (93 MB) unless the test cache has it."""
    mlb = resolve("SmolLM2-135M-Instruct").mlb
    ids = [int(i) for i in np.random.default_rng(0).integers(0, 49152, POSITIONS)]
    predicted, measured = memory(mlb, ids, kv, tmp_path)
    assert measured == pytest.approx(predicted, rel=0.02)
