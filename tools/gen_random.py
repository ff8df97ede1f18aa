"""Random models for tests and benchmarks: any header, weights on the quantization grid on request."""

from __future__ import annotations

import sys
from dataclasses import fields
from os import PathLike
from pathlib import Path

import click
import numpy as np

from krafla.tools.errors import KraflaError
from krafla.tools.mlb import Q4_0, Header, Tensor, Writer
from krafla.tools.quantize import BLOCK, F32

# Rows generated at a time: keeps the memory small for any vocabulary.
_CHUNK = 4096
DEFAULTS: dict[str, int | float] = {
    "dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "hidden_dim": 96,
    "vocab": 256,
    "max_seq": 256,
}


def write_random(
    path: str | PathLike[str], header: Header, seed: int = 0, layer_flags: bytes = b"", grid: bool = False
) -> None:
    """Write a model of random weights; with `grid`, quantizing the weights loses nothing."""
    rng = np.random.default_rng(seed)
    with Writer(path, header, layer_flags) as writer:
        for tensor in writer.tensors.values():
            if tensor.name == "layer_flags":
                continue
            for start in range(0, tensor.rows, _CHUNK):
                rows = min(_CHUNK, tensor.rows - start)
                writer.write(tensor.name, random_rows(rng, tensor, rows, grid))


def random_rows(rng: np.random.Generator, tensor: Tensor, rows: int, grid: bool) -> F32:
    """Rows of one tensor, scaled so that activations stay near 1."""
    if tensor.kind == 0:
        return _random_plain(rng, tensor, rows)
    spread = 1.0 if tensor.name == "tok_emb" else 1.5 / float(np.sqrt(tensor.cols))
    if grid:
        return random_grid(rng, rows, tensor.cols, spread, tensor.kind)
    return rng.standard_normal((rows, tensor.cols), np.float32) * np.float32(spread)


def _random_plain(rng: np.random.Generator, tensor: Tensor, rows: int) -> F32:
    values = rng.standard_normal((rows, tensor.cols), np.float32) * np.float32(0.1)
    if tensor.name.endswith("norm"):
        values += 1
    return values


def random_grid(rng: np.random.Generator, rows: int, cols: int, spread: float, kind: int) -> F32:
    """Values that their own quantization reproduces exactly, with f32 or f16 scales."""
    shape = (rows, cols // BLOCK, BLOCK)
    low, high = (-8, 7) if kind == Q4_0 else (-127, 127)
    q = np.clip(np.rint(rng.standard_normal(shape) * (-low / 3)), low, high)
    # Each block's largest magnitude is the level that fixes its scale.
    where = rng.integers(0, BLOCK, shape[:2])[..., None]
    sign = rng.choice([-1.0, 1.0], where.shape)
    np.put_along_axis(q, where, low if kind == Q4_0 else sign * high, axis=2)
    # Six bits of scale: its products with levels and with 127 are exact in float32, and it is an f16.
    steps = rng.integers(32, 64, (*shape[:2], 1)) / 64
    exponent = np.rint(np.log2(spread * 3 / -low))
    d = np.where(kind == Q4_0, sign, 1.0) * steps * 2.0**exponent
    values: F32 = (q * d).astype(np.float32).reshape(rows, cols)
    return values


def _header_options(command: click.Command) -> click.Command:
    """Add one option per field of the header."""
    for f in reversed(fields(Header)):
        if f.name in ("version", "layer_flags"):
            continue
        default = DEFAULTS.get(f.name, f.default)
        kind = int if f.metadata["code"] == "I" else float
        option = click.option(
            f"--{f.name.replace('_', '-')}", f.name, type=kind, default=default, show_default=True
        )
        command = option(command)
    return command


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--grid", is_flag=True, help="Weights that quantization reproduces exactly.")
@click.option("--layer-flags", default="", help="Flags of each layer, e.g. 1,1,0.")
@_header_options  # type: ignore[arg-type]
def main(path: Path, seed: int, grid: bool, layer_flags: str, **header: int | float) -> None:
    """Write a random .mlb model to PATH."""
    try:
        flags = bytes(int(part, 0) for part in layer_flags.split(",") if part)
        write_random(path, Header(**header), seed, flags, grid)  # type: ignore[arg-type]
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    except KraflaError as error:
        print(f"gen_random: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
