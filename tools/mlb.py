"""The .mlb model file: header, layout of the arrays, validation, reference reader and writer."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from krafla.tools.errors import FormatError, ShapeError, access
from krafla.tools.quantize import (
    BLOCK,
    F32,
    I8,
    Q4Rule,
    ScaleOverflowError,
    dequantize,
    pack_q4,
    quantize_q4_0,
    quantize_q8_0,
    unpack_q4,
)

MAGIC = b"MLB1"
VERSION = 1
HEADER_BYTES = 256
ALIGN = 64
MAX_DIM = 1 << 16
MAX_POSITIONS = 1 << 24
Q8_0, Q4_0 = 1, 2
ROPE_PLAIN, ROPE_LLAMA3, ROPE_LINEAR, ROPE_YARN = 0, 1, 2, 3
ACT_SILU, ACT_GELU = 0, 1
LAYER_WINDOW, LAYER_LOCAL_ROPE, LAYER_NO_ROPE, LAYER_LINEAR = 1, 2, 4, 8

# Matrix classes of q8_mask and the matrices that belong to each.
CLASSES: dict[str, int] = {"tok_emb": 1, "wcls": 2, "wq": 4, "wv": 8, "wo": 16, "w1": 32, "w2": 64}
_CLASS_OF = {"wk": "wq", "wg": "wq", "lqkv": "wq", "lz": "wv", "lout": "wo", "w3": "w1"}


def _u32(offset: int, default: int = 0) -> Any:
    return field(default=default, metadata={"offset": offset, "code": "I"})


def _f32(offset: int, default: float = 0.0) -> Any:
    return field(default=default, metadata={"offset": offset, "code": "f"})


@dataclass(frozen=True, kw_only=True)
class Header:
    """The header's fields as they stand in the file; where 0 is a default, a property derives the value."""

    version: int = _u32(4, VERSION)
    dim: int = _u32(8)
    n_layers: int = _u32(12)
    n_heads: int = _u32(16)
    n_kv_heads: int = _u32(20)
    hidden_dim: int = _u32(24)
    vocab: int = _u32(28)
    max_seq: int = _u32(32)
    rope_theta: float = _f32(36, 10000.0)
    norm_eps: float = _f32(40, 1e-5)
    wtype: int = _u32(44, Q8_0)
    shared_classifier: int = _u32(48)
    rope_type: int = _u32(52)
    rope_factor: float = _f32(56)
    rope_low_freq_factor: float = _f32(60)
    rope_high_freq_factor: float = _f32(64)
    rope_orig_max_seq: int = _u32(68)
    q8_mask: int = _u32(72)
    qkv_bias: int = _u32(76)
    head_dim: int = _u32(80)
    qk_norm: int = _u32(84)
    rope_attn_factor: float = _f32(88)
    sliding_window: int = _u32(92)
    layer_flags: int = _u32(96)
    rope_local_theta: float = _f32(100)
    act: int = _u32(104)
    post_norms: int = _u32(108)
    embed_scale: float = _f32(112)
    attn_scale: float = _f32(116)
    scale_f16: int = _u32(120)
    attn_softcap: float = _f32(124)
    final_softcap: float = _f32(128)
    rot_dim: int = _u32(132)
    attn_gate: int = _u32(136)
    lin_k_heads: int = _u32(140)
    lin_v_heads: int = _u32(144)
    lin_k_dim: int = _u32(148)
    lin_v_dim: int = _u32(152)
    lin_conv: int = _u32(156)

    @property
    def head_size(self) -> int:
        """Size of an attention head."""
        return self.head_dim or self.dim // self.n_heads

    @property
    def rot_size(self) -> int:
        """How many dimensions of a head RoPE rotates."""
        return self.rot_dim or self.head_size

    @property
    def q_dim(self) -> int:
        """Width of all query heads."""
        return self.head_size * self.n_heads

    @property
    def kv_dim(self) -> int:
        """Width of all key (or value) heads."""
        return self.head_size * self.n_kv_heads

    @property
    def lin_v_size(self) -> int:
        """Width of all value heads of a linear-attention layer."""
        return self.lin_v_heads * self.lin_v_dim

    @property
    def lin_channels(self) -> int:
        """Channels of a linear-attention layer's convolution."""
        return 2 * self.lin_k_heads * self.lin_k_dim + self.lin_v_size

    def kind(self, matrix: str) -> int:
        """Q8_0 or Q4_0 for a matrix by its short name (tok_emb, wq, lb, ...)."""
        if matrix in ("lb", "la"):
            return Q8_0
        mask = CLASSES[_CLASS_OF.get(matrix, matrix)]
        if matrix == "tok_emb" and self.shared_classifier:
            mask |= CLASSES["wcls"]
        return Q8_0 if self.q8_mask & mask else self.wtype

    def pack(self) -> bytes:
        """The 256 bytes of the header."""
        data = bytearray(HEADER_BYTES)
        data[:4] = MAGIC
        for f in fields(self):
            value = getattr(self, f.name)
            try:
                struct.pack_into("<" + f.metadata["code"], data, f.metadata["offset"], value)
            except (struct.error, OverflowError) as error:
                raise FormatError(f"{f.name} is {value}, which a header cannot hold") from error
        return bytes(data)

    @classmethod
    def unpack(cls, data: bytes, name: str = "header") -> Header:
        """Parse the header without validating it, except for its length and magic."""
        if len(data) < HEADER_BYTES:
            raise FormatError(
                f"{name}: the file has {len(data)} bytes, the header alone takes {HEADER_BYTES}"
            )
        if data[:4] != MAGIC:
            raise FormatError(f"{name}: magic is {data[:4]!r}, must be {MAGIC!r}")
        values = {
            f.name: struct.unpack_from("<" + f.metadata["code"], data, f.metadata["offset"])[0]
            for f in fields(cls)
        }
        return cls(**values)

    @classmethod
    def read(cls, path: Path) -> Header:
        """The header of a file, unchecked beyond its size."""
        with access(path, "read"), path.open("rb") as file:
            return cls.unpack(file.read(HEADER_BYTES), str(path))

    def as_stored(self) -> Header:
        """The same header with every float rounded to float32, as a reader gets it back."""
        return Header.unpack(self.pack())


