/* Pages shared by several sequences of a step are read once for all of them, and no bit changes: every row of
 * mixed steps over a prefix from the cache must give the logits of its sequence computed alone, whole, in one
 * step. The sequences:
 *
 *   0 ... 6   common tokens [0, 192), then their own
 *   7 ... 9   the first 100 of those, then common to the three up to 192, then their own
 *   10, 11    nothing in common with anybody */
#include "../common/drive.h"

#define N_SEQ 12
#define N_SHARED 192
#define N_CTX 256
#define N_DECODE 12

typedef struct base {
    const char *name;
    hy_model *m;
    uint32_t v;
    uint32_t n_prompt[N_SEQ], n_all[N_SEQ];
    int32_t tok[N_SEQ][N_CTX];
    float *want[N_SEQ];        /* [n_all, v] */
} base;

static void make_tokens(base *b)
{
    for (uint32_t r = 0; r < N_SEQ; r++) {
        uint32_t family = r < 7 ? 0 : r < 10 ? 1 : 2 + r;
        b->n_prompt[r] = N_SHARED + 1 + r * 7 % 23; /* some within a small window of the shared part */
        b->n_all[r] = b->n_prompt[r] + N_DECODE;
        for (uint32_t k = 0; k < b->n_all[r]; k++) {
            uint32_t from = k >= N_SHARED ? 100 + r : k < 100 && family == 1 ? 0 : family;
            b->tok[r][k] = (int32_t)(hy_rng_at(11, from, k) % b->v);
        }
    }
}

/* Every sequence alone: its own pages, one step, one thread. */
static void reference(base *b, hy_kv_type type)
{
    drive d;
    drive_opts o = { .n_thread = 1, .n_ctx = N_CTX, .n_tok_max = N_CTX, .kv_type = type };
    drive_over(&d, b->m, &o);
    for (uint32_t r = 0; r < N_SEQ; r++) {
        b->want[r] = realloc(b->want[r], (size_t)b->n_all[r] * b->v * sizeof(float));
        drive_step(&d, 0, b->tok[r], b->n_all[r], 0, N_CTX, b->want[r]);
        hy_kv_truncate(d.kv, &d.t[0], 0);
    }
    drive_close(&d);
}

static void check_row(const base *b, const float *got, uint32_t r, uint32_t pos, const char *what, uint32_t arg)
{
    const float *want = b->want[r] + (size_t)pos * b->v;
    for (uint32_t i = 0; i < b->v; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s, %s %u: sequence %u, position %u, logit %u is %.9g, not %.9g", b->name, what, arg, r, pos, i,
                     (double)got[i], (double)want[i]);
}

/* A step: give[r] tokens of each sequence. */
static void step(drive *d, const base *b, uint32_t *done, const uint32_t *give, const char *what, uint32_t arg)
{
    int32_t tok[1024], pos[1024];
    uint32_t out_tok[1024], seq[1024];
    hy_row row[N_SEQ];
    hy_batch batch = { .token = tok, .pos = pos, .row = row, .out_tok = out_tok };
    for (uint32_t i = 0; i < N_SEQ; i++) {
        uint32_t r = (i * 5 + 3) % N_SEQ; /* families are scattered over the batch */
        uint32_t n = HY_MIN(give[r], b->n_all[r] - done[r]);
        if (n == 0) continue;
        DRIVE_OK(hy_kv_reserve(d->kv, &d->t[r], done[r] + n, err));
        row[batch.n_row++] = (hy_row){ &d->t[r], batch.n_tok, n, done[r], N_CTX };
        for (uint32_t k = 0; k < n; k++, batch.n_tok++) {
            tok[batch.n_tok] = b->tok[r][done[r] + k];
            pos[batch.n_tok] = (int32_t)(done[r] + k);
            seq[batch.n_tok] = r;
            out_tok[batch.n_out++] = batch.n_tok;
        }
        done[r] += n;
    }
    if (batch.n_tok == 0) return;
    float *out = malloc((size_t)batch.n_tok * b->v * sizeof *out);
    DRIVE_OK(hy_plan_run(d->plan, d->team, d->kv, &batch, out, err));
    for (uint32_t k = 0; k < batch.n_tok; k++)
        check_row(b, out + (size_t)k * b->v, seq[k], (uint32_t)pos[k], what, arg);
    free(out);
    for (uint32_t r = 0; r < N_SEQ; r++) hy_kv_slide(d->kv, &d->t[r], done[r]);
}

/* Tables over the shared pages, as the cache gives them. */
static void prefixes(drive *d, const base *b, uint32_t *done)
{
    for (uint32_t r = 0; r < N_SEQ; r++) {
        done[r] = hy_kv_cache_take(d->kv, &d->t[r], 5, b->tok[r], b->n_prompt[r]);
        uint32_t first = r == 7 ? 96 : r == 0 || r > 9 ? 0 : N_SHARED;
        bool windowed = false; /* pages that slid out of small windows are a hit only where the window is whole */
        for (uint32_t g = 0; g < hy_kv_n_group(d->kv); g++) windowed |= hy_kv_group_of(d->kv, g)->window != 0;
        if (windowed) assert_true(done[r] <= first);
        else assert_int_equal(done[r], first);
        if (done[r] < N_SHARED) {
            drive_step(d, r, b->tok[r] + done[r], N_SHARED - done[r], done[r], N_CTX, NULL);
            done[r] = N_SHARED;
        }
        hy_kv_cache_put(d->kv, &d->t[r], 5, b->tok[r], N_SHARED);
        hy_kv_slide(d->kv, &d->t[r], done[r]);
    }
}

