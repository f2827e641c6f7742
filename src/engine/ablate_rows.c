/* Rows of the ablation: numbers with their spread, as JSON. */
#include "ablate_impl.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ab_put(ab_stat *s, double v)
{
    if (isfinite(v) && s->n < AB_ROUNDS_FEW) s->v[s->n++] = v;
}

double ab_median(const ab_stat *s)
{
    double v[AB_ROUNDS_FEW];
    memcpy(v, s->v, sizeof v);
    return s->n ? hy_median(v, s->n) : NAN;
}

json_t *ab_number(double v)
{
    if (!isfinite(v)) return json_null();
    char text[40];
    snprintf(text, sizeof text, "%.5g", v);
    return json_real(strtod(text, NULL));
}

json_t *ab_range(const ab_stat *s)
{
    if (s->n == 0) return json_null();
    double least = s->v[0], most = s->v[0];
    for (uint32_t i = 1; i < s->n; i++) {
        least = HY_MIN(least, s->v[i]);
        most = HY_MAX(most, s->v[i]);
    }
    return json_pack("[o, o]", ab_number(least), ab_number(most));
}

ab_row ab_row_make(const char *technique, const char *baseline, const char *setting)
{
    ab_row r = {
        .technique = technique, .baseline = baseline, .memory_mib = NAN, .ppl_delta = NAN, .kl = NAN, .same_bits = -1
    };
    snprintf(r.setting, sizeof r.setting, "%s", setting);
    return r;
}

void ab_row_gain(ab_row *r, const char *what, double ratio)
{
    if (!isfinite(ratio)) return;
    r->gain_what = what;
    r->gain = ratio;
}

void ab_row_add(ab *a, ab_row *r)
{
    const char *when, *when_not;
    ab_when(r->technique, &when, &when_not);
    json_t *quality = json_pack("{s:o, s:o, s:o}", "ppl_delta_pct", ab_number(r->ppl_delta), "kl", ab_number(r->kl),
                                "same_bits", r->same_bits < 0 ? json_null() : json_boolean(r->same_bits));
    json_t *spread = json_pack("{s:o, s:o, s:o}", "ttft_ms", ab_range(&r->ttft), "itl_ms", ab_range(&r->itl),
                               "tokens_s", ab_range(&r->tps));
    json_t *gain =
        r->gain_what ? json_pack("{s:s, s:o}", "what", r->gain_what, "ratio", ab_number(r->gain)) : json_null();
    uint32_t n = HY_MAX(r->ttft.n, HY_MAX(r->itl.n, r->tps.n));
    (void)json_array_append_new(
        a->rows, json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:s, s:s}", "technique",
                           r->technique, "setting", r->setting, "baseline", r->baseline, "group", a->group, "ttft_ms",
                           ab_number(ab_median(&r->ttft)), "itl_ms", ab_number(ab_median(&r->itl)), "tokens_s",
                           ab_number(ab_median(&r->tps)), "memory_mib", ab_number(r->memory_mib), "quality", quality,
                           "spread", spread, "repeats", (int)n, "gain", gain, "extra",
                           r->extra ? r->extra : json_object(), "when", when, "when_not", when_not));
    r->extra = NULL;
}

void ab_claim(ab *a, const char *claim, const char *said, double value, double low, double high, const char *unit,
              bool holds, const char *about, const char *fmt, ...)
{
    char text[240];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)json_array_append_new(a->claims, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:b, s:s}", "claim", claim,
                                                     "said", said, "measured", text, "value", ab_number(value), "low",
                                                     ab_number(low), "high", ab_number(high), "unit", unit, "holds",
                                                     (int)holds, "about", about));
}
