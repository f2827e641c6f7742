/* room: tok */
/* A tokenizer.json or tokenizer.model, then a text, whose length is the last byte. What opens must
 * encode and decode: ids stay in the vocabulary, the stream stays UTF-8, the answer repeats. */
#include "tok/tok.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void decode(const hy_tok *t, const hy_ids *ids, bool show)
{
    hy_detok d;
    hy_buf out = {0};
    hy_err err;
    hy_detok_init(&d, t, show);
    for (size_t i = 0; i < ids->n; i++) {
        if (hy_detok_put(&d, ids->id[i], &out, &err) != HY_OK) __builtin_trap();
        if (out.len && !hy_utf8_valid(out.data, out.len)) __builtin_trap();
    }
    hy_detok_end(&d, &out);
    hy_buf_reset(&out);
    if (hy_tok_decode(t, ids->id, ids->n, show, &out, &err) != HY_OK) __builtin_trap();
    if (out.len && !hy_utf8_valid(out.data, out.len)) __builtin_trap();
    hy_buf_free(&out);
}

static void encode(const hy_tok *t, const char *text, size_t n, bool special, bool parse)
{
    hy_ids ids = {0}, again = {0};
    hy_err err;
    if (hy_tok_encode(t, text, n, special, parse, &ids, &err) == HY_OK) {
        for (size_t i = 0; i < ids.n; i++)
            if (ids.id[i] < 0 || (uint32_t)ids.id[i] >= hy_tok_n_vocab(t)) __builtin_trap();
        if (hy_tok_encode(t, text, n, special, parse, &again, &err) != HY_OK) __builtin_trap();
        if (again.n != ids.n || (ids.n && memcmp(again.id, ids.id, ids.n * sizeof *ids.id)))
            __builtin_trap();
        decode(t, &ids, parse);
    }
    hy_ids_free(&ids);
    hy_ids_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    hy_tok *t = NULL;
    hy_err err;
    if (!n) return 0;
    size_t n_text = data[--n];
    n_text = n_text < n ? n_text : n;
    if (hy_tok_from_memory(&t, data, n - n_text, &err) != HY_OK) return 0;
    const char *text = (const char *)data + n - n_text;
    encode(t, text, n_text, false, true);
    encode(t, text, n_text, true, false);
    for (int32_t id = -1; id <= (int32_t)hy_tok_n_vocab(t) && id < 300; id++) {
        hy_buf out = {0};
        hy_tok_piece(t, id, true, &out, &err);
        hy_tok_is_end(t, id);
        hy_tok_flags_of(t, id);
        hy_buf_free(&out);
    }
    hy_tok_free(t);
    return 0;
}
