/* What the program's commands need beside the engine: inspecting, measuring, converting. Implemented
 * in engine/. Texts and arrays handed out are freed with hy_memory_free. All calls are synchronous;
 * where `progress` is given it is called from the calling thread, and returning true cancels
 * (HY_E_CANCELLED). */
#ifndef HAYATE_TOOLS_H
#define HAYATE_TOOLS_H

#include <hayate/hayate.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef bool hy_progress_fn(void *ctx, uint64_t done, uint64_t all);

/* ---- a model without the engine's thread: logits, perplexity, benchmarks ----------------------- */

typedef struct hy_session hy_session;
/* The same options as an engine. */
HY_API hy_status hy_session_open(hy_session **out, const hy_options *o, hy_err *err);
HY_API void hy_session_close(hy_session *s);
HY_API void hy_session_facts(const hy_session *s, hy_facts *out);

/* Logits of one fresh sequence, fed in chunks of `chunk` tokens (0: as large as a step). all: of every
 * position, else of the last. out: [n or 1, n_vocab], caller's memory. */
HY_API hy_status hy_session_logits(hy_session *s, const int32_t *tokens, uint32_t n, uint32_t chunk,
                                   bool all, float *out, hy_err *err);
HY_API hy_status hy_session_tokenize(const hy_session *s, const char *text, size_t n, bool add_special,
                                     bool parse_special, int32_t **ids, size_t *n_ids, hy_err *err);

typedef struct hy_ppl_params {
    const char *text; size_t n_text;
    uint32_t window;           /* tokens a window; 0: 512 */
    uint32_t stride;           /* 0: window (no overlap) */
    uint32_t score_first;      /* first scored position of a window; 0: window / 2 */
    uint32_t n_window;         /* at most so many; 0: all */
    hy_progress_fn *progress; void *progress_ctx;
    void (*partial)(void *ctx, uint32_t i_window, double ppl); /* or NULL; ctx = progress_ctx */
} hy_ppl_params;
typedef struct hy_ppl_result {
    double ppl, ppl_low, ppl_high;  /* 95 % confidence interval, from the scored tokens' variance */
    double nll; uint64_t n_scored; uint32_t n_window;
    /* kl only: base model = reference */
    double kl_mean, kl_p99, kl_max, same_top; /* nats; share of equal best tokens */
    double ppl_base;
} hy_ppl_result;
/* Windows of the tokenised text; each begins with BOS (replacing its first token) where the model adds
 * one; positions from score_first on are scored. */
HY_API hy_status hy_session_perplexity(hy_session *s, const hy_ppl_params *p, hy_ppl_result *out, hy_err *err);
/* The same text through both: KL(base || s). */
HY_API hy_status hy_session_kl(hy_session *base, hy_session *s, const hy_ppl_params *p,
                               hy_ppl_result *out, hy_err *err);

/* One benchmark shape, timed once: rows sequences of depth tokens already in the cache, then n_prompt
 * tokens each in steps (prefill) or n_gen single-token steps. ns: wall time of the timed part. */
HY_API hy_status hy_session_bench(hy_session *s, uint32_t n_prompt, uint32_t n_gen, uint32_t depth,
                                  uint32_t rows, uint64_t *ns, hy_err *err);

/* ---- looking ----------------------------------------------------------------------------------- */

/* Shape, types by bytes, tokenizer, template, memory needed for n_ctx tokens. */
HY_API hy_status hy_tool_info(const char *path, uint32_t n_ctx, bool json, char **text, hy_err *err);
/* The plan before and after fusion. */
HY_API hy_status hy_tool_explain(const hy_options *o, bool json, char **text, hy_err *err);

/* ---- tokenizer and template on their own -------------------------------------------------------- */

typedef struct hy_tokenizer hy_tokenizer;
HY_API hy_status hy_tokenizer_open(hy_tokenizer **out, const char *path, hy_err *err);
HY_API void hy_tokenizer_close(hy_tokenizer *t);
HY_API hy_status hy_tokenizer_encode(const hy_tokenizer *t, const char *text, size_t n, bool add_special,
                                     bool parse_special, int32_t **ids, size_t *n_ids, hy_err *err);
