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
    uint32_t n_threads;        /* 0: chosen by measuring, among the cores this process may use, capped by the
                                  cgroup quota */
    uint32_t n_threads_decode; /* of steps of a few tokens; 0: as n_threads where that is given, else chosen too */
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
    bool pin;                  /* pin threads to cores; always done on machines with several memory nodes */
    bool packed_cache;         /* keep the packed weights beside the model (or in the cache folder): the next start
                                  maps them, and processes share them */
    double itl_target_ms;      /* longest wished gap between two tokens of a running answer; 0: 100. A step
                                  takes only so much of a prompt as its predicted time allows */
    double ttft_target_ms;     /* wished time to first token; 0: 500 */
    bool no_prefix_cache;      /* finished and running sequences do not share pages: only to be measured */
    uint64_t kv_memory;        /* bytes of the KV pool; 0: by kv_tokens. Both given: the smaller */
    const char *kv_swap;       /* file that paused requests' pages are written to (made, unlinked); NULL: none,
                                  a paused request is computed again */
    uint64_t kv_swap_bytes;    /* most bytes of that file; 0: 1 GiB */
    bool timing;               /* keep per-operator times for hy_engine_stats (under 3 % of speed) */
    /* Called while loading from the opening thread; return true to cancel. May be NULL. */
    bool (*progress)(void *ctx, uint64_t done_bytes, uint64_t all_bytes);
    void *progress_ctx;
    /* speculation: some tokens of a step are drafted and checked by the model; the text stays what it is without */
    const char *draft;         /* a smaller model with the same vocabulary: GGUF or folder; NULL: none */
    const char *speculate;     /* who drafts, for requests that do not say: "off", "ngram" (what followed the last
                                  tokens earlier in the text), "draft" (the draft model), "self" (the model's own
                                  weights at 4 bits), "auto"; NULL: off */
    uint32_t spec_max;         /* drafted tokens of a request in one step, at most 16; 0: 16 */
    bool spec_always;          /* draft wherever there is something to draft, paying or not: only to be measured */
    uint32_t spec_store;       /* "ngram" also looks in so many tokens of finished answers of the same tenant; 0: not */
    /* only to be measured */
    const char *attention;     /* "flash" (NULL), or "materialised": whole rows of scores in memory */
    bool weights_all;          /* `weights` counts for quantised matrices too: they are widened or quantised again */
    bool no_huge_pages;        /* weights and working memory in small pages */
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

/* What the text must follow. The answer ends when the guide allows an end and the model takes it, or when
 * nothing may follow. Compiled at the door: HY_E_ARG for what is wrong, HY_E_UNSUPPORTED names a keyword that
 * cannot be enforced. */
typedef enum hy_guide_kind {
    HY_GUIDE_NONE, HY_GUIDE_JSON_OBJECT, HY_GUIDE_JSON_SCHEMA, HY_GUIDE_REGEX /* the whole text */, HY_GUIDE_GBNF
} hy_guide_kind;
typedef struct hy_guide {
    hy_guide_kind kind;
    const char *text;          /* schema, expression or grammar; unused for JSON_OBJECT */
    size_t n_text;
    const char *schemas;       /* GBNF: JSON object, name -> schema, for its @schema("name"); or NULL */
    size_t n_schemas;
} hy_guide;

typedef enum hy_pool { HY_POOL_NONE, HY_POOL_LAST, HY_POOL_MEAN } hy_pool;

#define HY_TOP_LOGPROBS_MAX 20

/* Who drafts for a request; must be open in the engine (hy_options.speculate, hy_options.draft). */
typedef enum hy_speculate {
    HY_SPECULATE_DEFAULT = -1, HY_SPECULATE_OFF, HY_SPECULATE_NGRAM, HY_SPECULATE_DRAFT, HY_SPECULATE_SELF,
    HY_SPECULATE_AUTO          /* whoever is there and promises most */
} hy_speculate;

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
    uint32_t min_tokens;       /* the model's end tokens cannot come before so many tokens; 0: off */
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
    int32_t prompt_logprobs;   /* -1: none; else of each prompt token after the first, with so many alternatives:
                                  hy_request_prompt_logprobs after HY_EV_DONE or the first token */
    hy_guide guide;            /* grammar that the text follows; zeroed: none */
    hy_pool pool;              /* not NONE: no text; the pooled last hidden state (after the final norm) is the
                                  answer: hy_request_embedding after HY_EV_DONE. max_tokens is ignored */

    /* scheduling */
    int32_t priority;          /* smaller is earlier; 0 is ordinary; waiting ages it */
    double deadline_ms;        /* from submit; 0: none. Passed: HY_FINISH_DEADLINE with what there is */
    const char *tenant;        /* prefix pages are shared only within the same tenant; NULL: "" */
    bool no_cache;             /* neither takes nor leaves cached prefix pages */
    /* Called by the engine's thread (or by hy_cancel's caller) whenever hy_poll would give an event: must be
     * quick and must not call the engine. May be NULL. Not called after hy_release returned. */
    void (*notify)(void *ctx);
    void *notify_ctx;
    int32_t speculate;         /* HY_SPECULATE_*; DEFAULT: as the engine's options say */
} hy_params;

