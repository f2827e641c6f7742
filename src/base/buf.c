/* Growing byte string. */
#include "base/base.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool hy_buf_reserve(hy_buf *b, size_t n_more)
{
    if (b->failed) return false;
    if (b->cap && n_more < b->cap - b->len) return true;
    size_t need;
    if (__builtin_add_overflow(b->len, n_more, &need) || need > SIZE_MAX / 4) {
        b->failed = true;
        return false;
    }
    size_t cap = HY_MAX(HY_MAX(need + 1, b->cap * 2), (size_t)64);
    char *data = hy_realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    b->data[b->len] = 0;
    return true;
}

void hy_buf_put(hy_buf *b, const void *data, size_t n)
{
    if (!hy_buf_reserve(b, n)) return;
    if (n) memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = 0;
}

void hy_buf_str(hy_buf *b, const char *s)
{
    hy_buf_put(b, s, strlen(s));
}

void hy_buf_char(hy_buf *b, char c)
{
    hy_buf_put(b, &c, 1);
}

void hy_buf_printf(hy_buf *b, const char *fmt, ...)
{
    if (!hy_buf_reserve(b, 64)) return;
    for (int tries = 0; tries < 2; tries++) {
        size_t room = b->cap - b->len;
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(b->data + b->len, room, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < room) {
            b->len += (size_t)n;
            return;
        }
        b->data[b->len] = 0;
        if (n < 0 || !hy_buf_reserve(b, (size_t)n)) break;
    }
    b->failed = true;
}

void hy_buf_reset(hy_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

void hy_buf_free(hy_buf *b)
{
    hy_free(b->data);
    *b = (hy_buf){0};
}
