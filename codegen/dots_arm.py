"""Dot strategies of ARM: NEON with and without a dot product, matrix multiply, and SVE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from krafla.codegen.dots import BLOCK, IntArray, Kind, wrap


class _NeonDot:
    """What the packed NEON strategies share: groups of four rows, one step in one register."""

    group: int = 4
    step: int = 4
    steps_per_mac: int = 1
    q8_offset: int = 0
    q4_offset: int = 0
    x_bytes: int = BLOCK

    def x_prepare(self, to: str, source: str) -> str:
        """The bytes as they are."""
        return f"memcpy({to}, {source}, {self.step * self.steps_per_mac});"

    def w_scales(self, group: int, load: str) -> str:
        """A lane per row."""
        return f"const float32x4_t w_scale{group} = {load};"

    def x_scales(self, tokens: int, p: str) -> str:
        """Two tokens in a register, or one in a scalar."""
        if tokens % 2:
            return "\n".join(f"const float x_scale{t} = {p}[{t}];" for t in range(tokens))
        return "\n".join(
            f"const float32x2_t x_scale{t} = vld1_f32({_at(p, t)});" for t in range(0, tokens, 2)
        )

    def scale(self, group: int, i: int, tokens: int) -> str:
        """Rows times one token."""
        if tokens % 2:
            return f"vmulq_n_f32(w_scale{group}, x_scale{i})"
        return f"vmulq_lane_f32(w_scale{group}, x_scale{i - i % 2}, {i % 2})"

    def rows(self, group: int, token: int) -> str:
        """A vector holds the rows of a token."""
        return f"sum{group}_{token}"

    def _exact(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Signed products; a stored nibble n ^ 8 is the signed value n - 8."""
        if kind == "q8":
            return wrap(w, 8) @ wrap(x, 8)
        return (w - 8) @ wrap(x, 8)


def _at(p: str, offset: int) -> str:
    return f"{p} + {offset}" if offset else p