HY_API void hy_params_init(hy_params *p);

/* Checks everything at the door (HY_E_ARG and HY_E_LIMIT name field, value and limit), tokenises,
 * and queues. Thread: any. A full queue gives HY_E_BUSY; what can never fit HY_E_LIMIT. */
HY_API hy_status hy_submit(hy_engine *e, const hy_params *p, hy_request **out, hy_err *err);

/* n answers to one prompt: it is computed once, its pages are shared and copied on write. Request i draws
 * with seed + i and equals hy_submit with that seed. All or none. out: [n]; each is polled and released on
 * its own. */
HY_API hy_status hy_submit_n(hy_engine *e, const hy_params *p, uint32_t n, hy_request **out, hy_err *err);

/* How long a request submitted now would wait for its first token (ms), by the fitted cost model: for
 * Retry-After. Thread: any. */
HY_API double hy_engine_predict_wait(const hy_engine *e, uint32_t n_prompt);

/* From now on hy_submit answers HY_E_BUSY ("draining"); running and waiting requests go on. Thread: any. */
HY_API void hy_engine_drain(hy_engine *e);

typedef enum hy_event_kind {
    HY_EV_NONE,                /* the time ran out */
    HY_EV_TEXT,                /* text that may be shown, with the tokens that made it */
    HY_EV_DONE                 /* finished: reason and usage are set; final, repeats if polled again */
} hy_event_kind;

typedef enum hy_finish {
    HY_FINISH_NONE, HY_FINISH_STOP /* EOS or a stop string */, HY_FINISH_LENGTH,
    HY_FINISH_CANCELLED, HY_FINISH_ERROR, HY_FINISH_DEADLINE
} hy_finish;

typedef struct hy_logprob { int32_t id; float logprob; } hy_logprob;

typedef struct hy_token {
    int32_t id;
    float logprob;             /* natural log, of the model's own distribution; 0 if not asked */
    uint32_t n_top;
    const hy_logprob *top;     /* [n_top], best first */
    uint64_t us;               /* when it was published, on the clock of hy_clock_us */
} hy_token;

