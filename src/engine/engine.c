#include "engine.h"
#include <string.h>

uint32_t hy_engine_out_rows(const hy_engine *e)
{
    return e->core->n_seq + HY_OUT_SPARE + (e->drafts ? e->drafts->n_room : 0);
}

static hy_status arrays(hy_engine *e, hy_err *err)
{
    const hy_core *c = e->core;
    uint32_t n_vocab = c->model->hp.n_vocab;
    uint64_t n_logit = (uint64_t)hy_engine_out_rows(e) * n_vocab;
    e->row = HY_NEW_ARRAY(hy_row, c->n_seq);
    e->row_req = HY_NEW_ARRAY(hy_request *, c->n_seq);
    e->token = HY_NEW_ARRAY(int32_t, c->n_step);
    e->pos = HY_NEW_ARRAY(int32_t, c->n_step);
    e->out_tok = HY_NEW_ARRAY(uint32_t, c->n_step);
    e->logits = hy_alloc_array((size_t)n_logit, sizeof(float));
    e->fork_logits = hy_alloc_array(n_vocab, sizeof(float));
    uint32_t n_block = hy_logit_blocks(n_vocab), n_out = hy_engine_out_rows(e);
    e->kept = HY_NEW_ARRAY(hy_logit_row, n_out);
    e->kept_blocks = hy_calloc((size_t)n_out * 2 * n_block, sizeof(float));
    e->mask = HY_NEW_ARRAY(uint32_t, HY_GRAM_WORDS(n_vocab));
    e->not_end = HY_NEW_ARRAY(uint32_t, HY_GRAM_WORDS(n_vocab));
    e->page_map = hy_calloc(hy_kv_group_of(c->kv, 0)->n_page, sizeof *e->page_map);
    if (!e->row || !e->row_req || !e->token || !e->pos || !e->out_tok || !e->logits || !e->fork_logits || !e->mask ||
        !e->kept || !e->kept_blocks || !e->not_end || !e->page_map)
        return hy_fail_memory(err, "engine", n_logit * sizeof(float));
    for (uint32_t i = 0; i < n_out; i++) {
        e->kept[i].max = e->kept_blocks + (size_t)i * 2 * n_block;
        e->kept[i].sum = e->kept[i].max + n_block;
    }
    for (uint32_t i = 0; i < n_vocab; i++)
        if (!hy_tok_is_end(c->tok, (int32_t)i)) e->not_end[i / 32] |= 1u << i % 32;
    HY_TRY(hy_queue_open(&e->queue, c->n_queue, err));
    HY_TRY(hy_queue_open(&e->commands, 64, err));
    return hy_sampler_open(&e->sampler, n_vocab, c->n_ctx, hy_kern_logit_block, &c->model->kern, err);
}

static hy_status open_sched(hy_engine *e, const hy_options *o, hy_err *err)
{
    const hy_core *c = e->core;
    uint64_t swap_bytes = o->kv_swap_bytes ? o->kv_swap_bytes : HY_GIB;
    if (o->kv_swap && c->kv_mode == HY_KV_PAGED) HY_TRY(hy_kv_swap_open(&e->swap, c->kv, o->kv_swap, swap_bytes, err));
    static const hy_sched_mode modes[] = { [HY_KV_PAGED] = HY_SCHED_PAGED, [HY_KV_CONTIGUOUS] = HY_SCHED_CONTIGUOUS,
                                           [HY_KV_OFF] = HY_SCHED_RECOMPUTE };
    const hy_sched_opts so = { .kv = c->kv, .swap = e->swap, .mode = modes[c->kv_mode], .n_seq = c->n_seq,
                               .n_step = c->n_step, .n_ctx = c->n_ctx, .n_out_spare = HY_OUT_SPARE,
                               .itl_ms = c->itl_ms, .ttft_ms = c->ttft_ms, .prefix_cache = c->prefix_cache };
    return hy_sched_open(&e->sched, &so, err);
}