class _Mull(_NeonDot):
    """What the strategies of NEON without a dot product share: widening multiplies and pairwise sums.

    A block sum is two registers, rows 0 and 1 and rows 2 and 3, with four lanes (Q4: of 16 bits) or two a row.
    """

    q4_offset: int = 2
    q4_xor: int = 0

    def consts(self, kind: Kind) -> str:
        """Nothing for Q8; the mask of low nibbles for Q4."""
        return "" if kind == "q8" else "const uint8x16_t low_nibbles = vdupq_n_u8(0x0f);"

    def begin(self, kind: Kind, groups: int, corrections: Sequence[str], long: bool = False) -> str:
        """Zeros, or the correction."""
        lines = []
        for i, correction in enumerate(corrections):
            zero = "int32x4_t {} = vdupq_n_s32(0);"
            quarter = f"int16x8_t {{}} = vdupq_n_s16((int16_t){correction});"
            lines += [
                (zero if kind == "q8" else quarter).format(f"isum{group}_{i}_{side}")
                for group in range(groups)
                for side in (0, 1)
            ]
        return "\n".join(lines)

    def to_f32(self, kind: Kind, isum: str, long: bool = False) -> str:
        """Pairs of lanes to rows, then exact."""
        first, second = f"{isum}_0", f"{isum}_1"
        if kind == "q4":
            first, second = f"vpaddlq_s16({first})", f"vpaddlq_s16({second})"
        return f"vcvtq_f32_s32(ml_rows_neon({first}, {second}))"

    def _add(self, kind: Kind, isum: str, products: Sequence[tuple[str, str]]) -> str:
        """Two vectors of products, in 16 bits first."""
        first, second = (", ".join(pair) for pair in products)
        if kind == "q8":
            return f"{isum} = vpadalq_s16({isum}, vmlal_s8(vmull_s8({first}), {second}));"
        return f"{isum} = vmlal_s8(vmlal_s8({isum}, {first}), {second});"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Pairs of products, or eight of a nibble, wrap at 16 bits."""
        if kind == "q8":
            pairs = wrap((wrap(w, 8) * x).reshape(len(w), 4, 2, 4).sum(axis=2), 16)
            exact: IntArray = pairs.sum(axis=(1, 2))
            return exact
        lanes = wrap((w * x).reshape(len(w), 8, 4).sum(axis=1) - 2 * int(x.sum()), 16)
        total: IntArray = lanes.sum(axis=1)
        return total


_HALF = ("vget_low_s8", "vget_high_s8")


@dataclass(frozen=True)
class Mull(_Mull):
    """NEON without a dot product, for one token."""

    x_bytes: int = 4 * BLOCK
    note: str = (
        "No dot product: vmull_s8 and vmlal_s8 add two steps' products of two rows in 16 bits (at most 2 * 128 * 127),"
        " vpadalq_s16 adds pairs of those to 32 bits. Q4 products (nibbles of 0 to 15, eight of them a lane) stay in"
        " 16 bits over the whole block; each of a row's four lanes starts with a quarter of -8 * sum(x). tile_q8"
        " writes every four activations four times, to meet four rows in the same halves of registers."
    )

    def block(self, kind: Kind, w: Sequence[str], x: Sequence[str], tokens: int) -> str:
        """Two steps at a time; for Q4 those of the low and the high nibbles."""
        lines: list[str] = []
        for first in range(4):
            steps = (2 * first, 2 * first + 1) if kind == "q8" else (first, first + 4)
            for group, p in enumerate(w):
                lines += self._weights(kind, group, p, steps)
            for stream, p in enumerate(x):
                for step in steps:
                    for token in range(tokens):
                        at = _at(p, 16 * (step * tokens + token))
                        lines.append(f"const int8x16_t x{stream * tokens + token}_{step} = vld1q_s8({at});")
            for group in range(len(w)):
                for i in range(len(x) * tokens):
                    for side, half in enumerate(_HALF):
                        products = [(f"{half}(w{group}_{step})", f"{half}(x{i}_{step})") for step in steps]
                        lines.append(self._add(kind, f"isum{group}_{i}_{side}", products))
        return "\n".join(lines)

    def _weights(self, kind: Kind, group: int, p: str, steps: tuple[int, int]) -> list[str]:
        if kind == "q8":
            return [f"const int8x16_t w{group}_{step} = {_step(p, 16 * step)};" for step in steps]
        packed = f"packed{group}_{steps[0]}"
        low, high = f"vandq_u8({packed}, low_nibbles)", f"vshrq_n_u8({packed}, 4)"
        return [
            f"const uint8x16_t {packed} = vld1q_u8({_at(p, 16 * steps[0])});",
            f"const int8x16_t w{group}_{steps[0]} = vreinterpretq_s8_u8({low});",
            f"const int8x16_t w{group}_{steps[1]} = vreinterpretq_s8_u8({high});",
        ]

    def x_prepare(self, to: str, source: str) -> str:
        """Four bytes, four times."""
        return f"vst1q_s8({to}, vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32({source}))));"


@dataclass(frozen=True)
class MullPairs(_Mull):
    """NEON without a dot product, for several tokens; the packed layout is Mull's."""

    x_bytes: int = 2 * BLOCK
    steps_per_mac: int = 2
    note: str = (
        "Several tokens share the halves of two consecutive steps, exchanged once so that a register holds the same"
        " two rows of both. Activations are then needed only twice, and half as much of them is read."
    )

    def block(self, kind: Kind, w: Sequence[str], x: Sequence[str], tokens: int) -> str:
        """Two steps at a time."""
        lines: list[str] = []
        for pair in range(4) if kind == "q8" else (0, 2, 1, 3):
            for group, p in enumerate(w):
                lines += self._weights(kind, group, p, pair)
            for stream, p in enumerate(x):
                for token in range(tokens):
                    at = _at(p, 16 * (pair * tokens + token))
                    lines.append(f"const int8x16_t x{stream * tokens + token}_{pair} = vld1q_s8({at});")
            for i in range(len(x) * tokens):
                for group in range(len(w)):
                    for side in (0, 1):
                        rows = f"w{group}_{pair}.val[{side}]"
                        products = [(f"{half}({rows})", f"{half}(x{i}_{pair})") for half in _HALF]
                        lines.append(self._add(kind, f"isum{group}_{i}_{side}", products))
        return "\n".join(lines)

    def _weights(self, kind: Kind, group: int, p: str, pair: int) -> list[str]:
        name = f"const int8x16x2_t w{group}_{pair}"
        if kind == "q8":
            return [f"{name} = ml_load_halves_neon({_at(p, 32 * pair)});"]
        packed = f"packed{group}_{pair % 2}"
        sides = [f"vreinterpretq_u8_s8({packed}.val[{side}])" for side in (0, 1)]
        if pair >= 2:
            high = ", ".join(f"vreinterpretq_s8_u8(vshrq_n_u8({side}, 4))" for side in sides)
            return [f"{name} = {{{{{high}}}}};"]
        low = ", ".join(f"vreinterpretq_s8_u8(vandq_u8({side}, low_nibbles))" for side in sides)
        load = f"const int8x16x2_t {packed} = ml_load_halves_neon({_at(p, 32 * pair)});"
        return [load, f"{name} = {{{{{low}}}}};"]

    def x_prepare(self, to: str, source: str) -> str:
        """Two times four bytes, each twice."""
        return f"ml_store_twice_neon({to}, {source});"


