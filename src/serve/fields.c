/* Fields of a request by a table: checked reading, and the same rows as documentation. */
#include "serve/fields.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

void hy_json_show(const json_t *v, char *out, size_t n)
{
    char *text = v && !json_is_object(v) && !json_is_array(v) ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
    if (!v) snprintf(out, n, "nothing");
    else if (json_is_object(v)) snprintf(out, n, "an object");
    else if (json_is_array(v)) snprintf(out, n, "an array of %zu", json_array_size(v));
    else if (!text) snprintf(out, n, "a value");
    else if (strlen(text) <= 60) snprintf(out, n, "%s", text);
    else {
        size_t cut = 56; /* not inside a character */
        while (cut && ((unsigned char)text[cut] & 0xC0) == 0x80) cut--;
        snprintf(out, n, "%.*s...", (int)cut, text);
    }
    free(text);
}

static hy_status wrong(const hy_field *f, const json_t *v, const char *want, hy_err *err)
{
    char got[128];
    hy_json_show(v, got, sizeof got);
    return hy_fail(err, HY_E_ARG, "%s: %s is not %s", f->name, got, want);
}

static hy_status read_number(const hy_field *f, const json_t *v, void *to, hy_err *err)
{
    char want[128];
    bool whole = f->kind == HY_F_INT;
    /* an integer beyond 2^53 must not pass through a double */
    if (json_is_integer(v)) {
        json_int_t i = json_integer_value(v);
        bool low = (double)i < f->min, high = (double)i > f->max;
        if (!low && !high) {
            if (whole) *(int64_t *)to = i;
            else *(double *)to = (double)i;
            return HY_OK;
        }
    } else if (json_is_real(v)) {
        double d = json_real_value(v);
        bool fits = d >= f->min && d <= f->max && (!whole || (d == floor(d) && fabs(d) < 9e15));
        if (fits) {
            if (whole) *(int64_t *)to = (int64_t)d;
            else *(double *)to = d;
            return HY_OK;
        }
    }
    if (f->min < -9e18) snprintf(want, sizeof want, "a 64-bit integer");
    else if (f->max > 9e18) snprintf(want, sizeof want, "an integer of at least %.0f", f->min);
    else snprintf(want, sizeof want, "%s from %.12g to %.12g", whole ? "an integer" : "a number", f->min, f->max);
    return wrong(f, v, want, err);
}

/* Is s one of "a|b|c"? */
static bool is_choice(const char *choices, const char *s, size_t n)
{
    for (const char *at = choices;;) {
        size_t len = strcspn(at, "|");
        if (len == n && !memcmp(at, s, n)) return true;
        if (!at[len]) return false;
        at += len + 1;
    }
}

static hy_status read_string(const hy_field *f, const json_t *v, void *to, hy_err *err)
{
    char want[256];
    if (!json_is_string(v)) return wrong(f, v, "a string", err);
    const char *s = json_string_value(v);
    size_t n = json_string_length(v);
    if (memchr(s, 0, n)) return wrong(f, v, "a string without U+0000", err);
    if (f->choices && !is_choice(f->choices, s, n)) {
        snprintf(want, sizeof want, "one of %s", f->choices);
        return wrong(f, v, want, err);
    }
    *(const char **)to = s;
    return HY_OK;
}

static hy_status read_list(const hy_field *f, const json_t *v, void *to, hy_err *err)
{
    char want[128], got[128];
    bool strs = f->kind == HY_F_STRS, ints = f->kind == HY_F_INTS;
    const char *what = strs ? "strings" : ints ? "integers" : "members";
    if (strs && json_is_string(v)) {
        *(const json_t **)to = v;
        return HY_OK;
    }
    if (!json_is_array(v))
        return wrong(f, v, strs ? "a string or an array of strings" : "an array", err);
    if (f->max > 0 && (double)json_array_size(v) > f->max) {
        snprintf(want, sizeof want, "an array of at most %.0f %s", f->max, what);
        return wrong(f, v, want, err);
    }
    size_t i;
    json_t *m;
    json_array_foreach(v, i, m)
    {
        if (strs ? json_is_string(m) : ints ? json_is_integer(m) : true) continue;
        hy_json_show(m, got, sizeof got);
        return hy_fail(err, HY_E_ARG, "%s[%zu]: %s is not %s", f->name, i, got, strs ? "a string" : "an integer");
    }
    *(const json_t **)to = v;
    return HY_OK;
}

/* A refused field may stand there with a value that changes nothing. */
static hy_status read_refused(const hy_field *f, const json_t *v, hy_err *err)
{
    char got[128];
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!text) return hy_fail_memory(err, f->name, 0);
    bool neutral = f->choices && is_choice(f->choices, text, strlen(text));
    /* 0 and 0.0 are the same number */
    if (!neutral && f->choices && json_is_real(v)) {
        char whole[40];
        snprintf(whole, sizeof whole, "%.12g", json_real_value(v));
        neutral = is_choice(f->choices, whole, strlen(whole));
    }
    free(text);
    if (neutral) return HY_OK;
    hy_json_show(v, got, sizeof got);
    return hy_fail(err, HY_E_ARG, "%s: %s is not supported: %s", f->name, got, f->doc);
}