/* Bytes of one token (control tokens as written). */
HY_API hy_status hy_tokenizer_piece(const hy_tokenizer *t, int32_t id, char **bytes, size_t *n, hy_err *err);
/* Streaming: chunks[i] is what may be sent after ids[i]; flush is the rest. Free each and the array. */
HY_API hy_status hy_tokenizer_stream(const hy_tokenizer *t, const int32_t *ids, size_t n,
                                     char ***chunks, char **flush, hy_err *err);
/* Renders a template. vars_json: an object; its "now" (ISO 8601, local) sets strftime_now's clock. */
HY_API hy_status hy_tool_template(const char *source, size_t n, const char *vars_json, char **text, hy_err *err);

/* ---- guides on their own -------------------------------------------------------------------------- */

/* matches[i]: is texts[i] (n[i] bytes) whole under the guide? Errors as hy_submit gives them for a guide. */
HY_API hy_status hy_tool_match(const hy_guide *guide, const char *const *texts, const size_t *n, uint32_t n_texts,
                               bool *matches, hy_err *err);

/* ---- converting --------------------------------------------------------------------------------- */

typedef struct hy_quantize_override { const char *pattern; const char *type; } hy_quantize_override;
typedef struct hy_quantize_params {
    const char *type;          /* "q4_k_m"-like mixes, or a plain type: every matrix that fits */
    const hy_quantize_override *override; uint32_t n_override; /* first match wins; '*' and '?' */
    const char *imatrix;       /* file from hy_tool_imatrix, or NULL */
    uint32_t n_threads;
    hy_progress_fn *progress; void *progress_ctx;
} hy_quantize_params;
/* GGUF or safetensors folder -> GGUF. Written under a temporary name, renamed when whole. */
HY_API hy_status hy_tool_quantize(const char *in, const char *out, const hy_quantize_params *p, hy_err *err);
/* Comma-separated names that hy_quantize_params.type takes. */
HY_API const char *hy_tool_quantize_types(void);
/* Mean squared activation of every matrix's inputs over a text, as a GGUF file. */
HY_API hy_status hy_tool_imatrix(hy_session *s, const char *text, size_t n_text, uint32_t n_window,
                                 const char *out, hy_progress_fn *progress, void *ctx, hy_err *err);
/* Raw blocks of a type -> floats. n_in must be a multiple of the block's bytes. */
HY_API hy_status hy_tool_dequantize(const char *type, const void *in, size_t n_in, float **out,
                                    size_t *n_out, hy_err *err);

/* ---- fetching ------------------------------------------------------------------------------------ */

/* source: http(s) URL, or hf:owner/repo/file. Resumes out.part, checks sha256 (64 hex digits, or NULL),
 * renames to out (NULL: the last part of the path, in the current folder; *saved names it). */
HY_API hy_status hy_tool_pull(const char *source, const char *out, const char *sha256,
                              hy_progress_fn *progress, void *ctx, char **saved, hy_err *err);

/* ---- the machine ---------------------------------------------------------------------------------- */

/* What this machine can do, measured (some seconds) and kept in the user's cache folder, or taken from there;
 * fresh: measured again. Topology, quota, kernels chosen; bandwidths, operations, barrier. */
HY_API hy_status hy_tool_cpu(bool fresh, bool json, hy_progress_fn *progress, void *ctx, char **text, hy_err *err);

/* Where the time of a prompt and of decode steps goes: per operator time, bytes, operations and the share of
 * the machine's measured limits; the bottleneck, and what to try with the speed to expect. */
typedef struct hy_profile_params {
    uint32_t n_prompt, n_gen;  /* tokens; 0: that phase is left out */
    uint32_t depth, rows;      /* tokens in the cache before; sequences at once (0: 1) */
    const char *trace;         /* file for a trace that ui.perfetto.dev opens, or NULL */
    bool json;
    hy_progress_fn *progress; void *progress_ctx;
} hy_profile_params;
HY_API hy_status hy_session_profile(hy_session *s, const hy_profile_params *p, char **text, hy_err *err);

