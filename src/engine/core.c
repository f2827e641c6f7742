#include "packed.h"
#include "threads.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hy_options_init(hy_options *o)
{
    memset(o, 0, sizeof *o);
    o->kv_type = "auto";
}

static hy_status check_serving(const hy_options *o, hy_err *err)
{
    const double ms[2] = { o->itl_target_ms, o->ttft_target_ms };
    for (int i = 0; i < 2; i++)
        if (!(ms[i] == 0 || (ms[i] >= 1 && ms[i] <= 3.6e6)))
            return hy_fail(err, HY_E_ARG, "%s: %g ms is not in 1..3600000", i ? "ttft_target_ms" : "itl_target_ms", ms[i]);
    if (o->kv_mode < HY_KV_PAGED || o->kv_mode > HY_KV_OFF)
        return hy_fail(err, HY_E_ARG, "kv_mode: %d is not known", (int)o->kv_mode);
    if (o->kv_memory && o->kv_memory < HY_MIB)
        return hy_fail(err, HY_E_ARG, "a KV pool of %llu bytes is less than 1 MiB", (unsigned long long)o->kv_memory);
    if (o->kv_swap && !o->kv_swap[0]) return hy_fail(err, HY_E_ARG, "kv_swap: the file has no name");
    if (o->kv_swap && o->kv_mode != HY_KV_PAGED) return hy_fail(err, HY_E_ARG, "kv_swap needs a paged KV cache");
    return HY_OK;
}

static hy_status kv_type_of(const char *name, bool all_float, hy_kv_type *out, hy_err *err)
{
    if (!name || strcmp(name, "auto") == 0) {
        *out = all_float ? HY_KV_F32 : HY_KV_F16;
        return HY_OK;
    }
    if (!hy_kv_type_from_name(name, out))
        return hy_fail(err, HY_E_ARG, "KV type '%s' is not one of auto, f32, f16, bf16, q8, q4", name);
    return HY_OK;
}

hy_status hy_options_check(const hy_options *o, hy_err *err)
{
    if (!o->model || !o->model[0]) return hy_fail(err, HY_E_ARG, "no model was named");
    if (o->n_ctx > HY_CTX_MAX)
        return hy_fail(err, HY_E_ARG, "context %u is more than %u tokens", o->n_ctx, HY_CTX_MAX);
    if (o->n_threads > HY_THREADS_MAX)
        return hy_fail(err, HY_E_ARG, "%u threads are more than %u", o->n_threads, HY_THREADS_MAX);
    if (o->n_threads_decode > HY_THREADS_MAX)
        return hy_fail(err, HY_E_ARG, "%u threads for decoding are more than %u", o->n_threads_decode, HY_THREADS_MAX);
    if (o->n_seq > 1024) return hy_fail(err, HY_E_ARG, "%u sequences at once are more than 1024", o->n_seq);
    if (o->n_step > 16384) return hy_fail(err, HY_E_ARG, "a step of %u tokens is more than 16384", o->n_step);
    if (o->n_queue > 65536) return hy_fail(err, HY_E_ARG, "a queue of %u is more than 65536", o->n_queue);
    if (o->kv_tokens > (uint64_t)HY_CTX_MAX * 1024)
        return hy_fail(err, HY_E_ARG, "a KV pool of %llu tokens is more than %llu",
                       (unsigned long long)o->kv_tokens, (unsigned long long)HY_CTX_MAX * 1024);
    if (o->kv_tokens && o->n_ctx && o->kv_tokens < o->n_ctx)
        return hy_fail(err, HY_E_ARG, "a KV pool of %llu tokens is smaller than the context of %u",
                       (unsigned long long)o->kv_tokens, o->n_ctx);
    hy_kv_type t;
    HY_TRY(kv_type_of(o->kv_type, false, &t, err));
    hy_qtype q;
    if (o->weights && !hy_quant_from_name(o->weights, &q))
        return hy_fail(err, HY_E_ARG, "weight type '%s' is not known", o->weights);
    if (o->attention && strcmp(o->attention, "flash") != 0 && strcmp(o->attention, "materialised") != 0)
        return hy_fail(err, HY_E_ARG, "attention '%s' is not one of flash, materialised", o->attention);
    return check_serving(o, err);
}

hy_status hy_core_kernels(hy_kernels *k, const char *isa, hy_err *err)
{
    const char *env = getenv("HAYATE_ISA");
    if (!isa && env && env[0]) isa = env;
    return hy_kern_fill(k, hy_cpu_features(), isa, err);
}