def validate(h: Header, name: str = "header", layer_flags: bytes | None = None) -> None:
    """Raise FormatError or ShapeError for anything the format document forbids."""
    _validate_format(h, name)
    _validate_rope(h, name)
    _validate_shape(h, name)
    _validate_linear(h, name)
    if layer_flags is not None:
        _validate_layer_flags(h, name, layer_flags)


def _bad_format(h: Header, name: str, key: str, must: str) -> NoReturn:
    raise FormatError(f"{name}: {key} is {getattr(h, key):g}, must be {must}")


def _bad_shape(name: str, key: str, value: int, must: str) -> NoReturn:
    raise ShapeError(f"{name}: {key} is {value}, must be {must}")


def _validate_format(h: Header, name: str) -> None:
    if h.version != VERSION:
        _bad_format(h, name, "version", f"{VERSION}")
    if h.wtype not in (Q8_0, Q4_0):
        _bad_format(h, name, "wtype", "1 (Q8_0) or 2 (Q4_0)")
    for key in ("qkv_bias", "qk_norm", "layer_flags", "post_norms", "scale_f16", "attn_gate", "act"):
        if getattr(h, key) not in (0, 1):
            _bad_format(h, name, key, "0 or 1")
    for key in ("embed_scale", "attn_scale", "attn_softcap", "final_softcap", "rope_local_theta", "norm_eps"):
        value = getattr(h, key)
        if not (math.isfinite(value) and value >= 0):
            _bad_format(h, name, key, "finite and not negative")
    if h.q8_mask > 127 or (h.q8_mask and h.wtype == Q8_0):
        _bad_format(h, name, "q8_mask", "at most 127, and 0 for Q8_0 models")
    if h.sliding_window > MAX_POSITIONS:
        _bad_format(h, name, "sliding_window", f"at most {MAX_POSITIONS}")


