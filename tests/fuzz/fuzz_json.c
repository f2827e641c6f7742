/* room: text */
/* The bytes as JSON, as a string to quote, and as UTF-8 in two pieces. */
#include "text/text.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *s = (const char *)data;
    hy_err err;
    json_t *j = NULL;
    if (hy_json_parse("input", s, n, &j, &err) == HY_OK) json_decref(j);
    hy_buf whole = { 0 }, pieces = { 0 }, quoted = { 0 };
    hy_utf8_stream u = { 0 };
    size_t cut = n ? data[0] % n : 0;
    hy_utf8_repair(s, n, &whole);
    hy_utf8_stream_put(&u, s, cut, &pieces);
    hy_utf8_stream_put(&u, s + cut, n - cut, &pieces);
    hy_utf8_stream_end(&u, &pieces);
    if (pieces.len != whole.len || (whole.len && memcmp(pieces.data, whole.data, whole.len) != 0))
        __builtin_trap();
    hy_json_quote(s, n, &quoted);
    j = NULL; /* what was quoted reads back as the repaired text */
    if (hy_json_parse("quoted", quoted.data, quoted.len, &j, &err) != HY_OK) __builtin_trap();
    if (json_string_length(j) != whole.len ||
        (whole.len && memcmp(json_string_value(j), whole.data, whole.len) != 0))
        __builtin_trap();
    json_decref(j);
    hy_buf_free(&whole);
    hy_buf_free(&pieces);
    hy_buf_free(&quoted);
    return 0;
}
