/* Private to serve/: making text, shared by every route that does (/v1/completions, /v1/chat/completions,
 * /v1/messages, /v1/responses). A route
 *
 *   1. starts with hy_ask_init and fills the ask: from a JSON body by a table of fields (fields.h:
 *      hy_fields_read), by hand, or both;
 *   2. calls hy_gen_start with its sink and returns. From there on gen answers every error itself, renders the
 *      template, sets up guide and parser, submits, and turns engine events into calls of the sink.
 *
 * All calls of one sink come one after the other (the exchange is on one worker at a time). */
#ifndef HY_SERVE_GEN_H
#define HY_SERVE_GEN_H

#include "serve/format.h"
#include "serve/http.h"

/* ---- what is asked ------------------------------------------------------------------------------- */

/* Strings and JSON are borrowed from the exchange's body, or (what a route built itself) given to hy_ask_own. */
typedef struct hy_ask {
    /* the prompt: one of two */
    const json_t *messages;    /* OpenAI's chat shape; checked and brought into the template's form by gen */
    const json_t *prompt;      /* completions: a string, ids, or an array of either */

    /* sampling; hy_ask_init gives the neutral values */
    double temperature, top_p, min_p, typical_p, repeat_penalty, frequency_penalty, presence_penalty;
    int64_t top_k, no_repeat_ngram, seed, max_tokens /* -1: as far as the context goes */, n;
    bool has_seed;             /* else a random one */
    int64_t min_tokens;
    bool ignore_eos;
    const json_t *stop;        /* string or array of strings */
    const json_t *stop_ids;    /* array of token ids */
    const json_t *logit_bias;  /* object: id as text -> number */
    int64_t top_logprobs;      /* -1: no logprobs */
    int64_t prompt_logprobs;   /* -1: none */
    bool keep_tokens;          /* hy_answer.tok is wanted without logprobs as well */
    bool show_special;         /* control tokens appear in the text */
    bool no_special;           /* text prompts get no BOS */

    /* what the text must follow: by hy_ask_guide_*, or from the fields of OpenAI, vLLM and llama-server */
    hy_guide guide;
    hy_buf guide_text, guide_schemas;
    const json_t *response_format, *structured_outputs, *guided_json, *guided_choice;
    const char *guided_regex, *guided_grammar;

    /* chat */
    const json_t *tools;       /* OpenAI's shape, or NULL */
    hy_tool_choice choice;     /* AUTO without tools means NONE */
    const char *choice_name;   /* NAMED */
    bool parallel;             /* more than one call; true by default */
    const json_t *template_kwargs; /* object: variables for the template */
    const json_t *documents;
    const char *chat_template; /* NULL: the model's own */
    const char *reasoning_effort; /* variable for the template; "none" sets enable_thinking = false */
    bool continue_final;       /* the last message is to be continued: no generation prompt */
    bool no_generation_prompt;
    bool no_split;             /* thoughts stay in the content (llama-server's reasoning_format "none") */

    /* scheduling */
    int64_t priority;
    double deadline_ms;        /* 0: none */
    const char *cache_salt;    /* added to the tenant */
    bool no_cache;
    const char *speculate;     /* who drafts; NULL: as the engine says */

    bool stream;
    json_t *owned;             /* array; see hy_ask_own */
} hy_ask;

void hy_ask_init(hy_ask *a);
void hy_ask_free(hy_ask *a);
/* Ties a value that the route built to the ask's life (takes the reference) and returns it; NULL when out of
 * memory or given NULL. */
const json_t *hy_ask_own(hy_ask *a, json_t *take);
/* Sets the guide: any JSON object, or a schema. */
void hy_ask_guide_object(hy_ask *a);
hy_status hy_ask_guide_schema(hy_ask *a, const json_t *schema, hy_err *err);

/* ---- what comes back ----------------------------------------------------------------------------- */

typedef struct hy_gen hy_gen;

typedef struct hy_gen_tok {
    int32_t id;
    float logprob;
    uint32_t n_top;
    size_t i_top;              /* the first of its alternatives in hy_answer.top */
    size_t from;               /* byte of the answer's text where its own text begins */
} hy_gen_tok;

typedef struct hy_gen_call {
    const char *id, *name;
    hy_buf args;               /* JSON text */
} hy_gen_call;

