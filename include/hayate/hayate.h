/* libhayate: an inference engine for large language models.
 *
 * Open an engine on a model file, submit requests, poll each for events, release it, close the engine.
 * One thread of the engine runs all requests together, step by step (continuous batching); the text of
 * a request does not depend on what else runs (same bits whatever the schedule).
 *
 *     hy_engine *e;  hy_err err;
 *     hy_options o;  hy_options_init(&o);  o.model = "model.gguf";
 *     if (hy_open(&e, &o, &err)) ...
 *     hy_params p;   hy_params_init(&p);   p.prompt = "Once upon a time";
 *     hy_request *r;
 *     hy_submit(e, &p, &r, &err);
 *     hy_event ev;
 *     do {
 *         hy_poll(r, -1, &ev, &err);
 *         if (ev.kind == HY_EV_TEXT) fwrite(ev.text, 1, ev.n_text, stdout);
 *     } while (ev.kind != HY_EV_DONE);
 *     hy_release(r);
 *     hy_close(e);
 */
#ifndef HAYATE_H
#define HAYATE_H

#include <hayate/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HY_API __attribute__((visibility("default")))
#define HY_VERSION "0.1.0"

typedef struct hy_engine hy_engine;
typedef struct hy_request hy_request;

/* ---- opening ---------------------------------------------------------------------------------- */

typedef enum hy_kv_mode {
    HY_KV_PAGED,       /* pages of 16 tokens as a sequence grows */
    HY_KV_CONTIGUOUS,  /* the whole context reserved at admission: only to be measured */
    HY_KV_OFF          /* no cache: everything recomputed for each token: only to be measured */
} hy_kv_mode;

/* Strings are copied by hy_open. Start from hy_options_init. */
typedef struct hy_options {
    const char *model;         /* GGUF (any part of a split one) or a Hugging Face folder */
    uint32_t n_ctx;            /* longest sequence in tokens; 0: the model's own, at most 8192 */
    uint32_t n_threads;        /* 0: the cores this process may use, capped by the cgroup quota */
    uint32_t n_seq;            /* requests that run at once; 0: 8 */
    uint32_t n_step;           /* tokens of the largest step (chunk of a prompt); 0: 256 */
    uint32_t n_queue;          /* requests that may wait; 0: 256 */
    uint64_t kv_tokens;        /* room of the KV pool; 0: n_ctx * min(n_seq, 4) */
    const char *kv_type;       /* "auto" (f32 for unquantised models, else f16), f32 f16 bf16 q8 q4 */
    hy_kv_mode kv_mode;
    const char *isa;           /* NULL: HAYATE_ISA, else the best this machine runs */
    const char *weights;       /* NULL: as in the file; else a type to quantise float weights to */
    bool act_f32;              /* keep activations in F32 with quantised weights */
    bool no_fuse;              /* run the primitive form of the plan: only to be measured */
    bool pin;                  /* pin threads to cores */
    /* Called while loading from the opening thread; return true to cancel. May be NULL. */
    bool (*progress)(void *ctx, uint64_t done_bytes, uint64_t all_bytes);
    void *progress_ctx;
} hy_options;

HY_API void hy_options_init(hy_options *o);

/* Loads the model and starts the engine's thread. On failure *out is NULL and err says why.
 * Several engines may be open in one process. */
HY_API hy_status hy_open(hy_engine **out, const hy_options *o, hy_err *err);

/* Cancels what runs, joins the thread, frees everything. All requests must have been released.
 * Accepts NULL. */
HY_API void hy_close(hy_engine *e);

/* ---- requests --------------------------------------------------------------------------------- */

typedef struct hy_bias { int32_t id; float bias; } hy_bias; /* added to the logit of the id */

#define HY_TOP_LOGPROBS_MAX 20

/* Everything is copied by hy_submit. Start from hy_params_init. */
typedef struct hy_params {
    /* the prompt: text, or tokens (then text is ignored), or chat messages as a JSON object */
    const char *prompt;        /* UTF-8; NUL-terminated unless n_prompt > 0 */
    size_t n_prompt;
    const int32_t *tokens;
    uint32_t n_tokens;
    const char *chat_json;     /* object for the template: {"messages": [...], "tools": ...} */
    const char *chat_template; /* NULL: the model's own */
    bool no_special;           /* do not add BOS and the like to a text prompt */
    bool no_parse_special;     /* control tokens written out in a text prompt stay text */

    uint32_t max_tokens;       /* 0: up to the context */
    bool ignore_eos;
    const char *const *stop;   /* stop strings; the text ends before the first match */
    uint32_t n_stop;
    bool show_special;         /* control tokens appear in the text */

    /* sampling; the defaults are neutral: temperature 1 and nothing cut off */
    double temperature;        /* 0: greedy */
    uint32_t top_k;            /* 0: off */
    double top_p;              /* 1: off */
    double min_p;              /* 0: off */
    double typical_p;          /* 1: off */
    double repeat_penalty;     /* 1: off; divides positive, multiplies negative logits of seen tokens */
    double frequency_penalty;  /* 0: off; OpenAI's definition, over the prompt and the output */
    double presence_penalty;   /* 0: off */
    uint32_t no_repeat_ngram;  /* 0: off */
    uint64_t seed;
    const hy_bias *logit_bias;
    uint32_t n_logit_bias;
    int32_t top_logprobs;      /* -1: no logprobs; 0: the token's own; up to HY_TOP_LOGPROBS_MAX */
} hy_params;

