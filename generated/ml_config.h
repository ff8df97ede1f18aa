/* Written by krafla-gen from isa_specs/; do not edit. */

/*
 * Compile with -DML_ISA_<NAME>. The block of that ISA binds each ml_k_<op> to the kernel that serves it, and
 * gives the constants of its packed layout. A hand-written kernel takes an op's place when its name is
 * defined beforehand: -Dml_k_add=ml_k_add_mine, with a prototype through -include.
 */
#ifndef ML_CONFIG_H
#define ML_CONFIG_H

#include "core/ml.h"

#if defined(ML_ISA_SCALAR)
/* Plain C for any machine; what every other ISA is compared with. */
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "scalar"
#define ML_ISA_REQUIRES(X)
#ifndef ML_FUSED
#define ML_FUSED 0
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_scalar
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_scalar
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_scalar
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_scalar
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_scalar
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_scalar
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_scalar
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_scalar
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_scalar
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_scalar
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_scalar
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_scalar
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_scalar
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_scalar
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_scalar
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_scalar
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_scalar
#endif

#elif defined(ML_ISA_NEON)
/* Every AArch64 CPU, and ARMv7 ones with NEON. */
#include "neon/k_neon.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "neon"
#define ML_ISA_REQUIRES(X) X(NEON)
#ifndef ML_FUSED
#if (defined(__aarch64__))
#define ML_FUSED 1
#else
#define ML_FUSED 0
#endif
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 4
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 0
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 0
#define ML_TILE_TOKENS 4
#define ML_TILE_X_BYTES 128
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 0
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 0
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_neon
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_neon
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_neon
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_neon
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_neon
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_neon
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_neon
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_neon
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_neon
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_neon
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_neon
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_neon
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_neon
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_neon
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_neon
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_neon
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_neon
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_neon
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_neon
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_neon
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_neon
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_neon
#endif

#elif defined(ML_ISA_RVV)
/* SpacemiT K1 (2024) and other RVA22 and RVA23 cores with vectors. */
#include "rvv/k_rvv.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "rvv"
#define ML_ISA_REQUIRES(X) X(RVV)
#ifndef ML_FUSED
#define ML_FUSED 1
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 16
#define ML_PACK_STEP 1
#define ML_PACK_Q8_OFFSET 0
#define ML_PACK_Q4_XOR 0x88
#define ML_PACK_F16_SCALES 1
#define ML_TILE_TOKENS 2
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 0
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 0
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_rvv
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_rvv
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_rvv
#endif
#ifndef ml_k_matvec_q8_pk_f16
#define ml_k_matvec_q8_pk_f16 ml_k_matvec_q8_pk_f16_rvv
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_rvv
#endif
#ifndef ml_k_matvec_q4_pk_f16
#define ml_k_matvec_q4_pk_f16 ml_k_matvec_q4_pk_f16_rvv
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_rvv
#endif
#ifndef ml_k_matmul_q8_pk_f16
#define ml_k_matmul_q8_pk_f16 ml_k_matmul_q8_pk_f16_rvv
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_rvv
#endif
#ifndef ml_k_matmul_q4_pk_f16
#define ml_k_matmul_q4_pk_f16 ml_k_matmul_q4_pk_f16_rvv
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_rvv
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_rvv
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_rvv
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_rvv
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_rvv
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_rvv
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_rvv
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_rvv
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_rvv
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_rvv
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_rvv
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_rvv
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_rvv
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_rvv
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_rvv
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_rvv
#endif

#elif defined(ML_ISA_SSE2)
/* Every x86-64 CPU, and 32-bit ones since the Pentium 4. */
#include "sse2/k_sse2.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "sse2"
#define ML_ISA_REQUIRES(X) X(SSE2)
#ifndef ML_FUSED
#define ML_FUSED 0
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 4
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 128
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 0
#define ML_TILE_TOKENS 4
#define ML_TILE_X_BYTES 256
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 8192
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 1
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_sse2
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_sse2
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_sse2
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_sse2
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_sse2
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_sse2
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_sse2
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_sse2
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_sse2
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_sse2
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_sse2
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_sse2
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_sse2
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_sse2
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_sse2
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_sse2
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_sse2
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_sse2
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_sse2
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_sse2
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_sse2
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_sse2
#endif

