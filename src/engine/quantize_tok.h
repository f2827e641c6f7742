/* Private to quantize_tok*.c and quantize_pre.c. */
#ifndef HY_ENGINE_QUANTIZE_TOK_H
#define HY_ENGINE_QUANTIZE_TOK_H

#include "quantize.h"

/* GGUF's token types */
enum { HY_GT_NORMAL = 1, HY_GT_UNKNOWN, HY_GT_CONTROL, HY_GT_USER, HY_GT_UNUSED, HY_GT_BYTE };

typedef struct hy_q_vocab {
    const char *model;         /* tokenizer.ggml.model */
    const char *pre;
    uint32_t n;
    hy_str *token;             /* [n] */
    int32_t *type;
    float *score;              /* NULL: none */
    hy_str *merge;
    uint64_t n_merge;
    int space_prefix, squeeze; /* -1: not written */
    hy_arena *arena;
} hy_q_vocab;

hy_status hy_q_vocab_json(hy_q_vocab *v, const json_t *root, hy_err *err);
/* A SentencePiece model. */
hy_status hy_q_vocab_proto(hy_q_vocab *v, const uint8_t *data, size_t n, hy_err *err);
const char *hy_q_pre_name(const json_t *root);

#endif
