"""Dot strategies of ARM: NEON with and without a dot product, matrix multiply, and SVE."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krafla.codegen.dots import BLOCK, IntArray, Kind, wrap


class _NeonDot:
    """What the packed NEON strategies share: groups of four rows, one step in one register."""

    group: int = 4
    step: int = 4
    steps_per_mac: int = 1
    tokens_per_sum: int = 1
    q8_offset: int = 0
    q4_offset: int = 0
    x_bytes: int = BLOCK

    def x_prepare(self, to: str, source: str) -> str:
        """The bytes as they are."""
        return f"memcpy({to}, {source}, {self.step * self.steps_per_mac});"

    def _exact(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Signed products; a stored nibble n ^ 8 is the signed value n - 8."""
        if kind == "q8":
            return wrap(w, 8) @ wrap(x, 8)
        return (w - 8) @ wrap(x, 8)


@dataclass(frozen=True)
class NeonMull(_NeonDot):
    """NEON without a dot product: widening multiplies and pairwise sums."""

    q4_xor: int = 0
    note: str = (
        "No dot product: vmull_s8 gives 16-bit products of two rows at a time, vpadalq_s16 adds pairs of them to 32"
        " bits. Q4 products (at most 8 * 127, eight of them a lane) are added in 16 bits over the whole block."
    )

    def consts(self, kind: Kind) -> str:
        """Nothing for Q8; the nibbles' bias for Q4."""
        return "" if kind == "q8" else "const int8x16_t eight = vdupq_n_s8(8);"

    def sum_type(self, kind: Kind) -> str:
        """Two registers: rows 0 and 1, rows 2 and 3."""
        return "int32x4x2_t" if kind == "q8" else "int16x8x2_t"

    def start(self, kind: Kind, correction: str) -> str:
        """Zeros."""
        zero = "vdupq_n_s32(0)" if kind == "q8" else "vdupq_n_s16(0)"
        return f"{{{{{zero}, {zero}}}}}"

    def w_load(self, kind: Kind, p: str) -> str:
        """Signed bytes."""
        if kind == "q8":
            return f"const int8x16_t w0 = vld1q_s8((const int8_t *)({p}));"
        return (
            f"const uint8x16_t packed = vld1q_u8({p});\n"
            "const int8x16_t w0 = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(packed, vdupq_n_u8(0x0f))), eight);"
            " /* elements 0 to 15 of the block */\n"
            "const int8x16_t w1 = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(packed, 4)), eight); /* 16 to 31 */"
        )

    def x_load(self, kind: Kind, half: int, tokens: int, x: str) -> str:
        """Each token's four activations, twice."""
        return "\n".join(
            f"const int8x8_t x{half}_{t} = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32({x} + {4 * t})));"
            for t in range(tokens)
        )

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """Both halves of the step."""
        parts = []
        for side, half_of in ((0, "low"), (1, "high")):
            w, to = f"vget_{half_of}_s8(w{half})", f"{isum}.val[{side}]"
            if kind == "q8":
                parts.append(f"{to} = vpadalq_s16({to}, vmull_s8({w}, x{half}_{token}));")
            else:
                parts.append(f"{to} = vmlal_s8({to}, {w}, x{half}_{token});")
        return "\n".join(parts)

    def finish(self, kind: Kind, isum: str, token: int, correction: str) -> str:
        """Pairs of lanes to rows."""
        first, second = (f"{isum}.val[{side}]" for side in (0, 1))
        if kind == "q4":
            first, second = f"vpaddlq_s16({first})", f"vpaddlq_s16({second})"
        return f"ml_rows_neon({first}, {second})"

    def to_f32(self, kind: Kind, isum: str) -> str:
        """Exact."""
        return f"vcvtq_f32_s32({isum})"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """16-bit products never wrap; Q4 lanes add eight of them."""
        if kind == "q8":
            return self._exact(kind, w, x)
        products = wrap((w - 8) * x, 16).reshape(len(w), 8, 4)
        total: IntArray = wrap(products.sum(axis=1), 16).sum(axis=1)
        return total