/* What the first step of single tokens must save in a group (times layers), from the picture above: a chunk holds
 * all ten. */
static uint64_t expected(const hy_kv_group *g)
{
    return g->window ? 0 : (uint64_t)g->n_layer * HY_ATT_TILE * ((10 - 1) + 2 * ((7 - 1) + (3 - 1)));
}

static void schedule(base *b, drive_opts o, const char *what, uint32_t arg)
{
    drive d;
    o.n_ctx = N_CTX;
    o.n_tok_max = 512;
    o.n_page = N_SEQ * (N_CTX / 16 + 1);
    drive_over(&d, b->m, &o);
    uint32_t done[N_SEQ], give[N_SEQ];
    prefixes(&d, b, done);
    for (uint32_t r = 0; r < N_SEQ; r++) give[r] = r == 2 ? 5 : r == 10 ? b->n_prompt[r] - N_SHARED : 1;
    step(&d, b, done, give, what, arg); /* single tokens, drafts, the rest of a prompt */
    uint64_t saved = hy_plan_cascade_saved(d.plan), least = 0;
    for (uint32_t r = 0; r < N_SEQ; r++) give[r] = 1;
    step(&d, b, done, give, what, arg);
    saved = hy_plan_cascade_saved(d.plan) - saved;
    bool all_full = true;
    uint32_t per = 1, n_layer = b->m->hp.n_layer;
    for (uint32_t g = 0; g < hy_kv_n_group(d.kv); g++) {
        least += expected(hy_kv_group_of(d.kv, g));
        all_full &= hy_kv_group_of(d.kv, g)->window == 0;
    }
    least = all_full ? least / n_layer : least / n_layer - (least >= n_layer);
    for (uint32_t l = 0; l < n_layer; l++)
        per = HY_MAX(per, b->m->hp.layer[l].n_head / b->m->hp.layer[l].n_kv_head);
    if (o.no_cascade) assert_int_equal(saved, 0);
    else if (o.n_thread == 1 && per <= 6) assert_true(all_full ? saved == least : saved >= least);
    else if (least) /* with many threads rows are kept apart, so that there is work for all */
        assert_true((saved > 0 || per > 6) && (saved <= least || !all_full));
    while (done[0] < b->n_all[0] || done[3] < b->n_all[3]) step(&d, b, done, give, what, arg);
    for (uint32_t r = 0; r < N_SEQ; r++) give[r] = 3;
    for (uint32_t i = 0; i < 20; i++) step(&d, b, done, give, what, arg);
    for (uint32_t r = 0; r < N_SEQ; r++) assert_int_equal(done[r], b->n_all[r]);
    const hy_page_table *tables[N_SEQ];
    for (uint32_t r = 0; r < N_SEQ; r++) tables[r] = &d.t[r];
    DRIVE_OK(hy_kv_check(d.kv, tables, N_SEQ, err));
    drive_close(&d);
}

static void run_model(const char *name, const char *path, uint32_t window)
{
    base *b = calloc(1, sizeof *b);
    b->name = name;
    DRIVE_OK(drive_load(&b->m, path, NULL, -1, err));
    b->v = b->m->hp.n_vocab;
    for (uint32_t l = 0; window && l < b->m->hp.n_layer; l += 2) b->m->hp.layer[l].window = window;
    make_tokens(b);
    for (hy_kv_type t = 0; t < HY_KV_TYPE_COUNT; t++) {
        if (t == HY_KV_Q4 && (b->m->hp.d_k % 32 || b->m->hp.d_v % 32)) continue;
        reference(b, t);
        drive_opts o = { .n_thread = 1, .kv_type = t };
        schedule(b, o, "KV type", t);
        o.n_thread = 3;
        schedule(b, o, "3 threads, KV type", t);
        if (t != HY_KV_F16) continue;
        o.n_thread = 8;
        schedule(b, o, "threads", 8);
        o.no_fuse = true;
        o.n_thread = 2;
        schedule(b, o, "no fusion, threads", 2);
        o.no_fuse = false;
        o.no_cascade = true;
        schedule(b, o, "no cascade, threads", 2);
    }
    for (uint32_t r = 0; r < N_SEQ; r++) free(b->want[r]);
    hy_model_free(b->m);
    free(b);
    print_message("%s, window %u: same bits\n", name, window);
}