def _validate_rope(h: Header, name: str) -> None:
    def positive(key: str) -> None:
        value = getattr(h, key)
        if not (math.isfinite(value) and value > 0):
            _bad_format(h, name, key, "finite and positive")

    positive("rope_theta")
    if h.rope_type not in (ROPE_PLAIN, ROPE_LLAMA3, ROPE_LINEAR, ROPE_YARN):
        _bad_format(h, name, "rope_type", "0 (plain), 1 (llama3), 2 (linear) or 3 (yarn)")
    if h.rope_type != ROPE_PLAIN:
        positive("rope_factor")
    if h.rope_type in (ROPE_LLAMA3, ROPE_YARN):
        positive("rope_low_freq_factor")
        positive("rope_high_freq_factor")
        positive("rope_orig_max_seq")
    if h.rope_type == ROPE_LLAMA3 and h.rope_high_freq_factor <= h.rope_low_freq_factor:
        _bad_format(
            h, name, "rope_high_freq_factor", f"above rope_low_freq_factor ({h.rope_low_freq_factor:g})"
        )
    if h.rope_type == ROPE_YARN:
        positive("rope_attn_factor")
        if h.rope_high_freq_factor >= h.rope_low_freq_factor:
            _bad_format(h, name, "rope_high_freq_factor", f"below beta_fast ({h.rope_low_freq_factor:g})")
    elif h.rope_attn_factor != 0:
        _bad_format(h, name, "rope_attn_factor", "0 without yarn scaling")


def _validate_shape(h: Header, name: str) -> None:
    for key in ("dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim"):
        if not 1 <= getattr(h, key) <= MAX_DIM:
            _bad_shape(name, key, getattr(h, key), f"from 1 to {MAX_DIM}")
    if not 3 <= h.vocab <= MAX_POSITIONS:
        _bad_shape(name, "vocab", h.vocab, f"from 3 to {MAX_POSITIONS}")
    if not 1 <= h.max_seq <= MAX_POSITIONS:
        _bad_shape(name, "max_seq", h.max_seq, f"from 1 to {MAX_POSITIONS}")
    for key in ("dim", "hidden_dim"):
        if getattr(h, key) % BLOCK:
            _bad_shape(name, key, getattr(h, key), f"a multiple of {BLOCK}")
    if not h.head_dim and h.dim % h.n_heads:
        _bad_shape(name, "n_heads", h.n_heads, f"a divisor of dim ({h.dim}) when head_dim is 0")
    if h.n_heads % h.n_kv_heads:
        _bad_shape(name, "n_kv_heads", h.n_kv_heads, f"a divisor of n_heads ({h.n_heads})")
    if h.head_size % 2:
        _bad_shape(name, "head_dim", h.head_size, "even")
    if h.q_dim % BLOCK or h.q_dim > MAX_DIM:
        _bad_shape(name, "q_dim", h.q_dim, f"a multiple of {BLOCK} and at most {MAX_DIM}")
    if h.rot_dim % 2 or h.rot_dim > h.head_size:
        _bad_shape(name, "rot_dim", h.rot_dim, f"even and at most head_dim ({h.head_size})")


def _validate_linear(h: Header, name: str) -> None:
    keys = ("lin_k_heads", "lin_v_heads", "lin_k_dim", "lin_v_dim", "lin_conv")
    if not any(getattr(h, key) for key in keys):
        return
    for key in keys:
        if not 1 <= getattr(h, key) <= MAX_DIM:
            _bad_shape(name, key, getattr(h, key), f"from 1 to {MAX_DIM}")
    if h.lin_v_heads % h.lin_k_heads or h.lin_v_heads % 4:
        _bad_shape(
            name, "lin_v_heads", h.lin_v_heads, f"a multiple of lin_k_heads ({h.lin_k_heads}) and of 4"
        )
    if h.lin_v_size % BLOCK:
        _bad_shape(name, "lin_v_heads * lin_v_dim", h.lin_v_size, f"a multiple of {BLOCK}")


