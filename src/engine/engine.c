#include "engine.h"
#include <string.h>

static hy_status arrays(hy_engine *e, hy_err *err)
{
    const hy_core *c = e->core;
    e->run = HY_NEW_ARRAY(hy_request *, c->n_seq);
    e->seq = HY_NEW_ARRAY(hy_sched_seq, c->n_seq);
    e->row = HY_NEW_ARRAY(hy_row, c->n_seq);
    e->row_req = HY_NEW_ARRAY(hy_request *, c->n_seq);
    e->token = HY_NEW_ARRAY(int32_t, c->n_step);
    e->pos = HY_NEW_ARRAY(int32_t, c->n_step);
    e->out_tok = HY_NEW_ARRAY(uint32_t, c->n_seq);
    e->logits = hy_alloc_array((size_t)c->n_seq * c->model->hp.n_vocab, sizeof(float));
    if (!e->run || !e->seq || !e->row || !e->row_req || !e->token || !e->pos || !e->out_tok || !e->logits)
        return hy_fail_memory(err, "engine", (uint64_t)c->n_seq * c->model->hp.n_vocab * sizeof(float));
    HY_TRY(hy_queue_open(&e->queue, c->n_queue, err));
    return hy_sampler_open(&e->sampler, c->model->hp.n_vocab, c->n_ctx, err);
}

hy_status hy_open(hy_engine **out, const hy_options *o, hy_err *err)
{
    *out = NULL;
    hy_engine *e = HY_NEW(hy_engine);
    if (!e) return hy_fail_memory(err, "engine", sizeof *e);
    uint32_t n_seq = o->n_seq ? o->n_seq : 8;
    hy_status s = hy_core_open(&e->core, o, n_seq, err);
    if (s == HY_OK) s = arrays(e, err);
    if (s == HY_OK) {
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
    if (e->queue.cell) hy_queue_close(&e->queue);
    hy_sampler_close(e->sampler);
    hy_free(e->run);
    hy_free(e->seq);
    hy_free(e->row);
    hy_free(e->row_req);
    hy_free(e->token);
    hy_free(e->pos);
    hy_free(e->out_tok);
    hy_free(e->logits);
    hy_core_close(e->core);
    hy_free(e);
}

void hy_engine_facts(const hy_engine *e, hy_facts *out)
{
    hy_core_facts(e->core, out);
}

void hy_engine_counters(const hy_engine *e, hy_counters *out)
{
    *out = (hy_counters){
        .n_step = atomic_load(&e->c_step), .n_token = atomic_load(&e->c_token),
        .n_request = atomic_load(&e->c_request), .n_cancelled = atomic_load(&e->c_cancelled),
        .n_paused = atomic_load(&e->c_paused), .n_running = atomic_load(&e->c_running),
        .n_waiting = atomic_load(&e->n_waiting_all), .page_used = atomic_load(&e->c_page_used),
        .page_all = atomic_load(&e->c_page_all), .slot_used = atomic_load(&e->c_slot_used),
        .alloc_in_step = atomic_load(&e->c_alloc),
    };
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