static hy_status read_field(const hy_field *f, const json_t *v, void *to, hy_err *err)
{
    switch (f->kind) {
    case HY_F_BOOL:
        if (!json_is_boolean(v)) return wrong(f, v, "true or false", err);
        *(bool *)to = json_is_true(v);
        return HY_OK;
    case HY_F_INT:
    case HY_F_NUM: return read_number(f, v, to, err);
    case HY_F_STR: return read_string(f, v, to, err);
    case HY_F_STRS:
    case HY_F_INTS:
    case HY_F_ARRAY: return read_list(f, v, to, err);
    case HY_F_OBJECT:
        if (!json_is_object(v)) return wrong(f, v, "an object", err);
        *(const json_t **)to = v;
        return HY_OK;
    case HY_F_ANY: *(const json_t **)to = v; return HY_OK;
    case HY_F_REFUSE: return read_refused(f, v, err);
    case HY_F_IGNORE: break;
    }
    return HY_OK;
}

hy_status hy_fields_read(const hy_field *rows, const json_t *body, void *into, const char **param, hy_err *err)
{
    for (const hy_field *f = rows; f->name; f++) {
        const json_t *v = json_object_get(body, f->name);
        if (!v || json_is_null(v)) continue;
        *param = f->name;
        HY_TRY(read_field(f, v, (char *)into + f->at, err));
        if (f->at_set) *(bool *)((char *)into + f->at_set) = true;
    }
    *param = NULL;
    return HY_OK;
}

bool hy_fields_read_x(hy_exchange *x, const hy_field *rows, const json_t *body, void *into)
{
    hy_err err;
    const char *param = NULL;
    if (hy_fields_read(rows, body, into, &param, &err) == HY_OK) return true;
    hy_x_fail(x, param, &err);
    return false;
}

/* ---- the rows as a table --------------------------------------------------------------------------- */

/* "a|b" -> "`a`, `b`": a bar would end the cell. */
static void put_choices(const char *choices, hy_buf *out)
{
    for (const char *at = choices;;) {
        size_t len = strcspn(at, "|");
        hy_buf_printf(out, "%s`%.*s`", at == choices ? "" : ", ", (int)len, at);
        if (!at[len]) return;
        at += len + 1;
    }
}

static void put_values(const hy_field *f, hy_buf *out)
{
    switch (f->kind) {
    case HY_F_BOOL: hy_buf_str(out, "true, false"); break;
    case HY_F_INT:
        if (f->min < -9e18) hy_buf_str(out, "64-bit integer");
        else if (f->max > 9e18) hy_buf_printf(out, "integer, at least %.0f", f->min);
        else hy_buf_printf(out, "integer, %.12g to %.12g", f->min, f->max);
        break;
    case HY_F_NUM: hy_buf_printf(out, "%.12g to %.12g", f->min, f->max); break;
    case HY_F_STR:
        if (f->choices) put_choices(f->choices, out);
        else hy_buf_str(out, "string");
        break;
    case HY_F_STRS: hy_buf_printf(out, "string, or up to %.0f", f->max); break;
    case HY_F_INTS: hy_buf_str(out, "array of integers"); break;
    case HY_F_OBJECT: hy_buf_str(out, "object"); break;
    case HY_F_ARRAY: hy_buf_str(out, "array"); break;
    case HY_F_ANY: hy_buf_str(out, f->choices ? f->choices : "see the text"); break;
    case HY_F_IGNORE: hy_buf_str(out, "any"); break;
    case HY_F_REFUSE:
        if (f->choices && f->choices[0]) {
            hy_buf_str(out, "only ");
            put_choices(f->choices, out);
        } else {
            hy_buf_str(out, "refused");
        }
        break;
    }
}

void hy_fields_doc(const hy_field *rows, hy_buf *out)
{
    hy_buf_str(out, "| field | values | meaning |\n| --- | --- | --- |\n");
    for (const hy_field *f = rows; f->name; f++) {
        hy_buf_printf(out, "| `%s` | ", f->name);
        put_values(f, out);
        const char *lead = f->kind == HY_F_IGNORE ? "accepted, without effect: " : "";
        if (f->kind == HY_F_REFUSE) lead = "refused: ";
        hy_buf_printf(out, " | %s%s |\n", lead, f->doc);
    }
}

bool hy_json_is_ids(const json_t *v)
{
    size_t i;
    json_t *m;
    if (!json_array_size(v)) return false;
    json_array_foreach(v, i, m) if (!json_is_integer(m)) return false;
    return true;
}

hy_status hy_json_ids(const hy_engine *e, const json_t *v, const char *what, const char *at, int32_t **ids, size_t *n,
                      hy_err *err)
{
    hy_facts facts;
    hy_engine_facts(e, &facts);
    *n = json_array_size(v);
    *ids = hy_alloc_array(*n, sizeof **ids);
    if (!*ids) return hy_fail_memory(err, what, *n * sizeof **ids);
    size_t i;
    json_t *m;
    json_array_foreach(v, i, m)
    {
        json_int_t id = json_integer_value(m);
        if (id < 0 || id >= facts.n_vocab)
            return hy_fail(err, HY_E_ARG, "%s: token id %" JSON_INTEGER_FORMAT " is not in 0..%u", at, id,
                           facts.n_vocab - 1);
        (*ids)[i] = (int32_t)id;
    }
    return HY_OK;
}