HY_API void hy_params_init(hy_params *p);

/* Checks everything at the door (HY_E_ARG and HY_E_LIMIT name field, value and limit), tokenises,
 * and queues. Thread: any. A full queue gives HY_E_LIMIT. */
HY_API hy_status hy_submit(hy_engine *e, const hy_params *p, hy_request **out, hy_err *err);

typedef enum hy_event_kind {
    HY_EV_NONE,                /* the time ran out */
    HY_EV_TEXT,                /* text that may be shown, with the tokens that made it */
    HY_EV_DONE                 /* finished: reason and usage are set; final, repeats if polled again */
} hy_event_kind;

typedef enum hy_finish {
    HY_FINISH_NONE, HY_FINISH_STOP /* EOS or a stop string */, HY_FINISH_LENGTH,
    HY_FINISH_CANCELLED, HY_FINISH_ERROR
} hy_finish;

typedef struct hy_logprob { int32_t id; float logprob; } hy_logprob;

typedef struct hy_token {
    int32_t id;
    float logprob;             /* natural log, of the model's own distribution; 0 if not asked */
    uint32_t n_top;
    const hy_logprob *top;     /* [n_top], best first */
} hy_token;

typedef struct hy_usage {
    uint32_t n_prompt, n_output, n_cached;
    double queue_ms, ttft_ms, prompt_ms, decode_ms; /* ttft from submit; decode after first token */
    uint32_t n_paused;         /* times paused for want of pages */
} hy_usage;

/* Pointers are valid until the next hy_poll or hy_release of the same request. */
typedef struct hy_event {
    hy_event_kind kind;
    const char *text;          /* valid UTF-8; may be empty (n_text = 0) while a character is held back */
    size_t n_text;
    const hy_token *token;
    uint32_t n_token;
    hy_finish finish;
    hy_usage usage;
} hy_event;

/* Waits up to timeout_ms (-1: forever, 0: not at all) for the next event. Thread: one at a time per
 * request. A failed request ends with HY_EV_DONE, HY_FINISH_ERROR and the status returned here. */
HY_API hy_status hy_poll(hy_request *r, int timeout_ms, hy_event *ev, hy_err *err);

/* Asks the engine to stop it; legal in every state, any thread. HY_EV_DONE follows. */
HY_API void hy_cancel(hy_request *r);

/* Cancels if still running, then frees. Accepts NULL. */
HY_API void hy_release(hy_request *r);

/* ---- facts ------------------------------------------------------------------------------------ */

typedef struct hy_facts {
    const char *family;        /* "llama" */
    const char *name;          /* general.name, or "" */
    const char *isa, *kv_type;
    uint32_t n_ctx, n_ctx_train, n_vocab, n_layer, n_embd, n_threads, n_seq, n_step;
    uint64_t weight_bytes, kv_bytes, plan_bytes;
    bool has_template;
} hy_facts;
HY_API void hy_engine_facts(const hy_engine *e, hy_facts *out); /* strings live as long as e */

typedef struct hy_counters {
    uint64_t n_step, n_token, n_request, n_cancelled, n_paused;
    uint32_t n_running, n_waiting;
    uint64_t page_used, page_all;  /* of the full-attention group */
    uint64_t slot_used;            /* tokens stored in those pages */
    uint64_t alloc_in_step;        /* allocations made inside steps: 0, or a bug */
} hy_counters;
HY_API void hy_engine_counters(const hy_engine *e, hy_counters *out);

/* Text <-> tokens with the model's tokenizer. Free *ids / *text with hy_memory_free. */
HY_API hy_status hy_engine_tokenize(const hy_engine *e, const char *text, size_t n, bool add_special,
                                    bool parse_special, int32_t **ids, size_t *n_ids, hy_err *err);
HY_API hy_status hy_engine_detokenize(const hy_engine *e, const int32_t *ids, size_t n,
                                      bool show_special, char **text, hy_err *err);
/* The chat template's text for a JSON object of variables. */
HY_API hy_status hy_engine_chat(const hy_engine *e, const char *chat_json, const char *chat_template,
                                char **text, hy_err *err);
HY_API void hy_memory_free(void *p);

#ifdef __cplusplus
}
#endif
#endif
