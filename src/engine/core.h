/* Private to engine/: a model made ready to run, shared by the engine's thread and by sessions. */
#ifndef HY_ENGINE_CORE_H
#define HY_ENGINE_CORE_H

#include <hayate/hayate.h>
#include <hayate/tools.h>
#include "base/base.h"
#include "file/file.h"
#include "kv/kv.h"
#include "plan/plan.h"
#include "tok/tok.h"

#define HY_CTX_MAX (1u << 24)

/* Immutable after opening but for plan and kv, which belong to whoever runs steps. */
typedef struct hy_core {
    hy_topology top;           /* when it was opened */
    hy_file *file;
    hy_tok *tok;
    hy_team *team;
    hy_model *model;
    hy_plan *plan;
    hy_kv *kv;
    hy_kv_type kv_type;
    hy_kv_mode kv_mode;
    uint32_t n_ctx, n_seq, n_step, n_queue, n_out;
    bool act_f32, fuse, timing, materialised;
    bool small_pages;          /* everywhere: asked for */
    bool prefix_cache;         /* sequences share pages */
    double itl_ms, ttft_ms;    /* targets */
    uint64_t kv_bytes, tok_bytes;
    uint64_t identity;         /* of whatever decides the bytes of a page: weights, types, kernels */
    char *name;                /* general.name */
    bool borrowed;             /* file, tok, team, model and name are another core's */
} hy_core;

#define HY_OUT_ALL UINT32_MAX
/* n_out: most rows with outputs in a step; HY_OUT_ALL: every token; 0: as many as a session wants (bounded by
 * memory). */
hy_status hy_core_open(hy_core **out, const hy_options *o, uint32_t n_out, hy_err *err);
/* A plan and a KV pool of its own over the model of `from`, which must outlive it and runs no step meanwhile. What
 * concerns loading and threads in o does not count. */
hy_status hy_core_share(hy_core **out, const hy_core *from, const hy_options *o, uint32_t n_out, hy_err *err);
/* There is time: working memory may become huge pages. */
void hy_core_settle(hy_core *c);
void hy_core_close(hy_core *c);                    /* accepts NULL */
void hy_core_facts(const hy_core *c, hy_facts *out);

/* The core of a session: its owner is the session. */
hy_core *hy_session_core(hy_session *s);
/* A session over the model of another one: hy_core_share. */
hy_status hy_session_share(hy_session **out, hy_session *from, const hy_options *o, hy_err *err);

/* Values checked before any file is opened: context, threads, names of types. */
hy_status hy_options_check(const hy_options *o, hy_err *err);
/* The table for o->isa, or HAYATE_ISA, or the best. */
hy_status hy_core_kernels(hy_kernels *k, const char *isa, hy_err *err);

/* The chat template's text; add_generation_prompt is true where the object does not say. */
hy_status hy_core_chat(const hy_tok *tok, const char *chat_json, const char *source, hy_buf *out, hy_err *err);

/* The same as text and tokens: hy_engine_chat_tokens. */
hy_status hy_core_chat_ids(const hy_core *c, const char *chat_json, const char *source, bool continue_final,
                           hy_buf *text, hy_ids *ids, hy_err *err);

/* Hands a hy_ids over as a plain array (never NULL on success). */
hy_status hy_ids_take(hy_ids *ids, int32_t **out, size_t *n, hy_err *err);
/* Hands a buf over as a NUL-terminated string. */
hy_status hy_buf_take(hy_buf *b, char **out, hy_err *err);

#endif
