"""An independent NumPy forward pass over an .mlb file, to check every other one against.

*float* computes in float64 without quantizing activations, to compare with other implementations.
*exact* computes the numerics contract in float32, class U, bit for bit as the engine does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Context, Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click
import numpy as np
import numpy.typing as npt

from krafla.tools import exact_ops as exact
from krafla.tools.errors import KraflaError, UsageError
from krafla.tools.mlb import (
    ACT_GELU,
    LAYER_LINEAR,
    LAYER_LOCAL_ROPE,
    LAYER_NO_ROPE,
    LAYER_WINDOW,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_PLAIN,
    ROPE_YARN,
    Header,
    Model,
)

Array: TypeAlias = npt.NDArray[Any]
Mode: TypeAlias = Literal["float", "exact"]
Kv: TypeAlias = Literal["f32", "f16", "q8"]
_ROW_CHUNK = 8192
L2_EPSILON = 1e-6  # of the lengths of linear attention's queries and keys


def forward(model: Model, ids: Sequence[int], mode: Mode = "float", kv: Kv = "f32") -> Array:
    """Logits of shape (len(ids), vocab): float64 in *float* mode, float32 in *exact* mode."""
    _check(model, ids, mode, kv)
    arithmetic = ExactArithmetic(model, kv) if mode == "exact" else FloatArithmetic(model)
    h = model.header
    tables = {local: arithmetic.tables(rope_angles(h, len(ids), local), local) for local in (False, True)}
    x = arithmetic.embed(ids)
    for i in range(h.n_layers):
        flags = model.layer_flags[i] if model.layer_flags else LAYER_WINDOW
        rope = None if flags & LAYER_NO_ROPE else tables[bool(flags & LAYER_LOCAL_ROPE)]
        window = h.sliding_window if flags & LAYER_WINDOW else 0
        if flags & LAYER_LINEAR:
            x = _linear_attention(arithmetic, f"layers.{i}.", x)
        else:
            x = _attention(arithmetic, f"layers.{i}.", x, rope, window)
        x = _ffn(arithmetic, f"layers.{i}.", x)
    x = arithmetic.norm(x, "final_norm")
    logits = arithmetic.linear(x, "tok_emb" if h.shared_classifier else "wcls")
    return arithmetic.softcap(logits, h.final_softcap)


def _check(model: Model, ids: Sequence[int], mode: Mode, kv: Kv) -> None:
    h = model.header
    if not ids or min(ids) < 0 or max(ids) >= h.vocab:
        raise UsageError(f"token ids must be from 0 to {h.vocab - 1}, and at least one")
    if len(ids) > h.max_seq:
        raise UsageError(f"{len(ids)} tokens do not fit into the {h.max_seq} positions of {model.path}")
    if mode == "float" and kv != "f32":
        raise UsageError(f"float mode keeps keys and values in float64, not {kv}")


def _attention(a: Arithmetic, layer: str, x: Array, rope: tuple[Array, Array] | None, window: int) -> Array:
    h = a.model.header
    normed = a.norm(x, layer + "attn_norm")
    heads = {"q": h.n_heads, "k": h.n_kv_heads, "v": h.n_kv_heads}
    parts = {}
    for name, count in heads.items():
        y = a.linear(normed, f"{layer}w{name}")
        if h.qkv_bias:
            y = y + a.vector(f"{layer}b{name}")
        parts[name] = y.reshape(len(x), count, h.head_size)
    for name in ("q", "k"):
        if h.qk_norm:
            parts[name] = a.norm(parts[name], f"{layer}{name}_norm")
        if rope:
            parts[name] = a.rope(parts[name], *rope)
    out = a.attention(parts["q"], parts["k"], parts["v"], window).reshape(len(x), h.q_dim)
    if h.attn_gate:
        out = out * a.sigmoid(a.linear(normed, layer + "wg"))
    out = a.linear(out, layer + "wo")
    if h.post_norms:
        out = a.norm(out, layer + "post_attn_norm")
    return x + out


def _linear_attention(a: Arithmetic, layer: str, x: Array) -> Array:
    """The gated delta rule."""
    h = a.model.header
    normed = a.norm(x, layer + "attn_norm")
    keys = h.lin_k_heads * h.lin_k_dim
    mixed = a.convolve(a.linear(normed, layer + "lqkv"), a.vector(layer + "lconv"))
    q = mixed[:, :keys].reshape(len(x), h.lin_k_heads, h.lin_k_dim)
    k = mixed[:, keys : 2 * keys].reshape(q.shape)
    v = mixed[:, 2 * keys :].reshape(len(x), h.lin_v_heads, h.lin_v_dim)
    beta = a.sigmoid(a.linear(normed, layer + "lb"))
    decay = a.decay(a.linear(normed, layer + "la"), a.vector(layer + "dt_bias"), a.vector(layer + "a_log"))
    group = h.lin_v_heads // h.lin_k_heads
    q, k = (np.repeat(part, group, axis=1) for part in (a.unit_queries(q), a.unit_keys(k)))
    out = np.empty_like(v)
    state = np.zeros((h.lin_v_heads, h.lin_k_dim, h.lin_v_dim), v.dtype)
    for t in range(len(x)):
        state, out[t] = a.delta(state, q[t], k[t], v[t], beta[t], decay[t])
    z = a.linear(normed, layer + "lz").reshape(v.shape)
    gated = a.silu_mul(z, a.norm(out, layer + "lnorm"))
    out = a.linear(gated.reshape(len(x), h.lin_v_size), layer + "lout")
    if h.post_norms:
        out = a.norm(out, layer + "post_attn_norm")
    return x + out


def _ffn(a: Arithmetic, layer: str, x: Array) -> Array:
    normed = a.norm(x, layer + "ffn_norm")
    hidden = a.activation_mul(a.linear(normed, layer + "w1"), a.linear(normed, layer + "w3"))
    out = a.linear(hidden, layer + "w2")
    if a.model.header.post_norms:
        out = a.norm(out, layer + "post_ffn_norm")
    return x + out


def rope_angles(h: Header, positions: int, local: bool = False) -> Array:
    """Angles in float64, shape (positions, rot_size / 2)."""
    inverse = local_frequencies(h) if local else frequencies(h)
    return np.arange(positions, dtype=np.float64)[:, None] * inverse


@cache
def _powers(theta: float, size: int) -> tuple[float, ...]:
    """theta ** (-2 i / size), correctly rounded: computed with 60 digits."""
    context = Context(prec=60)
    log = Decimal(theta).ln(context)
    exponents = (context.divide(Decimal(-2 * i), Decimal(size)) for i in range(size // 2))
    return tuple(float(context.multiply(log, e).exp(context)) for e in exponents)


def local_frequencies(h: Header) -> Array:
    """Inverse frequencies of the layers that use rope_local_theta: never scaled."""
    return np.array(_powers(h.rope_local_theta or h.rope_theta, h.rot_size))


def frequencies(h: Header) -> Array:
    """Inverse frequencies with the model's scaling, in float64."""
    inverse = np.array(_powers(h.rope_theta, h.rot_size))
    if h.rope_type == ROPE_PLAIN:
        return inverse
    if h.rope_type == ROPE_LINEAR:
        return inverse / h.rope_factor
    if h.rope_type == ROPE_LLAMA3:
        return _llama3(h, inverse)
    return _yarn(h, inverse)


