"""Importance matrices: for every matrix, how much each of its input channels counts when it is quantized."""

from __future__ import annotations

import struct
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from krafla.tools.errors import FormatError, access
from krafla.tools.mlb import LAYER_LINEAR, Header
from krafla.tools.quantize import F32

MAGIC = b"MLI1"
VERSION = 1
_HEADER = struct.Struct("<4s5I2Q")
#: The least importance of a channel, where 1 is the mean.
FLOOR = 1e-3
# The matrices that share an input, in the order of the file.
_INPUTS = (("wq", "wk", "wv", "wg", "lqkv", "lz"), ("wo", "lout"), ("w1", "w3"), ("w2",))


def read_imatrix(path: str | PathLike[str], header: Header, layer_flags: bytes = b"") -> dict[str, F32]:
    """The importance of each channel by the name of the matrix (mean 1), for a model with this header."""
    name = Path(path)
    with access(name, "read"):
        data = name.read_bytes()
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        raise FormatError(f"{name}: not an importance matrix: it starts with {data[:4]!r}, must be {MAGIC!r}")
    _, version, *sizes, layer_tokens, classifier_tokens = _HEADER.unpack_from(data)
    if version != VERSION:
        raise FormatError(f"{name}: version is {version}, must be {VERSION}")
    expected = (
        header.n_layers,
        header.dim,
        header.hidden_dim,
        0 if header.q_dim == header.dim else header.q_dim,
    )
    for field, found, wanted in zip(("n_layers", "dim", "hidden_dim", "q_dim"), sizes, expected, strict=True):
        if found != wanted:
            raise FormatError(f"{name}: {field} is {found}, the model has {wanted}")
    linear = [bool(layer_flags and layer_flags[i] & LAYER_LINEAR) for i in range(header.n_layers)]
    widths = [
        (header.dim, header.lin_v_size if of_linear else header.q_dim, header.dim, header.hidden_dim)
        for of_linear in linear
    ]
    count = sum(map(sum, widths)) + header.dim
    if len(data) != _HEADER.size + 8 * count:
        raise FormatError(
            f"{name}: the file has {len(data)} bytes, its header implies {_HEADER.size + 8 * count}"
        )
    sums = np.frombuffer(data, "<f8", count, _HEADER.size)
    if not np.isfinite(sums).all() or (sums < 0).any():
        raise FormatError(f"{name}: holds a sum that is negative or not finite")
    if layer_tokens == 0:
        raise FormatError(f"{name}: holds the sums of no tokens")
    result: dict[str, F32] = {}
    at = 0
    for i, layer_widths in enumerate(widths):
        for matrices, width in zip(_INPUTS, layer_widths, strict=True):
            result |= {f"layers.{i}.{matrix}": _importance(sums[at : at + width]) for matrix in matrices}
            at += width
    if classifier_tokens:
        result["tok_emb" if header.shared_classifier else "wcls"] = _importance(sums[at:])
    return result


def _importance(sums: npt.NDArray[np.float64]) -> F32:
    mean = sums.mean()
    relative = sums / mean if mean > 0 else np.ones_like(sums)
    return np.maximum(relative, FLOOR).astype(np.float32)