static void same_bits(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint32_t window;       /* 0: as in the file */
    } cases[] = {
        { "llama3/model-bf16.gguf", 0 },   { "llama3/model-bf16.gguf", 100 }, { "llama3/model-bf16.gguf", 70 },
        { "gemma2/model-f32.gguf", 0 },    { "gemma2/model-f32.gguf", 150 },  { "gpt_oss/model-bf16.gguf", 0 },
        { "gemma3/model-f32.gguf", 130 },  { "qwen3/model-q8_0.gguf", 0 },    { "qwen2_moe/model-bf16.gguf", 0 },
        { "falcon7b/model-f32.gguf", 0 },  { "phi3_longrope/model-f32.gguf", 0 },
        { "Q4_K_M/model-q4_k_m.gguf", 0 },
    };
    static const char *const roots[] = { HY_DATA "/models", HY_SHARED "/golden/models", HY_DATA "/quantmodels" };
    uint32_t n = 0;
    for (uint32_t i = 0; i < HY_COUNT(cases); i++) {
        const char *only = getenv("HY_TEST_MODEL");
        if (only && strncmp(only, cases[i].path, strlen(only)) != 0) continue;
        for (uint32_t r = 0; r < HY_COUNT(roots); r++) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", roots[r], cases[i].path);
            if (!hy_is_file(path)) continue;
            run_model(cases[i].path, path, cases[i].window);
            n++;
            break;
        }
    }
    print_message("%u of %zu models were here\n", n, HY_COUNT(cases));
    assert_true(n > 0);
}

/* ---- tables of their own lengths ------------------------------------------------------------------ */

enum { N_SHORT = 66, N_LONG = 240 };

/* A step of a token for both sequences, of which the second fills the cache. */
static void two_rows(hy_model *m, uint32_t n_thread, int32_t tok[2][N_LONG], const float *want)
{
    const uint32_t n[2] = { N_SHORT - 1, N_LONG - 1 }, out[2] = { 0, 1 };
    int32_t last[2] = { tok[0][n[0]], tok[1][n[1]] }, pos[2] = { N_SHORT - 1, N_LONG - 1 };
    size_t v = m->hp.n_vocab;
    drive d;
    drive_opts o = { .n_thread = n_thread, .n_ctx = N_CTX, .n_tok_max = N_CTX, .n_page = 64, .kv_type = HY_KV_F16 };
    drive_over(&d, m, &o);
    for (uint32_t r = 2; r-- > 0;) {
        hy_page_table_free(d.kv, &d.t[r]);
        DRIVE_OK(hy_page_table_init(d.kv, &d.t[r], n[r] + 1, err));
        uint32_t done = hy_kv_cache_take(d.kv, &d.t[r], 5, tok[r], n[r]);
        assert_int_equal(done, r ? 0 : HY_ATT_TILE);
        drive_step(&d, r, tok[r] + done, n[r] - done, done, N_CTX, NULL);
        hy_kv_cache_put(d.kv, &d.t[r], 5, tok[r], HY_ATT_TILE);
        DRIVE_OK(hy_kv_reserve(d.kv, &d.t[r], n[r] + 1, err));
    }
    const hy_row row[2] = { { &d.t[0], 0, 1, n[0], N_CTX }, { &d.t[1], 1, 1, n[1], N_CTX } };
    hy_batch b = { .n_tok = 2, .token = last, .pos = pos, .n_row = 2, .row = row, .n_out = 2, .out_tok = out };
    float *got = malloc(2 * v * sizeof *got);
    DRIVE_OK(hy_plan_run(d.plan, d.team, d.kv, &b, got, err));
    assert_true(hy_plan_cascade_saved(d.plan) > 0);
    assert_memory_equal(got, want, 2 * v * sizeof *got);
    free(got);
    drive_close(&d);
}

/* Tables as long as they must be. Wherever a worker begins in the longer one's tiles, nothing behind the shorter
 * one's is looked at (which ASan sees). */
static void short_tables(void **state)
{
    (void)state;
    hy_model *m;
    DRIVE_OK(drive_load(&m, HY_DATA "/models/llama3/model-bf16.gguf", NULL, -1, err));
    size_t v = m->hp.n_vocab;
    int32_t tok[2][N_LONG];
    for (uint32_t k = 0; k < N_LONG; k++)
        for (uint32_t r = 0; r < 2; r++) tok[r][k] = (int32_t)(hy_rng_at(12, k < HY_ATT_TILE ? 0 : r, k) % v);
    drive d;
    drive_opts o = { .n_thread = 1, .n_ctx = N_CTX, .n_tok_max = N_CTX, .kv_type = HY_KV_F16 };
    drive_over(&d, m, &o);
    float *want = malloc((N_SHORT + N_LONG) * v * sizeof *want);
    drive_step(&d, 0, tok[0], N_SHORT, 0, N_CTX, want);
    hy_kv_truncate(d.kv, &d.t[0], 0);
    drive_step(&d, 1, tok[1], N_LONG, 0, N_CTX, want + N_SHORT * v);
    drive_close(&d);
    memmove(want, want + (N_SHORT - 1) * v, v * sizeof *want); /* the last of each */
    memmove(want + v, want + (N_SHORT + N_LONG - 1) * v, v * sizeof *want);
    for (uint32_t n_thread = 2; n_thread <= 9; n_thread++) two_rows(m, n_thread, tok, want);
    free(want);
    hy_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits), cmocka_unit_test(short_tables) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