#elif defined(ML_ISA_WASM_SIMD128)
/* Browsers and runtimes since 2021. */
#include "wasm_simd128/k_wasm_simd128.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "wasm_simd128"
#define ML_ISA_REQUIRES(X) X(SIMD128)
#ifndef ML_FUSED
#define ML_FUSED 0
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 4
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 128
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 0
#define ML_TILE_TOKENS 4
#define ML_TILE_X_BYTES 256
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 0
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 0
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_wasm_simd128
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_wasm_simd128
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_wasm_simd128
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_wasm_simd128
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_wasm_simd128
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_wasm_simd128
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_wasm_simd128
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_wasm_simd128
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_wasm_simd128
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_wasm_simd128
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_wasm_simd128
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_wasm_simd128
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_wasm_simd128
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_wasm_simd128
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_wasm_simd128
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_wasm_simd128
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_wasm_simd128
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_wasm_simd128
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_wasm_simd128
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_wasm_simd128
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_wasm_simd128
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_wasm_simd128
#endif

#elif defined(ML_ISA_NEON_DOTPROD)
/* Cortex-A55 and A75 (2017) and later, Neoverse N1, Apple since A13. */
#include "neon_dotprod/k_neon_dotprod.h"
#include "neon/k_neon.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "neon_dotprod"
#define ML_ISA_REQUIRES(X) X(NEON) X(DOTPROD)
#ifndef ML_FUSED
#define ML_FUSED 1
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 4
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 0
#define ML_PACK_Q4_XOR 0x88
#define ML_PACK_F16_SCALES 1
#define ML_TILE_TOKENS 8
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 0
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 0
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_neon_dotprod
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_neon_dotprod
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_neon_dotprod
#endif
#ifndef ml_k_matvec_q8_pk_f16
#define ml_k_matvec_q8_pk_f16 ml_k_matvec_q8_pk_f16_neon_dotprod
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_neon_dotprod
#endif
#ifndef ml_k_matvec_q4_pk_f16
#define ml_k_matvec_q4_pk_f16 ml_k_matvec_q4_pk_f16_neon_dotprod
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_neon_dotprod
#endif
#ifndef ml_k_matmul_q8_pk_f16
#define ml_k_matmul_q8_pk_f16 ml_k_matmul_q8_pk_f16_neon_dotprod
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_neon_dotprod
#endif
#ifndef ml_k_matmul_q4_pk_f16
#define ml_k_matmul_q4_pk_f16 ml_k_matmul_q4_pk_f16_neon_dotprod
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_neon_dotprod
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_neon
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_neon
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_neon
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_neon
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_neon
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_neon
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_neon
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_neon
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_neon
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_neon
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_neon
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_neon_dotprod
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_neon
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_neon
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_neon
#endif

#elif defined(ML_ISA_SSE41)
/* Intel since Penryn (2008), AMD since Bulldozer and Jaguar (2011). */
#include "sse41/k_sse41.h"
#include "sse2/k_sse2.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "sse41"
#define ML_ISA_REQUIRES(X) X(SSE2) X(SSSE3) X(SSE41)
#ifndef ML_FUSED
#define ML_FUSED 0
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 4
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 0
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 0
#define ML_TILE_TOKENS 4
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 8192
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 1
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_sse41
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_sse41
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_sse41
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_sse41
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_sse41
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_sse41
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_sse41
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_sse2
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_sse2
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_sse2
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_sse2
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_sse2
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_sse2
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_sse2
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_sse2
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_sse2
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_sse2
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_sse2
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_sse41
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_sse2
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_sse2
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_sse2
#endif

#elif defined(ML_ISA_AVX)
/* Intel Sandy Bridge and Ivy Bridge (2011), AMD Bulldozer and Jaguar. */
#include "avx/k_avx.h"
#include "sse41/k_sse41.h"
#include "sse2/k_sse2.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "avx"
#define ML_ISA_REQUIRES(X) X(SSE2) X(SSSE3) X(SSE41) X(AVX)
#ifndef ML_FUSED
#define ML_FUSED 0
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 4
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 0
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 0
#define ML_TILE_TOKENS 4
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 8192
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 1
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_sse41
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_sse41
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_sse41
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_sse41
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_sse41
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_sse41
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_sse41
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_avx
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_avx
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_avx
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_avx
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_avx
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_avx
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_avx
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_avx
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_avx
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_avx
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_avx
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_avx
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_avx
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_avx
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_avx
#endif

