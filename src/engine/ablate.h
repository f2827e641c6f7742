/* Private to engine/: `hayate bench --ablation`, every technique on and off on this machine.
 *
 * hy_tool_ablation (include/hayate/tools.h) gives this JSON; the program's table, CSV and HTML are made from it, and
 * the last one of a machine and model is kept in the cache folder for `profile` and `tune` (hy_ablation_kept):
 *
 * {"hayate": "0.1.0", "time": "2026-11-30T14:25:00Z", "seconds": 431.2, "complete": true,
 *  "machine": {"model", "processors", "processors_allowed", "cores_allowed", "quota" (null: none), "memory_bytes",
 * "isa", "threads", "threads_decode", "kernel", "huge_pages", "load_before", "load_after"}, "model": {"file", "name",
 * "family", "n_layer", "n_embd", "n_vocab", "parameters", "weights", "file_bytes"}, "draft": "file" or null,
 *  "settings": {"minutes", "only" (techniques asked for; null: all), "prompt", "answer", "text_bytes", "best", "plain",
 *               "reference", "notes": ["..."]},
 *  "rows": [{"technique": "kv_cache", "setting": "on", "baseline": "best", "group": "kv_cache",
 *            "ttft_ms", "itl_ms", "tokens_s", "memory_mib",     numbers or null: not a matter of this technique
 *            "quality": {"ppl_delta_pct", "kl", "same_bits"},   null each: not measured
 *            "spread": {"ttft_ms": [least, most], "itl_ms": [...], "tokens_s": [...]}, "repeats": 5,
 *            "gain": {"what": "itl", "ratio": 31.4} or null,    over this technique's first row of the same baseline
 *            "extra": {...},                                    what only this technique has: see its group
 *            "when", "when_not"}],
 *  "curves": {"kv_cache": [{"n", "off_ms", "on_ms", "ratio", "answer_off_ms", "answer_on_ms", "answer_ratio"}],
 *             "attention": [{"n", "materialised_ms", "flash_ms", "ratio", "materialised_mib", "flash_mib"}],
 *             "streams": [{"streams", "tokens_s", "itl_ms", "ttft_ms"}],
 *             "threads": [{"threads", "prefill_tokens_s", "decode_tokens_s"}],
 *             "ladder": [{"step", "ttft_ms", "itl_ms", "tokens_s"}]},
 *  "claims": [{"claim", "said", "measured", "value", "low", "high", "unit", "holds": true|false, "about"}]}
 *
 * technique: kv_cache attention fusion weights activations kv_type paged prefix_cache chunked_prefill batching
 *   speculation threads huge_pages. The first row of a technique and baseline is the technique off.
 * setting:   on, off; or a type, a number; of speculation "who task" ("ngram copy") behind its own "off task".
 * baseline:  "best": everything else as Hayate runs it; "plain": everything else off (no KV cache, primitive
 * operators, F32 weights, activations and keys, materialised scores, one sequence); "gpt2": the shape of GPT-2,
 * everything on. gain.what: ttft itl tokens_s memory sequences gap; ratio > 1 is better. */
#ifndef HY_ENGINE_ABLATE_H
#define HY_ENGINE_ABLATE_H

#include "measured.h"

/* The last ablation of this machine and this model file (name and size), or NULL. Caller decrefs. */
json_t *hy_ablation_kept(const char *model_path);

#endif
