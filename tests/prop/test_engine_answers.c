/* What a request can ask beside text: embeddings, logprobs of its prompt, deadlines, notify, numbers; caches in
 * files; what monitors read. */
#include "engine_help.h"
#include <hayate/tools.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include "file/file.h"

enum { N_VOCAB = 512, N_EMBD = 64, N_PROMPT = 100 };

static void fill(int32_t *ids, uint32_t n, uint32_t kind)
{
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(10 + (kind * 131 + i * 17) % 470);
}

static hy_params prompt_of(const int32_t *ids, uint32_t n)
{
    hy_params p;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = n;
    p.temperature = 0;
    p.max_tokens = 8;
    p.ignore_eos = true;
    return p;
}

static void small_steps(hy_options *o) { o->n_step = 16; o->n_seq = 3; }
static void big_steps(hy_options *o) { o->n_step = 256; o->n_seq = 4; }

/* Logits of every position from the session, [n, N_VOCAB]. */
static float *session_logits(const int32_t *ids, uint32_t n)
{
    hy_options o;
    hy_err err;
    hy_session *s;
    hy_options_init(&o);
    o.model = LLAMA3;
    o.n_ctx = 256;
    o.n_threads = 1;
    if (hy_session_open(&s, &o, &err) != HY_OK) fail_msg("%s", err.msg);
    float *out = malloc((size_t)n * N_VOCAB * sizeof *out);
    if (hy_session_logits(s, ids, n, 0, true, out, &err) != HY_OK) fail_msg("%s", err.msg);
    hy_session_close(s);
    return out;
}

/* ---- embeddings ------------------------------------------------------------------------------- */

static void embed(hy_engine *e, const int32_t *ids, uint32_t n, hy_pool pool, float out[N_EMBD])
{
    hy_params p = prompt_of(ids, n);
    p.pool = pool;
    hy_request *r = ask(e, &p);
    answer a;
    read_answer(r, &a);
    assert_int_equal(a.finish, HY_FINISH_STOP);
    assert_int_equal(a.n, 0);
    uint32_t n_embd;
    const float *x = hy_request_embedding(r, &n_embd);
    assert_non_null(x);
    assert_int_equal(n_embd, N_EMBD);
    memcpy(out, x, N_EMBD * sizeof *x);
    hy_release(r);
}

/* The output matrix times the last hidden state is the logits. */
static void last_state(void **state)
{
    int32_t ids[N_PROMPT];
    float h[N_EMBD];
    hy_file *f;
    hy_err err;
    fill(ids, N_PROMPT, 1);
    hy_engine *e = open_model(LLAMA3, small_steps);
    embed(e, ids, N_PROMPT, HY_POOL_LAST, h);
    hy_close(e);
    float *logits = session_logits(ids, N_PROMPT), *want = logits + (size_t)(N_PROMPT - 1) * N_VOCAB;
    if (hy_file_open(&f, LLAMA3, &err) != HY_OK) fail_msg("%s", err.msg);
    const hy_tensor *w = hy_file_tensor(f, "output.weight");
    if (!w) w = hy_file_tensor(f, "token_embd.weight");
    assert_non_null(w);
    assert_int_equal(w->dim[0], N_EMBD);
    float row[N_EMBD];
    for (uint32_t i = 0; i < N_VOCAB; i++) {
        hy_quant(w->qtype)->unpack(w->data + i * (w->bytes / N_VOCAB), row, N_EMBD);
        double sum = 0, mag = 0;
        for (uint32_t k = 0; k < N_EMBD; k++) sum += (double)row[k] * h[k], mag += fabs((double)row[k] * h[k]);
        if (fabs(sum - want[i]) > 1e-5 * mag + 1e-6) fail_msg("logit %u: %g from the state, %g", i, sum, (double)want[i]);
    }
    hy_file_close(f);
    free(logits);
}

