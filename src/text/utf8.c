/* UTF-8: decoding with the replacement rule of the WHATWG Encoding standard, and streaming repair. */
#include "text/text.h"
#include <string.h>

/* Length and bounds of the second byte for each lead byte (Unicode 15, table 3-7). 0 = not a lead. */
static size_t lead_info(uint8_t c, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (c < 0x80) return 1;
    if (c < 0xC2) return 0;
    if (c < 0xE0) return 2;
    if (c < 0xF0) {
        if (c == 0xE0) *lo = 0xA0;
        if (c == 0xED) *hi = 0x9F;
        return 3;
    }
    if (c < 0xF5) {
        if (c == 0xF0) *lo = 0x90;
        if (c == 0xF4) *hi = 0x8F;
        return 4;
    }
    return 0;
}

/* Bytes of the longest prefix of s that could begin, or is, one character; *want: its full length. */
static size_t prefix(const uint8_t *p, size_t n, size_t *want)
{
    uint8_t lo, hi;
    *want = lead_info(p[0], &lo, &hi);
    if (*want <= 1) return 1;
    size_t i = 1;
    while (i < *want && i < n && p[i] >= lo && p[i] <= hi) {
        lo = 0x80;
        hi = 0xBF;
        i++;
    }
    return i;
}

size_t hy_utf8_next(const char *s, size_t n, uint32_t *rune)
{
    const uint8_t *p = (const uint8_t *)s;
    if (p[0] < 0x80) {
        *rune = p[0];
        return 1;
    }
    size_t want, got = prefix(p, n, &want);
    if (want == 0 || got < want) {
        *rune = HY_RUNE_BAD;
        return got;
    }
    uint32_t r = p[0] & (want == 2 ? 0x1F : want == 3 ? 0x0F : 0x07);
    for (size_t i = 1; i < want; i++) r = r << 6 | (p[i] & 0x3F);
    *rune = r;
    return want;
}

size_t hy_utf8_put(uint32_t rune, char out[4])
{
    if (rune > 0x10FFFF || (rune >= 0xD800 && rune < 0xE000)) rune = 0xFFFD;
    if (rune < 0x80) {
        out[0] = (char)rune;
        return 1;
    }
    if (rune < 0x800) {
        out[0] = (char)(0xC0 | rune >> 6);
        out[1] = (char)(0x80 | (rune & 0x3F));
        return 2;
    }
    if (rune < 0x10000) {
        out[0] = (char)(0xE0 | rune >> 12);
        out[1] = (char)(0x80 | (rune >> 6 & 0x3F));
        out[2] = (char)(0x80 | (rune & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | rune >> 18);
    out[1] = (char)(0x80 | (rune >> 12 & 0x3F));
    out[2] = (char)(0x80 | (rune >> 6 & 0x3F));
    out[3] = (char)(0x80 | (rune & 0x3F));
    return 4;
}

/* Bytes at the start of s that are valid. */
static size_t valid_span(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        if ((uint8_t)s[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t r;
        size_t k = hy_utf8_next(s + i, n - i, &r);
        if (r == HY_RUNE_BAD) break;
        i += k;
    }
    return i;
}

bool hy_utf8_valid(const char *s, size_t n)
{
    return valid_span(s, n) == n;
}

void hy_utf8_repair(const char *s, size_t n, hy_buf *out)
{
    while (n > 0) {
        size_t k = valid_span(s, n);
        if (k) hy_buf_put(out, s, k);
        s += k;
        n -= k;
        if (n == 0) break;
        uint32_t r;
        k = hy_utf8_next(s, n, &r);
        hy_buf_put(out, "\xEF\xBF\xBD", 3);
        s += k;
        n -= k;
    }
}

void hy_utf8_stream_put(hy_utf8_stream *u, const char *s, size_t n, hy_buf *out)
{
    /* Byte by byte while something is held back, then in one go up to an incomplete tail. */
    while (n > 0 && u->n_held > 0) {
        size_t want, got;
        u->held[u->n_held] = *s;
        got = prefix((const uint8_t *)u->held, (size_t)u->n_held + 1, &want);
        if (got <= u->n_held) { /* the new byte does not continue: what was held is one invalid part */
            hy_buf_put(out, "\xEF\xBF\xBD", 3);
            u->n_held = 0;
            break;
        }
        u->n_held++;
        s++;
        n--;
        if (u->n_held == want) {
            hy_buf_put(out, u->held, want);
            u->n_held = 0;
        }
    }
    if (n == 0) return;
    size_t back = 0, want;
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        uint8_t c = (uint8_t)s[n - k];
        if (c < 0x80) break;
        if (c < 0xC0) continue;
        size_t got = prefix((const uint8_t *)s + n - k, k, &want);
        if (want > k && got == k) back = k;
        break;
    }
    hy_utf8_repair(s, n - back, out);
    memcpy(u->held, s + n - back, back);
    u->n_held = (uint8_t)back;
}

void hy_utf8_stream_end(hy_utf8_stream *u, hy_buf *out)
{
    if (u->n_held) hy_buf_put(out, "\xEF\xBF\xBD", 3);
    u->n_held = 0;
}