@dataclass(frozen=True)
class Sdot(_NeonDot):
    """sdot: four signed byte products added to an int32 lane."""

    q4_xor: int = 0x88
    note: str = (
        "sdot takes signed bytes. Q4 bytes are stored XOR 0x88, so that a nibble reads as the signed value q - 8:"
        " shifted left by 4 (low) or masked (high) it is 16 (q - 8) as a signed byte, and the conversion to float"
        " divides the block's sum by 16 exactly. Nothing has to be corrected."
    )

    def consts(self, kind: Kind) -> str:
        """The mask of high nibbles."""
        return "" if kind == "q8" else "const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);"

    def sum_type(self, kind: Kind) -> str:
        """One lane per row."""
        return "int32x4_t"

    def start(self, kind: Kind, correction: str) -> str:
        """Zero."""
        return "vdupq_n_s32(0)"

    def w_load(self, kind: Kind, p: str) -> str:
        """Signed bytes, for Q4 16 times the weight."""
        if kind == "q8":
            return f"const int8x16_t w0 = vld1q_s8((const int8_t *)({p}));"
        return (
            f"const int8x16_t packed = vld1q_s8((const int8_t *)({p}));\n"
            "const int8x16_t w0 = vshlq_n_s8(packed, 4); /* elements 0 to 15 of the block */\n"
            "const int8x16_t w1 = vandq_s8(packed, high_nibbles); /* 16 to 31 */"
        )

    def x_load(self, kind: Kind, half: int, tokens: int, x: str) -> str:
        """Four tokens in one register where there are as many."""
        if tokens % 4:
            return "\n".join(
                f"const int8x16_t x{half}_{t} = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32({x} + {4 * t})));"
                for t in range(tokens)
            )
        return "\n".join(
            f"const int8x16_t x{half}_{t} = vld1q_s8({x} + {16 * t});" for t in range(tokens // 4)
        )

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """One instruction, with one of four tokens' activations as a lane of its operand."""
        if tokens % 4:
            return f"{isum} = vdotq_s32({isum}, w{half}, x{half}_{token});"
        return f"{isum} = vdotq_laneq_s32({isum}, w{half}, x{half}_{token // 4}, {token % 4});"

    def finish(self, kind: Kind, isum: str, token: int, correction: str) -> str:
        """Nothing left to do."""
        return isum

    def to_f32(self, kind: Kind, isum: str) -> str:
        """Q4 sums carry a factor of 16."""
        return f"vcvtq_f32_s32({isum})" if kind == "q8" else f"vcvtq_n_f32_s32({isum}, 4)"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Exact sums; Q4 goes through 16 (q - 8) as a signed byte."""
        if kind == "q8":
            return self._exact(kind, w, x)
        return (wrap((w ^ 8) << 4, 8) @ wrap(x, 8)) >> 4


@dataclass(frozen=True)
class Smmla(_NeonDot):
    """smmla: two rows by two tokens, eight products each; the packed layout is sdot's."""

    steps_per_mac: int = 2
    tokens_per_sum: int = 2
    q4_xor: int = 0x88
    note: str = (
        "smmla multiplies two rows of eight bytes by two tokens' eight bytes. Zipping the 32-bit lanes of two"
        " consecutive sdot steps gives exactly its operands, so the packed layout is unchanged."
    )

    def consts(self, kind: Kind) -> str:
        """The mask of high nibbles."""
        return "" if kind == "q8" else "const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);"

    def sum_type(self, kind: Kind) -> str:
        """Rows 0 and 1, rows 2 and 3; each by two tokens."""
        return "int32x4x2_t"

    def start(self, kind: Kind, correction: str) -> str:
        """Zeros."""
        return "{{vdupq_n_s32(0), vdupq_n_s32(0)}}"

    def w_load(self, kind: Kind, p: str) -> str:
        """Two steps, zipped to rows of eight bytes."""
        if kind == "q8":
            return f"const int8x16x2_t w0 = ml_zip_steps_neon({_step(p, 0)}, {_step(p, 16)});"
        low = ", ".join(f"vshlq_n_s8(packed{k}, 4)" for k in (0, 1))
        high = ", ".join(f"vandq_s8(packed{k}, high_nibbles)" for k in (0, 1))
        return (
            f"const int8x16_t packed0 = {_step(p, 0)};\nconst int8x16_t packed1 = {_step(p, 16)};\n"
            f"const int8x16x2_t w0 = ml_zip_steps_neon({low}); /* elements 0 to 15 of the block */\n"
            f"const int8x16x2_t w1 = ml_zip_steps_neon({high}); /* 16 to 31 */"
        )

    def x_load(self, kind: Kind, half: int, tokens: int, x: str) -> str:
        """Two tokens in one register."""
        return "\n".join(
            f"const int8x16_t x{half}_{t} = vld1q_s8({x} + {8 * t});" for t in range(0, tokens, 2)
        )

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """Both pairs of rows."""
        return "\n".join(
            f"{isum}.val[{side}] = vmmlaq_s32({isum}.val[{side}], w{half}.val[{side}], x{half}_{token});"
            for side in (0, 1)
        )

    def finish(self, kind: Kind, isum: str, token: int, correction: str) -> str:
        """The four rows of one of the two tokens."""
        return f"vuzp{token + 1}q_s32({isum}.val[0], {isum}.val[1])"

    def to_f32(self, kind: Kind, isum: str) -> str:
        """Q4 sums carry a factor of 16."""
        return f"vcvtq_f32_s32({isum})" if kind == "q8" else f"vcvtq_n_f32_s32({isum}, 4)"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Exact sums; Q4 goes through 16 (q - 8) as a signed byte."""
        if kind == "q8":
            return self._exact(kind, w, x)
        return (wrap((w ^ 8) << 4, 8) @ wrap(x, 8)) >> 4


def _step(p: str, offset: int) -> str:
    return f"vld1q_s8((const int8_t *)({p}){f' + {offset}' if offset else ''})"


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
