/* Which type each tensor becomes. A mix spends more bits where errors cost most: on the output matrix,
 * and, in some of the layers, on the values and the way down from the feed-forward. The mixes' names
 * and their idea are those of GGUF files in circulation. */
#include "quantize.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hy_q_mix {
    const char *name;
    uint32_t file_type;        /* general.file_type, as GGUF files number it */
    hy_qtype base, output, embd;
    hy_qtype v, v_more;        /* attn_v and attn_qkv; _more: in the favoured layers */
    hy_qtype down, down_more;  /* ffn_down */
    hy_qtype o;                /* attn_output */
};

#define PLAIN(name, n, t) { name, n, HY_Q_##t, HY_Q_##t, HY_Q_##t, HY_Q_##t, HY_Q_##t, HY_Q_##t, HY_Q_##t, HY_Q_##t }
#define MIX(name, n, base, out, embd, v, v2, down, down2, o)                                       \
    { name, n, HY_Q_##base, HY_Q_##out, HY_Q_##embd, HY_Q_##v, HY_Q_##v2, HY_Q_##down, HY_Q_##down2, HY_Q_##o }

/* q2_k and iq4_xs are mixes as everywhere; `--override '*=q2_k'` makes them plain. */
static const hy_q_mix mixes[] = {
    PLAIN("f32", 0, F32), PLAIN("f16", 1, F16), PLAIN("bf16", 32, BF16), PLAIN("q8_0", 7, Q8_0),
    PLAIN("q4_0", 2, Q4_0), PLAIN("q4_1", 3, Q4_1), PLAIN("q5_0", 8, Q5_0), PLAIN("q5_1", 9, Q5_1),
    PLAIN("q3_k", 11, Q3_K), PLAIN("q4_k", 14, Q4_K), PLAIN("q5_k", 16, Q5_K), PLAIN("q6_k", 18, Q6_K),
    PLAIN("mxfp4", 38, MXFP4),
    MIX("q2_k", 10, Q2_K, Q6_K, Q2_K, Q3_K, Q4_K, Q3_K, Q3_K, Q3_K),
    MIX("q3_k_s", 11, Q3_K, Q6_K, Q3_K, Q3_K, Q3_K, Q3_K, Q3_K, Q3_K),
    MIX("q3_k_m", 12, Q3_K, Q6_K, Q3_K, Q4_K, Q5_K, Q4_K, Q5_K, Q4_K),
    MIX("q3_k_l", 13, Q3_K, Q6_K, Q3_K, Q5_K, Q5_K, Q5_K, Q5_K, Q5_K),
    MIX("q4_k_s", 14, Q4_K, Q6_K, Q4_K, Q4_K, Q5_K, Q4_K, Q5_K, Q4_K),
    MIX("q4_k_m", 15, Q4_K, Q6_K, Q4_K, Q4_K, Q6_K, Q4_K, Q6_K, Q4_K),
    MIX("q5_k_s", 16, Q5_K, Q6_K, Q5_K, Q5_K, Q5_K, Q5_K, Q5_K, Q5_K),
    MIX("q5_k_m", 17, Q5_K, Q6_K, Q5_K, Q5_K, Q6_K, Q5_K, Q6_K, Q5_K),
    MIX("iq4_nl", 25, IQ4_NL, Q6_K, IQ4_NL, IQ4_NL, Q5_K, IQ4_NL, Q5_K, IQ4_NL),
    MIX("iq4_xs", 30, IQ4_XS, Q6_K, IQ4_XS, IQ4_XS, Q5_K, IQ4_XS, Q5_K, IQ4_XS),
};

const char *hy_tool_quantize_types(void)
{
    return "f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q3_k_s, q3_k_m, q3_k_l, q4_k, q4_k_s, q4_k_m, "
           "q5_k, q5_k_s, q5_k_m, q6_k, iq4_nl, iq4_xs, mxfp4";
}

/* Any case; '-' for '_'. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        char c = *a == '-' ? '_' : *a >= 'A' && *a <= 'Z' ? (char)(*a + 32) : *a;
        if (c != *b) return false;
    }
    return *a == *b;
}

hy_status hy_q_mix_find(const hy_q_mix **out, const char *name, hy_err *err)
{
    for (size_t i = 0; i < HY_COUNT(mixes); i++) {
        if (!same_name(name, mixes[i].name)) continue;
        *out = &mixes[i];
        return HY_OK;
    }
    return hy_fail(err, HY_E_ARG, "type '%.40s' is not one of %s", name, hy_tool_quantize_types());
}

uint32_t hy_q_mix_file_type(const hy_q_mix *m)
{
    return m->file_type;
}

/* '*' any run, '?' any character. Linear in the name for each '*'. */
static bool matches(const char *pattern, const char *s)
{
    const char *star = NULL, *from = s;
    while (*s) {
        if (*pattern == '*') {
            star = pattern++;
            from = s;
        } else if (*pattern == '?' || *pattern == *s) {
            pattern++;
            s++;
        } else if (star) {
            pattern = star + 1;
            s = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

static bool ends(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Norms, biases, routers, positions and rotary factors are small and sensitive: they are left alone. */
static bool is_matrix(const hy_q_item *it)
{
    return it->n_dims >= 2 && ends(it->name, ".weight") && !strstr(it->name, "_norm") &&
           !strstr(it->name, "ffn_gate_inp") && !strstr(it->name, "position_embd") && strncmp(it->name, "rope_", 5) != 0;
}

/* The first and the last eighth of the layers, and each third between. */
static bool is_favoured(const char *name, uint32_t n_layer)
{
    uint32_t i = strncmp(name, "blk.", 4) == 0 ? (uint32_t)strtoul(name + 4, NULL, 10) : 0;
    uint32_t eighth = n_layer / 8;
    return i < eighth || i >= 7 * (uint64_t)n_layer / 8 || (i - eighth) % 3 == 2;
}

static hy_qtype by_mix(const hy_q_mix *m, const char *name, uint32_t n_layer, bool has_output)
{
    bool more = is_favoured(name, n_layer);
    if (strcmp(name, "output.weight") == 0) return m->output;
    if (strcmp(name, "token_embd.weight") == 0) return has_output ? m->embd : m->output; /* it is the output too */
    if (strstr(name, ".attn_v.") || strstr(name, ".attn_qkv.")) return more ? m->v_more : m->v;
    if (strstr(name, ".ffn_down")) return more ? m->down_more : m->down;
    if (strstr(name, ".attn_output.")) return m->o;
    return m->base;
}

static hy_qtype fitting(hy_qtype want, uint64_t k)
{
    if (k % hy_quant(want)->block == 0) return want;
    return k % hy_quant(HY_Q_Q8_0)->block == 0 ? HY_Q_Q8_0 : HY_Q_F16;
}

hy_status hy_q_choose(const hy_q_mix *m, const hy_quantize_params *p, uint32_t n_layer, bool has_output,
                      hy_q_item *it, hy_err *err)
{
    if (!is_matrix(it)) {
        it->want = it->n_dims == 1 && hy_quant(it->have)->is_float ? HY_Q_F32 : it->have;
        if (!it->src) it->want = HY_Q_F32;
        return HY_OK;
    }
    hy_qtype want = by_mix(m, it->name, n_layer, has_output);
    for (uint32_t i = 0; i < p->n_override; i++) {
        if (!matches(p->override[i].pattern, it->name)) continue;
        if (!hy_quant_from_name(p->override[i].type, &want))
            return hy_fail(err, HY_E_ARG, "override '%.60s': type '%.40s' is not known", p->override[i].pattern,
                           p->override[i].type);
        break;
    }
    it->want = fitting(want, it->dim[0]);
    if (it->want != want)
        hy_log(HY_LOG_WARN, "quantize_fallback", "tensor=%s row=%llu type=%s instead=%s", it->name,
               (unsigned long long)it->dim[0], hy_quant(want)->name, hy_quant(it->want)->name);
    return HY_OK;
}