/* The mean is that of the last states of all beginnings, in whatever chunks; crowds change nothing. */
static void mean_state(void **state)
{
    enum { N = 37 };
    int32_t ids[N];
    float h[N_EMBD], mean[N_EMBD];
    double sum[N_EMBD] = { 0 };
    fill(ids, N, 2);
    hy_engine *e = open_model(LLAMA3, big_steps), *f = open_model(LLAMA3, small_steps);
    for (uint32_t n = 1; n <= N; n++) {
        embed(n % 2 ? e : f, ids, n, HY_POOL_LAST, h);
        for (uint32_t i = 0; i < N_EMBD; i++) sum[i] += h[i];
    }
    for (uint32_t i = 0; i < N_EMBD; i++) mean[i] = (float)(sum[i] / N);
    for (int k = 0; k < 2; k++) {
        hy_engine *at = k ? f : e;
        hy_params p = prompt_of(ids, N), q = prompt_of(ids, N - 3);
        p.max_tokens = 60;
        q.prompt_logprobs = 0;
        hy_request *beside = ask(at, &p), *another = ask(at, &q);
        embed(at, ids, N, HY_POOL_MEAN, h);
        assert_memory_equal(h, mean, sizeof h);
        hy_release(beside);
        hy_release(another);
    }
    /* as long as the context: no room for an answer is needed */
    int32_t whole[256];
    fill(whole, 256, 3);
    embed(e, whole, 256, HY_POOL_MEAN, h);
    embed(f, whole, 256, HY_POOL_MEAN, mean);
    assert_memory_equal(h, mean, sizeof h);
    hy_close(e);
    hy_close(f);
}

/* ---- logprobs of the prompt --------------------------------------------------------------------- */

static double logprob_of(const float *logits, int32_t id)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < N_VOCAB; i++) max = fmax(max, logits[i]);
    for (uint32_t i = 0; i < N_VOCAB; i++) sum += exp(logits[i] - max);
    return logits[id] - max - log(sum);
}

static void check_prompt_logprobs(hy_request *r, const int32_t *ids, const float *logits)
{
    uint32_t n;
    const hy_token *t = hy_request_prompt_logprobs(r, &n);
    assert_non_null(t);
    assert_int_equal(n, N_PROMPT);
    assert_int_equal(t[0].id, ids[0]);
    assert_true(isnan(t[0].logprob));
    for (uint32_t i = 1; i < n; i++) {
        const float *row = logits + (size_t)(i - 1) * N_VOCAB;
        assert_int_equal(t[i].id, ids[i]);
        assert_true(fabs(t[i].logprob - logprob_of(row, ids[i])) < 1e-5);
        assert_int_equal(t[i].n_top, 3);
        for (uint32_t k = 0; k < 3; k++) {
            assert_true(fabs(t[i].top[k].logprob - logprob_of(row, t[i].top[k].id)) < 1e-5);
            assert_true(k == 0 || t[i].top[k].logprob <= t[i].top[k - 1].logprob);
        }
        for (uint32_t v = 0; v < N_VOCAB; v++) assert_true(row[v] <= row[t[i].top[0].id]);
    }
}

static void prompt_logprobs(void **state)
{
    int32_t ids[N_PROMPT];
    fill(ids, N_PROMPT, 4);
    float *logits = session_logits(ids, N_PROMPT);
    for (int k = 0; k < 2; k++) {
        hy_engine *e = open_model(LLAMA3, k ? small_steps : big_steps);
        hy_params p = prompt_of(ids, N_PROMPT);
        answer plain, a;
        finish(ask(e, &p), &plain); /* and its pages are cached now */
        p.prompt_logprobs = 3;
        hy_request *r[3];
        hy_err err;
        if (hy_submit_n(e, &p, 3, r, &err) != HY_OK) fail_msg("%s", err.msg);
        for (int i = 0; i < 3; i++) {
            read_answer(r[i], &a);
            check_prompt_logprobs(r[i], ids, logits);
            same_answer("with logprobs of the prompt", 0, &a, &plain);
            hy_release(r[i]);
        }
        p.max_tokens = 1;
        p.n_tokens = 1;
        hy_request *one = ask(e, &p);
        read_answer(one, &a);
        uint32_t n;
        assert_non_null(hy_request_prompt_logprobs(one, &n));
        assert_int_equal(n, 1);
        hy_release(one);
        hy_close(e);
    }
    free(logits);
}