def _validate_layer_flags(h: Header, name: str, layer_flags: bytes) -> None:
    if len(layer_flags) != (h.n_layers if h.layer_flags else 0):
        raise FormatError(f"{name}: there are {len(layer_flags)} layer flags for {h.n_layers} layers")
    for i, flags in enumerate(layer_flags):
        where = f"{name}: the flags of layer {i} are {flags}"
        if flags & ~15:
            raise FormatError(f"{where}, only bits 0 to 3 are known")
        if flags & LAYER_LOCAL_ROPE and flags & LAYER_NO_ROPE:
            raise FormatError(f"{where}: a layer cannot have both the local RoPE base and no RoPE")
        if flags & LAYER_LOCAL_ROPE and h.rope_local_theta == 0:
            raise FormatError(f"{where}: the local RoPE base needs rope_local_theta")
        if flags & LAYER_LINEAR and (flags != LAYER_LINEAR or not h.lin_k_heads):
            raise FormatError(f"{where}: linear attention stands alone and needs lin_k_heads")


@dataclass(frozen=True)
class Tensor:
    """Where one tensor lies in the file."""

    name: str  # "tok_emb", "layers.3.wq", ...
    rows: int  # 1 for vectors
    cols: int
    kind: int  # Q8_0, Q4_0, or 0 for plain arrays (float32; bytes for "layer_flags")
    offset: int
    scales_offset: int  # 0 for plain arrays
    scale_bytes: int  # 4 or 2; of an element for plain arrays
    end: int  # of the last array, without its padding

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of quants, or of plain elements."""
        if self.kind == 0:
            return self.cols * self.scale_bytes
        return self.cols if self.kind == Q8_0 else self.cols // 2

    @property
    def blocks(self) -> int:
        """Blocks, and so scales, of one row."""
        return self.cols // BLOCK


def aligned(size: int) -> int:
    """The next multiple of the alignment of arrays."""
    return -(-size // ALIGN) * ALIGN


def tensor_shapes(h: Header, layer_flags: bytes = b"") -> Iterator[tuple[str, int, int, bool]]:
    """Every tensor in file order: name, rows, columns, and whether it is a quantized matrix."""
    yield "tok_emb", h.vocab, h.dim, True
    for i in range(h.n_layers):
        linear = bool(layer_flags) and layer_flags[i] & LAYER_LINEAR
        for name, rows, cols, matrix in _linear_shapes(h) if linear else _attention_shapes(h):
            yield f"layers.{i}.{name}", rows, cols, matrix
        for name, rows, cols, matrix in _ffn_shapes(h):
            yield f"layers.{i}.{name}", rows, cols, matrix
    yield "final_norm", 1, h.dim, False
    if not h.shared_classifier:
        yield "wcls", h.vocab, h.dim, True


def _attention_shapes(h: Header) -> Iterator[tuple[str, int, int, bool]]:
    yield "attn_norm", 1, h.dim, False
    yield "wq", h.q_dim, h.dim, True
    yield "wk", h.kv_dim, h.dim, True
    yield "wv", h.kv_dim, h.dim, True
    yield "wo", h.dim, h.q_dim, True
    if h.attn_gate:
        yield "wg", h.q_dim, h.dim, True
    if h.qkv_bias:
        yield "bq", 1, h.q_dim, False
        yield "bk", 1, h.kv_dim, False
        yield "bv", 1, h.kv_dim, False
    if h.qk_norm:
        yield "q_norm", 1, h.head_size, False
        yield "k_norm", 1, h.head_size, False


def _linear_shapes(h: Header) -> Iterator[tuple[str, int, int, bool]]:
    yield "attn_norm", 1, h.dim, False
    yield "lqkv", h.lin_channels, h.dim, True
    yield "lz", h.lin_v_size, h.dim, True
    yield "lb", h.lin_v_heads, h.dim, True
    yield "la", h.lin_v_heads, h.dim, True
    yield "lconv", h.lin_channels, h.lin_conv, False
    yield "dt_bias", 1, h.lin_v_heads, False
    yield "a_log", 1, h.lin_v_heads, False
    yield "lnorm", 1, h.lin_v_dim, False
    yield "lout", h.dim, h.lin_v_size, True


def _ffn_shapes(h: Header) -> Iterator[tuple[str, int, int, bool]]:
    yield "ffn_norm", 1, h.dim, False
    yield "w1", h.hidden_dim, h.dim, True
    yield "w2", h.dim, h.hidden_dim, True
    yield "w3", h.hidden_dim, h.dim, True
    if h.post_norms:
        yield "post_attn_norm", 1, h.dim, False
        yield "post_ffn_norm", 1, h.dim, False


def layout(h: Header, layer_flags: bytes = b"") -> dict[str, Tensor]:
    """Where every tensor of a file with this header lies, in file order."""
    tensors: dict[str, Tensor] = {}
    offset = HEADER_BYTES
    if h.layer_flags:
        tensors["layer_flags"] = Tensor("layer_flags", 1, h.n_layers, 0, offset, 0, 1, offset + h.n_layers)
        offset = aligned(offset + h.n_layers)
    for name, rows, cols, matrix in tensor_shapes(h, layer_flags):
        if matrix:
            tensor = _place_matrix(h, name, rows, cols, offset)
        else:
            tensor = Tensor(name, rows, cols, 0, offset, 0, 4, offset + rows * cols * 4)
        tensors[name] = tensor
        offset = aligned(tensor.end)
    return tensors


def _place_matrix(h: Header, name: str, rows: int, cols: int, offset: int) -> Tensor:
    kind = h.kind(name.rpartition(".")[2])
    scale_bytes = 2 if h.scale_f16 else 4
    scales = aligned(offset + rows * (cols if kind == Q8_0 else cols // 2))
    end = scales + rows * (cols // BLOCK) * scale_bytes
    return Tensor(name, rows, cols, kind, offset, scales, scale_bytes, end)


class Model:
    """An .mlb file opened for reading; arrays are read from a memory map when they are asked for."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        with access(self.path, "read"):
            size = self.path.stat().st_size
            self._data = np.memmap(self.path, np.uint8, "r") if size else np.empty(0, np.uint8)
        name = str(self.path)
        if not size:
            raise FormatError(f"{name}: the file is empty")
        self.header = Header.unpack(bytes(self._data[:HEADER_BYTES]), name)
        validate(self.header, name)
        self.layer_flags = b""
        if self.header.layer_flags:
            end = HEADER_BYTES + self.header.n_layers
            self._need(end)
            self.layer_flags = bytes(self._data[HEADER_BYTES:end])
            validate(self.header, name, self.layer_flags)
        self.tensors = layout(self.header, self.layer_flags)
        self._need(max(t.end for t in self.tensors.values()))

    def _need(self, size: int) -> None:
        if len(self._data) < size:
            raise FormatError(f"{self.path}: the file has {len(self._data)} bytes, its header implies {size}")

    def check_quants(self) -> None:
        """Raise FormatError if a Q8 quant is -128."""
        for t in self.tensors.values():
            if t.kind == Q8_0 and (self.quants(t.name) == -128).any():
                raise FormatError(f"{self.path}: {t.name} holds a quant of -128, must be -127 to 127")

    def quants(self, name: str, rows: slice | list[int] = slice(None)) -> I8:
        """A matrix's quants, one int8 per weight (Q4_0: -8 to 7)."""
        t = self.tensors[name]
        raw = self._data[t.offset : t.offset + t.rows * t.row_bytes].reshape(t.rows, t.row_bytes)[rows]
        return raw.view(np.int8) if t.kind == Q8_0 else unpack_q4(raw)

    def scales(self, name: str) -> F32:
        """A matrix's scales in float32, shape (rows, blocks)."""
        t = self.tensors[name]
        raw = self._data[t.scales_offset : t.end].view(np.float16 if t.scale_bytes == 2 else np.float32)
        return raw.astype(np.float32).reshape(t.rows, t.blocks)

    def values(self, name: str, rows: slice | list[int] | None = None) -> F32:
        """A tensor's values in float32, of some rows only if they are named; vectors are one-dimensional."""
        t = self.tensors[name]
        if t.kind:
            part = slice(None) if rows is None else rows
            return dequantize(self.quants(name, part), self.scales(name)[part])
        values: F32 = np.array(self._data[t.offset : t.end].view(np.float32))
        return values if t.rows == 1 else values.reshape(t.rows, t.cols)


