/*
 * ml_k_widen_q8_wasm_simd128
 * o = the q8 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/wasm_simd128.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

void ml_k_widen_q8_wasm_simd128(float *o, const int8_t *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        wasm_v128_store(o + i, ml_load_i8_wasm(x + i));
    }
    for (; i < n; i++) { /* the rest, one by one */
        o[i] = (float)x[i];
    }
}
