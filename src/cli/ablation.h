/* cli, private: what `hayate bench --ablation` shows, all of it made from the one JSON (src/engine/ablate.h). */
#ifndef HY_CLI_ABLATION_H
#define HY_CLI_ABLATION_H

#include "cli.h"
#include <jansson.h>

void ablation_table(const json_t *o, hy_buf *out); /* 100 columns */
void ablation_csv(const json_t *o, hy_buf *out);
void ablation_html(const json_t *o, hy_buf *out);  /* one file, no outside requests */

/* ablation.c, for these three */
/* A path of keys and array indices, "spread.itl_ms.1"; NULL when there is nothing. */
const json_t *ablation_at(const json_t *o, const char *path);
bool ablation_number(const json_t *o, const char *path, double *out); /* false: null or missing */
const char *ablation_string(const json_t *o, const char *path); /* "" when missing */
/* "KV cache" of "kv_cache". */
const char *ablation_title(const char *technique);
/* A number as people read it: 0.0123, 1.23, 12.3, 123; "-" when there is none. */
const char *ablation_short(bool has, double v, char out[32]);
/* "same bits", "+0.12 %, KL 0.0003", or "": what a row loses of quality. */
const char *ablation_quality(const json_t *row, char out[64]);
/* "31 x per token": a row's gain, or "". */
const char *ablation_gain(const json_t *row, char out[48]);
/* What only this technique has, in words: "96 % of the memory holds tokens, 25 sequences". */
void ablation_extra(const json_t *row, hy_buf *out);

#endif