hy_status hy_open(hy_engine **out, const hy_options *o, hy_err *err)
{
    *out = NULL;
    hy_engine *e = HY_NEW(hy_engine);
    if (!e) return hy_fail_memory(err, "engine", sizeof *e);
    pthread_mutex_init(&e->vocab_lock, NULL);
    hy_hist_init(e->hist);
    hy_status s = hy_core_open(&e->core, o, HY_OUT_ALL, err);
    if (s == HY_OK) s = hy_drafts_open(&e->drafts, e->core, o, err);
    if (s == HY_OK) s = arrays(e, err);
    if (s == HY_OK) s = hy_drafts_measure(e, err);
    if (s == HY_OK) s = open_sched(e, o, err);
    if (s == HY_OK) {
        hy_publish_counts(e);
        e->started = pthread_create(&e->thread, NULL, hy_engine_main, e) == 0;
        if (!e->started) s = hy_fail(err, HY_E_MEMORY, "the engine's thread could not be started");
    }
    if (s != HY_OK) {
        hy_close(e);
        return s;
    }
    *out = e;
    return HY_OK;
}

void hy_close(hy_engine *e)
{
    if (!e) return;
    if (e->started) {
        atomic_store(&e->stop, true);
        hy_tick_wake(&e->wake);
        pthread_join(e->thread, NULL);
    }
    hy_queue_close(&e->queue);
    hy_queue_close(&e->commands);
    hy_sched_close(&e->sched);
    hy_sampler_close(e->sampler);
    hy_gram_vocab_close(e->vocab);
    hy_kv_swap_close(e->swap);
    hy_free(e->row);
    hy_free(e->row_req);
    hy_free(e->token);
    hy_free(e->pos);
    hy_free(e->out_tok);
    hy_free(e->logits);
    hy_free(e->fork_logits);
    hy_free(e->kept);
    hy_free(e->kept_blocks);
    hy_free(e->mask);
    hy_free(e->not_end);
    hy_free((void *)e->page_map);
    hy_drafts_close(e->drafts);
    hy_core_close(e->core);
    pthread_mutex_destroy(&e->vocab_lock);
    hy_free(e);
}

void hy_engine_facts(const hy_engine *e, hy_facts *out)
{
    hy_core_facts(e->core, out);
}

hy_status hy_engine_tokenize(const hy_engine *e, const char *text, size_t n, bool add_special,
                             bool parse_special, int32_t **ids, size_t *n_ids, hy_err *err)
{
    hy_ids list = { 0 };
    hy_status s = hy_tok_encode(e->core->tok, text, n, add_special, parse_special, &list, err);
    if (s == HY_OK) s = hy_ids_take(&list, ids, n_ids, err);
    hy_ids_free(&list);
    return s;
}

hy_status hy_engine_detokenize(const hy_engine *e, const int32_t *ids, size_t n, bool show_special,
                               char **text, hy_err *err)
{
    hy_buf b = { 0 };
    hy_status s = hy_tok_decode(e->core->tok, ids, n, show_special, &b, err);
    if (s == HY_OK) s = hy_buf_take(&b, text, err);
    hy_buf_free(&b);
    return s;
}

hy_status hy_engine_chat(const hy_engine *e, const char *chat_json, const char *chat_template, char **text, hy_err *err)
{
    hy_buf b = { 0 };
    hy_status s = hy_core_chat(e->core->tok, chat_json, chat_template, &b, err);
    if (s == HY_OK) s = hy_buf_take(&b, text, err);
    hy_buf_free(&b);
    return s;
}

hy_status hy_engine_piece(const hy_engine *e, int32_t id, char **bytes, size_t *n, hy_err *err)
{
    hy_buf b = { 0 };
    *bytes = NULL;
    hy_status s = hy_tok_piece(e->core->tok, id, true, &b, err);
    *n = b.len;
    if (s == HY_OK) s = hy_buf_take(&b, bytes, err);
    hy_buf_free(&b);
    return s;
}

int32_t hy_engine_token_id(const hy_engine *e, const char *s, size_t n)
{
    return hy_tok_find(e->core->tok, s, n);
}

const char *hy_engine_template(const hy_engine *e, const char *name)
{
    return hy_tok_template(e->core->tok, name);
}

void hy_memory_free(void *p)
{
    hy_free(p);
}
