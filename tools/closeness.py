"""How well logits predict a text and how close they are to others: figures for every position, streamed.

All sums are in double precision and within one position, so that figures do not depend on how positions are grouped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Figures of one position; all but the first compare it with a reference.
FIGURES = (
    "nats",  # negative log likelihood of the token that follows
    "reference_nats",
    "divergence",  # Kullback-Leibler, of the model's distribution from the reference's, in nats
    "agreement",  # 1 if both hold the same token the likeliest
    "error",  # mean absolute difference of logits
    "squared_error",  # mean squared difference of logits
    "largest_error",
    "spread",  # standard deviation of the reference's logits
)
DTYPE = np.dtype([(name, np.float64) for name in FIGURES])
#: Logits that are worked on at once, in double precision.
_AT_ONCE = 1 << 18


def log_softmax(x: Array) -> Array:
    """Over the last axis."""
    shifted = x - x.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def divergences(p: Array, q: Array) -> Array:
    """For each row of log probabilities, the Kullback-Leibler divergence of q from p, in nats."""
    result: Array = np.maximum((np.exp(p) * (p - q)).sum(axis=-1), 0.0)  # below 0 by rounding only
    return result


def figures(logits: Array, following: Sequence[int], reference: Array | None = None) -> Array:
    """The figures (FIGURES) of each position as a record array, from logits (positions, vocabulary).

    `following` are the tokens that follow; where it ends early, the rest have no likelihood (NaN). Without a
    reference, all else is NaN.
    """
    found = np.full(len(logits), np.nan, DTYPE)
    step = max(_AT_ONCE // logits.shape[1], 1)
    for start in range(0, len(logits), step):
        rows = slice(start, start + step)
        part, after = found[rows], np.array(following[rows], np.intp)
        a = logits[rows].astype(np.float64)
        log_a = log_softmax(a)
        part["nats"][: len(after)] = -log_a[np.arange(len(after)), after]
        if reference is not None:
            b = reference[rows].astype(np.float64)
            log_b = log_softmax(b)
            part["reference_nats"][: len(after)] = -log_b[np.arange(len(after)), after]
            part["divergence"] = divergences(log_b, log_a)
            part["agreement"] = a.argmax(axis=1) == b.argmax(axis=1)
            _errors(part, np.abs(a - b))
            part["spread"] = b.std(axis=1)
    return found


def _errors(part: Array, error: Array) -> None:
    part["error"] = error.mean(axis=1)
    part["squared_error"] = np.square(error).mean(axis=1)
    part["largest_error"] = error.max(axis=1)
