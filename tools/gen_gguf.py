"""Random Llama models as GGUF files, so that other engines run on the same weights as Krafla."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

from krafla.tools.errors import KraflaError, access

TYPES = {"q8_0": GGMLQuantizationType.Q8_0, "q4_0": GGMLQuantizationType.Q4_0}
# Bytes of random weights made at a time.
_CHUNK = 1 << 24


@dataclass(frozen=True)
class Shape:
    """The size of a Llama model with a shared classifier."""

    dim: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    vocab: int
    context: int
    theta: float

    def matrices(self) -> Iterator[tuple[str, int, int]]:
        """Name, rows and columns of every matrix."""
        q, kv = self.heads * self.head, self.kv_heads * self.head
        yield "token_embd", self.vocab, self.dim
        for layer in range(self.layers):
            for name, rows, cols in (
                ("attn_q", q, self.dim),
                ("attn_k", kv, self.dim),
                ("attn_v", kv, self.dim),
                ("attn_output", self.dim, q),
                ("ffn_gate", self.hidden, self.dim),
                ("ffn_up", self.hidden, self.dim),
                ("ffn_down", self.dim, self.hidden),
            ):
                yield f"blk.{layer}.{name}", rows, cols

    def norms(self) -> Iterator[str]:
        """Names of the norms, which have `dim` weights each."""
        for layer in range(self.layers):
            yield f"blk.{layer}.attn_norm"
            yield f"blk.{layer}.ffn_norm"
        yield "output_norm"


SHAPES = {
    "tiny": Shape(64, 2, 4, 2, 16, 96, 256, 512, 1e4),
    "smollm2-135m": Shape(576, 30, 9, 3, 64, 1536, 49152, 8192, 1e5),
    "llama-3.2-1b": Shape(2048, 16, 32, 8, 64, 8192, 128256, 8192, 5e5),
}


def write_gguf(path: str | PathLike[str], shape: Shape, kind: str, seed: int = 0) -> None:
    """Write a random model; activations stay near 1, as in a trained one."""
    with access(path, "write"):
        writer = GGUFWriter(Path(path), "llama")
        _describe(writer, shape)
        block, size = GGML_QUANT_SIZES[TYPES[kind]]
        for name, rows, cols in shape.matrices():
            row_bytes = cols // block * size
            info = ((rows, row_bytes), np.dtype(np.uint8), rows * row_bytes, TYPES[kind])
            writer.add_tensor_info(f"{name}.weight", *info)
        for name in shape.norms():
            writer.add_tensor_info(f"{name}.weight", (shape.dim,), np.dtype(np.float32), 4 * shape.dim)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        rng = np.random.default_rng(seed)
        for _, rows, cols in shape.matrices():
            writer.write_tensor_data(_blocks(rng, rows * cols // block, cols, kind).reshape(rows, -1))
        for _ in shape.norms():
            writer.write_tensor_data(np.ones(shape.dim, np.float32))
        writer.close()


def _describe(writer: GGUFWriter, shape: Shape) -> None:
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.theta)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocab)
    writer.add_tokenizer_model("none")  # token ids only


def _blocks(rng: np.random.Generator, count: int, cols: int, kind: str) -> npt.NDArray[np.uint8]:
    """Quantized blocks, straight away: an f16 scale, then random quants."""
    size = GGML_QUANT_SIZES[TYPES[kind]][1]
    made = np.empty((count, size), np.uint8)
    for start in range(0, count, _CHUNK // size):
        part = made[start : start + _CHUNK // size]
        part[:] = np.frombuffer(rng.bytes(part.nbytes), np.uint8).reshape(part.shape)
    spread = 1 / (np.sqrt(cols) * (74 if kind == "q8_0" else 4.6))  # by the quants' standard deviation
    scales = (rng.uniform(0.8, 1.2, count) * spread).astype("<f2")
    made[:, :2] = scales.view(np.uint8).reshape(count, 2)
    return made


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--shape", type=click.Choice(list(SHAPES)), default="llama-3.2-1b", show_default=True)
@click.option("--type", "kind", type=click.Choice(list(TYPES)), default="q8_0", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(path: Path, shape: str, kind: str, seed: int) -> None:
    """Write a random GGUF model of a known shape to PATH."""
    try:
        write_gguf(path, SHAPES[shape], kind, seed)
    except KraflaError as error:
        print(f"gen_gguf: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