#elif defined(ML_ISA_AVX2)
/* Intel since Haswell (2013), AMD since Zen (2017). */
#include "avx2/k_avx2.h"
#include "sse41/k_sse41.h"
#include "sse2/k_sse2.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "avx2"
#define ML_ISA_REQUIRES(X) X(SSE2) X(SSSE3) X(SSE41) X(AVX) X(AVX2) X(FMA) X(F16C)
#ifndef ML_FUSED
#define ML_FUSED 1
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 8
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 0
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 1
#define ML_TILE_TOKENS 8
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 8192
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 1
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_avx2
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_avx2
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_avx2
#endif
#ifndef ml_k_matvec_q8_pk_f16
#define ml_k_matvec_q8_pk_f16 ml_k_matvec_q8_pk_f16_avx2
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_avx2
#endif
#ifndef ml_k_matvec_q4_pk_f16
#define ml_k_matvec_q4_pk_f16 ml_k_matvec_q4_pk_f16_avx2
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_avx2
#endif
#ifndef ml_k_matmul_q8_pk_f16
#define ml_k_matmul_q8_pk_f16 ml_k_matmul_q8_pk_f16_avx2
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_avx2
#endif
#ifndef ml_k_matmul_q4_pk_f16
#define ml_k_matmul_q4_pk_f16 ml_k_matmul_q4_pk_f16_avx2
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_avx2
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_avx2
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_avx2
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_avx2
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_avx2
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_avx2
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_avx2
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_avx2
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_avx2
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_avx2
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_avx2
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_avx2
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_avx2
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_avx2
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_avx2
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_avx2
#endif

#elif defined(ML_ISA_SVE)
/* Neoverse V1 (2021) and later servers, Fujitsu A64FX, Cortex-A510 and A710 and later. */
#include "sve/k_sve.h"
#include "neon_dotprod/k_neon_dotprod.h"
#include "neon/k_neon.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "sve"
#define ML_ISA_REQUIRES(X) X(NEON) X(DOTPROD) X(SVE)
#ifndef ML_FUSED
#define ML_FUSED 1
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 4
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 0
#define ML_PACK_Q4_XOR 0x88
#define ML_PACK_F16_SCALES 1
#define ML_TILE_TOKENS 8
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 0
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 0
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_sve
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_sve
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_neon_dotprod
#endif
#ifndef ml_k_matvec_q8_pk_f16
#define ml_k_matvec_q8_pk_f16 ml_k_matvec_q8_pk_f16_neon_dotprod
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_neon_dotprod
#endif
#ifndef ml_k_matvec_q4_pk_f16
#define ml_k_matvec_q4_pk_f16 ml_k_matvec_q4_pk_f16_neon_dotprod
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_neon_dotprod
#endif
#ifndef ml_k_matmul_q8_pk_f16
#define ml_k_matmul_q8_pk_f16 ml_k_matmul_q8_pk_f16_neon_dotprod
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_neon_dotprod
#endif
#ifndef ml_k_matmul_q4_pk_f16
#define ml_k_matmul_q4_pk_f16 ml_k_matmul_q4_pk_f16_neon_dotprod
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_neon_dotprod
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_sve
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_sve
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_sve
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_sve
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_sve
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_sve
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_sve
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_sve
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_sve
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_sve
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_sve
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_sve
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_sve
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_sve
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_sve
#endif

#elif defined(ML_ISA_AVXVNNI)
/* Intel since Alder Lake (2021), AMD since Zen 5 (2024). */
#include "avxvnni/k_avxvnni.h"
#include "avx2/k_avx2.h"
#include "sse41/k_sse41.h"
#include "sse2/k_sse2.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "avxvnni"
#define ML_ISA_REQUIRES(X) X(SSE2) X(SSSE3) X(SSE41) X(AVX) X(AVX2) X(FMA) X(F16C) X(AVXVNNI)
#ifndef ML_FUSED
#define ML_FUSED 1
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 8
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 128
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 1
#define ML_TILE_TOKENS 6
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 8192
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 1
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_avxvnni
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_avxvnni
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_avxvnni
#endif
#ifndef ml_k_matvec_q8_pk_f16
#define ml_k_matvec_q8_pk_f16 ml_k_matvec_q8_pk_f16_avxvnni
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_avxvnni
#endif
#ifndef ml_k_matvec_q4_pk_f16
#define ml_k_matvec_q4_pk_f16 ml_k_matvec_q4_pk_f16_avxvnni
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_avxvnni
#endif
#ifndef ml_k_matmul_q8_pk_f16
#define ml_k_matmul_q8_pk_f16 ml_k_matmul_q8_pk_f16_avxvnni
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_avxvnni
#endif
#ifndef ml_k_matmul_q4_pk_f16
#define ml_k_matmul_q4_pk_f16 ml_k_matmul_q4_pk_f16_avxvnni
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_avxvnni
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_avx2
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_avx2
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_avx2
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_avx2
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_avx2
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_avx2
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_avx2
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_avx2
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_avx2
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_avx2
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_avx2
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_avxvnni
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_avx2
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_avx2
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_avx2
#endif