def _llama3(h: Header, inverse: Array) -> Array:
    factor, low, high = h.rope_factor, h.rope_low_freq_factor, h.rope_high_freq_factor
    original = float(h.rope_orig_max_seq)
    wavelength = 2 * math.pi / inverse
    s = (original / wavelength - low) / (high - low)
    middle = (1 - s) * inverse / factor + s * inverse
    scaled = np.where(wavelength > original / low, inverse / factor, middle)
    return np.where(wavelength < original / high, inverse, scaled)


def _yarn(h: Header, inverse: Array) -> Array:
    size = h.rot_size

    def dimension(rotations: float) -> float:
        fit = h.rope_orig_max_seq / (2 * math.pi * rotations)
        return size * math.log(fit) / (2 * math.log(h.rope_theta))

    low = max(math.floor(dimension(h.rope_low_freq_factor)), 0)
    high = min(math.ceil(dimension(h.rope_high_freq_factor)), size - 1)
    span = high - low if high != low else 0.001  # as transformers does
    ramp = np.clip((np.arange(size // 2) - low) / span, 0, 1)
    return inverse / h.rope_factor * ramp + inverse * (1 - ramp)


class Arithmetic(ABC):
    """The operations of a forward pass; activations have the shape (tokens, ...)."""

    def __init__(self, model: Model) -> None:
        self.model = model
        h = model.header
        self.group = h.n_heads // h.n_kv_heads

    @abstractmethod
    def vector(self, name: str) -> Array:
        """Read a plain tensor in the type of the activations."""

    @abstractmethod
    def embed(self, ids: Sequence[int]) -> Array:
        """Look up embedding rows and scale them."""

    @abstractmethod
    def norm(self, x: Array, name: str) -> Array:
        """RMS norm over the last axis."""

    @abstractmethod
    def linear(self, x: Array, name: str) -> Array:
        """Multiply by a matrix."""

    @abstractmethod
    def tables(self, angles: Array, local: bool) -> tuple[Array, Array]:
        """Cosines and sines of the angles."""

    @abstractmethod
    def rope(self, x: Array, cos: Array, sin: Array) -> Array:
        """Rotate heads of shape (tokens, heads, head_size)."""

    @abstractmethod
    def attention(self, q: Array, k: Array, v: Array, window: int) -> Array:
        """Causal attention; `window` 0 sees everything."""

    @abstractmethod
    def activation_mul(self, g: Array, u: Array) -> Array:
        """SiLU or GELU of g, times u."""

    @abstractmethod
    def silu_mul(self, g: Array, u: Array) -> Array:
        """SiLU of g, times u."""

    @abstractmethod
    def softcap(self, x: Array, cap: float) -> Array:
        """Squash to (-cap, cap); a cap of 0 leaves x alone."""

    @abstractmethod
    def sigmoid(self, x: Array) -> Array:
        """1 / (1 + exp(-x))."""

    @abstractmethod
    def convolve(self, x: Array, taps: Array) -> Array:
        """Each channel's last inputs times its taps (channels, taps), the newest with the last; then SiLU."""

    @abstractmethod
    def decay(self, a: Array, bias: Array, a_log: Array) -> Array:
        """exp(-exp(a_log) * softplus(a + bias))."""

    @abstractmethod
    def unit_keys(self, x: Array) -> Array:
        """Heads divided by their length."""

    @abstractmethod
    def unit_queries(self, x: Array) -> Array:
        """The same, and by the square root of their size."""

    @abstractmethod
    def delta(
        self, state: Array, q: Array, k: Array, v: Array, beta: Array, decay: Array
    ) -> tuple[Array, Array]:
        """One position of the delta rule for all value heads: the next state (heads, dk, dv), and outputs."""

    def _attn_factor(self, local: bool) -> float:
        h = self.model.header
        return h.rope_attn_factor if h.rope_type == ROPE_YARN and not local else 1.0

    def _raw_rows(self, ids: Sequence[int]) -> Array:
        return self.model.values("tok_emb", list(ids))


class FloatArithmetic(Arithmetic):
    """Float64 throughout; no activation is quantized."""

    def vector(self, name: str) -> Array:
        """See Arithmetic."""
        return self.model.values(name).astype(np.float64)

    def embed(self, ids: Sequence[int]) -> Array:
        """See Arithmetic."""
        return self._raw_rows(ids).astype(np.float64) * (self.model.header.embed_scale or 1.0)

    def norm(self, x: Array, name: str) -> Array:
        """See Arithmetic."""
        mean = np.mean(x * x, axis=-1, keepdims=True)
        normed: Array = x / np.sqrt(mean + self.model.header.norm_eps) * self.vector(name)
        return normed

    def linear(self, x: Array, name: str) -> Array:
        """See Arithmetic."""
        starts = range(0, self.model.tensors[name].rows, _ROW_CHUNK)
        # A quant times its scale is not always exact in float32; 6e-8 relative is far below any comparison.
        chunks = (self.model.values(name, slice(start, start + _ROW_CHUNK)) for start in starts)
        return np.concatenate([x @ weights.astype(np.float64).T for weights in chunks], axis=1)

    def tables(self, angles: Array, local: bool) -> tuple[Array, Array]:
        """See Arithmetic."""
        factor = self._attn_factor(local)
        return np.cos(angles) * factor, np.sin(angles) * factor

    def rope(self, x: Array, cos: Array, sin: Array) -> Array:
        """See Arithmetic."""
        rotated = 2 * cos.shape[-1]
        pairs = x[..., 0:rotated:2] + 1j * x[..., 1:rotated:2]
        turned = pairs * (cos + 1j * sin)[:, None, :]
        interleaved = np.stack([turned.real, turned.imag], axis=-1).reshape(*x.shape[:-1], rotated)
        return np.concatenate([interleaved, x[..., rotated:]], axis=-1)

    def attention(self, q: Array, k: Array, v: Array, window: int) -> Array:
        """See Arithmetic."""
        h = self.model.header
        k, v = np.repeat(k, self.group, axis=1), np.repeat(v, self.group, axis=1)
        scores = np.einsum("thd,shd->hts", q, k) * (h.attn_scale or 1 / math.sqrt(h.head_size))
        scores = self.softcap(scores, h.attn_softcap)
        age = np.arange(len(q))[:, None] - np.arange(len(q))
        hidden = (age < 0) | (age >= (window or len(q)))
        scores = np.where(hidden, -np.inf, scores)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out: Array = np.einsum("hts,shd->thd", p / p.sum(axis=-1, keepdims=True), v)
        return out

    def activation_mul(self, g: Array, u: Array) -> Array:
        """See Arithmetic."""
        if self.model.header.act == ACT_GELU:
            inner = math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)
            gelu: Array = 0.5 * g * (1 + np.tanh(inner))
            return gelu * u
        return self.silu_mul(g, u)

    def silu_mul(self, g: Array, u: Array) -> Array:
        """See Arithmetic."""
        return g * self.sigmoid(g) * u

    def softcap(self, x: Array, cap: float) -> Array:
        """See Arithmetic."""
        return cap * np.tanh(x / cap) if cap else x

    def sigmoid(self, x: Array) -> Array:
        """See Arithmetic."""
        with np.errstate(over="ignore"):
            result: Array = 1 / (1 + np.exp(-x))
        return result

    def convolve(self, x: Array, taps: Array) -> Array:
        """See Arithmetic."""
        size = taps.shape[1]
        padded = np.concatenate([np.zeros((size - 1, x.shape[1])), x])
        y: Array = np.sum([padded[j : j + len(x)] * taps[:, j] for j in range(size)], axis=0)
        return y * self.sigmoid(y)

    def decay(self, a: Array, bias: Array, a_log: Array) -> Array:
        """See Arithmetic."""
        decay: Array = np.exp(-np.exp(a_log) * np.logaddexp(0, a + bias))
        return decay

    def unit_keys(self, x: Array) -> Array:
        """See Arithmetic."""
        unit: Array = x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + L2_EPSILON)
        return unit

    def unit_queries(self, x: Array) -> Array:
        """See Arithmetic."""
        return self.unit_keys(x) / math.sqrt(x.shape[-1])

    def delta(
        self, state: Array, q: Array, k: Array, v: Array, beta: Array, decay: Array
    ) -> tuple[Array, Array]:
        """See Arithmetic."""
        state = state * decay[:, None, None]
        error = (v - np.einsum("hkv,hk->hv", state, k)) * beta[:, None]
        state = state + k[:, :, None] * error[:, None, :]
        return state, np.einsum("hkv,hk->hv", state, q)


class ExactArithmetic(Arithmetic):
    """The numerics contract, class U."""

    def __init__(self, model: Model, kv: Kv) -> None:
        super().__init__(model)
        self.kv = kv
        h = model.header
        self.attn_scale = np.float32(h.attn_scale or 1 / math.sqrt(h.head_size))

    def vector(self, name: str) -> Array:
        """See Arithmetic."""
        return self.model.values(name)

    def embed(self, ids: Sequence[int]) -> Array:
        """See Arithmetic."""
        return self._raw_rows(ids) * np.float32(self.model.header.embed_scale or 1.0)

    def norm(self, x: Array, name: str) -> Array:
        """See Arithmetic."""
        return exact.rmsnorm(x, self.vector(name), self.model.header.norm_eps)

    def linear(self, x: Array, name: str) -> Array:
        """See Arithmetic."""
        xq, xd = exact.quantize(x)
        q, d = self.model.quants(name), self.model.scales(name)
        chunks = [slice(start, start + _ROW_CHUNK) for start in range(0, len(q), _ROW_CHUNK)]
        return np.concatenate([exact.matmul(q[c], d[c], xq, xd) for c in chunks], axis=1)

    def tables(self, angles: Array, local: bool) -> tuple[Array, Array]:
        """See Arithmetic."""
        factor = self._attn_factor(local)
        # math.cos is the platform's, within an ulp; NumPy's vector versions may not be.
        cos = np.array([math.cos(a) * factor for a in angles.ravel()], np.float32)
        sin = np.array([math.sin(a) * factor for a in angles.ravel()], np.float32)
        return cos.reshape(angles.shape), sin.reshape(angles.shape)

    def rope(self, x: Array, cos: Array, sin: Array) -> Array:
        """See Arithmetic."""
        return exact.rope(x, cos[:, None], sin[:, None])

    def attention(self, q: Array, k: Array, v: Array, window: int) -> Array:
        """See Arithmetic."""
        kv_heads = k.shape[1]
        grouped = q.reshape(len(q), kv_heads, self.group, -1)
        out = np.empty_like(grouped)
        if self.kv == "q8":
            size = grouped.shape[-1] & -grouped.shape[-1]
            grouped, k = exact.rotate_heads(grouped) * np.float32(1 / size), exact.rotate_heads(k)
        k, dk = self._store(k)
        v, dv = self._store(v)
        for t in range(len(q)):
            seen = slice(max(0, t + 1 - window) if window else 0, t + 1)
            for g in range(self.group):
                scores = self._scores(grouped[t, :, g], k[seen], dk[seen]) * self.attn_scale
                scores = self.softcap(scores, self.model.header.attn_softcap)
                p = exact.softmax(np.ascontiguousarray(scores.T))
                out[t, :, g] = self._weighted_sum(p.T, v[seen], dv[seen])
        return out.reshape(q.shape)

    def _store(self, x: Array) -> tuple[Array, Array]:
        """Keys or values as the cache holds them, with a scale per position and head."""
        if self.kv == "q8":
            q, d = exact.quantize(x, x.shape[-1])
            return q, d[..., 0]
        stored = x.astype(np.float16).astype(np.float32) if self.kv == "f16" else x
        return stored, np.ones(x.shape[:2], np.float32)

    def _scores(self, q: Array, k: Array, dk: Array) -> Array:
        """Scores (positions, kv heads) of one query per KV head."""
        if self.kv != "q8":
            return exact.dot_in_order(q, k)
        quants, d = exact.quantize(q, q.shape[-1])
        return exact.integer_dot(quants, k).astype(np.float32) * (d[..., 0] * dk)

    def _weighted_sum(self, p: Array, v: Array, dv: Array) -> Array:
        y = np.zeros(v.shape[1:], np.float32)
        weights = p * dv if self.kv == "q8" else p
        for weight, row in zip(weights, v, strict=True):
            y = weight[:, None] * row.astype(np.float32) + y
        return y

    def activation_mul(self, g: Array, u: Array) -> Array:
        """See Arithmetic."""
        return exact.gelu_mul(g, u) if self.model.header.act == ACT_GELU else exact.silu_mul(g, u)

    def silu_mul(self, g: Array, u: Array) -> Array:
        """See Arithmetic."""
        return exact.silu_mul(g, u)

    def softcap(self, x: Array, cap: float) -> Array:
        """See Arithmetic."""
        return exact.softcap(x, cap) if cap else x

    def sigmoid(self, x: Array) -> Array:
        """See Arithmetic."""
        return exact.sigmoid(x)

    def convolve(self, x: Array, taps: Array) -> Array:
        """See Arithmetic."""
        size = taps.shape[1]
        padded = np.concatenate([np.zeros((size - 1, x.shape[1]), np.float32), x])
        y = np.zeros_like(x)
        for j in range(size):
            y = y + padded[j : j + len(x)] * taps[:, j]
        return exact.silu_mul(y, np.ones_like(y))

    def decay(self, a: Array, bias: Array, a_log: Array) -> Array:
        """See Arithmetic."""
        return exact.exp(-exact.exp(a_log) * exact.softplus(a + bias))

    def unit_keys(self, x: Array) -> Array:
        """See Arithmetic."""
        return self._unit(x, 1 / math.sqrt(x.shape[-1]))

    def unit_queries(self, x: Array) -> Array:
        """See Arithmetic."""
        return self._unit(x, 1 / x.shape[-1])

    def _unit(self, x: Array, weight: float) -> Array:
        """A vector's length is the square root of its size times its root mean square."""
        weights = np.full(x.shape[-1], weight, np.float32)
        return exact.rmsnorm(x, weights, L2_EPSILON / x.shape[-1])

    def delta(
        self, state: Array, q: Array, k: Array, v: Array, beta: Array, decay: Array
    ) -> tuple[Array, Array]:
        """See Arithmetic."""
        state = state * decay[:, None, None]
        error = (v - self._along_keys(state, k)) * beta[:, None]
        state = state + k[:, :, None] * error[:, None, :]
        return state, self._along_keys(state, q)

    def _along_keys(self, state: Array, x: Array) -> Array:
        y = np.zeros((len(state), state.shape[2]), np.float32)
        for i in range(state.shape[1]):
            y = y + state[:, i] * x[:, i, None]
        return y


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--ids", required=True, help="Token ids, separated by commas.")
@click.option("--mode", type=click.Choice(["float", "exact"]), default="float", show_default=True)
@click.option("--kv", type=click.Choice(["f32", "f16", "q8"]), default="f32", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write the logits to this .npy file.")
def main(model: Path, ids: str, mode: Mode, kv: Kv, out: Path | None) -> None:
    """Print the five best next tokens at every position."""
    try:
        tokens = [int(part) for part in ids.split(",")]
        logits = forward(Model(model), tokens, mode, kv)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    except KraflaError as error:
        raise SystemExit(_report(error)) from error
    if out:
        np.save(out, logits)
    for row in logits:
        best = np.argsort(-row, kind="stable")[:5]
        print("  ".join(f"{i}:{row[i]:.4f}" for i in best))


def _report(error: KraflaError) -> int:
    click.echo(f"ref_forward: {error}", err=True)
    return error.exit_code


if __name__ == "__main__":
    main()