/* ---- the prefix cache --------------------------------------------------------------------------- */

static void cache(void **state)
{
    int32_t ids[N_PROMPT];
    fill(ids, N_PROMPT, 5);
    hy_engine *e = open_model(LLAMA3, big_steps);
    hy_params p = prompt_of(ids, N_PROMPT);
    answer first, a;
    finish(ask(e, &p), &first);
    assert_int_equal(first.usage.n_cached, 0);
    finish(ask(e, &p), &a);
    assert_int_equal(a.usage.n_cached, 96); /* whole pages of 100 tokens */
    same_answer("cached", 0, &a, &first);
    /* another tenant, or none wished: computed */
    p.tenant = "somebody else";
    finish(ask(e, &p), &a);
    assert_int_equal(a.usage.n_cached, 0);
    p.tenant = "";
    p.no_cache = true;
    finish(ask(e, &p), &a);
    assert_int_equal(a.usage.n_cached, 0);
    /* the next turn of the conversation finds the answer's pages too */
    int32_t turn[N_PROMPT + 40];
    p.no_cache = false;
    p.max_tokens = 30;
    hy_request *r = ask(e, &p);
    read_answer(r, &a);
    memcpy(turn, ids, sizeof ids);
    memcpy(turn + N_PROMPT, a.id, 30 * sizeof *turn);
    hy_release(r);
    fill(turn + N_PROMPT + 30, 10, 6);
    hy_params q = prompt_of(turn, N_PROMPT + 40);
    finish(ask(e, &q), &a);
    assert_int_equal(a.usage.n_cached, 128); /* 129 of 130 were computed: 8 pages */
    hy_stats s;
    hy_engine_stats(e, &s);
    assert_true(s.cache_hit_tok == 96 + 96 + 128);
    assert_true(s.page_cached >= 8);
    hy_close(e);
}

/* Two requests with the same beginning at once: the second waits for the first one's pages. */
static void together(void **state)
{
    int32_t ids[3][200];
    hy_engine *e = open_model(LLAMA3, small_steps);
    answer first[3], a;
    hy_request *r[3];
    for (int i = 0; i < 3; i++) {
        fill(ids[i], 200, 7);
        fill(ids[i] + 190, 10, 8 + (uint32_t)i);
        hy_params p = prompt_of(ids[i], 200);
        p.no_cache = true;
        finish(ask(e, &p), &first[i]);
    }
    for (int i = 0; i < 3; i++) {
        hy_params p = prompt_of(ids[i], 200);
        r[i] = ask(e, &p);
    }
    for (int i = 0; i < 3; i++) {
        finish(r[i], &a);
        same_answer("together", (unsigned)i, &a, &first[i]);
        assert_int_equal(a.usage.n_cached, i ? 176 : 0); /* 11 pages of the common 190 tokens */
    }
    hy_close(e);
}