class Writer:
    """Writes an .mlb file through a temporary one, renamed when the `with` block ends well."""

    def __init__(
        self,
        path: str | PathLike[str],
        header: Header,
        layer_flags: bytes = b"",
        q4_rule: Q4Rule = "search",
        importance: Mapping[str, F32] | None = None,
    ) -> None:
        self.path = Path(path)
        self.header = replace(header, layer_flags=int(bool(layer_flags)))
        validate(self.header.as_stored(), str(self.path), layer_flags)
        self.tensors = layout(self.header, layer_flags)
        self.q4_rule = q4_rule
        self.importance = importance or {}
        self._rows = dict.fromkeys(self.tensors, 0)
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        with access(self.path, "write"):
            self._file = self._temporary.open("wb")
        self._put(0, self.header.pack())
        if layer_flags:
            self._put(HEADER_BYTES, layer_flags)
            self._rows["layer_flags"] = 1

    def write(self, name: str, values: npt.ArrayLike) -> None:
        """Append rows of a tensor in float32; a matrix is quantized. Tensors may come in any order."""
        t = self.tensors[name]
        x = np.ascontiguousarray(values, np.float32).reshape(-1, t.cols)
        if not np.isfinite(x).all():
            raise FormatError(f"{self.path}: {name} has a weight that is NaN or infinite")
        if t.kind == 0:
            self._advance(t, len(x), lambda row: self._put(t.offset + row * t.row_bytes, x.tobytes()))
            return
        f16 = t.scale_bytes == 2
        try:
            if t.kind == Q8_0:
                q, d = quantize_q8_0(x, f16)
            else:
                q, d = quantize_q4_0(x, f16, self.q4_rule, self.importance.get(name))
        except ScaleOverflowError as error:
            raise FormatError(f"{self.path}: {name}: {error}; write it with f32 scales") from error
        self.write_quantized(name, q, d)

    def write_quantized(self, name: str, quants: I8, scales: F32) -> None:
        """Append rows of a matrix as they are: one int8 per weight, scales that the file can hold."""
        t = self.tensors[name]
        q = quants.reshape(-1, t.cols)
        data = q if t.kind == Q8_0 else pack_q4(q)
        d = scales.astype(np.float16 if t.scale_bytes == 2 else np.float32)

        def put(row: int) -> None:
            self._put(t.offset + row * t.row_bytes, data.tobytes())
            self._put(t.scales_offset + row * t.blocks * t.scale_bytes, d.tobytes())

        self._advance(t, len(q), put)

    def _advance(self, t: Tensor, rows: int, put: Callable[[int], None]) -> None:
        start = self._rows[t.name]
        if start + rows > t.rows:
            raise ShapeError(f"{self.path}: {t.name} got {start + rows} rows, must have {t.rows}")
        put(start)
        self._rows[t.name] = start + rows

    def _put(self, offset: int, data: bytes) -> None:
        with access(self.path, "write"):
            self._file.seek(offset)
            self._file.write(data)

    def missing(self) -> list[str]:
        """Names of the tensors that are not complete yet."""
        return [t.name for t in self.tensors.values() if self._rows[t.name] != t.rows]

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._finish()
        finally:
            with suppress(OSError):  # of a full disk, which has been reported already
                self._file.close()
            self._temporary.unlink(missing_ok=True)

    def _finish(self) -> None:
        if incomplete := self.missing():
            raise FormatError(f"{self.path}: {incomplete[0]} is missing or incomplete")
        with access(self.path, "write"):
            self._file.truncate(aligned(max(t.end for t in self.tensors.values())))
            self._file.close()
            self._temporary.replace(self.path)
