/* Private to serve/: what the OpenAI-shaped routes share: the fields of their bodies and the parts of their
 * answers. */
#ifndef HY_SERVE_OPENAI_H
#define HY_SERVE_OPENAI_H

#include "serve/fields.h"
#include "serve/gen.h"

/* Body of /v1/completions or /v1/chat/completions as its table reads it. */
typedef struct hy_body {
    hy_ask ask;
    const char *model;
    int64_t max_completion_tokens, n_predict, best_of;
    bool has_max_tokens, has_max_completion, has_n_predict, has_best_of;
    bool logprobs;             /* chat */
    int64_t top_logprobs;
    bool has_top_logprobs;
    const json_t *legacy_logprobs;
    const json_t *tool_choice, *stream_options;
    bool include_usage, usage_always; /* stream_options */
    bool echo, return_token_ids;
    bool prompt_logprobs;      /* the field was given (echo with logprobs needs them as well) */
    bool skip_special, add_special, cache_prompt, enable_thinking, has_thinking, include_reasoning;
    bool add_generation_prompt, has_generation_prompt, continue_final;
    const char *reasoning_format;
} hy_body;

extern const hy_field hy_chat_fields[], hy_completion_fields[], hy_embedding_fields[];
extern const hy_field hy_tokenize_fields[], hy_detokenize_fields[], hy_template_fields[];

/* Reads the body of x and finishes the ask. False: the error was sent and nothing is left to free. */
bool hy_body_chat(hy_exchange *x, hy_body *b);
bool hy_body_completion(hy_exchange *x, hy_body *b);
/* Is `name` (NULL: none was given) served here? Else a 404 is sent. */
bool hy_model_check(hy_exchange *x, const char *name);

/* ---- answers ------------------------------------------------------------------------------------- */

/* {"id", "object", "created", "model", "system_fingerprint"}; NULL when out of memory. */
json_t *hy_openai_head(const hy_gen *g, const char *prefix, const char *object);
/* "stop", "length", "tool_calls" */
const char *hy_openai_finish(const hy_answer *a);
/* vLLM's stop_reason: the stop string, the id of an end token that the request named, "deadline", or null. */
json_t *hy_openai_stop_reason(const hy_gen *g, const hy_answer *a);
/* obj[key] = take; false when out of memory. */
bool hy_set(json_t *obj, const char *key, json_t *take);
/* Sends what was built, or a 503 when memory ran out on the way (take is then NULL). */
void hy_openai_reply(hy_exchange *x, json_t *take);

/* logprobs.c: of tok[first .. last) */
json_t *hy_logprobs_chat(const hy_gen *g, const hy_answer *a, size_t first, size_t last);
/* Legacy lists. echo: the prompt's tokens come first; from_char: characters of the text before tok[first]'s. */
typedef struct hy_logprobs_legacy {
    json_t *tokens, *token_logprobs, *top_logprobs, *text_offset;
} hy_logprobs_legacy;
bool hy_logprobs_legacy_open(hy_logprobs_legacy *l);
bool hy_logprobs_legacy_put(hy_logprobs_legacy *l, hy_engine *e, int32_t id, double logprob /* NaN: null */,
                            const hy_logprob *top, uint32_t n_top, bool with_top, uint64_t at_char);
json_t *hy_logprobs_legacy_take(hy_logprobs_legacy *l);   /* closes l */
/* vLLM's prompt_logprobs: null, then {"id": {"logprob", "rank", "decoded_token"}} for each token. */
json_t *hy_logprobs_prompt(const hy_gen *g, const hy_answer *a);
json_t *hy_ids_json(const int32_t *ids, size_t n);
json_t *hy_token_ids_json(const hy_answer *a, size_t first, size_t last);
/* Sends what a failing allocation calls for. */
void hy_openai_no_memory(hy_exchange *x);

#endif