static void files(void **state)
{
    int32_t ids[N_PROMPT];
    char path[128];
    snprintf(path, sizeof path, "%s/hayate-cache-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    fill(ids, N_PROMPT, 9);
    hy_err err;
    uint32_t n = 0;
    answer first, a;
    hy_params p = prompt_of(ids, N_PROMPT);
    hy_engine *e = open_model(LLAMA3, big_steps);
    finish(ask(e, &p), &first);
    if (hy_engine_cache_save(e, path, NULL, ids, N_PROMPT, &n, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_int_equal(n, 96);
    hy_close(e);
    e = open_model(LLAMA3, small_steps);
    if (hy_engine_cache_load(e, path, "x", &n, &err) != HY_OK) fail_msg("%s", err.msg);
    assert_int_equal(n, 96);
    finish(ask(e, &p), &a);
    assert_int_equal(a.usage.n_cached, 0); /* they are x's */
    p.tenant = "x";
    finish(ask(e, &p), &a);
    assert_int_equal(a.usage.n_cached, 96);
    same_answer("from a file", 0, &a, &first);
    assert_int_not_equal(hy_engine_cache_load(e, "/nowhere/at/all", NULL, &n, &err), HY_OK);
    assert_non_null(strstr(err.msg, "/nowhere/at/all"));
    hy_close(e);
    e = open_model(HY_DATA "/models/gemma2/model-f32.gguf", NULL); /* another model's */
    assert_int_not_equal(hy_engine_cache_load(e, path, NULL, &n, &err), HY_OK);
    hy_close(e);
    unlink(path);
}

/* ---- ends, events, numbers ------------------------------------------------------------------------ */

static void one_slot(hy_options *o) { o->n_seq = 1; o->n_queue = 4; }

static void deadlines(void **state)
{
    int32_t ids[8];
    fill(ids, 8, 10);
    hy_engine *e = open_model(LLAMA3, one_slot);
    hy_params p = prompt_of(ids, 8), q = p;
    answer a;
    p.max_tokens = 0;
    q.deadline_ms = 0.001;
    hy_request *r = ask(e, &p), *late = ask(e, &q);
    finish(late, &a);
    assert_int_equal(a.finish, HY_FINISH_DEADLINE);
    hy_cancel(r);
    hy_release(r);
    hy_err err;
    q.deadline_ms = -1;
    assert_int_equal(hy_submit(e, &q, &r, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "deadline"));
    hy_engine_drain(e);
    assert_int_equal(hy_submit(e, &p, &r, &err), HY_E_BUSY);
    assert_non_null(strstr(err.msg, "draining"));
    hy_stats s;
    hy_engine_stats(e, &s);
    assert_int_equal(s.n_finished[HY_FINISH_DEADLINE], 1);
    assert_int_equal(s.n_refused_busy, 1);
    assert_int_equal(s.n_refused_arg, 1);
    hy_close(e);
}

typedef struct bell {
    _Atomic uint64_t n;
    _Atomic bool closed;       /* after hy_release: nobody rings any more */
} bell;

static void ring(void *ctx)
{
    bell *b = ctx;
    if (atomic_load(&b->closed)) abort();
    atomic_fetch_add(&b->n, 1);
}

static void *ring_and_release(void *arg)
{
    hy_engine *e = arg;
    int32_t ids[8];
    fill(ids, 8, 11);
    for (int i = 0; i < 60; i++) {
        bell *b = calloc(1, sizeof *b);
        hy_params p = prompt_of(ids, 8);
        p.notify = ring;
        p.notify_ctx = b;
        p.max_tokens = 20;
        hy_request *r = ask(e, &p);
        if (i % 3) { /* read to the end by polls that do not wait */
            hy_event ev;
            uint64_t seen = 0;
            do {
                while (atomic_load(&b->n) == seen) usleep(50);
                seen = atomic_load(&b->n);
                do assert_int_equal(hy_poll(r, 0, &ev, NULL), HY_OK);
                while (ev.kind == HY_EV_TEXT);
            } while (ev.kind != HY_EV_DONE);
        } else {
            usleep((useconds_t)(i * 37 % 900));
        }
        hy_release(r);
        atomic_store(&b->closed, true);
        free(b);
    }
    return NULL;
}

static void notify(void **state)
{
    hy_engine *e = open_model(LLAMA3, big_steps);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, ring_and_release, e), 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    hy_close(e);
}

static uint64_t sum_of(const hy_hist *h)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i <= h->n_bound; i++) n += h->count[i];
    for (uint32_t i = 1; i < h->n_bound; i++) assert_true(h->bound[i] > h->bound[i - 1]);
    return n;
}

static bool has_bound(const hy_hist *h, double v)
{
    for (uint32_t i = 0; i < h->n_bound; i++)
        if (h->bound[i] == v) return true;
    return false;
}

