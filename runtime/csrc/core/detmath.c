/* detmath.c: double-double arithmetic after Dekker and Knuth, and the functions built on it. */
#include "detmath.h"

static ml_dd two_sum(double a, double b)
{
    double sum = a + b;
    double part = sum - a;
    return (ml_dd){sum, (a - (sum - part)) + (b - part)};
}

/* For |a| >= |b|. */
static ml_dd quick_two_sum(double a, double b)
{
    double sum = a + b;
    return (ml_dd){sum, b - (sum - a)};
}

/* The two halves of a double's 53 bits. */
static ml_dd halves(double a)
{
    double t = 134217729.0 * a;
    double high = t - (t - a);
    return (ml_dd){high, a - high};
}

static ml_dd two_product(double a, double b)
{
    double product = a * b;
    ml_dd x = halves(a), y = halves(b);
    double error = ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo;
    return (ml_dd){product, error};
}

static double power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

ml_dd ml_dd_of(double x)
{
    return (ml_dd){x, 0.0};
}

ml_dd ml_dd_add(ml_dd a, ml_dd b)
{
    ml_dd high = two_sum(a.hi, b.hi);
    ml_dd low = two_sum(a.lo, b.lo);
    high = quick_two_sum(high.hi, high.lo + low.hi);
    return quick_two_sum(high.hi, high.lo + low.lo);
}

ml_dd ml_dd_sub(ml_dd a, ml_dd b)
{
    return ml_dd_add(a, (ml_dd){-b.hi, -b.lo});
}

ml_dd ml_dd_mul(ml_dd a, ml_dd b)
{
    ml_dd product = two_product(a.hi, b.hi);
    return quick_two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

ml_dd ml_dd_div(ml_dd a, ml_dd b)
{
    double first = a.hi / b.hi;
    ml_dd rest = ml_dd_sub(a, ml_dd_mul(b, ml_dd_of(first)));
    double second = rest.hi / b.hi;
    rest = ml_dd_sub(rest, ml_dd_mul(b, ml_dd_of(second)));
    return ml_dd_add(quick_two_sum(first, second), ml_dd_of(rest.hi / b.hi));
}

ml_dd ml_dd_pi(void)
{
    return (ml_dd){0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
}

static ml_dd ln2(void)
{
    return (ml_dd){0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
}

ml_dd ml_dd_log(double x)
{
    if (!(x >= 0x1p-1022 && x <= 0x1.fffffffffffffp1023))
        return ml_dd_of((double)NAN);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    double m = x * power_of_two(-exponent / 2) * power_of_two(-(exponent - exponent / 2));
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent += 1;
    }
    /* log m = 2 artanh s with s = (m - 1) / (m + 1); |s| < 0.172, so 24 terms reach 2^-120. */
    ml_dd s = ml_dd_div(ml_dd_of(m - 1.0), two_sum(m, 1.0));
    ml_dd z = ml_dd_mul(s, s);
    ml_dd sum = ml_dd_of(0.0);
    for (int k = 24; k >= 0; k--)
        sum = ml_dd_add(ml_dd_mul(sum, z), ml_dd_div(ml_dd_of(1.0), ml_dd_of(2.0 * k + 1.0)));
    ml_dd log_m = ml_dd_mul(ml_dd_mul(sum, s), ml_dd_of(2.0));
    return ml_dd_add(ml_dd_mul(ln2(), ml_dd_of((double)exponent)), log_m);
}

ml_dd ml_dd_exp(ml_dd x)
{
    double n = (x.hi * 1.4426950408889634 + 0x1.8p52) - 0x1.8p52;
    ml_dd r = ml_dd_sub(x, ml_dd_mul(ln2(), ml_dd_of(n)));
    ml_dd sum = ml_dd_of(1.0);
    for (int k = 28; k >= 1; k--) /* |r| < 0.35: the Taylor series reaches 2^-140 */
        sum = ml_dd_add(ml_dd_of(1.0), ml_dd_div(ml_dd_mul(sum, r), ml_dd_of((double)k)));
    double scale = power_of_two((int)n);
    return (ml_dd){sum.hi * scale, sum.lo * scale};
}

double ml_log(double x)
{
    return ml_dd_log(x).hi;
}

double ml_pow(double x, double y)
{
    return ml_dd_exp(ml_dd_mul(ml_dd_log(x), ml_dd_of(y))).hi;
}

/* sin(r + tail) and cos(r + tail) for |r| <= pi/4 by Taylor series; the leading terms carry no rounding
 * error. */
static double sine_of(double r, double tail)
{
    double z = r * r;
    double y = 1.0 / 355687428096000.0;
    y = y * z - 1.0 / 1307674368000.0;
    y = y * z + 1.0 / 6227020800.0;
    y = y * z - 1.0 / 39916800.0;
    y = y * z + 1.0 / 362880.0;
    y = y * z - 1.0 / 5040.0;
    y = y * z + 1.0 / 120.0;
    y = y * z - 1.0 / 6.0;
    return r + (y * (z * r) + tail * (1.0 - 0.5 * z));
}

static double cosine_of(double r, double tail)
{
    ml_dd square = two_product(r, r);
    double z = square.hi;
    double y = 1.0 / 6402373705728000.0;
    y = 1.0 / 20922789888000.0 - y * z;
    y = 1.0 / 87178291200.0 - y * z;
    y = 1.0 / 479001600.0 - y * z;
    y = 1.0 / 3628800.0 - y * z;
    y = 1.0 / 40320.0 - y * z;
    y = 1.0 / 720.0 - y * z;
    y = 1.0 / 24.0 - y * z;
    double half = 0.5 * z;
    double head = 1.0 - half;
    double lost = (1.0 - head) - half;
    return head + (lost + (y * (z * z) - (r * tail + 0.5 * square.lo)));
}

void ml_sincos(double x, double *sine, double *cosine)
{
    if (!(x >= -0x1p26 && x <= 0x1p26))
        x = (double)NAN;
    double n = (x * 0.6366197723675814 + 0x1.8p52) - 0x1.8p52; /* quarter turns */
    /* pi/2 in three parts: exact products, so that what cancels leaves no error behind. */
    ml_dd r = ml_dd_sub(ml_dd_of(x), two_product(n, 0x1.921fb54442d18p+0));
    r = ml_dd_sub(r, two_product(n, 0x1.1a62633145c07p-54));
    r = ml_dd_add(r, ml_dd_of(n * 0x1.f1976b7ed8fbcp-110));
    double s = sine_of(r.hi, r.lo);
    double c = cosine_of(r.hi, r.lo);
    int quarter = n == n ? (int)n & 3 : 0;
    *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
    *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}
