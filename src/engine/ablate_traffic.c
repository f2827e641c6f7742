/* Fusion: what the primitive and the fused form move, counted by the shapes of steps that ran: a prompt, and a token
 * behind it. Activations are what operators write and read of each other's results; what an operator inside a fused one
 * reads does not count, since it is still in a cache of the thread that wrote it. */
#include "ablate_impl.h"
#include <math.h>
#include <stdio.h>

typedef struct moved {
    uint64_t n, mem, act;      /* operators; bytes of weights and keys; of activations */
    hy_op_time op[HY_OP_COUNT];
    uint32_t n_op;
} moved;

static hy_status count(hy_session *s, uint32_t pos0, uint32_t n_tok, moved *out, hy_err *err)
{
    hy_plan *plan = hy_session_core(s)->plan;
    *out = (moved){ 0 };
    if (!hy_plan_timing(plan, true)) return hy_fail_memory(err, "timing", sizeof out->op);
    hy_status st = hy_session_rows(s, 1, pos0, n_tok, true, err);
    out->n_op = hy_plan_times(plan, out->op);
    (void)hy_plan_timing(plan, false);
    for (uint32_t i = 0; i < out->n_op; i++) {
        out->n += out->op[i].n;
        out->mem += out->op[i].mem_bytes;
        out->act += out->op[i].bytes - out->op[i].mem_bytes;
    }
    return st;
}

/* By operator: how many there are, and the activations that they move for the prompt. */
static json_t *by_operator(const moved *prompt)
{
    json_t *o = json_object();
    for (uint32_t i = 0; i < prompt->n_op; i++) {
        const hy_op_time *t = &prompt->op[i];
        json_object_set_new(o, hy_op_name(t->op), json_pack("{s:I, s:I}", "number", (json_int_t)t->n, "bytes",
                                                            (json_int_t)(t->bytes - t->mem_bytes)));
    }
    return o;
}

static hy_status one_side(hy_session *s, uint32_t n_prompt, json_t **out, hy_err *err)
{
    moved prompt, token;
    HY_TRY(hy_session_restart(s, 1, n_prompt + 1ull, err));
    HY_TRY(count(s, 0, n_prompt, &prompt, err));
    HY_TRY(count(s, n_prompt, 1, &token, err));
    *out = json_pack("{s:I, s:I, s:I, s:i, s:I, s:I, s:o}", "instructions", (json_int_t)token.n, "weight_bytes",
                     (json_int_t)token.mem, "activation_bytes", (json_int_t)token.act, "prompt", (int)n_prompt,
                     "prompt_weight_bytes", (json_int_t)prompt.mem, "prompt_activation_bytes", (json_int_t)prompt.act,
                     "operators", by_operator(&prompt));
    return *out ? HY_OK : hy_fail_memory(err, "traffic", 1024);
}

hy_status ab_traffic(ab *a, hy_session *const s[2], uint32_t n_prompt, ab_row *off, ab_row *on, hy_err *err)
{
    hy_status st = one_side(s[0], n_prompt, &off->extra, err);
    if (st == HY_OK) st = one_side(s[1], n_prompt, &on->extra, err);
    if (st == HY_OK) st = ab_tick(a, err);
    if (st == HY_OK) return HY_OK;
    json_decref(off->extra);
    json_decref(on->extra);
    off->extra = on->extra = NULL;
    return st;
}

static double of_extra(const ab_row *r, const char *key)
{
    return json_number_value(json_object_get(r->extra, key));
}

/* Percent less. */
static double less(double off, double on)
{
    return 100 * (1 - on / off);
}

void ab_claim_fusion(ab *a, const char *of, const ab_row *off, const ab_row *on)
{
    double step = less(ab_median(&off->itl), ab_median(&on->itl)),
           prompt = less(ab_median(&off->ttft), ab_median(&on->ttft));
    double a0 = of_extra(off, "activation_bytes"), a1 = of_extra(on, "activation_bytes"),
           w = of_extra(off, "weight_bytes"), p0 = of_extra(off, "prompt_activation_bytes"),
           p1 = of_extra(on, "prompt_activation_bytes"), pw = of_extra(off, "prompt_weight_bytes");
    double token_less = less(a0, a1), prompt_less = less(p0, p1), n = of_extra(off, "prompt");
    char about[300];
    snprintf(about, sizeof about, "%s: fused against the primitive operators one by one", of);
    ab_claim(a, "fusion, latency", "20 to 30 % less", step, HY_MIN(step, prompt), HY_MAX(step, prompt), "percent",
             HY_MAX(step, prompt) >= 20, about, "%.1f %% %s for a token, %.1f %% %s for a prompt of %.0f", fabs(step),
             step < 0 ? "more" : "less", fabs(prompt), prompt < 0 ? "more" : "less", n);
    snprintf(about, sizeof about,
             "%s: activations that operators write and read, fused (%.2f and %.0f MB) against one by one (%.2f and %.0f "
             "MB); with weights and keys %.1f and %.1f %% less",
             of, a1 / 1e6, p1 / 1e6, a0 / 1e6, p0 / 1e6, less(a0 + w, a1 + w), less(p0 + pw, p1 + pw));
    ab_claim(a, "fusion, traffic", "40 % less", prompt_less, HY_MIN(token_less, prompt_less),
             HY_MAX(token_less, prompt_less), "percent", HY_MAX(token_less, prompt_less) >= 40, about,
             "%.1f %% less for a token, %.1f %% less for a prompt of %.0f", token_less, prompt_less, n);
}