#define HY_DRAFT_PLACES 16     /* most tokens of a draft */
typedef struct hy_usage {
    uint32_t n_prompt, n_output, n_cached;
    double queue_ms, ttft_ms, prompt_ms, decode_ms; /* ttft from submit; decode after first token */
    uint32_t n_paused;         /* times paused for want of pages */
    uint32_t n_chunk;          /* steps that took a part of the prompt */
    double paused_ms;
    int32_t stop_index;        /* which stop string ended it; -1: none (end token, or another reason) */
    int32_t stop_id;           /* the end token that ended it; -1: none */
    uint32_t n_drafted, n_accepted; /* speculation */
    uint32_t drafted_at[HY_DRAFT_PLACES], accepted_at[HY_DRAFT_PLACES]; /* by place in the draft */
    double draft_gain;         /* speed over plain decoding's, estimated from what rows cost here; 1: none drafted */
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

/* The numbers so far, at any time before release. Thread: as hy_poll. */
HY_API void hy_request_usage(const hy_request *r, hy_usage *out);
/* Tokens of the prompt as the engine sees it. Valid until release. */
HY_API const int32_t *hy_request_prompt(const hy_request *r, uint32_t *n);
/* [n_prompt]: entry 0 has id and no logprob (NaN). NULL unless asked for and computed. */
HY_API const hy_token *hy_request_prompt_logprobs(const hy_request *r, uint32_t *n);
/* [n_embd], not normalised. NULL unless asked for and finished. */
HY_API const float *hy_request_embedding(const hy_request *r, uint32_t *n);

/* What a request did, span by span, for "why was it slow" and traces. */
typedef enum hy_span_kind { HY_SPAN_QUEUE, HY_SPAN_CHUNK, HY_SPAN_DECODE, HY_SPAN_PAUSE } hy_span_kind;
typedef struct hy_span {
    hy_span_kind kind;
    uint64_t us_begin, us_end; /* clock of hy_clock_us; us_end 0: still open */
    uint32_t n_tok;            /* chunk: prompt tokens; decode: tokens so far */
    uint32_t n_beside;         /* tokens of other requests in the same steps, mean */
} hy_span;
/* Copies the first `cap` spans, oldest first (chunks beyond 64 are merged into the last); returns how many. */
HY_API uint32_t hy_request_spans(const hy_request *r, hy_span *out, uint32_t cap);
HY_API uint64_t hy_clock_us(void); /* monotonic */

/* ---- facts ------------------------------------------------------------------------------------ */

typedef struct hy_facts {
    const char *family;        /* "llama" */
    const char *name;          /* general.name, or "" */
    const char *isa, *kv_type;
    uint32_t n_ctx, n_ctx_train, n_vocab, n_layer, n_embd, n_threads, n_seq, n_step;
    uint32_t n_threads_decode;
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

/* ---- statistics: everything that a monitor shows ------------------------------------------------ */

#define HY_HIST_BUCKETS 20
typedef struct hy_hist {       /* count[i] observations <= bound[i] and > bound[i-1]; the last one the rest */
    uint32_t n_bound;
    double bound[HY_HIST_BUCKETS];
    uint64_t count[HY_HIST_BUCKETS + 1];
    double sum;
} hy_hist;

#define HY_STATS_OPS 64
#define HY_STATS_LEDGER 16
typedef struct hy_stats {
    hy_counters counters;
    /* seconds */
    hy_hist ttft, itl, e2e, queue, prefill, decode, step;
    hy_hist step_tokens;       /* tokens of a step */
    hy_hist prompt_tokens, output_tokens; /* of finished requests */
    uint64_t n_prompt_tok, n_output_tok;  /* computed or cached; given out */
    uint64_t n_finished[8];    /* by hy_finish */
    uint64_t n_refused_busy, n_refused_limit, n_refused_arg;
    uint64_t n_after_cancel;   /* tokens computed for requests after their cancel was seen: at most a step each */
    uint32_t n_paused_now, n_running_prefill, n_running_decode;
    /* prefix cache, in tokens */
    uint64_t cache_query_tok, cache_hit_tok, cache_evicted_tok;
    uint64_t page_cached;      /* pages held by the cache alone */
    uint64_t n_cow;            /* pages copied on write */
    uint64_t cascade_tok_saved;/* key tokens not read again because a page was shared in the step */
    uint64_t swap_out_bytes, swap_in_bytes;
    double itl_target_ms, ttft_target_ms;
    /* cost model: predicted step ms = a + b * tokens + c * key tokens read (thousands) */
    double cost_fixed_ms, cost_token_ms, cost_key_ms, cost_error; /* mean |predicted - measured| / measured */
    /* speculation */
    uint64_t n_drafted, n_accepted;
    /* share of a step by operator (options.timing) */
    uint32_t n_op;
    struct { const char *name; double seconds; } op[HY_STATS_OPS];
    double spec_gain;          /* tokens a ms that the last step expected, over plain decoding's; 1: none drafted */
    uint64_t spec_drafted[HY_DRAFT_PLACES], spec_accepted[HY_DRAFT_PLACES]; /* by place in the draft */
    double spec_speedup;       /* since the start, estimated as hy_usage.draft_gain; 1: none drafted */
    const char *speculate[4];  /* who may be asked to draft: "ngram", "draft", "self"; then NULL */
    /* memory by purpose, in bytes; sums up to the process within 5 % */
    uint32_t n_ledger;
    struct { const char *name; uint64_t bytes; } ledger[HY_STATS_LEDGER];
} hy_stats;
HY_API void hy_engine_stats(const hy_engine *e, hy_stats *out); /* Thread: any */

/* State of every page of the full-attention group: 0 free, 1 of one running request, 2 shared by several,
 * 3 held by the prefix cache alone. Copies up to cap bytes; returns the number of pages. Thread: any. */
HY_API uint32_t hy_engine_page_map(const hy_engine *e, uint8_t *out, uint32_t cap);

/* ---- the running load, profiled ------------------------------------------------------------------ */

/* Where the time of the next seconds goes: every operator's share and how near it comes to the machine's measured
 * limits (where `hayate cpu` has measured them), sizes of steps, waiting; what holds it back, and what to try. What
 * runs goes on meanwhile, under 3 % slower. One at a time. */
typedef struct hy_profiling hy_profiling;
typedef enum hy_profile_form { HY_PROFILE_TEXT, HY_PROFILE_JSON, HY_PROFILE_TRACE } hy_profile_form;
#define HY_PROFILE_SECONDS_MAX 60
/* seconds: above 0. trace: what every thread did is kept as well, for HY_PROFILE_TRACE. notify (may be NULL): called
 * once by the engine's thread at the end: quick, and without calling the engine. HY_E_BUSY: another one runs.
 * Thread: any. */
HY_API hy_status hy_profiling_start(hy_engine *e, double seconds, bool trace, void (*notify)(void *ctx), void *ctx,
                                    hy_profiling **out, hy_err *err);
HY_API bool hy_profiling_done(const hy_profiling *p);  /* also when the engine drains */
HY_API void hy_profiling_stop(hy_profiling *p);        /* ends it early: done follows. Thread: any */
/* Once it is done. TRACE: the JSON that ui.perfetto.dev opens. Free *text with hy_memory_free. Thread: one at a time. */
HY_API hy_status hy_profiling_report(hy_profiling *p, hy_profile_form form, char **text, hy_err *err);
HY_API void hy_profiling_close(hy_profiling *p);       /* stops it if it runs; accepts NULL */
HY_API double hy_profiling_left(const hy_engine *e);   /* seconds until the one that runs is over; 0: none runs */

/* ---- a conversation's KV in a file --------------------------------------------------------------- */

/* Writes the cached pages of these tokens (zstd) with model, KV type and tokens beside them; returns the
 * tokens covered in *n_saved (whole pages). Under a temporary name, renamed when whole. Thread: any; waits. */
HY_API hy_status hy_engine_cache_save(hy_engine *e, const char *path, const char *tenant, const int32_t *ids,
                                      uint32_t n, uint32_t *n_saved, hy_err *err);
/* Checks the file (model, KV type, sizes, checksum) and puts its pages into the prefix cache. */
HY_API hy_status hy_engine_cache_load(hy_engine *e, const char *path, const char *tenant, uint32_t *n_loaded,
                                      hy_err *err);

/* Text <-> tokens with the model's tokenizer. Free *ids / *text with hy_memory_free. */
HY_API hy_status hy_engine_tokenize(const hy_engine *e, const char *text, size_t n, bool add_special,
                                    bool parse_special, int32_t **ids, size_t *n_ids, hy_err *err);
HY_API hy_status hy_engine_detokenize(const hy_engine *e, const int32_t *ids, size_t n,
                                      bool show_special, char **text, hy_err *err);
/* Bytes of one token as it stands in a text; control tokens as written. Free with hy_memory_free. */
HY_API hy_status hy_engine_piece(const hy_engine *e, int32_t id, char **bytes, size_t *n, hy_err *err);
/* Id of the control or ordinary token written exactly so, or -1. */
HY_API int32_t hy_engine_token_id(const hy_engine *e, const char *s, size_t n);
/* Source of the model's template, or NULL; lives as long as e. name: NULL for the default. */
HY_API const char *hy_engine_template(const hy_engine *e, const char *name);
/* The chat template's text for a JSON object of variables. */
HY_API hy_status hy_engine_chat(const hy_engine *e, const char *chat_json, const char *chat_template,
                                char **text, hy_err *err);
/* The prompt that chat messages make, as text and as tokens. Control tokens spelled out in messages, tools and
 * documents stay text: only the template's own become control tokens. continue_final: the last message is left
 * open, to be continued (the text ends where its content does). Free both with hy_memory_free; text may be NULL. */
HY_API hy_status hy_engine_chat_tokens(const hy_engine *e, const char *chat_json, const char *chat_template,
                                       bool continue_final, char **text, int32_t **ids, size_t *n_ids, hy_err *err);
HY_API void hy_memory_free(void *p);

#ifdef __cplusplus
}
#endif
#endif