#elif defined(ML_ISA_NEON_I8MM)
/* Cortex-A510 and A710 (2021) and later, Neoverse V1 and N2, Apple since A15. */
#include "neon_i8mm/k_neon_i8mm.h"
#include "neon_dotprod/k_neon_dotprod.h"
#include "neon/k_neon.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "neon_i8mm"
#define ML_ISA_REQUIRES(X) X(NEON) X(DOTPROD) X(I8MM)
#ifndef ML_FUSED
#define ML_FUSED 1
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 4
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 0
#define ML_PACK_Q4_XOR 0x88
#define ML_PACK_F16_SCALES 1
#define ML_TILE_TOKENS 12
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 0
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 0
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_neon_dotprod
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_neon_dotprod
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_neon_dotprod
#endif
#ifndef ml_k_matvec_q8_pk_f16
#define ml_k_matvec_q8_pk_f16 ml_k_matvec_q8_pk_f16_neon_dotprod
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_neon_dotprod
#endif
#ifndef ml_k_matvec_q4_pk_f16
#define ml_k_matvec_q4_pk_f16 ml_k_matvec_q4_pk_f16_neon_dotprod
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_neon_i8mm
#endif
#ifndef ml_k_matmul_q8_pk_f16
#define ml_k_matmul_q8_pk_f16 ml_k_matmul_q8_pk_f16_neon_i8mm
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_neon_i8mm
#endif
#ifndef ml_k_matmul_q4_pk_f16
#define ml_k_matmul_q4_pk_f16 ml_k_matmul_q4_pk_f16_neon_i8mm
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_neon_i8mm
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_neon
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_neon
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_neon
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_neon
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_neon
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_neon
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_neon
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_neon
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_neon
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_neon
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_neon
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_neon_dotprod
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_neon
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_neon
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_neon
#endif

#elif defined(ML_ISA_AVX512VNNI)
/* Intel servers since Cascade Lake (2019), AMD since Zen 4 (2022). */
#include "avx512vnni/k_avx512vnni.h"
#include "avx2/k_avx2.h"
#include "sse41/k_sse41.h"
#include "sse2/k_sse2.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "avx512vnni"
#define ML_ISA_REQUIRES(X)                                                                                   \
    X(SSE2)                                                                                                  \
    X(SSSE3) X(SSE41) X(AVX) X(AVX2) X(FMA) X(F16C) X(AVX512F) X(AVX512BW) X(AVX512DQ) X(AVX512VL)           \
        X(AVX512VNNI)
#ifndef ML_FUSED
#define ML_FUSED 1
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 16
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 128
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 1
#define ML_TILE_TOKENS 12
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 8192
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 1
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_avx512vnni
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_avx512vnni
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_avx512vnni
#endif
#ifndef ml_k_matvec_q8_pk_f16
#define ml_k_matvec_q8_pk_f16 ml_k_matvec_q8_pk_f16_avx512vnni
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_avx512vnni
#endif
#ifndef ml_k_matvec_q4_pk_f16
#define ml_k_matvec_q4_pk_f16 ml_k_matvec_q4_pk_f16_avx512vnni
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_avx512vnni
#endif
#ifndef ml_k_matmul_q8_pk_f16
#define ml_k_matmul_q8_pk_f16 ml_k_matmul_q8_pk_f16_avx512vnni
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_avx512vnni
#endif
#ifndef ml_k_matmul_q4_pk_f16
#define ml_k_matmul_q4_pk_f16 ml_k_matmul_q4_pk_f16_avx512vnni
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_avx512vnni
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_avx512vnni
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_avx512vnni
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_avx512vnni
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_avx512vnni
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_avx512vnni
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_avx512vnni
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_avx512vnni
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_avx512vnni
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_avx512vnni
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_avx512vnni
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_avx512vnni
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_avx512vnni
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_avx512vnni
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_avx512vnni
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_avx512vnni
#endif

#elif defined(ML_ISA_AMX_INT8)
/* Intel servers since Sapphire Rapids (2023). */
#include "amx_int8/k_amx_int8.h"
#include "avx512vnni/k_avx512vnni.h"
#include "avx2/k_avx2.h"
#include "sse41/k_sse41.h"
#include "sse2/k_sse2.h"
#include "scalar/k_scalar.h"
#define ML_ISA_NAME "amx_int8"
#define ML_ISA_REQUIRES(X)                                                                                   \
    X(SSE2)                                                                                                  \
    X(SSSE3) X(SSE41) X(AVX) X(AVX2) X(FMA) X(F16C) X(AVX512F) X(AVX512BW) X(AVX512DQ) X(AVX512VL)           \
        X(AVX512VNNI) X(AMXTILE) X(AMXINT8)