typedef struct load_ctx {
    const hy_options *o;
    volatile int cancel;
} load_ctx;

static void on_progress(void *ctx, uint64_t done, uint64_t all)
{
    load_ctx *l = ctx;
    if (l->o->progress && l->o->progress(l->o->progress_ctx, done, all)) l->cancel = 1;
}

/* The tokenizer, read while the weights are: mostly by a processor that waits for memory or for another thread. */
typedef struct tok_job {
    hy_core *c;
    pthread_t thread;
    bool started;
    hy_status status;
    hy_err err;
} tok_job;

static void *read_tok(void *arg)
{
    tok_job *j = arg;
    int64_t before = hy_alloc_bytes_here();
    j->status = hy_tok_from_file(&j->c->tok, j->c->file, &j->err);
    j->c->tok_bytes = (uint64_t)HY_MAX(hy_alloc_bytes_here() - before, 0);
    return NULL;
}

/* A session computes on token ids: it does without a tokenizer where there is none. */
static void begin_tok(tok_job *j, hy_core *c, bool session)
{
    *j = (tok_job){ .c = c };
    if (session && !hy_tok_in_file(c->file)) return;
    j->started = pthread_create(&j->thread, NULL, read_tok, j) == 0;
    if (!j->started) read_tok(j);
}

static hy_status end_tok(tok_job *j, hy_err *err)
{
    if (j->started) pthread_join(j->thread, NULL);
    hy_file_done_with_strings(j->c->file);
    if (j->status != HY_OK && err) *err = j->err;
    return j->status;
}

static hy_status load_weights(hy_core *c, const hy_options *o, const hy_kernels *kern, bool session, hy_err *err)
{
    load_ctx l = { .o = o };
    hy_qtype q = HY_Q_COUNT;
    if (o->weights) (void)hy_quant_from_name(o->weights, &q);
    hy_packed_list packed;
    hy_packed_paths(&packed, o, kern->panel);
    hy_load_opts lo = { .kern = kern, .team = c->team, .progress = on_progress, .progress_ctx = &l,
                        .cancel = &l.cancel, .quantise = o->weights ? (int)q : -1, .every = o->weights_all, .quick_start = !session,
                        .small_pages = o->no_huge_pages, .packed = packed.path, .n_packed = packed.n };
    hy_seat seat;
    bool sat = hy_team_sit(c->team, &seat);
    hy_status s = hy_model_load(&c->model, c->file, &lo, err);
    if (sat) hy_team_stand(&seat);
    hy_packed_paths_free(&packed);
    return s;
}

static hy_status load_model(hy_core *c, const hy_options *o, bool session, hy_err *err)
{
    hy_kernels kern;
    HY_TRY(hy_core_kernels(&kern, o->isa, err));
    hy_cpu_topology(&c->top);
    /* with several memory nodes, who packs a panel is who reads it, and stays there */
    HY_TRY(hy_team_open(&c->team, hy_threads_team(o, &c->top), o->pin || c->top.n_numa > 1, err));
    HY_TRY(hy_file_open(&c->file, o->model, err));
    if (c->file->n_tensor == 0)
        return hy_fail(err, HY_E_FORMAT, "%s holds a vocabulary but no weights", o->model);
    tok_job tok;
    begin_tok(&tok, c, session);
    hy_status s = load_weights(c, o, &kern, session, err);
    hy_status t = end_tok(&tok, s == HY_OK ? err : NULL);
    return s == HY_OK ? t : s;
}

/* Pages of each group for a pool of kv_tokens: the full group holds them and a partial page a sequence; a
 * windowed group holds the window and a step a sequence, never more than the full need. Returns the bytes. */
static uint64_t pool_pages(const hy_core *c, uint64_t kv_tokens, const hy_kv_group *group, uint32_t n_group,
                           uint64_t n_page[HY_KV_GROUPS_MAX])
{
    uint64_t full = (kv_tokens + HY_KV_PAGE_TOK - 1) / HY_KV_PAGE_TOK + c->n_seq, bytes = 0;
    for (uint32_t g = 0; g < n_group; g++) {
        n_page[g] = full;
        if (group[g].window && c->kv_mode == HY_KV_PAGED) {
            uint64_t each = ((uint64_t)group[g].window + c->n_step) / HY_KV_PAGE_TOK + 3;
            n_page[g] = HY_MIN(n_page[g], each * c->n_seq);
        }
        bytes += n_page[g] * group[g].page_bytes;
    }
    return bytes;
}