class _SignedBytes(_NeonDot):
    """What sdot and smmla share: 32-bit sums that need neither zeros nor a conversion."""

    q4_xor: int = 0x88

    def consts(self, kind: Kind) -> str:
        """The mask of high nibbles."""
        return "" if kind == "q8" else "const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);"

    def begin(self, kind: Kind, groups: int, corrections: Sequence[str], long: bool = False) -> str:
        """The bits of the bias, or zeros."""
        start = "vdupq_n_s32(0)" if long else "vreinterpretq_s32_f32(bias)"
        sums = [
            f"int32x4_t isum{group}_{i} = {start};"
            for group in range(groups)
            for i in range(len(corrections))
        ]
        return "\n".join(sums if long else [self._bias(kind), *sums])

    def _bias(self, kind: Kind) -> str:
        return f"const float32x4_t bias = vdupq_n_f32({_bias(kind)});"

    def to_f32(self, kind: Kind, isum: str, long: bool = False) -> str:
        """The sum is in the mantissa; Q4 sums carry a factor of 16, and so does the bias."""
        return f"vcvtq_f32_s32({isum})" if long else f"vsubq_f32(vreinterpretq_f32_s32({isum}), bias)"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Exact sums; Q4 goes through 16 (q - 8) as a signed byte."""
        if kind == "q8":
            return self._exact(kind, w, x)
        return (wrap((w ^ 8) << 4, 8) @ wrap(x, 8)) >> 4


def _bias(kind: Kind) -> str:
    """1.5 times what makes the lowest bit of a float's mantissa 1, or 1/16."""
    return "0x1.8p23f" if kind == "q8" else "0x1.8p19f"


_SIGNED_BYTES = (
    " Q4 bytes are stored XOR 0x88, so that a nibble reads as the signed value q - 8: shifted left by 4 (low) or"
    " masked (high) it is 16 (q - 8) as a signed byte. Sums start from the bits of 1.5 * 2^23 (Q4: 2^19): as floats"
    " they are then that bias plus the sum (over 16), and subtracting it is exact and takes less than a conversion."
    " Nothing has to be corrected."
)


