/* A JSON body at the door: whatever bytes come, either an object or a message that says where it went wrong. */
#include "serve/impl.h"
#include <string.h>

#define DEPTH_MAX 200

static void place(const char *s, size_t at, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        ++*column;
        if (s[i] == '\n') {
            ++*line;
            *column = 1;
        }
    }
}

static hy_status fail_at(const char *s, size_t at, hy_err *err, const char *what)
{
    int line, column;
    place(s, at, &line, &column);
    return hy_fail(err, HY_E_FORMAT, "request body: line %d, column %d: %s", line, column, what);
}

/* What the parser would only find out deep inside: bytes that are no text, and nesting. */
static hy_status scan(const char *s, size_t n, hy_err *err)
{
    bool in_string = false;
    uint32_t depth = 0;
    for (size_t i = 0; i < n;) {
        uint8_t c = (uint8_t)s[i];
        if (c == 0) return fail_at(s, i, err, "a NUL byte");
        if (c >= 0x80) {
            uint32_t rune;
            size_t k = hy_utf8_next(s + i, n - i, &rune);
            if (rune == HY_RUNE_BAD) return fail_at(s, i, err, "not valid UTF-8");
            i += k;
            continue;
        }
        if (in_string) {
            if (c == '"') in_string = false;
            i += c == '\\' && i + 1 < n && (uint8_t)s[i + 1] < 0x80 && s[i + 1] ? 2 : 1;
            continue;
        }
        if (c == '"') in_string = true;
        else if (c == '{' || c == '[') depth++;
        else if ((c == '}' || c == ']') && depth) depth--;
        if (depth > DEPTH_MAX) return fail_at(s, i, err, "nested more than 200 deep");
        i++;
    }
    return HY_OK;
}

hy_status hy_json_door(const char *s, size_t n, json_t **out, hy_err *err)
{
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) s += 3, n -= 3; /* a byte order mark (RFC 8259, 8.1) */
    if (n == 0) return hy_fail(err, HY_E_FORMAT, "request body: empty; a JSON object is expected");
    HY_TRY(scan(s, n, err));
    json_error_t e;
    json_t *j = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (!j && json_error_code(&e) == json_error_numeric_overflow) { /* beyond 64 bits: its field says what it takes */
        json_error_t again;
        j = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &again);
    }
    if (!j && json_error_code(&e) == json_error_out_of_memory) return hy_fail_memory(err, "request body", n);
    if (!j)
        return hy_fail(err, HY_E_FORMAT, "request body: line %d, column %d: %s", HY_MAX(e.line, 1), HY_MAX(e.column, 1),
                       e.text);
    if (!json_is_object(j)) {
        json_decref(j);
        return hy_fail(err, HY_E_FORMAT, "request body: line 1, column 1: not a JSON object");
    }
    *out = j;
    return HY_OK;
}