/* The most tokens whose pool stays within kv_memory; where that is less than the context, a context that was
 * not asked for gives way. */
static hy_status within_memory(hy_core *c, const hy_options *o, const hy_kv_group *group, uint32_t n_group,
                               uint64_t *kv_tokens, hy_err *err)
{
    uint64_t n_page[HY_KV_GROUPS_MAX];
    if (!o->kv_memory || pool_pages(c, *kv_tokens, group, n_group, n_page) <= o->kv_memory) return HY_OK;
    uint64_t lo = 0, hi = *kv_tokens;
    while (lo < hi) {
        uint64_t mid = hi - (hi - lo) / 2;
        if (pool_pages(c, mid, group, n_group, n_page) <= o->kv_memory) lo = mid;
        else hi = mid - 1;
    }
    lo -= lo % HY_KV_PAGE_TOK;
    if (lo < HY_KV_PAGE_TOK || (o->n_ctx && lo < c->n_ctx))
        return hy_fail(err, HY_E_LIMIT, "a KV pool of %llu bytes holds %llu tokens; the context has %u (needs %llu bytes)",
                       (unsigned long long)o->kv_memory, (unsigned long long)lo, c->n_ctx,
                       (unsigned long long)pool_pages(c, c->n_ctx, group, n_group, n_page));
    *kv_tokens = lo;
    c->n_ctx = (uint32_t)HY_MIN(c->n_ctx, lo);
    return HY_OK;
}

static hy_status open_kv(hy_core *c, const hy_options *o, uint64_t kv_tokens, hy_err *err)
{
    hy_kv_group group[HY_KV_GROUPS_MAX];
    memset(group, 0, sizeof group);
    uint32_t n_layer = c->model->hp.n_layer;
    uint8_t *layer_group = hy_alloc_array(n_layer, sizeof *layer_group);
    uint16_t *layer_index = hy_alloc_array(n_layer, sizeof *layer_index);
    uint32_t n_group = 0;
    if (layer_group && layer_index)
        n_group = hy_model_kv_groups(c->model, c->kv_type, group, layer_group, layer_index);
    bool memory = !layer_group || !layer_index;
    hy_free(layer_group);
    hy_free(layer_index);
    if (memory) return hy_fail_memory(err, "layers", n_layer * 3ull);
    if (n_group == 0)
        return hy_fail(err, HY_E_UNSUPPORTED, "the model has more than %d different windows", HY_KV_GROUPS_MAX);
    uint64_t n_page[HY_KV_GROUPS_MAX];
    HY_TRY(within_memory(c, o, group, n_group, &kv_tokens, err));
    c->kv_bytes = pool_pages(c, kv_tokens, group, n_group, n_page);
    for (uint32_t g = 0; g < n_group; g++) {
        if (n_page[g] >= UINT32_MAX)
            return hy_fail(err, HY_E_LIMIT, "a KV pool of %llu pages is too large", (unsigned long long)n_page[g]);
        group[g].n_page = (uint32_t)n_page[g];
    }
    return hy_kv_open(&c->kv, group, n_group, err);
}

/* What the model was made for, at most 8192: a user asks for more. */
static uint32_t default_ctx(const hy_hparams *hp)
{
    double n = hp->n_ctx_train ? hp->n_ctx_train : 2048;
    if (hp->rope[0].kind == HY_ROPE_DYNAMIC) n *= HY_MAX(hp->rope[0].factor, 1);
    return (uint32_t)HY_MIN(n, 8192);
}

/* Names, shapes, types and some bytes of every tensor, and what else makes a page's bytes: two models that agree in
 * all of it are the same model. */
static uint64_t identity_of(const hy_core *c)
{
    uint64_t h = hy_hash64(c->model->kern.isa, strlen(c->model->kern.isa), HY_KV_PAGE_TOK);
    const uint64_t how[] = { (uint64_t)c->kv_type, c->act_f32 + 2ull * c->materialised, c->fuse, c->file->bytes,
                             c->model->weight_bytes };
    h = hy_hash64(how, sizeof how, h);
    for (uint64_t i = 0; i < c->file->n_tensor; i++) {
        const hy_tensor *t = &c->file->tensor[i];
        h = hy_hash64(t->name, strlen(t->name), h);
        h = hy_hash64(t->dim, sizeof t->dim, h);
        uint8_t some[64];
        size_t n = (size_t)HY_MIN(t->bytes, sizeof some);
        if (!t->data || !n) continue;
        hy_file_peek(c->file, t, (t->bytes - n) / 2, n, some);
        h = hy_hash64(some, n, h);
    }
    return h;
}

