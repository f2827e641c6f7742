/* Fusion on the shape that the claim is usually told of: GPT-2 (12 layers, 768 wide, 12 heads, LayerNorm - Linear -
 * GELU - Linear, 124 million weights), with random weights, since no operator's time depends on them. The file is made
 * for the run and taken away as soon as it is loaded. */
#include "ablate_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the file ----------------------------------------------------------------------------------------- */

typedef struct shape {
    uint32_t n_layer, n_embd, n_head, n_vocab, n_ctx;
} shape;

typedef struct maker {
    hy_gguf_writer *w;
    shape s;
    uint8_t *q8;               /* random Q8_0 blocks of BLOCKS * 32 weights, written again and again */
    float *f32;                /* zeros, then ones: [4 * n_embd] each; and random positions */
} maker;

enum { BLOCKS = 8192, Q8_BYTES = 34 };

typedef struct part {
    const char *name;          /* with %u: the layer's */
    uint64_t k, n;             /* n 0: a vector */
} part;

/* Declares (data false) or writes every tensor in the same order. */
static hy_status one_part(maker *m, const part *t, uint32_t i_layer, bool data, hy_err *err)
{
    char name[64];
    snprintf(name, sizeof name, t->name, i_layer);
    bool matrix = t->n && strncmp(name, "position", 8) != 0;
    uint64_t dim[2] = { t->k, t->n }, n = t->k * HY_MAX(t->n, 1);
    if (!data) return hy_gguf_declare(m->w, name, t->n ? 2 : 1, dim, matrix ? HY_Q_Q8_0 : HY_Q_F32, err);
    if (!matrix) {
        bool ones = strstr(name, "norm.weight") != NULL;
        const float *from = m->f32 + (ones ? 4ull * m->s.n_embd : 0);
        for (uint64_t at = 0; at < n; at += t->k) HY_TRY(hy_gguf_put_data(m->w, from, t->k * sizeof *from, err));
        return HY_OK;
    }
    for (uint64_t left = n / 32; left;) {
        uint64_t k = HY_MIN(left, (uint64_t)BLOCKS);
        HY_TRY(hy_gguf_put_data(m->w, m->q8, k * Q8_BYTES, err));
        left -= k;
    }
    return HY_OK;
}

static hy_status all_parts(maker *m, bool data, hy_err *err)
{
    const uint64_t e = m->s.n_embd;
    const part whole[] = { { "token_embd.weight", e, m->s.n_vocab }, { "position_embd.weight", e, m->s.n_ctx },
                           { "output_norm.weight", e, 0 }, { "output_norm.bias", e, 0 } };
    const part layer[] = {
        { "blk.%u.attn_norm.weight", e, 0 },    { "blk.%u.attn_norm.bias", e, 0 },
        { "blk.%u.attn_qkv.weight", e, 3 * e }, { "blk.%u.attn_qkv.bias", 3 * e, 0 },
        { "blk.%u.attn_output.weight", e, e },  { "blk.%u.attn_output.bias", e, 0 },
        { "blk.%u.ffn_norm.weight", e, 0 },     { "blk.%u.ffn_norm.bias", e, 0 },
        { "blk.%u.ffn_up.weight", e, 4 * e },   { "blk.%u.ffn_up.bias", 4 * e, 0 },
        { "blk.%u.ffn_down.weight", 4 * e, e }, { "blk.%u.ffn_down.bias", e, 0 },
    };
    for (size_t i = 0; i < HY_COUNT(whole); i++) HY_TRY(one_part(m, &whole[i], 0, data, err));
    for (uint32_t l = 0; l < m->s.n_layer; l++)
        for (size_t i = 0; i < HY_COUNT(layer); i++) HY_TRY(one_part(m, &layer[i], l, data, err));
    return HY_OK;
}

static hy_status put_meta(maker *m, hy_err *err)
{
    HY_TRY(hy_gguf_put_str(m->w, "general.architecture", "gpt2", err));
    HY_TRY(hy_gguf_put_str(m->w, "general.name", "the shape of GPT-2, random weights", err));
    HY_TRY(hy_gguf_put_u32(m->w, "gpt2.block_count", m->s.n_layer, err));
    HY_TRY(hy_gguf_put_u32(m->w, "gpt2.embedding_length", m->s.n_embd, err));
    HY_TRY(hy_gguf_put_u32(m->w, "gpt2.feed_forward_length", 4 * m->s.n_embd, err));
    HY_TRY(hy_gguf_put_u32(m->w, "gpt2.attention.head_count", m->s.n_head, err));
    HY_TRY(hy_gguf_put_u32(m->w, "gpt2.context_length", m->s.n_ctx, err));
    return hy_gguf_put_f32(m->w, "gpt2.attention.layer_norm_epsilon", 1e-5f, err);
}