@dataclass(frozen=True)
class Sdot(_SignedBytes):
    """sdot: four signed byte products added to an int32 lane."""

    note: str = (
        "sdot takes signed bytes, and one of four tokens' or steps' activations as a lane." + _SIGNED_BYTES
    )

    def block(self, kind: Kind, w: Sequence[str], x: Sequence[str], tokens: int) -> str:
        """Step by step. A register of activations holds four (step, token) pairs, tokens first."""
        lines: list[str] = []
        loaded: set[str] = set()
        for step in range(8) if kind == "q8" else (0, 4, 1, 5, 2, 6, 3, 7):
            for group, p in enumerate(w):
                lines += self._weights(kind, group, p, step)
            for stream, p in enumerate(x):
                for token in range(tokens):
                    register, lane = divmod(step * tokens + token, 4)
                    name = f"x{stream}_{register}"
                    if name not in loaded:
                        loaded.add(name)
                        lines.append(f"const int8x16_t {name} = vld1q_s8({_at(p, 16 * register)});")
                    for group in range(len(w)):
                        isum = f"isum{group}_{stream * tokens + token}"
                        lines.append(f"{isum} = vdotq_laneq_s32({isum}, w{group}_{step}, {name}, {lane});")
        return "\n".join(lines)

    def _weights(self, kind: Kind, group: int, p: str, step: int) -> list[str]:
        """Signed bytes, for Q4 16 times the weight."""
        name = f"const int8x16_t w{group}_{step}"
        if kind == "q8":
            return [f"{name} = {_step(p, 16 * step)};"]
        packed = f"packed{group}_{step % 4}"
        if step >= 4:
            return [f"{name} = vandq_s8({packed}, high_nibbles);"]
        return [f"const int8x16_t {packed} = {_step(p, 16 * step)};", f"{name} = vshlq_n_s8({packed}, 4);"]


@dataclass(frozen=True)
class Smmla(_SignedBytes):
    """smmla: two rows by two tokens, eight products each; the packed layout is sdot's."""

    steps_per_mac: int = 2
    note: str = (
        "smmla multiplies two rows of eight bytes by two tokens' eight bytes. Zipping the 32-bit lanes of two"
        " consecutive sdot steps gives exactly its operands, so the packed layout is unchanged. Sums stay two rows by"
        " two tokens in floats, too, until the last block. The bias is loaded, not copied: the vector units have no"
        " time left." + _SIGNED_BYTES
    )

    def consts(self, kind: Kind) -> str:
        """A bias for each sum, too."""
        return (
            f"{super().consts(kind)}\nfloat biases[4 * ML_TILE_TOKENS];\n"
            f"for (int i = 0; i < 4 * ML_TILE_TOKENS; i++)\nbiases[i] = {_bias(kind)};"
        )

    def begin(self, kind: Kind, groups: int, corrections: Sequence[str], long: bool = False) -> str:
        """The bits of the bias, from memory."""
        assert not long
        loads = (
            f"int32x4_t isum{group}_{i} = vreinterpretq_s32_f32(vld1q_f32({_at('loaded', 4 * i)}));"
            for group in range(groups)
            for i in range(len(corrections))
        )
        return "\n".join([self._bias(kind), "const float *loaded = ml_opaque_neon(biases);", *loads])

    def block(self, kind: Kind, w: Sequence[str], x: Sequence[str], tokens: int) -> str:
        """Two steps at a time: rows of eight bytes, pairs of tokens."""
        lines: list[str] = []
        for pair in range(4) if kind == "q8" else (0, 2, 1, 3):
            for group, p in enumerate(w):
                lines += self._weights(kind, group, p, pair)
            for stream, p in enumerate(x):
                for token in range(0, tokens, 2):
                    i = stream * tokens + token
                    at = _at(p, 8 * (pair * tokens + token))
                    lines.append(f"const int8x16_t x{i}_{pair} = vld1q_s8({at});")
                    for group in range(len(w)):
                        for side in (0, 1):
                            isum = f"isum{group}_{i + side}"
                            rows = f"w{group}_{pair}.val[{side}]"
                            lines.append(f"{isum} = vmmlaq_s32({isum}, {rows}, x{i}_{pair});")
        return "\n".join(lines)

    def _weights(self, kind: Kind, group: int, p: str, pair: int) -> list[str]:
        """Two steps, zipped to rows of eight bytes."""
        name = f"const int8x16x2_t w{group}_{pair}"
        at = [_step(p, 32 * (pair % 2 if kind == "q4" else pair) + 16 * k) for k in (0, 1)]
        if kind == "q8":
            return [f"{name} = ml_zip_steps_neon({at[0]}, {at[1]});"]
        packed = [f"packed{group}_{2 * (pair % 2) + k}" for k in (0, 1)]
        if pair >= 2:
            high = ", ".join(f"vandq_s8({p}, high_nibbles)" for p in packed)
            return [f"{name} = ml_zip_steps_neon({high});"]
        low = ", ".join(f"vshlq_n_s8({p}, 4)" for p in packed)
        loads = [f"const int8x16_t {p} = {load};" for p, load in zip(packed, at, strict=True)]
        return [*loads, f"{name} = ml_zip_steps_neon({low});"]

    def w_scales(self, group: int, load: str) -> str:
        """Each row's scale twice: rows 0 and 1, rows 2 and 3."""
        return (
            f"const float32x4_t w_scale{group} = {load};\n"
            f"const float32x4x2_t w_scales{group} = vzipq_f32(w_scale{group}, w_scale{group});"
        )

    def x_scales(self, tokens: int, p: str) -> str:
        """The scales of two tokens, twice."""
        return "\n".join(
            f"const float32x4_t x_scales{t} = ml_pair_neon({_at(p, t)});" for t in range(0, tokens, 2)
        )

    def scale(self, group: int, i: int, tokens: int) -> str:
        """Two rows by two tokens."""
        return f"vmulq_f32(w_scales{group}.val[{i % 2}], x_scales{i - i % 2})"

    def rows(self, group: int, token: int) -> str:
        """Every second lane of both pairs of rows."""
        first = token - token % 2
        return f"vuzp{token % 2 + 1}q_f32(sum{group}_{first}, sum{group}_{first + 1})"


