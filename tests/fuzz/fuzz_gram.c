/* room: gram */
/* First byte: the kind of source; then the source, a 0xFF byte, and a text: compiled, matched, and
 * walked through with masks over a vocabulary of bytes, where the mask must agree with trying each
 * token. */
#include "gram/gram.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static hy_status piece(void *ctx, int32_t id, hy_buf *out, uint32_t *flags, hy_err *err)
{
    static const char *const more[] = {"\": ", "\",", "{\"", "\"}", "aa", "<x>", "\xC3\xA9"};
    if (id < 256)
        hy_buf_char(out, (char)id);
    else
        hy_buf_str(out, more[id - 256]);
    return HY_OK;
}

static void walk(hy_gram *g, const uint8_t *s, size_t n)
{
    enum { N = 263 };
    static const int32_t end[] = {0};
    hy_gram_vocab_source src = {N, piece, NULL, end, 1};
    hy_gram_vocab *v;
    hy_gram_run *r;
    hy_err err;
    uint32_t bits[HY_GRAM_WORDS(N)];
    if (hy_gram_vocab_open(&v, &src, &err) != HY_OK) abort();
    if (hy_gram_run_open(&r, g, v, &err) != HY_OK) abort();
    for (size_t i = 0; i < n && i < 64; i++) {
        char forced[8];
        hy_gram_mask(r, bits);
        for (int32_t id = 0; id < N; id++)
            if ((bits[id / 32] >> id % 32 & 1) != hy_gram_allows(r, id)) __builtin_trap();
        hy_gram_forced(r, forced, sizeof forced);
        if (hy_gram_accept(r, s[i]) != (bits[s[i] / 32] >> s[i] % 32 & 1)) __builtin_trap();
        if (i % 5 == 4) hy_gram_rollback(r, hy_gram_mark(r) - (hy_gram_mark(r) ? 1 : 0));
    }
    hy_gram_run_close(r);
    hy_gram_vocab_close(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    const uint8_t *cut = memchr(data + 1, 0xFF, n - 1);
    size_t k = cut ? (size_t)(cut - data - 1) : n - 1;
    const uint8_t *text = cut ? cut + 1 : data + n;
    size_t n_text = (size_t)(data + n - text);
    hy_gram_source src = {(hy_gram_kind)(data[0] % 4), (const char *)data + 1, k,
                          "{\"s\":{\"type\":\"object\"}}", 23};
    hy_gram *g;
    hy_err err;
    bool m;
    if (hy_gram_compile(&g, &src, &err) != HY_OK) return 0;
    hy_gram_match(g, (const char *)text, n_text, &m, &err);
    walk(g, text, n_text);
    hy_gram_unref(g);
    return 0;
}