#ifndef ML_FUSED
#define ML_FUSED 1
#endif
#define ML_HAS_PACK 1
#define ML_PACK_GROUP 16
#define ML_PACK_STEP 4
#define ML_PACK_Q8_OFFSET 128
#define ML_PACK_Q4_XOR 0x00
#define ML_PACK_F16_SCALES 1
#define ML_TILE_TOKENS 16
#define ML_TILE_X_BYTES 32
#define ML_TILE_SUMS 2
#define ML_PREFETCH_DISTANCE 8192
#ifndef ML_USE_PREFETCH
#define ML_USE_PREFETCH 1
#endif
#ifndef ml_k_matvec_q8
#define ml_k_matvec_q8 ml_k_matvec_q8_avx512vnni
#endif
#ifndef ml_k_matvec_q4
#define ml_k_matvec_q4 ml_k_matvec_q4_avx512vnni
#endif
#ifndef ml_k_matvec_q8_pk
#define ml_k_matvec_q8_pk ml_k_matvec_q8_pk_avx512vnni
#endif
#ifndef ml_k_matvec_q8_pk_f16
#define ml_k_matvec_q8_pk_f16 ml_k_matvec_q8_pk_f16_avx512vnni
#endif
#ifndef ml_k_matvec_q4_pk
#define ml_k_matvec_q4_pk ml_k_matvec_q4_pk_avx512vnni
#endif
#ifndef ml_k_matvec_q4_pk_f16
#define ml_k_matvec_q4_pk_f16 ml_k_matvec_q4_pk_f16_avx512vnni
#endif
#ifndef ml_k_matmul_q8_pk
#define ml_k_matmul_q8_pk ml_k_matmul_q8_pk_amx_int8
#endif
#ifndef ml_k_matmul_q8_pk_f16
#define ml_k_matmul_q8_pk_f16 ml_k_matmul_q8_pk_f16_amx_int8
#endif
#ifndef ml_k_matmul_q4_pk
#define ml_k_matmul_q4_pk ml_k_matmul_q4_pk_amx_int8
#endif
#ifndef ml_k_matmul_q4_pk_f16
#define ml_k_matmul_q4_pk_f16 ml_k_matmul_q4_pk_f16_amx_int8
#endif
#ifndef ml_k_tile_q8
#define ml_k_tile_q8 ml_k_tile_q8_amx_int8
#endif
#ifndef ml_k_quantize_q8
#define ml_k_quantize_q8 ml_k_quantize_q8_avx512vnni
#endif
#ifndef ml_k_rmsnorm
#define ml_k_rmsnorm ml_k_rmsnorm_avx512vnni
#endif
#ifndef ml_k_softmax
#define ml_k_softmax ml_k_softmax_avx512vnni
#endif
#ifndef ml_k_silu_mul
#define ml_k_silu_mul ml_k_silu_mul_avx512vnni
#endif
#ifndef ml_k_gelu_mul
#define ml_k_gelu_mul ml_k_gelu_mul_avx512vnni
#endif
#ifndef ml_k_add
#define ml_k_add ml_k_add_avx512vnni
#endif
#ifndef ml_k_rope
#define ml_k_rope ml_k_rope_avx512vnni
#endif
#ifndef ml_k_dot_f32
#define ml_k_dot_f32 ml_k_dot_f32_avx512vnni
#endif
#ifndef ml_k_axpy_f32
#define ml_k_axpy_f32 ml_k_axpy_f32_avx512vnni
#endif
#ifndef ml_k_dot_f16
#define ml_k_dot_f16 ml_k_dot_f16_avx512vnni
#endif
#ifndef ml_k_axpy_f16
#define ml_k_axpy_f16 ml_k_axpy_f16_avx512vnni
#endif
#ifndef ml_k_dot_q8
#define ml_k_dot_q8 ml_k_dot_q8_avx512vnni
#endif
#ifndef ml_k_axpy_q8
#define ml_k_axpy_q8 ml_k_axpy_q8_avx512vnni
#endif
#ifndef ml_k_widen_f16
#define ml_k_widen_f16 ml_k_widen_f16_avx512vnni
#endif
#ifndef ml_k_widen_q8
#define ml_k_widen_q8 ml_k_widen_q8_avx512vnni
#endif

#else
#error "define ML_ISA_<NAME>, for example -DML_ISA_SCALAR"
#endif

/* The one place where machines differ: multiply-add rounds once (fused) or twice. */
#if ML_FUSED
#define ml_madd ml_madd_fused
#else
#define ml_madd ml_madd_unfused
#endif

#endif