/* One of the answers. Owner: gen. content, reasoning and calls grow as pieces come, streamed or not. */
typedef struct hy_answer {
    uint32_t index;            /* i_prompt * n + i */
    uint32_t i_prompt;
    uint32_t i_request;        /* for hy_x_request; UINT32_MAX: nothing had to run */
    bool begun;                /* the sink has heard of it */
    bool done;
    hy_finish finish;
    const char *stop;          /* the stop string that ended it, or NULL */
    hy_usage usage;
    uint32_t n_reasoning;      /* tokens of thoughts (counted by event) */
    hy_buf content, reasoning;
    hy_gen_call *call;
    uint32_t n_call, cap_call;
    hy_gen_tok *tok;           /* when logprobs or keep_tokens were asked for */
    size_t n_tok, cap_tok;
    size_t n_shown;            /* tok[0 .. n_shown) belong to text that has been given to the sink */
    hy_logprob *top;
    size_t n_top, cap_top;
    void *user;                /* the route's own; freed by the sink's close_answer, or hy_free */
    struct hy_gen_feed *feed;  /* private to gen.c: parser, held tokens */
} hy_answer;

/* Every function may be NULL. */
typedef struct hy_gen_sink {
    /* Everything was accepted and runs (nothing was sent yet): the place for a stream's first frames. */
    void (*started)(hy_gen *g);
    /* A piece of answer a; already appended to content, reasoning or the call. */
    void (*piece)(hy_gen *g, hy_answer *a, const hy_piece *p);
    /* After the pieces of one event: tokens tok[first .. a->n_shown) are new. */
    void (*step)(hy_gen *g, hy_answer *a, size_t first);
    /* The answer is over: finish and usage are set. */
    void (*done)(hy_gen *g, hy_answer *a);
    /* All answers are over: hy_x_reply_json or the stream's last frames and hy_x_end. */
    void (*all)(hy_gen *g);
    /* The engine failed while it ran. NULL: hy_x_fail, or in a stream an SSE event with an error object and
     * hy_x_end. */
    void (*fail)(hy_gen *g, const hy_err *err);
    /* The exchange ends, however: frees user. */
    void (*close)(void *user);
    /* Frees an answer's user. NULL: hy_free. */
    void (*close_answer)(void *user);
} hy_gen_sink;

/* Runs the ask. Takes its content (a is left empty, also on failure), and user, which sink->close frees.
 * The reply of every error has been sent when it returns false. */
bool hy_gen_start(hy_exchange *x, hy_ask *a, const hy_gen_sink *sink, void *user);

hy_exchange *hy_gen_exchange(const hy_gen *g);
const hy_ask *hy_gen_ask(const hy_gen *g);
void *hy_gen_user(const hy_gen *g);
uint32_t hy_gen_n_answer(const hy_gen *g);
hy_answer *hy_gen_answer(const hy_gen *g, uint32_t i);
int64_t hy_gen_created(const hy_gen *g);               /* seconds since 1970 */
/* Tokens of prompt i as the engine saw it, before and after it runs (NULL when out of memory). */
const int32_t *hy_gen_prompt(const hy_gen *g, uint32_t i_prompt, uint32_t *n);

typedef struct hy_gen_totals {
    uint64_t n_prompt, n_cached;   /* each prompt counted once */
    uint64_t n_output, n_reasoning;
} hy_gen_totals;
void hy_gen_total(const hy_gen *g, hy_gen_totals *out);

/* ---- helpers for bodies -------------------------------------------------------------------------- */

/* OpenAI's "usage" object; with the details of cached and reasoning tokens. */
json_t *hy_gen_usage_json(const hy_gen *g);
/* llama-server's "timings", with ttft_ms, queue_ms and cached_n. a NULL: over all answers. */
json_t *hy_gen_timings_json(const hy_gen *g, const hy_answer *a);
/* Text that may hold broken UTF-8 or NUL as a JSON string; never NULL but for memory. */
json_t *hy_json_text(const char *s, size_t n);
/* "chatcmpl-", "cmpl-", ... with the digits of the exchange's id, into out[64]. */
const char *hy_gen_id(const hy_gen *g, const char *prefix, char out[64]);

/* The template's text (NULL: not wanted) and tokens for a's messages. Free both with hy_memory_free. */
hy_status hy_ask_render(hy_engine *e, hy_ask *a, char **text, int32_t **ids, size_t *n, hy_err *err);
/* Checks an OpenAI "messages" array; the message names the path ("messages[1].content[0].type"). */
hy_status hy_messages_check(const json_t *messages, hy_err *err);

#endif
