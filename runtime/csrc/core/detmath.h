/*
 * detmath.h: elementary functions in double precision that give the same bits on every machine and with every
 * libc: only +, -, *, / and comparisons, each rounded once. Double-double numbers (an unevaluated sum of two
 * doubles, some 102 bits) serve where a result must be correctly rounded.
 */
#ifndef ML_DETMATH_H
#define ML_DETMATH_H

#include "ml.h"

typedef struct ml_dd {
    double hi; /* the value rounded to double */
    double lo;
} ml_dd;

ml_dd ml_dd_of(double x);
ml_dd ml_dd_add(ml_dd a, ml_dd b);
ml_dd ml_dd_sub(ml_dd a, ml_dd b);
ml_dd ml_dd_mul(ml_dd a, ml_dd b);
ml_dd ml_dd_div(ml_dd a, ml_dd b);
ml_dd ml_dd_pi(void);
/* Natural logarithm of a positive normal number; NaN for others. */
ml_dd ml_dd_log(double x);
/* e^x for |x| < 700; the relative error stays below 2^-96. */
ml_dd ml_dd_exp(ml_dd x);

/* log x and x^y (x positive and normal, |y log x| < 700), rounded from double-double. */
double ml_log(double x);
double ml_pow(double x, double y);

/* Sine and cosine, each within one unit in the last place; NaN for |x| > 2^26. */
void ml_sincos(double x, double *sine, double *cosine);

/*
 * e^x within one unit in the last place; 0 below -708, infinity above 709, NaN stays NaN. Free of branches,
 * so that compilers vectorize loops over it.
 */
ML_ALWAYS_INLINE double ml_exp(double x)
{
    double clamped = x < -708.0 ? -708.0 : x;
    clamped = clamped > 709.0 ? 709.0 : clamped;
    double shifted = clamped * 1.4426950408889634 + 0x1.8p52; /* rounds to an integer in the low bits */
    double n = shifted - 0x1.8p52;
    double r = (clamped - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33; /* ln 2 in two parts */
    double y = 1.0 / 6227020800.0;
    y = y * r + 1.0 / 479001600.0;
    y = y * r + 1.0 / 39916800.0;
    y = y * r + 1.0 / 3628800.0;
    y = y * r + 1.0 / 362880.0;
    y = y * r + 1.0 / 40320.0;
    y = y * r + 1.0 / 5040.0;
    y = y * r + 1.0 / 720.0;
    y = y * r + 1.0 / 120.0;
    y = y * r + 1.0 / 24.0;
    y = y * r + 1.0 / 6.0;
    y = y * r + 0.5;
    y = (y * (r * r) + r) + 1.0;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 52) + 0x3ff0000000000000u; /* 2^n */
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    double result = y * scale;
    result = x < -708.0 ? 0.0 : result;
    result = x > 709.0 ? (double)INFINITY : result;
    return result;
}

#endif