def _step(p: str, offset: int) -> str:
    return f"vld1q_s8((const int8_t *)({_at(p, offset)}))"


@dataclass(frozen=True)
class NeonRow:
    """Row-major blocks in two registers; `mac` is the C function that adds sixteen products to four lanes."""

    mac: str
    note: str
    q4_offset: int = 0

    def consts(self, kind: Kind) -> str:
        """None."""
        return ""

    def x_load(self, kind: Kind, p: str) -> str:
        """All 32 activations."""
        return f"const int8x16_t x0 = vld1q_s8({p});\nconst int8x16_t x1 = vld1q_s8({p} + 16);"

    def block(self, kind: Kind, w: str) -> str:
        """Two multiplications, then a horizontal sum."""
        if kind == "q8":
            w0, w1 = f"vld1q_s8({w})", f"vld1q_s8({w} + 16)"
        else:
            w0, w1 = f"ml_low_nibbles_neon({w})", f"ml_high_nibbles_neon({w})"
        return f"ml_sum_i32_neon({self.mac}({self.mac}(vdupq_n_s32(0), {w0}, x0), {w1}, x1))"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Two 16-bit products are added before they are widened."""
        signed = wrap(w, 8) if kind == "q8" else w - 8
        products = wrap(signed * x, 16)
        pairs = wrap(products.reshape(len(w), 2, 2, 8).sum(axis=2), 16)
        total: IntArray = pairs.sum(axis=(1, 2))
        return total


@dataclass(frozen=True)
class SveRow:
    """svdot over predicated blocks, whatever the vector length."""

    q4_offset: int = 0
    note: str = (
        "svdot under a predicate of one block: a vector may be shorter than 32 bytes (two turns) or longer (the rest"
        " idles). Nibbles become signed bytes, nibble - 8."
    )

    def consts(self, kind: Kind) -> str:
        """None."""
        return ""

    def x_load(self, kind: Kind, p: str) -> str:
        """The pointer itself."""
        return f"const int8_t *xb = {p};"

    def block(self, kind: Kind, w: str) -> str:
        """One block."""
        return f"ml_dot32_sve({w}, xb)" if kind == "q8" else f"ml_dot32_q4_sve({w}, xb)"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Exact."""
        signed = wrap(w, 8) if kind == "q8" else w - 8
        return np.asarray(signed @ wrap(x, 8))