static void timed(hy_options *o) { o->timing = true; o->n_seq = 4; }

static void statistics(void **state)
{
    enum { N = 5 };
    int32_t ids[60];
    hy_engine *e = open_model(LLAMA3, timed);
    uint64_t us = hy_clock_us();
    for (uint32_t i = 0; i < N; i++) {
        fill(ids, 60, 20 + i);
        hy_params p = prompt_of(ids, 60);
        hy_request *r = ask(e, &p);
        answer a;
        read_answer(r, &a);
        uint32_t n;
        assert_memory_equal(hy_request_prompt(r, &n), ids, sizeof ids);
        assert_int_equal(n, 60);
        assert_true(a.usage.ttft_ms > 0 && a.usage.ttft_ms >= a.usage.queue_ms);
        hy_span span[8];
        assert_int_equal(hy_request_spans(r, span, 8), 3); /* queue, one chunk, decoding */
        assert_int_equal(span[0].kind, HY_SPAN_QUEUE);
        assert_int_equal(span[1].kind, HY_SPAN_CHUNK);
        assert_int_equal(span[1].n_tok, 60);
        assert_int_equal(span[2].kind, HY_SPAN_DECODE);
        assert_int_equal(span[2].n_tok, 7);
        for (int k = 0; k < 3; k++) assert_true(span[k].us_begin >= us && span[k].us_end >= span[k].us_begin);
        hy_release(r);
    }
    hy_stats s;
    hy_engine_stats(e, &s);
    assert_int_equal(sum_of(&s.ttft), N);
    assert_int_equal(sum_of(&s.itl), N * 7);
    assert_int_equal(sum_of(&s.e2e), N);
    assert_int_equal(sum_of(&s.queue), N);
    assert_int_equal(sum_of(&s.prefill), N);
    assert_int_equal(sum_of(&s.decode), N);
    assert_int_equal(sum_of(&s.step), s.counters.n_step);
    assert_true(s.step_tokens.sum == N * (60 + 7));
    assert_true(s.prompt_tokens.sum == N * 60);
    assert_true(s.output_tokens.sum == N * 8);
    assert_true(has_bound(&s.ttft, 0.2) && has_bound(&s.ttft, 0.5) && has_bound(&s.ttft, 1));
    assert_int_equal(s.n_prompt_tok, N * 60);
    assert_int_equal(s.n_output_tok, N * 8);
    assert_int_equal(s.n_finished[HY_FINISH_LENGTH], N);
    assert_int_equal(s.n_after_cancel, 0);
    assert_true(s.n_op > 3);
    assert_true(s.cost_fixed_ms + s.cost_token_ms > 0);
    assert_true(hy_engine_predict_wait(e, 100) > 0);
    assert_true(hy_engine_predict_wait(e, 200) >= hy_engine_predict_wait(e, 100));
    uint8_t map[4096];
    uint32_t n_page = hy_engine_page_map(e, map, sizeof map), n[4] = { 0 };
    assert_int_equal(n_page, s.counters.page_all);
    for (int tries = 0; tries < 60000 && n[3] != s.page_cached; tries++) { /* published when the engine rests */
        memset(n, 0, sizeof n);
        hy_engine_page_map(e, map, sizeof map);
        for (uint32_t i = 0; i < n_page; i++) n[map[i] & 3]++;
        usleep(1000);
    }
    assert_int_equal(n[3], s.page_cached);
    assert_int_equal(n[1] + n[2], 0);
    hy_close(e);
}

