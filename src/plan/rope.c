/* Rotary tables as transformers computes them: frequencies in float32, the angle as the float32
 * product position * frequency, cos and sin of that angle (here in double, rounded once).
 *
 * Sources: RoPE (Su et al. 2021), YaRN (Peng et al. 2023), LongRoPE (Ding et al. 2024), and
 * transformers' modeling_rope_utils for what each checkpoint's numbers mean.
 *
 * Where transformers lets the length of a whole forward pass decide, a step here cannot: its result
 * would depend on how the prompt was cut. The length of the sequence at its start (hy_row.n_total, the
 * prompt's) stands for it: LongRoPE picks its factors by it, dynamic NTK takes its base from it, or
 * from position + 1 for what is generated beyond: as transformers does with its cache on. */
#include "plan/instr.h"
#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

/* base ^ (2 i / n_rot) */
static float pos_freq(double base, uint32_t i, uint32_t n_rot)
{
    float e = (float)(2 * i) / (float)n_rot;
    return (float)pow((double)(float)base, (double)e);
}

static void llama3(const hy_rope *r, float *inv, uint32_t half)
{
    float wave_low = (float)((double)r->n_ctx_orig / r->low_freq);
    float wave_high = (float)((double)r->n_ctx_orig / r->high_freq);
    for (uint32_t i = 0; i < half; i++) {
        float wave = (float)two_pi / inv[i];
        float slow = inv[i] / (float)r->factor;
        if (wave > wave_low) {
            inv[i] = slow;
        } else if (wave >= wave_high) {
            float smooth = ((float)r->n_ctx_orig / wave - (float)r->low_freq) /
                           (float)(r->high_freq - r->low_freq);
            inv[i] = (1 - smooth) * slow + smooth * inv[i];
        }
    }
}

static double yarn_dim(const hy_rope *r, double n_turn)
{
    return r->n_rot * log(r->n_ctx_orig / (n_turn * two_pi)) / (2 * log(r->base));
}

static void yarn(const hy_rope *r, float *inv, uint32_t half)
{
    double low = yarn_dim(r, r->beta_fast > 0 ? r->beta_fast : 32);
    double high = yarn_dim(r, r->beta_slow > 0 ? r->beta_slow : 1);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = HY_MAX(low, 0);
    high = HY_MIN(high, (double)r->n_rot - 1);
    if (low == high) high += 0.001;
    for (uint32_t i = 0; i < half; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = HY_MIN(HY_MAX(ramp, 0), 1);
        float keep = 1 - ramp;
        if (r->ext_factor > 0) keep *= (float)r->ext_factor;
        float p = pos_freq(r->base, i, r->n_rot);
        float inter = 1 / ((float)r->factor * p), extra = 1 / p;
        inv[i] = inter * (1 - keep) + extra * keep;
    }
}

static double yarn_mscale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static double attention_scale(const hy_rope *r)
{
    if (r->kind == HY_ROPE_YARN) {
        if (r->attn_factor >= 0) return r->attn_factor;
        if (r->mscale != 0 && r->mscale_all != 0)
            return yarn_mscale(r->factor, r->mscale) / yarn_mscale(r->factor, r->mscale_all);
        return yarn_mscale(r->factor, 1);
    }
    if (r->kind == HY_ROPE_LONGROPE) {
        if (r->attn_factor >= 0) return r->attn_factor;
        return r->factor <= 1 ? 1 : sqrt(1 + log(r->factor) / log(r->n_ctx_orig));
    }
    return 1;
}

static void longrope(const hy_rope *r, const float *factors, float *inv, uint32_t half)
{
    for (uint32_t i = 0; i < half; i++) {
        float p = pos_freq(r->base, i, r->n_rot);
        inv[i] = 1 / (factors ? factors[i] * p : p);
    }
}