/* ---- what each technique is worth here ------------------------------------------------------------ */

/* Every technique on and off in one run, interleaved: against the best of the rest and against a plain baseline (no
 * KV cache, primitive operators, F32, materialised scores, one sequence). The JSON is described in
 * src/engine/ablate.h; the last one is kept for the machine and the model. When `progress` cancels, *json still
 * holds what was measured ("complete" is false) and HY_E_CANCELLED is returned. */
typedef struct hy_ablation_params {
    const hy_options *options; /* model, draft, threads, isa; the rest is what is measured */
    const char *text; size_t n_text; /* for perplexity and KL; NULL: a built-in text */
    const char *only;          /* techniques, comma-separated: these alone, repeated more often; NULL: all */
    double minutes;            /* about so long; 0: 8. When it is short repeats are dropped, no technique */
    hy_progress_fn *progress; void *progress_ctx; /* done and all in seconds */
} hy_ablation_params;
HY_API hy_status hy_tool_ablation(const hy_ablation_params *p, char **json, hy_err *err);
/* The one kept, or *json = NULL. */
HY_API hy_status hy_tool_ablation_kept(const char *model, char **json, hy_err *err);

/* Processor, counts, quota, features: what speed depends on here. */
HY_API hy_status hy_tool_machine(char **text, hy_err *err);
/* Sizes and some bytes of a model's files: 16 hex digits that tell models apart. */
HY_API hy_status hy_tool_model_id(const char *path, char id[17], hy_err *err);

/* ---- tuning ----------------------------------------------------------------------------------------- */

/* Finds settings for a model on this machine by measuring them in turns with the best so far, within a time. What does
 * not win against the defaults at the end is not written: the settings are never worse than those. */
typedef struct hy_tune_params {
    const char *goal;          /* "ttft": time to the first token of a prompt; "throughput": tokens a second over
                                  several streams; "memory": bytes, at most speed_loss slower */
    double quality_loss;       /* most that perplexity may grow, as a share; 0: nothing that changes the text is
                                  tried */
    double speed_loss;         /* memory: most that both speeds may lose, as a share; 0: 0.1 */
    double ttft_ms;            /* throughput, memory: limit of the time to the first token; 0: none */
    double minutes;            /* 0: 3 */
    uint32_t n_prompt, n_gen, n_stream; /* tokens of a prompt and of an answer; streams; 0: 512, 32, 8; answers are
                                  shortened where the time would be too short */
    const char *text;          /* for perplexity; NULL: a built-in one */
    size_t n_text;
    const char *out;           /* file that the settings are written to as well; or NULL */
    bool fresh;                /* search again, whatever is kept */
    bool json;
    hy_progress_fn *progress; void *progress_ctx;       /* seconds, of all; true keeps what was found by then */
    void (*trying)(void *ctx, const char *what);        /* "step 512"; or NULL; ctx = progress_ctx */
} hy_tune_params;
HY_API hy_status hy_tool_tune(const hy_options *o, const hy_tune_params *p, char **report, hy_err *err);

/* The settings that were found, as options of the program. */
#define HY_TUNED_MAX 16
typedef enum hy_tuned_state {
    HY_TUNED_NONE,             /* never tuned here */
    HY_TUNED_FITS, HY_TUNED_OTHER_MACHINE, HY_TUNED_OTHER_VERSION, HY_TUNED_OTHER_MODEL
} hy_tuned_state;
typedef struct hy_tuned {
    hy_tuned_state state;
    char *path;                /* NULL: none */
    char goal[16];
    double gain;               /* 1.2: a fifth better than the defaults */
    uint32_t n;
    struct { const char *name, *value; } item[HY_TUNED_MAX];
    char *text;                /* what they point into */
} hy_tuned;
/* file NULL: the one kept for this model. HY_E_FORMAT names the line, the value and the limit of what is wrong. */
HY_API hy_status hy_tool_tuned(const char *model, const char *file, hy_tuned *out, hy_err *err);
HY_API void hy_tuned_free(hy_tuned *t);

#ifdef __cplusplus
}
#endif
#endif