/* Cancelled in the middle of an answer: at most a step of it is computed afterwards, and it is counted. */
static void after_cancel(void **state)
{
    int32_t ids[200];
    hy_engine *e = open_model(LLAMA3, small_steps);
    uint64_t most = 0;
    for (uint32_t i = 0; i < 30; i++) {
        fill(ids, 200, 40 + i);
        hy_params p = prompt_of(ids, 200);
        p.max_tokens = 300;
        hy_request *r = ask(e, &p);
        hy_event ev;
        if (i % 2) assert_int_equal(hy_poll(r, 600000, &ev, NULL), HY_OK);
        hy_release(r);
        most += 16;
    }
    hy_stats s;
    do hy_engine_stats(e, &s);
    while (s.counters.n_running || s.counters.n_waiting);
    assert_true(s.n_after_cancel <= most);
    /* who is kept from the processor for long comes too late: that answer is whole */
    assert_int_equal(s.n_finished[HY_FINISH_CANCELLED] + s.n_finished[HY_FINISH_LENGTH], 30);
    assert_true(s.n_finished[HY_FINISH_CANCELLED] > 0);
    hy_close(e);
}

static void stops(void **state)
{
    int32_t ids[30];
    fill(ids, 30, 60);
    hy_engine *e = open_model(LLAMA3, big_steps);
    hy_params p = prompt_of(ids, 30);
    answer a, b;
    p.max_tokens = 40;
    finish(ask(e, &p), &a);
    assert_int_equal(a.usage.stop_index, -1);
    assert_int_equal(a.usage.stop_id, -1);
    char part[8] = { 0 };
    size_t at = strlen(a.text) / 2;
    while (at && (a.text[at] & 0xC0) == 0x80) at--;
    for (size_t i = 0; i < 4 || (a.text[at + i] & 0xC0) == 0x80; i++) part[i] = a.text[at + i];
    const char *const stop[] = { "nowhere in it", part };
    p.stop = stop;
    p.n_stop = 2;
    finish(ask(e, &p), &b);
    assert_int_equal(b.finish, HY_FINISH_STOP);
    assert_int_equal(b.usage.stop_index, 1);
    assert_int_equal(b.usage.stop_id, -1);
    hy_stats s;
    do hy_engine_stats(e, &s);
    while (s.counters.n_running);
    assert_int_equal(s.n_finished[HY_FINISH_CANCELLED], 0); /* it stopped */
    assert_int_equal(s.n_finished[HY_FINISH_STOP] + s.n_finished[HY_FINISH_LENGTH], 2);
    hy_close(e);
}

/* One place: of those that wait the urgent one is first, though it came last. False: the one that had the place
 * ended before all stood in line. */
static bool in_order(hy_engine *e)
{
    enum { N = 3 };
    static const int32_t priority[N] = { 1, 0, -1 };
    int32_t ids[8];
    fill(ids, 8, 70);
    hy_params p = prompt_of(ids, 8);
    p.max_tokens = 0;
    p.priority = -9; /* gives way to nobody */
    hy_request *busy = ask(e, &p), *r[N];
    hy_event ev;
    assert_int_equal(hy_poll(busy, 600000, &ev, NULL), HY_OK);
    p.max_tokens = 4;
    for (int i = 0; i < N; i++) {
        p.priority = priority[i];
        r[i] = ask(e, &p);
    }
    hy_counters n;
    hy_engine_counters(e, &n);
    bool all_wait = n.n_waiting == N;
    hy_release(busy);
    uint64_t us[N];
    for (int i = 0; i < N; i++) {
        answer a;
        hy_span span[4];
        read_answer(r[i], &a);
        assert_true(hy_request_spans(r[i], span, 4) >= 2);
        us[i] = span[0].us_end; /* waited until then */
        hy_release(r[i]);
    }
    if (all_wait) assert_true(us[2] < us[1] && us[1] < us[0]);
    return all_wait;
}