hy_status hy_rope_init(hy_rope_table *t, const hy_rope *r, hy_arena *a, hy_err *err)
{
    if (r->n_rot == 0 || r->n_rot % 2)
        return hy_fail(err, HY_E_FORMAT, "rope: %u rotated dimensions; an even number is needed",
                       r->n_rot);
    bool needs_ctx = r->kind == HY_ROPE_LLAMA3 || r->kind == HY_ROPE_YARN ||
                     r->kind == HY_ROPE_DYNAMIC || r->kind == HY_ROPE_LONGROPE;
    bool by_factors = r->kind == HY_ROPE_LLAMA3 && r->freq_factors;
    if (needs_ctx && !by_factors && r->n_ctx_orig == 0)
        return hy_fail(err, HY_E_FORMAT, "rope: scaling without the original context length");
    t->r = r;
    t->half = r->n_rot / 2;
    t->scale = (float)attention_scale(r);
    t->inv = HY_ARENA_NEW(a, float, t->half);
    if (!t->inv) return hy_fail_memory(err, "rope table", t->half * sizeof(float));
    for (uint32_t i = 0; i < t->half; i++) t->inv[i] = 1 / pos_freq(r->base, i, r->n_rot);
    switch (r->kind) {
    case HY_ROPE_LLAMA3:
        if (!by_factors) llama3(r, t->inv, t->half);
        break;
    case HY_ROPE_LINEAR:
        for (uint32_t i = 0; i < t->half; i++) t->inv[i] /= (float)r->factor;
        break;
    case HY_ROPE_YARN: yarn(r, t->inv, t->half); break;
    case HY_ROPE_LONGROPE:
        longrope(r, r->short_factors, t->inv, t->half);
        t->inv_long = HY_ARENA_NEW(a, float, t->half);
        if (!t->inv_long) return hy_fail_memory(err, "rope table", t->half * sizeof(float));
        longrope(r, r->long_factors, t->inv_long, t->half);
        break;
    default: break;
    }
    if (r->freq_factors)
        for (uint32_t i = 0; i < t->half; i++) t->inv[i] /= r->freq_factors[i];
    return HY_OK;
}

/* Dynamic NTK: the base grows once the sequence is longer than the original context. */
static float dynamic_inv(const hy_rope *r, uint32_t i, uint32_t n_tok)
{
    double base = r->base, n = (double)n_tok;
    if (n > r->n_ctx_orig && r->n_rot > 2)
        base *= pow(r->factor * n / r->n_ctx_orig - (r->factor - 1),
                    (double)r->n_rot / (r->n_rot - 2));
    return 1 / pos_freq(base, i, r->n_rot);
}

static void one_token(const hy_rope_table *t, const float *inv, uint32_t tok, uint32_t pos, uint32_t total)
{
    float *c = t->c + (size_t)tok * t->half, *s = t->s + (size_t)tok * t->half;
    uint32_t n = HY_MAX(total, pos + 1);
    bool dynamic = t->r->kind == HY_ROPE_DYNAMIC && n > t->r->n_ctx_orig;
    for (uint32_t i = 0; i < t->half; i++) {
        float f = dynamic ? dynamic_inv(t->r, i, n) : inv[i];
        double angle = (double)((float)pos * f), vs, vc;
        sincos(angle, &vs, &vc);
        c[i] = (float)vc * t->scale;
        s[i] = (float)vs * t->scale;
    }
}

void hy_rope_step(const hy_rope_table *t, const hy_batch *b, uint32_t tok_first, uint32_t tok_last)
{
    for (uint32_t i = 0; i < b->n_row; i++) {
        const hy_row *r = &b->row[i];
        uint32_t first = HY_MAX(r->tok_first, tok_first);
        uint32_t last = HY_MIN(r->tok_first + r->n_tok, tok_last);
        uint32_t total = r->n_total ? r->n_total : r->pos0 + r->n_tok;
        const float *inv = t->inv_long && total > t->r->n_ctx_orig ? t->inv_long : t->inv;
        for (uint32_t k = first; k < last; k++) one_token(t, inv, k, r->pos0 + (k - r->tok_first), total);
    }
}

/* Up to the original context all positions rotate alike; beyond it LongRoPE has one other set of factors, and
 * dynamic NTK another base for each length. */
uint64_t hy_plan_cache_salt(const hy_plan *p, uint32_t n_total)
{
    uint64_t salt = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const hy_rope_table *t = &p->rope[i];
        if (!t->half || n_total <= t->r->n_ctx_orig) continue;
        if (t->inv_long) salt = salt * 31 + 1;
        if (t->r->kind == HY_ROPE_DYNAMIC) salt = salt * 31 + n_total;
    }
    return salt;
}
