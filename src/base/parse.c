/* Numbers from text: all of the string or an error, in any locale. */
#include "base/base.h"
#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 64 /* characters of a wrong value that a message repeats */

typedef enum digits { DIGITS_OK, DIGITS_BAD, DIGITS_OVERFLOW } digits;

static digits read_digits(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    bool over = false;
    if (!*s) return DIGITS_BAD;
    for (; *s; s++) {
        if (!isdigit((unsigned char)*s)) return DIGITS_BAD;
        over |= !hy_mul_u64(v, 10, &v) || !hy_add_u64(v, (uint64_t)(*s - '0'), &v);
    }
    *out = v;
    return over ? DIGITS_OVERFLOW : DIGITS_OK;
}

hy_status hy_parse_u64(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *out,
                       hy_err *err)
{
    uint64_t v;
    digits d = read_digits(s, &v);
    if (d == DIGITS_BAD)
        return hy_fail(err, HY_E_ARG, "%s: \"%.*s\" is not a whole number from %" PRIu64
                       " to %" PRIu64, what, SHOWN, s, min, max);
    if (d == DIGITS_OVERFLOW || v < min || v > max)
        return hy_fail(err, HY_E_ARG, "%s: %.*s is not within %" PRIu64 " to %" PRIu64, what, SHOWN,
                       s, min, max);
    *out = v;
    return HY_OK;
}

hy_status hy_parse_i64(const char *what, const char *s, int64_t min, int64_t max, int64_t *out,
                       hy_err *err)
{
    bool minus = *s == '-';
    uint64_t v;
    digits d = read_digits(s + (minus || *s == '+'), &v);
    if (d == DIGITS_BAD)
        return hy_fail(err, HY_E_ARG, "%s: \"%.*s\" is not a whole number from %" PRId64
                       " to %" PRId64, what, SHOWN, s, min, max);
    bool fits = d == DIGITS_OK && v <= (uint64_t)INT64_MAX + minus;
    int64_t value = fits ? (int64_t)(minus ? -v : v) : 0;
    if (!fits || value < min || value > max)
        return hy_fail(err, HY_E_ARG, "%s: %.*s is not within %" PRId64 " to %" PRId64, what, SHOWN,
                       s, min, max);
    *out = value;
    return HY_OK;
}

/* strtod in the C locale: a host program's decimal comma must not change what a file means. */
static bool read_double(const char *s, double *out)
{
    if (!*s || s[strspn(s, "0123456789+-.eE")]) return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return false;
    char *end;
    *out = strtod_l(s, &end, c);
    freelocale(c);
    return *end == 0 && isfinite(*out);
}

hy_status hy_parse_f64(const char *what, const char *s, double min, double max, double *out,
                       hy_err *err)
{
    double v;
    if (!read_double(s, &v))
        return hy_fail(err, HY_E_ARG, "%s: \"%.*s\" is not a finite number from %g to %g", what,
                       SHOWN, s, min, max);
    if (!(v >= min && v <= max))
        return hy_fail(err, HY_E_ARG, "%s: %.*s is not within %g to %g", what, SHOWN, s, min, max);
    *out = v;
    return HY_OK;
}

/* "", "b", "k", "kb", "kib", ... as the power of two; -1 when it is none of them. */
static int unit_shift(const char *s)
{
    static const char letters[] = "kmgt";
    if (!*s || (tolower((unsigned char)*s) == 'b' && !s[1])) return 0;
    const char *at = strchr(letters, tolower((unsigned char)*s));
    if (!at) return -1;
    s++;
    if (tolower((unsigned char)*s) == 'i' && s[1]) s++;
    if (tolower((unsigned char)*s) == 'b') s++;
    return *s ? -1 : 10 * (int)(at - letters + 1);
}

hy_status hy_parse_bytes(const char *what, const char *s, uint64_t *out, hy_err *err)
{
    const char *p = s;
    uint64_t whole = 0, frac = 0, frac_unit = 1;
    bool over = false, any = false;
    for (; isdigit((unsigned char)*p); p++, any = true)
        over |= !hy_mul_u64(whole, 10, &whole) || !hy_add_u64(whole, (uint64_t)(*p - '0'), &whole);
    bool point = *p == '.' && any;
    if (point)
        for (p++, any = false; isdigit((unsigned char)*p); p++, any = true)
            if (frac_unit < 1000000000000000000u) {
                frac = frac * 10 + (uint64_t)(*p - '0');
                frac_unit *= 10;
            }
    int shift = any ? unit_shift(p) : -1;
    if (shift < 0 || (point && shift == 0))
        return hy_fail(err, HY_E_ARG, "%s: \"%.*s\" is not a size such as 512, 16K, 4.5GiB", what,
                       SHOWN, s);
    uint64_t bytes = 0;
    uint64_t part = (uint64_t)(((unsigned __int128)frac << shift) / frac_unit);
    if (over || !hy_mul_u64(whole, (uint64_t)1 << shift, &bytes) ||
        !hy_add_u64(bytes, part, &bytes))
        return hy_fail(err, HY_E_ARG, "%s: %.*s is more than %" PRIu64 " bytes", what, SHOWN, s,
                       UINT64_MAX);
    *out = bytes;
    return HY_OK;
}