static hy_status make_file(const shape *s, const char *path, hy_err *err)
{
    maker m = { .s = *s, .q8 = hy_alloc((size_t)BLOCKS * Q8_BYTES), .f32 = HY_NEW_ARRAY(float, 8ull * s->n_embd) };
    hy_status st = m.q8 && m.f32 ? HY_OK : hy_fail_memory(err, "weights", (uint64_t)BLOCKS * Q8_BYTES);
    for (uint32_t i = 0; st == HY_OK && i < BLOCKS; i++) {
        uint16_t scale = hy_f32_f16(0.0005f); /* weights within 0.06, as after training */
        memcpy(m.q8 + (size_t)i * Q8_BYTES, &scale, sizeof scale);
        for (uint32_t k = 0; k < 32; k += 8) {
            uint64_t bits = hy_rng_at(124, i, k);
            memcpy(m.q8 + (size_t)i * Q8_BYTES + 2 + k, &bits, 8);
        }
    }
    for (uint32_t i = 0; st == HY_OK && i < 4 * s->n_embd; i++) m.f32[4ull * s->n_embd + i] = 1;
    if (st == HY_OK) st = hy_gguf_create(&m.w, path, err);
    if (st == HY_OK) st = put_meta(&m, err);
    if (st == HY_OK) st = all_parts(&m, false, err);
    if (st == HY_OK) st = all_parts(&m, true, err);
    if (st == HY_OK) {
        st = hy_gguf_finish(m.w, err);
        m.w = NULL;
    }
    hy_gguf_abort(m.w);
    hy_free(m.q8);
    hy_free(m.f32);
    return st;
}

/* ---- the group ------------------------------------------------------------------------------------------ */

static hy_status race_both(ab *a, hy_session *s[2], ab_row r[2], uint32_t n_prompt, hy_err *err)
{
    const ab_config c = { .kv_off = false };
    hy_status st = HY_OK;
    uint32_t round = 0;
    double ttft, itl;
    for (int i = 0; i < 2 && st == HY_OK; i++) st = ab_shape(s[i], &c, 16, 2, &ttft, &itl, err);
    for (uint64_t us = hy_now_us(); ab_more(a, round, us, err, &st); round++)
        for (uint32_t k = 0; k < 2 && st == HY_OK; k++) {
            uint32_t i = (round + k) % 2;
            st = ab_shape_row(a, s[i], &c, n_prompt, &r[i], err);
        }
    ab_end(a, round);
    return st;
}

static hy_status measure(ab *a, hy_session *own, const shape *s, hy_err *err)
{
    hy_session *two[2] = { own, NULL };
    ab_row r[2] = { ab_row_make("fusion", "gpt2", "off"), ab_row_make("fusion", "gpt2", "on") };
    hy_options o = a->base;
    o.n_ctx = s->n_ctx;
    o.n_seq = 1;
    o.kv_tokens = s->n_ctx;
    o.kv_type = "f16";
    o.no_fuse = true;
    uint32_t n_prompt = HY_MIN(a->n_prompt, s->n_ctx - a->n_gen - 1);
    hy_status st = hy_session_share(&two[0], own, &o, err);
    two[1] = own;
    if (st == HY_OK) st = race_both(a, two, r, n_prompt, err);
    for (int i = 0; i < 2 && st == HY_OK; i++) r[i].memory_mib = ab_memory(two[i], s->n_ctx);
    if (st == HY_OK) st = ab_same_logits(a, two[0], two[1], &r[1].same_bits, err);
    if (st == HY_OK) st = ab_traffic(a, two, n_prompt, &r[0], &r[1], err);
    if (two[0] != own) hy_session_close(two[0]);
    if (st != HY_OK) return st;
    ab_row_gain(&r[1], "itl", ab_median(&r[0].itl) / ab_median(&r[1].itl));
    char of[96];
    snprintf(of, sizeof of, "the shape of GPT-2 (%u layers, %u wide), Q8_0", s->n_layer, s->n_embd);
    ab_claim_fusion(a, of, &r[0], &r[1]);
    ab_row_add(a, &r[0]);
    ab_row_add(a, &r[1]);
    return HY_OK;
}

hy_status ab_group_gpt2(ab *a, hy_err *err)
{
    shape s = { .n_layer = 12, .n_embd = 768, .n_head = 12, .n_vocab = 50257, .n_ctx = 512 };
    if (a->minutes < 1) { /* the whole one takes seconds to make and load */
        s = (shape){ .n_layer = 2, .n_embd = 768, .n_head = 12, .n_vocab = 4096, .n_ctx = 512 };
        ab_note(a, "fusion, GPT-2: 2 of its 12 layers, because less than a minute was given");
    }
    char name[64];
    snprintf(name, sizeof name, "ablation-gpt2-%ld.gguf", (long)getpid());
    hy_buf path = { 0 };
    if (!hy_cache_file(name, &path)) {
        hy_buf_reset(&path);
        const char *tmp = getenv("TMPDIR");
        hy_buf_printf(&path, "%s/%s", tmp && *tmp ? tmp : "/tmp", name);
    }
    if (path.failed) {
        hy_buf_free(&path);
        return hy_fail_memory(err, "path", 64);
    }
    hy_options o = a->base;
    o.model = path.data;
    o.n_ctx = s.n_ctx;
    o.n_seq = 1;
    o.kv_tokens = s.n_ctx;
    o.kv_type = "f16";
    hy_session *own = NULL;
    hy_status st = make_file(&s, path.data, err);
    if (st == HY_OK) st = hy_session_open(&own, &o, err);
    unlink(path.data);
    hy_buf_free(&path);
    if (st == HY_OK) st = measure(a, own, &s, err);
    hy_session_close(own);
    return st;
}