/* n_out 0: a session. Else somebody waits for a first token: a plan's memory comes in small pages, of which a short prompt
 * touches few; hy_core_settle asks for huge ones once there is an answer. */
static hy_status compile(hy_core *c, const hy_options *o, uint32_t n_out, hy_err *err)
{
    c->small_pages = o->no_huge_pages;
    bool small = c->small_pages || n_out != 0;
    const hy_hparams *hp = &c->model->hp;
    c->n_ctx = o->n_ctx ? o->n_ctx : default_ctx(hp);
    c->n_seq = o->n_seq ? o->n_seq : 8;
    c->n_step = o->n_step ? o->n_step : 256;
    c->n_step = HY_MAX(c->n_step, c->n_seq); /* every running sequence may decode in one step */
    c->n_queue = o->n_queue ? o->n_queue : 256;
    c->kv_mode = o->kv_mode;
    c->act_f32 = o->act_f32;
    c->fuse = !o->no_fuse;
    c->materialised = o->attention && strcmp(o->attention, "materialised") == 0;
    c->timing = o->timing;
    c->prefix_cache = o->kv_mode == HY_KV_PAGED && !o->no_prefix_cache;
    c->itl_ms = o->itl_target_ms > 0 ? o->itl_target_ms : 100;
    c->ttft_ms = o->ttft_target_ms > 0 ? o->ttft_target_ms : 500;
    HY_TRY(kv_type_of(o->kv_type, c->model->all_float, &c->kv_type, err));
    if (n_out == 0) { /* a session: logits of whole chunks, within 64 MiB */
        uint64_t rows = 64 * HY_MIB / ((uint64_t)hp->n_vocab * sizeof(float));
        n_out = (uint32_t)HY_MAX(1, HY_MIN(rows, c->n_step));
    }
    c->n_out = n_out = HY_MIN(n_out, c->n_step);
    uint64_t kv_tokens = o->kv_tokens ? o->kv_tokens : (uint64_t)c->n_ctx * HY_MIN(c->n_seq, 4u);
    if (kv_tokens < c->n_ctx) c->n_ctx = (uint32_t)kv_tokens;
    if (o->kv_mode == HY_KV_CONTIGUOUS && !o->kv_tokens) kv_tokens = (uint64_t)c->n_ctx * c->n_seq;
    HY_TRY(open_kv(c, o, kv_tokens, err));
    hy_plan_opts po = { .fuse = c->fuse, .act_f32 = o->act_f32, .kv_type = c->kv_type, .n_ctx = c->n_ctx,
                        .n_tok_max = c->n_step, .n_out_max = n_out, .n_row_max = c->n_seq,
                        .materialised = c->materialised, .small_pages = small };
    HY_TRY(hy_plan_compile(&c->plan, c->model, &po, err));
    if (c->timing && !hy_plan_timing(c->plan, true)) return hy_fail_memory(err, "timing", 0);
    c->identity = identity_of(c);
    for (uint32_t i = 0; i < c->file->n_part; i++) /* what is still wanted of the file comes back by itself */
        hy_map_done_with(&c->file->part[i], 0, c->file->part[i].bytes);
    return HY_OK;
}

hy_status hy_core_open(hy_core **out, const hy_options *o, uint32_t n_out, hy_err *err)
{
    *out = NULL;
    HY_TRY(hy_options_check(o, err));
    hy_core *c = HY_NEW(hy_core);
    if (!c) return hy_fail_memory(err, "engine", sizeof *c);
    hy_status s = load_model(c, o, n_out == 0, err);
    if (s == HY_OK) s = compile(c, o, n_out, err);
    if (s == HY_OK) s = hy_threads_choose(c, o, err);
    if (s == HY_OK) {
        hy_str name = { "", 0 };
        s = hy_meta_string(c->file, "general.name", false, &name, err);
        c->name = hy_strndup(name.p, name.n);
        if (s == HY_OK && !c->name) s = hy_fail_memory(err, "name", name.n);
    }
    if (s != HY_OK) {
        hy_core_close(c);
        return s;
    }
    *out = c;
    return HY_OK;
}

