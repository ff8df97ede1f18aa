"""SmolLM2-135M-Instruct against a float32 forward pass of its dequantized weights: what the format costs, no more."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from krafla import Model

# The 20 largest logits of a float32 transformers model at each of 348 positions.
GOLDEN = Path(__file__).parent / "data" / "smollm2_logits.json.gz"
# Quantizing weights and activations to Q8_0 inside that float32 model gives 95.9 % and 0.103.
TOP1, DIFFERENCE = 0.95, 0.12


@pytest.mark.slow
def test_logits_of_a_real_model() -> None:
    """Downloads the model (93 MB) unless the test cache has it."""
    golden = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    hits, differences = [], []
    with Model.load("SmolLM2-135M-Instruct", ctx=256) as model:
        for case in golden["cases"]:
            for found, wanted in zip(model.logits(case["ids"]), case["top"], strict=True):
                there = found[np.array(wanted["ids"])]
                reference = np.array(wanted["logits"])
                hits.append(int(found.argmax()) == wanted["ids"][0])
                differences.append(np.abs((there - there.mean()) - (reference - reference.mean())).mean())
    assert len(hits) == 348
    assert np.mean(hits) >= TOP1, f"top-1 agreement is {np.mean(hits):.4f}"
    assert np.mean(differences) <= DIFFERENCE, f"mean logit difference is {np.mean(differences):.4f}"