/* One place, held by one of a late class: an urgent one gets it, and the other's answer is the same as alone. */
static void urgent(void **state)
{
    hy_engine *e = open_model(LLAMA3, one_slot);
    int32_t ids[8];
    answer alone, late, soon;
    fill(ids, 8, 71);
    hy_params p = prompt_of(ids, 8);
    p.max_tokens = 60;
    p.ignore_eos = true;
    p.temperature = 1;
    p.seed = 5;
    finish(ask(e, &p), &alone);
    late.usage.n_paused = 0;
    for (int i = 0; i < 200 && !late.usage.n_paused; i++) { /* until it is met while it runs */
        p.priority = 5;
        p.max_tokens = 60;
        hy_request *slow = ask(e, &p);
        hy_counters n;
        do hy_engine_counters(e, &n);
        while (n.n_waiting);
        p.priority = 0;
        p.max_tokens = 2;
        finish(ask(e, &p), &soon);
        finish(slow, &late);
        same_answer("paused for an urgent one", (unsigned)i, &late, &alone);
    }
    assert_true(late.usage.n_paused > 0);
    hy_close(e);
}

static void order(void **state)
{
    hy_engine *e = open_model(LLAMA3, one_slot);
    int tries = 0;
    while (tries < 100 && !in_order(e)) tries++;
    assert_true(tries < 100);
    hy_close(e);
}

static hy_status open_with(uint32_t n_ctx, uint64_t memory, double itl, uint32_t *got_ctx, char msg[256])
{
    hy_options o;
    hy_err err = { HY_OK, "" };
    hy_engine *e;
    hy_options_init(&o);
    o.model = LLAMA3;
    o.n_ctx = n_ctx;
    o.n_threads = 1;
    o.kv_memory = memory;
    o.itl_target_ms = itl;
    hy_status s = hy_open(&e, &o, &err);
    snprintf(msg, 256, "%s", err.msg);
    if (s != HY_OK) return s;
    hy_facts f;
    hy_engine_facts(e, &f);
    *got_ctx = f.n_ctx;
    assert_true(!memory || f.kv_bytes <= memory);
    hy_close(e);
    return HY_OK;
}

/* The pool in bytes: a context that was asked for must fit, one that was not gives way; wrong values are named. */
static void limits(void **state)
{
    uint32_t n_ctx = 0;
    char msg[256];
    assert_int_equal(open_with(256, 8 << 20, 0, &n_ctx, msg), HY_OK);
    assert_int_equal(n_ctx, 256);
    assert_int_equal(open_with(1 << 20, 1 << 20, 0, &n_ctx, msg), HY_E_LIMIT);
    assert_non_null(strstr(msg, "1048576"));
    assert_int_equal(open_with(0, 1 << 20, 0, &n_ctx, msg), HY_OK);
    assert_true(n_ctx > 16 && n_ctx <= 512);
    assert_int_equal(open_with(256, 1000, 0, &n_ctx, msg), HY_E_ARG);
    assert_int_equal(open_with(256, 0, -5, &n_ctx, msg), HY_E_ARG);
    assert_non_null(strstr(msg, "itl_target_ms"));
    assert_int_equal(open_with(256, 0, NAN, &n_ctx, msg), HY_E_ARG);
}

static void texts(void **state)
{
    hy_engine *e = open_model(LLAMA3, NULL);
    hy_err err;
    char *bytes;
    size_t n;
    int32_t id = hy_engine_token_id(e, "a", 1);
    assert_true(id >= 0);
    assert_int_equal(hy_engine_piece(e, id, &bytes, &n, &err), HY_OK);
    assert_int_equal(n, 1);
    assert_int_equal(bytes[0], 'a');
    hy_memory_free(bytes);
    assert_int_equal(hy_engine_piece(e, 1 << 20, &bytes, &n, &err), HY_E_ARG);
    assert_int_equal(hy_engine_token_id(e, "no token is written so", 22), -1);
    hy_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_state), cmocka_unit_test(mean_state), cmocka_unit_test(prompt_logprobs),
        cmocka_unit_test(cache), cmocka_unit_test(together), cmocka_unit_test(files), cmocka_unit_test(deadlines),
        cmocka_unit_test(notify), cmocka_unit_test(statistics), cmocka_unit_test(after_cancel),
        cmocka_unit_test(stops), cmocka_unit_test(order), cmocka_unit_test(urgent), cmocka_unit_test(limits), cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