hy_status hy_core_share(hy_core **out, const hy_core *from, const hy_options *o, uint32_t n_out, hy_err *err)
{
    *out = NULL;
    HY_TRY(hy_options_check(o, err));
    hy_core *c = HY_NEW(hy_core);
    if (!c) return hy_fail_memory(err, "engine", sizeof *c);
    *c = (hy_core){ .borrowed = true, .top = from->top, .file = from->file, .tok = from->tok, .team = from->team, .model = from->model,
                    .tok_bytes = from->tok_bytes, .name = from->name };
    hy_status s = compile(c, o, n_out, err);
    if (s != HY_OK) {
        hy_core_close(c);
        return s;
    }
    hy_plan_threads(c->plan, hy_plan_threads_many(from->plan), hy_plan_threads_few(from->plan), c->top.quota_cpus > 0);
    *out = c;
    return HY_OK;
}

void hy_core_settle(hy_core *c)
{
    hy_region r = hy_plan_region(c->plan);
    if (!c->small_pages && r.p) hy_big_huge_pages((void *)(uintptr_t)r.p, (size_t)r.n_bytes);
}

void hy_core_close(hy_core *c)
{
    if (!c) return;
    hy_plan_free(c->plan);
    hy_kv_close(c->kv);
    if (!c->borrowed) {
        hy_tok_free(c->tok);
        hy_model_free(c->model);
        hy_file_close(c->file);
        hy_team_close(c->team);
        hy_free(c->name);
    }
    hy_free(c);
}

void hy_core_facts(const hy_core *c, hy_facts *out)
{
    const hy_hparams *hp = &c->model->hp;
    *out = (hy_facts){
        .family = c->model->family->name, .name = c->name, .isa = c->model->kern.isa,
        .kv_type = hy_kv_type_name(c->kv_type), .n_ctx = c->n_ctx, .n_ctx_train = hp->n_ctx_train,
        .n_vocab = hp->n_vocab, .n_layer = hp->n_layer, .n_embd = hp->n_embd,
        .n_threads = hy_plan_threads_many(c->plan), .n_threads_decode = hy_plan_threads_few(c->plan), .n_seq = c->n_seq, .n_step = c->n_step,
        .weight_bytes = c->model->weight_bytes, .kv_bytes = c->kv_bytes,
        .plan_bytes = hy_plan_bytes(c->plan), .has_template = c->tok && hy_tok_template(c->tok, NULL),
    };
}

hy_status hy_ids_take(hy_ids *ids, int32_t **out, size_t *n, hy_err *err)
{
    *n = ids->n;
    *out = ids->id ? ids->id : hy_alloc(sizeof **out);
    ids->id = NULL;
    ids->n = ids->cap = 0;
    return *out ? HY_OK : hy_fail_memory(err, "token ids", sizeof **out);
}

hy_status hy_buf_take(hy_buf *b, char **out, hy_err *err)
{
    *out = NULL;
    if (b->failed) {
        size_t n = b->len;
        hy_buf_free(b);
        return hy_fail_memory(err, "text", n);
    }
    *out = b->data ? b->data : hy_strdup("");
    memset(b, 0, sizeof *b);
    return *out ? HY_OK : hy_fail_memory(err, "text", 1);
}

hy_status hy_core_chat(const hy_tok *tok, const char *chat_json, const char *source, hy_buf *out, hy_err *err)
{
    if (!source && !hy_tok_template(tok, NULL))
        return hy_fail(err, HY_E_UNSUPPORTED, "the model has no chat template: give one, or a plain prompt");
    json_t *vars = NULL;
    HY_TRY(hy_json_parse("chat", chat_json, strlen(chat_json), &vars, err));
    hy_status s = HY_OK;
    if (!json_is_object(vars)) s = hy_fail(err, HY_E_ARG, "chat: not a JSON object");
    if (s == HY_OK && !json_is_array(json_object_get(vars, "messages")))
        s = hy_fail(err, HY_E_ARG, "chat: 'messages' is missing or no array");
    if (s == HY_OK && !json_object_get(vars, "add_generation_prompt") &&
        json_object_set_new(vars, "add_generation_prompt", json_true()) != 0)
        s = hy_fail_memory(err, "chat", 64);
    if (s == HY_OK) s = hy_tok_chat(tok, source, vars, out, err);
    json_decref(vars);
    if (s == HY_OK && out->failed) s = hy_fail_memory(err, "chat text", out->len);
    return s;
}
