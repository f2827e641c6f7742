/* Private to ablate*.c: the run, its time, configurations and rows. */
#ifndef HY_ENGINE_ABLATE_IMPL_H
#define HY_ENGINE_ABLATE_IMPL_H

#include "ablate.h"

#define AB_ROUNDS 7            /* most repeats of a measurement */
#define AB_ROUNDS_FEW 31       /* the same where only some techniques are asked for */
#define AB_GROUPS 15
#define AB_GOOD 3              /* fewer than these are told in the notes */
#define AB_MIB (1024.0 * 1024)

typedef struct ab_stat {       /* one number's repeats */
    double v[AB_ROUNDS_FEW];
    uint32_t n;
} ab_stat;
void ab_put(ab_stat *s, double v);
double ab_median(const ab_stat *s);                /* NAN: none */
json_t *ab_range(const ab_stat *s);                /* [least, most], or null */
json_t *ab_number(double v);                       /* null for NAN; rounded to five digits */

/* ---- how a model runs ---------------------------------------------------------------------------- */

typedef struct ab_config {
    const char *weights;       /* NULL: as in the file; else every matrix becomes this */
    bool act_f32, no_fuse, materialised, small_pages;
    bool kv_off;               /* everything is computed again for each token */
    const char *kv_type;       /* NULL: auto */
} ab_config;

/* A model with its weights in one type, opened once; variants share it. */
typedef struct ab_model {
    const char *weights;
    bool small_pages;
    hy_session *s;
    struct ab_model *next;
} ab_model;

typedef struct ab {
    const hy_ablation_params *p;
    hy_options base;           /* model, threads, isa */
    double minutes;
    uint64_t us_begin, us_end; /* of the whole; about */
    double weight_all, weight_left; /* of all groups; of those to come */
    bool wanted[AB_GROUPS];
    uint64_t us_group_end;
    bool cancelled;
    hy_err cancel_err;
    uint32_t n_short, n_group; /* groups with few repeats; all */
    uint32_t n_round;          /* most repeats */

    ab_model *models;
    ab_config best, plain, reference;
    const char *best_weights;  /* as shown */
    uint32_t n_prompt, n_gen;  /* the shape: tokens of a prompt, of the answer that is timed */
    uint32_t n_ctx;            /* the model's */
    uint32_t n_vocab;
    bool has_tok;
    double unit_ms;            /* a prompt of n_prompt tokens as the best runs it */
    const char *text; size_t n_text;

    json_t *root, *rows, *curves, *claims, *notes;
    const char *group;
} ab;

/* ablate.c: time. A group may use its share of what is left by weight. */
void ab_begin(ab *a, const char *group, double weight);
/* One more round? The first always; then while the group has time. HY_E_CANCELLED after Ctrl-C. */
bool ab_more(ab *a, uint32_t i_round, uint64_t us_first, hy_err *err, hy_status *st);
void ab_end(ab *a, uint32_t n_round);
bool ab_time_for(const ab *a, double ms);          /* is there so much left in the group? */
hy_status ab_tick(ab *a, hy_err *err);             /* progress; HY_E_CANCELLED */
void ab_note(ab *a, const char *fmt, ...) HY_PRINTF(2, 3);

/* ablate_rows.c */
typedef struct ab_row {
    const char *technique, *baseline;
    char setting[48];
    ab_stat ttft, itl, tps;    /* ms, ms, tokens a second */
    double memory_mib;         /* NAN: not a matter of it */
    double ppl_delta, kl;      /* NAN: not measured */
    int same_bits;             /* -1: not compared */
    const char *gain_what;     /* NULL: none */
    double gain;
    json_t *extra;             /* or NULL; taken */
} ab_row;
ab_row ab_row_make(const char *technique, const char *baseline, const char *setting);
void ab_row_gain(ab_row *r, const char *what, double ratio);
void ab_row_add(ab *a, ab_row *r);
void ab_claim(ab *a, const char *claim, const char *said, double value, double low, double high, const char *unit,
              bool holds, const char *about, const char *fmt, ...) HY_PRINTF(10, 11);

/* ablate_session.c: models and variants */
/* A model with these weights, opened on first use; n_ctx is the longest that variants need. */
hy_status ab_model_get(ab *a, const char *weights, bool small_pages, ab_model **out, hy_err *err);
void ab_models_close(ab *a, bool all);             /* all, or all but the best one's */
/* A session that shares the model: rows sequences of n_ctx tokens, steps of n_step. Close with hy_session_close. */
hy_status ab_variant(ab *a, const ab_config *c, uint32_t n_ctx, uint32_t n_step, uint32_t rows, hy_session **out,
                     hy_err *err);
double ab_memory(const hy_session *s, uint32_t n_ctx); /* MiB: weights, KV of one sequence, working memory */
/* Are the last logits of a short text the same bits in both? -1: they differ, and how far is not said. */
hy_status ab_same_logits(ab *a, hy_session *x, hy_session *y, int *same, hy_err *err);
/* One prompt and a few tokens; ms of each. */
hy_status ab_shape(hy_session *s, const ab_config *c, uint32_t n_prompt, uint32_t n_gen, double *ttft, double *itl,
                   hy_err *err);
/* The same into a row. */
hy_status ab_shape_row(ab *a, hy_session *s, const ab_config *c, uint32_t n_prompt, ab_row *r, hy_err *err);
/* Perplexity and divergence of `c` against `base`. Leaves both NAN where the model has no tokenizer. */
hy_status ab_quality(ab *a, const ab_config *base, const ab_config *c, double *ppl_delta, double *kl, hy_err *err);
/* The last logits of n tokens fed in chunks. Free with hy_free. */
hy_status ab_logits(hy_session *s, uint32_t n, uint32_t chunk, float **out, hy_err *err);

/* ablate_traffic.c: bytes that the primitive and the fused form move, into extra of both rows; and what follows */
hy_status ab_traffic(ab *a, hy_session *const s[2], uint32_t n_prompt, ab_row *off, ab_row *on, hy_err *err);
void ab_claim_fusion(ab *a, const char *of, const ab_row *off, const ab_row *on);

/* the groups: ablate_session.c, ablate_model.c, ablate_engine.c, ablate_spec.c, ablate_gpt2.c */
hy_status ab_group_kv(ab *a, hy_err *err);
hy_status ab_group_attention(ab *a, hy_err *err);
hy_status ab_group_fusion(ab *a, hy_err *err);
hy_status ab_group_gpt2(ab *a, hy_err *err);
hy_status ab_group_weights(ab *a, hy_err *err);
hy_status ab_group_activations(ab *a, hy_err *err);
hy_status ab_group_kv_type(ab *a, hy_err *err);
hy_status ab_group_plain(ab *a, hy_err *err);
hy_status ab_group_threads(ab *a, hy_err *err);
hy_status ab_group_huge(ab *a, hy_err *err);
hy_status ab_group_paged(ab *a, hy_err *err);
hy_status ab_group_prefix(ab *a, hy_err *err);
hy_status ab_group_chunked(ab *a, hy_err *err);
hy_status ab_group_batching(ab *a, hy_err *err);
hy_status ab_group_speculation(ab *a, hy_err *err);

/* ablate_text.c: a text of our own, and when a technique is worth using */
extern const char ab_prose[], ab_copy_text[], ab_code_text[], ab_json_schema[];
void ab_when(const char *technique, const char **when, const char **when_not);

#endif
