/* rope.c: RoPE frequencies (powers of the base, correctly rounded, then scaled in double) and their tables.
 */
#include "rope.h"

#include "../core/detmath.h"

/* llama3: long wavelengths are stretched by the factor, short ones kept, those between interpolated. */
static double scale_llama3(const ml_config *config, double inverse)
{
    double original = config->rope_orig_max_seq;
    double low = config->rope_low_freq_factor, high = config->rope_high_freq_factor;
    double wavelength = 2.0 * ml_dd_pi().hi / inverse;
    if (wavelength < original / high)
        return inverse;
    if (wavelength > original / low)
        return inverse / config->rope_factor;
    double s = (original / wavelength - low) / (high - low);
    return (1.0 - s) * inverse / config->rope_factor + s * inverse;
}

/* yarn: the dimension at which a wavelength fits `rotations` times into the original context. */
static double yarn_dimension(const ml_config *config, double rotations)
{
    double fit = config->rope_orig_max_seq / (2.0 * ml_dd_pi().hi * rotations);
    return config->rot_dim * ml_log(fit) / (2.0 * ml_log(config->rope_theta));
}

static double scale_yarn(const ml_config *config, double inverse, int pair)
{
    double low = floor(yarn_dimension(config, config->rope_low_freq_factor));
    double high = ceil(yarn_dimension(config, config->rope_high_freq_factor));
    double last = (double)config->rot_dim - 1.0;
    low = low > 0.0 ? low : 0.0;
    high = high < last ? high : last;
    double span = high != low ? high - low : 0.001; /* as transformers keeps the ramp finite */
    double ramp = (pair - low) / span;
    ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
    return inverse / config->rope_factor * ramp + inverse * (1.0 - ramp);
}

double ml_rope_frequency(const ml_config *config, bool local, int pair)
{
    double theta = local ? config->rope_local_theta : config->rope_theta;
    ml_dd exponent = ml_dd_mul(ml_dd_log(theta), ml_dd_of(-2.0 * pair));
    double inverse = ml_dd_exp(ml_dd_div(exponent, ml_dd_of(config->rot_dim))).hi;
    if (local || config->rope_type == ML_ROPE_PLAIN)
        return inverse;
    if (config->rope_type == ML_ROPE_LLAMA3)
        return scale_llama3(config, inverse);
    if (config->rope_type == ML_ROPE_LINEAR)
        return inverse / config->rope_factor;
    return scale_yarn(config, inverse, pair);
}

void ml_rope_carve(ml_rope *rope, ml_arena *arena, const ml_config *config, int positions)
{
    rope->pairs = (int)(config->rot_dim / 2);
    size_t row = (size_t)rope->pairs * sizeof(float);
    rope->cosines = ml_arena_take(arena, (size_t)positions, row);
    rope->sines = ml_arena_take(arena, (size_t)positions, row);
}

void ml_rope_fill(ml_rope *rope, const ml_config *config, bool local, int positions)
{
    double factor = local ? 1.0 : config->rope_attn_factor;
    for (int pair = 0; pair < rope->pairs; pair++) {
        double frequency = ml_rope_frequency(config, local, pair);
        for (int position = 0; position < positions; position++) {
            double sine, cosine;
            ml_sincos(position * frequency, &sine, &cosine);
            size_t at = (size_t)position * (size_t)rope->pairs + (size_t)pair;
            rope->cosines[at] = (float)(cosine * factor);
            rope->sines[at] = (float)(sine * factor);
        }
    }
}
