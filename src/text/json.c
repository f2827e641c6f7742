/* JSON helpers over jansson. */
#include "text/text.h"
#include <string.h>

hy_status hy_json_parse(const char *what, const char *s, size_t n, json_t **out, hy_err *err)
{
    json_error_t e;
    json_t *j = json_loadb(n ? s : "", n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    if (!j) {
        if (json_error_code(&e) == json_error_out_of_memory) return hy_fail_memory(err, what, n);
        return hy_fail(err, HY_E_FORMAT, "%s: line %d, column %d: %s", what, e.line, e.column,
                       e.text);
    }
    *out = j;
    return HY_OK;
}

hy_status hy_json_load_file(const char *path, uint64_t limit, json_t **out, hy_err *err)
{
    char *data = NULL;
    size_t n = 0;
    HY_TRY(hy_read_file(path, limit, &data, &n, err));
    hy_status st = hy_json_parse(path, data, n, out, err);
    hy_free(data);
    return st;
}

void hy_json_quote(const char *s, size_t n, hy_buf *out)
{
    hy_buf_char(out, '"');
    size_t run = 0; /* bytes before s + i that need no escape and are not written yet */
    for (size_t i = 0; i < n;) {
        uint8_t c = (uint8_t)s[i];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            i++;
            run++;
            continue;
        }
        size_t k = 1;
        uint32_t r = c;
        if (c >= 0x80) {
            k = hy_utf8_next(s + i, n - i, &r);
            if (r != HY_RUNE_BAD) {
                i += k;
                run += k;
                continue;
            }
        }
        if (run) hy_buf_put(out, s + i - run, run);
        run = 0;
        switch (r) {
        case HY_RUNE_BAD: hy_buf_put(out, "\xEF\xBF\xBD", 3); break;
        case '"': hy_buf_put(out, "\\\"", 2); break;
        case '\\': hy_buf_put(out, "\\\\", 2); break;
        case '\n': hy_buf_put(out, "\\n", 2); break;
        case '\r': hy_buf_put(out, "\\r", 2); break;
        case '\t': hy_buf_put(out, "\\t", 2); break;
        case '\b': hy_buf_put(out, "\\b", 2); break;
        case '\f': hy_buf_put(out, "\\f", 2); break;
        default: hy_buf_printf(out, "\\u%04x", (unsigned)r); break;
        }
        i += k;
    }
    if (run) hy_buf_put(out, s + n - run, run);
    hy_buf_char(out, '"');
}
