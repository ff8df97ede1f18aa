/*
 * ml_k_quantize_q8_avx2
 * Q8_0 activations: blocks of 32 with one scale, by the rule of the file format.
 *
 * Written by krafla-gen from templates/quantize_q8.c.j2 and isa_specs/avx2.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* One block: the rule of the file format in exact single-precision operations. */
static void quantize_block(int8_t *q, float *d, const float *x)
{
    __m256 largest_lanes0 = _mm256_set1_ps(0.0f);
    __m256 largest_lanes1 = _mm256_set1_ps(0.0f);
    __m256 largest_lanes2 = _mm256_set1_ps(0.0f);
    __m256 largest_lanes3 = _mm256_set1_ps(0.0f);
    int i = 0;
    for (; i + 32 <= 32; i += 32) { /* in turn, to hide the latency */
        largest_lanes0 =
            _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x + i)), largest_lanes0);
        largest_lanes1 = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x + (i + 8))),
                                       largest_lanes1);
        largest_lanes2 = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x + (i + 16))),
                                       largest_lanes2);
        largest_lanes3 = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x + (i + 24))),
                                       largest_lanes3);
    }
    for (; i + 8 <= 32; i += 8)
        largest_lanes0 =
            _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x + i)), largest_lanes0);
    largest_lanes0 = _mm256_max_ps(largest_lanes0, largest_lanes2);
    largest_lanes1 = _mm256_max_ps(largest_lanes1, largest_lanes3);
    largest_lanes0 = _mm256_max_ps(largest_lanes0, largest_lanes1);
    float largest = ml_max_256(largest_lanes0);
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        memset(q, 0, ML_BLOCK);
        *d = 0.0f;
        return;
    }
    *d = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (int j = 0; j < 32; j += 8) {
        /* Half away from zero, then truncation; the bounds hold before it as well as after. */
        const __m256 value = _mm256_loadu_ps(x + j);
        __m256 level =
            _mm256_add_ps(_mm256_mul_ps(value, _mm256_set1_ps(inverse)),
                          _mm256_or_ps(_mm256_and_ps(value, _mm256_set1_ps(-0.0f)), _mm256_set1_ps(0.5f)));
        level = _mm256_max_ps(level, _mm256_set1_ps(-127.0f));
        level = _mm256_min_ps(level, _mm256_set1_ps(127.0f));
        ml_store_i8_256(q + j, level);
    }
}

static int32_t sum_of_block(const int8_t *q)
{
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK; j++)
        sum += q[j];
    return sum;
}

void ml_k_quantize_q8_avx2(int8_t *q, float *d, int32_t *s, const float *x, int n)
{
    for (int b = 0; b < n / ML_BLOCK; b++)
        quantize_block(q + b * ML_BLOCK, d + b, x + b * ML_BLOCK);
    /* In a pass of its own: to read bytes right after they were written would wait for the stores. */
    for (int b = 0; b < n / ML_BLOCK; b++)
        s[b] = sum_of_block(q + b * ML_BLOCK);
}
