"""Checkpoints as the converter reads them: GGUF, Hugging Face folders, llama2.c; rows on demand."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import gguf
import numpy as np
import numpy.typing as npt

from krafla.tools.errors import AccessError, FormatError, ShapeError, access
from krafla.tools.gguf_file import GgufFile, GgufTensor, read_gguf
from krafla.tools.quantize import BLOCK, F32, I8, unpack_q4

Kind: TypeAlias = Literal["gguf", "hf", "llama2c"]
Blocks: TypeAlias = tuple[I8, F32]


@dataclass(frozen=True)
class SourceTensor:
    """One tensor of a checkpoint."""

    name: str
    where: str  # the file, for messages
    shape: tuple[int, ...]
    rows: Callable[[int, int], F32]
    # Its blocks as they are, if the checkpoint stores them as an .mlb file does.
    quantized: Literal["", "q8_0", "q4_0"] = ""
    blocks: Callable[[int, int], Blocks] | None = None


@dataclass(frozen=True)
class Source:
    """A checkpoint: what kind, its configuration, its tensors by name."""

    path: Path
    kind: Kind
    architecture: str
    config: dict[str, Any]
    tensors: dict[str, SourceTensor]
    config_name: str  # how messages call where the configuration stands


def open_source(path: Path) -> Source:
    """Recognize and open a checkpoint; raises AccessError or FormatError with a sentence."""
    if path.is_dir():
        return open_folder(path)
    with access(path, "read"), path.open("rb") as file:
        magic = file.read(4)
    if magic == b"GGUF" or path.suffix == ".gguf":
        return open_gguf(path)
    if path.suffix == ".bin":
        return open_llama2c(path)
    hint = "; give the folder that holds it and config.json" if path.suffix == ".safetensors" else ""
    raise FormatError(f"{path}: not a model this converter reads (a .gguf, a folder, a llama2.c .bin){hint}")


# --- Hugging Face folders


def open_folder(folder: Path) -> Source:
    """Open a folder with config.json and one or several safetensors files."""
    config = read_json(folder / "config.json")
    index = folder / "model.safetensors.index.json"
    single = folder / "model.safetensors"
    if index.is_file():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict):
            raise FormatError(f"{index}: weight_map is missing")
        files = {name: folder / str(file) for name, file in weight_map.items()}
    elif single.is_file():
        files = {}
    else:
        shards = sorted(folder.glob("*.safetensors"))
        what = f"{shards[0].name} is there, but" if shards else "there is neither model.safetensors nor"
        raise AccessError(f"{folder}: {what} {'no ' if shards else ''}model.safetensors.index.json")
    tensors: dict[str, SourceTensor] = {}
    for file in sorted(set(files.values())) or [single]:
        tensors.update(read_safetensors(file))
    for name, file in files.items():
        if name not in tensors:
            raise FormatError(f"{file}: {name} is missing, although {index.name} lists it")
    architecture = str(config.get("model_type", ""))
    return Source(folder, "hf", architecture, config, tensors, str(folder / "config.json"))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    with access(path, "read"):
        data = path.read_bytes()
    try:
        value = json.loads(data)
    except ValueError as error:
        raise FormatError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise FormatError(f"{path}: must hold a JSON object")
    return value


def read_safetensors(path: Path) -> dict[str, SourceTensor]:
    """The tensors of one safetensors file, mapped into memory."""
    with access(path, "read"):
        size = path.stat().st_size
        data = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    length = int(data[:8].view("<u8")[0]) if size >= 8 else 0
    if not 2 <= length <= size - 8:
        raise FormatError(f"{path}: not a safetensors file: its header takes {length} of {size} bytes")
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
        header.pop("__metadata__", None)
        entries = {n: (e["dtype"], tuple(e["shape"]), *e["data_offsets"]) for n, e in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: not a safetensors file: its header cannot be read ({error})") from error
    body = data[8 + length :]
    return {name: _safetensor(path, name, body, *entry) for name, entry in entries.items()}


_SAFE_TYPES: dict[str, tuple[str, int]] = {"F32": ("<f4", 4), "F16": ("<f2", 2), "BF16": ("<u2", 2)}


def _safetensor(
    path: Path,
    name: str,
    body: npt.NDArray[np.uint8],
    dtype: str,
    shape: tuple[int, ...],
    start: int,
    end: int,
) -> SourceTensor:
    if dtype not in _SAFE_TYPES:
        raise FormatError(f"{path}: {name} has the type {dtype}, must be one of {', '.join(_SAFE_TYPES)}")
    code, width = _SAFE_TYPES[dtype]
    if end - start != int(np.prod(shape, dtype=np.int64)) * width:
        raise FormatError(
            f"{path}: {name} takes {end - start} bytes, which does not fit its shape {list(shape)}"
        )
    if end > len(body):
        raise FormatError(f"{path}: the file is truncated: {name} ends {end - len(body)} bytes after its end")
    values = body[start:end].view(code).reshape(matrix_shape(shape))

    def rows(first: int, last: int) -> F32:
        part = values[first:last]
        if dtype == "BF16":
            return (part.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return part.astype(np.float32)

    return SourceTensor(name, str(path), shape, rows)


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """A shape as rows and columns: a vector is one row."""
    return (int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]) if shape else (1, 1)


# --- GGUF

# Prefixes of keys that say nothing about the computation.
_GGUF_OTHER = ("GGUF.", "general.", "quantize.", "split.", "tokenizer.")


def open_gguf(path: Path) -> Source:
    """Open a GGUF file, or all parts of a split one, whose first part is given."""
    file = read_gguf(path)
    name = file.values.get("general.architecture")
    if not isinstance(name, str):
        raise FormatError(f"{path}: general.architecture is missing")
    config = {
        key.removeprefix(name + "."): value
        for key, value in file.values.items()
        if not key.startswith(_GGUF_OTHER)
    }
    tensors = dict(_gguf_tensors(file))
    for part in _other_parts(path, file.number("split.count", 1)):
        tensors.update(_gguf_tensors(read_gguf(part)))
    return Source(path, "gguf", name, config, tensors, str(path))


def _other_parts(path: Path, count: int) -> list[Path]:
    if count <= 1:
        return []
    match = re.fullmatch(r"(.*)-00001-of-(\d{5})\.gguf", path.name)
    if not match or int(match[2]) != count:
        raise FormatError(
            f"{path}: one of {count} parts; give the one that ends in -00001-of-{count:05d}.gguf"
        )
    return [path.with_name(f"{match[1]}-{i:05d}-of-{count:05d}.gguf") for i in range(2, count + 1)]


def _gguf_tensors(file: GgufFile) -> Iterator[tuple[str, SourceTensor]]:
    for t in file.tensors.values():
        yield t.name, _gguf_tensor(file.path, t)


def _gguf_tensor(path: Path, t: GgufTensor) -> SourceTensor:
    def rows(first: int, last: int) -> F32:
        try:
            values: F32 = gguf.dequantize(t.data[first:last], t.kind).astype(np.float32)
        except NotImplementedError as error:
            raise FormatError(
                f"{path}: {t.name} has the type {t.kind.name}, which gguf cannot read"
            ) from error
        return values

    def q8_blocks(first: int, last: int) -> Blocks:
        d, raw = _gguf_blocks(t.data[first:last], 34)
        return raw.view(np.int8).reshape(len(d), -1), d

    def q4_blocks(first: int, last: int) -> Blocks:
        d, raw = _gguf_blocks(t.data[first:last], 18)
        return unpack_q4(raw.reshape(len(d), -1)), d

    if t.kind == gguf.GGMLQuantizationType.Q8_0:
        return SourceTensor(t.name, str(path), t.shape, rows, "q8_0", q8_blocks)
    if t.kind == gguf.GGMLQuantizationType.Q4_0:
        return SourceTensor(t.name, str(path), t.shape, rows, "q4_0", q4_blocks)
    return SourceTensor(t.name, str(path), t.shape, rows)


def _gguf_blocks(data: npt.NDArray[np.uint8], size: int) -> tuple[F32, npt.NDArray[np.uint8]]:
    """Scales (rows, blocks) and the bytes after each scale."""
    blocks = np.ascontiguousarray(data).reshape(len(data), -1, size)
    scales = np.ascontiguousarray(blocks[:, :, :2]).view("<f2")[..., 0].astype(np.float32)
    return scales, np.ascontiguousarray(blocks[:, :, 2:])


# --- llama2.c


def open_llama2c(path: Path) -> Source:
    """Open a llama2.c checkpoint: the legacy one without a magic number, or version 1 (float32)."""
    with access(path, "read"):
        size = path.stat().st_size
        data = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    if size < 28:
        raise FormatError(
            f"{path}: not a llama2.c checkpoint: the file has {size} bytes, its header takes 28"
        )
    magic, version = struct.unpack("<Ii", bytes(data[:8]))
    if magic != 0x616B3432:
        numbers = struct.unpack("<7i", bytes(data[:28]))
        config = _llama2c_config(path, numbers, shared=numbers[5] > 0)
        return _llama2c_source(path, data, config, 28, list(_llama2c_legacy(config)))
    if version != 1 or size < 256:
        raise FormatError(f"{path}: a llama2.c checkpoint of version {version}, must be 0 or 1 (float32)")
    config = _llama2c_config(path, struct.unpack("<7i", bytes(data[8:36])), shared=bool(data[36]))
    return _llama2c_source(path, data, config, 256, list(_llama2c_version1(config)))


_LLAMA2C = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab", "max_seq")


def _llama2c_config(path: Path, numbers: tuple[int, ...], shared: bool) -> dict[str, Any]:
    config: dict[str, Any] = dict(zip(_LLAMA2C, numbers, strict=True))
    config["vocab"] = abs(config["vocab"])
    for key, value in config.items():
        if not 1 <= value <= 1 << 24:
            raise ShapeError(
                f"{path}: {key} is {value}, must be from 1 to {1 << 24} (is it a llama2.c checkpoint?)"
            )
    if config["dim"] % config["n_heads"]:
        raise ShapeError(f"{path}: n_heads is {config['n_heads']}, must divide dim ({config['dim']})")
    config["shared_classifier"] = int(shared)
    return config


def _llama2c_layers(c: dict[str, Any], names: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    kv = c["dim"] // c["n_heads"] * c["n_kv_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm": (c["dim"],),
        "wq": (c["dim"], c["dim"]),
        "wk": (kv, c["dim"]),
        "wv": (kv, c["dim"]),
        "wo": (c["dim"], c["dim"]),
        "ffn_norm": (c["dim"],),
        "w1": (c["hidden_dim"], c["dim"]),
        "w2": (c["dim"], c["hidden_dim"]),
        "w3": (c["hidden_dim"], c["dim"]),
    }
    for name in names:
        for i in range(c["n_layers"]):
            yield f"layers.{i}.{name}", shapes[name]


def _llama2c_legacy(c: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "tok_emb", (c["vocab"], c["dim"])
    yield from _llama2c_layers(c, ["attn_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3"])
    yield "final_norm", (c["dim"],)
    if not c["shared_classifier"]:
        # Tables of RoPE cosines and sines lie in between; they are computed anew.
        yield "", (c["max_seq"], c["dim"] // c["n_heads"])
        yield "wcls", (c["vocab"], c["dim"])


def _llama2c_version1(c: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _llama2c_layers(c, ["attn_norm", "ffn_norm"])
    yield "final_norm", (c["dim"],)
    yield "tok_emb", (c["vocab"], c["dim"])
    yield from _llama2c_layers(c, ["wq", "wk", "wv", "wo", "w1", "w2", "w3"])
    if not c["shared_classifier"]:
        yield "wcls", (c["vocab"], c["dim"])


def _llama2c_source(
    path: Path,
    data: npt.NDArray[np.uint8],
    config: dict[str, Any],
    offset: int,
    shapes: list[tuple[str, tuple[int, ...]]],
) -> Source:
    end = offset + sum(int(np.prod(shape, dtype=np.int64)) * 4 for _, shape in shapes)
    if len(data) < end:
        raise FormatError(f"{path}: the file has {len(data)} bytes, its header implies {end}")
    tensors = {}
    for name, shape in shapes:
        size = int(np.prod(shape, dtype=np.int64)) * 4
        values = data[offset : offset + size].view("<f4").reshape(matrix_shape(shape))
        tensors[name] = SourceTensor(name, str(path), shape, _rows_of(values))
        offset += size
    tensors.pop("", None)
    return Source(path, "llama2c", "llama2c", config, tensors, str(path))


def _rows_of(values: npt.NDArray[Any]) -> Callable[[int, int], F32]:
    return lambda first, last: np.array(values[first:last], np.float32)


def clean_blocks(blocks: Blocks) -> bool:
    """Whether blocks may be copied: no quant of -128 (Q8_0) and only finite scales."""
    quants, scales = blocks
    return bool(np.isfinite(scales).all()) and bool((quants >= -127).all())


def block_multiple(n: int) -> int:
    """The next multiple of the block size."""
    return -(-n // BLOCK) * BLOCK
