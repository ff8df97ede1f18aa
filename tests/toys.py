"""A small random model with a byte-level tokenizer and a chat template, as `krafla run` wants them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from krafla.tools import mlt
from tests.models import model

ADDED = ("<|start|>", "<|end|>", "<|stop|>", "<|a|>", "<|b|>", "<|c|>", "<|d|>")
STOP = 258
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def tokenizer(eos: tuple[int, ...] = (STOP,)) -> mlt.Mlt:
    """256 bytes and seven added tokens, no merges."""
    tokens = [mlt.Token(bytes([byte])) for byte in range(256)]
    tokens += [mlt.Token(text.encode(), mlt.ADDED) for text in ADDED]
    return mlt.Mlt(mlt.BYTE_LEVEL, tokens, np.empty((0, 3), np.uint32), eos_ids=eos)


def toy(folder: Path, name: str = "llama", template: bool = False, eos: tuple[int, ...] = (STOP,)) -> Path:
    """Write the model with its files into a folder; the path of the .mlb."""
    path = folder / "toy.mlb"
    shutil.copy(model(name), path)
    mlt.write(path.with_suffix(".mlt"), tokenizer(eos))
    if template:
        path.with_suffix(".jinja").write_text(TEMPLATE, encoding="utf-8")
    return path
