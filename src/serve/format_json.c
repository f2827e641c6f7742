/* JSON as it arrives: follows one value byte by byte and says where it ends or stops being JSON. */
#include "serve/format_impl.h"
#include <string.h>

/* What may come next. */
enum {
    AT_VALUE, AT_FIRST_VALUE /* or ] */, AT_FIRST_KEY /* or } */, AT_KEY, AT_COLON, AT_AFTER /* , or end of level */,
    AT_STRING, AT_ESCAPE, AT_HEX, AT_KEY_STRING, AT_KEY_ESCAPE, AT_KEY_HEX, AT_WORD,
    AT_MINUS, AT_ZERO, AT_INT, AT_DOT, AT_FRACTION, AT_E, AT_E_SIGN, AT_EXPONENT, AT_END
};

void json_scan_init(json_scan *j)
{
    memset(j, 0, sizeof *j);
    j->at = AT_VALUE;
}

static bool in_object(const json_scan *j)
{
    uint32_t i = j->depth - 1;
    return j->object[i / 64] >> (i % 64) & 1;
}

static bool push(json_scan *j, bool object)
{
    if (j->depth == JSON_DEPTH) return false;
    uint32_t i = j->depth++;
    if (object) j->object[i / 64] |= 1ull << (i % 64);
    else j->object[i / 64] &= ~(1ull << (i % 64));
    j->at = object ? AT_FIRST_KEY : AT_FIRST_VALUE;
    return true;
}

static void value_done(json_scan *j)
{
    j->at = j->depth ? AT_AFTER : AT_END;
}

static bool begin_value(json_scan *j, char c)
{
    switch (c) {
    case '{': return push(j, true);
    case '[': return push(j, false);
    case '"': j->at = AT_STRING; return true;
    case 't': j->word = "rue"; j->at = AT_WORD; return true;
    case 'f': j->word = "alse"; j->at = AT_WORD; return true;
    case 'n': j->word = "ull"; j->at = AT_WORD; return true;
    case '-': j->at = AT_MINUS; return true;
    case '0': j->at = AT_ZERO; return true;
    default: j->at = AT_INT; return c >= '1' && c <= '9';
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool close_level(json_scan *j, char c)
{
    if (j->depth == 0 || in_object(j) != (c == '}')) return false;
    j->depth--;
    value_done(j);
    return true;
}

static bool put_structure(json_scan *j, char c)
{
    if (is_space(c)) return true;
    switch (j->at) {
    case AT_VALUE: return begin_value(j, c);
    case AT_FIRST_VALUE: return c == ']' ? close_level(j, c) : begin_value(j, c);
    case AT_FIRST_KEY:
        if (c == '}') return close_level(j, c);
        /* fall through */
    case AT_KEY: j->at = AT_KEY_STRING; return c == '"';
    case AT_COLON: j->at = AT_VALUE; return c == ':';
    default: /* AT_AFTER */
        if (c != ',') return close_level(j, c);
        j->at = in_object(j) ? AT_KEY : AT_VALUE;
        return true;
    }
}

static bool put_string(json_scan *j, char c)
{
    bool key = j->at == AT_KEY_STRING || j->at == AT_KEY_ESCAPE || j->at == AT_KEY_HEX;
    switch (j->at) {
    case AT_STRING: case AT_KEY_STRING:
        if (c == '\\') j->at = key ? AT_KEY_ESCAPE : AT_ESCAPE;
        else if (c == '"' && key) j->at = AT_COLON;
        else if (c == '"') value_done(j);
        return true;
    case AT_ESCAPE: case AT_KEY_ESCAPE:
        if (c == 'u') {
            j->hex = 0;
            j->at = key ? AT_KEY_HEX : AT_HEX;
            return true;
        }
        j->at = key ? AT_KEY_STRING : AT_STRING;
        return c && strchr("\"\\/bfnrt", c);
    default:
        if (!is_digit(c) && !((c | 32) >= 'a' && (c | 32) <= 'f')) return false;
        if (++j->hex == 4) j->at = key ? AT_KEY_STRING : AT_STRING;
        return true;
    }
}

/* 1: c goes on with the number; 0: it ended before c; -1: not a number. */
static int put_number(json_scan *j, char c)
{
    bool d = is_digit(c);
    switch (j->at) {
    case AT_MINUS: j->at = c == '0' ? AT_ZERO : AT_INT; return d ? 1 : -1;
    case AT_INT: if (d) return 1;
        /* fall through */
    case AT_ZERO:
        if (c == '.') j->at = AT_DOT;
        else if (c == 'e' || c == 'E') j->at = AT_E;
        else return d ? -1 : 0;
        return 1;
    case AT_DOT: j->at = AT_FRACTION; return d ? 1 : -1;
    case AT_FRACTION:
        if (d) return 1;
        j->at = AT_E;
        return c == 'e' || c == 'E' ? 1 : 0;
    case AT_E: j->at = d ? AT_EXPONENT : AT_E_SIGN; return d || c == '+' || c == '-' ? 1 : -1;
    case AT_E_SIGN: j->at = AT_EXPONENT; return d ? 1 : -1;
    default: return d ? 1 : 0;
    }
}

static bool number_may_end(const json_scan *j)
{
    return j->at == AT_ZERO || j->at == AT_INT || j->at == AT_FRACTION || j->at == AT_EXPONENT;
}

static json_state put_byte(json_scan *j, char c, bool *again)
{
    *again = false;
    if (j->at <= AT_AFTER) return put_structure(j, c) ? JSON_MORE : JSON_BAD;
    if (j->at <= AT_KEY_HEX) return put_string(j, c) ? JSON_MORE : JSON_BAD;
    if (j->at == AT_WORD) {
        if (c != *j->word) return JSON_BAD;
        if (!*++j->word) value_done(j);
        return JSON_MORE;
    }
    int r = put_number(j, c);
    if (r == 0) {
        value_done(j);
        *again = true;
    }
    return r < 0 ? JSON_BAD : JSON_MORE;
}

json_state json_scan_put(json_scan *j, const char *s, size_t n, bool final, size_t *used, hy_buf *out)
{
    size_t i = 0, from = 0;
    json_state st = JSON_MORE;
    while (j->at != AT_END && i < n) {
        bool again, in_string = j->at == AT_STRING || j->at == AT_KEY_STRING;
        st = put_byte(j, s[i], &again);
        if (st == JSON_BAD) break;
        if (again) continue;
        if (in_string && (unsigned char)s[i] < 0x20) { /* not JSON, but what models write */
            if (out) hy_buf_put(out, s + from, i - from);
            if (out) json_escape(s + i, 1, out);
            from = i + 1;
        }
        i++;
    }
    if (out) hy_buf_put(out, s + from, i - from);
    *used = i;
    if (st == JSON_BAD) return JSON_BAD;
    if (j->at == AT_END) return JSON_DONE;
    if (!final) return JSON_MORE;
    return j->depth == 0 && number_may_end(j) ? JSON_DONE : JSON_BAD;
}

json_state json_skip(const char *s, size_t n, bool final, size_t *used)
{
    json_scan j;
    json_scan_init(&j);
    return json_scan_put(&j, s, n, final, used, NULL);
}

static uint32_t hex4(const char *s)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) v = v << 4 | (uint32_t)(is_digit(s[i]) ? s[i] - '0' : (s[i] | 32) - 'a' + 10);
    return v;
}

/* "\uXXXX" at s, with its other half where it has one; the bytes read. */
static size_t unescape_u(const char *s, size_t n, hy_buf *out)
{
    uint32_t r = hex4(s + 2);
    size_t used = 6;
    if (r >= 0xd800 && r < 0xdc00 && n >= 12 && s[6] == '\\' && s[7] == 'u') {
        uint32_t low = hex4(s + 8);
        if (low >= 0xdc00 && low < 0xe000) {
            r = 0x10000 + ((r - 0xd800) << 10) + (low - 0xdc00);
            used = 12;
        }
    }
    if (r >= 0xd800 && r < 0xe000) r = 0xfffd;
    char utf8[4];
    hy_buf_put(out, utf8, hy_utf8_put(r, utf8));
    return used;
}

json_state json_string_at(const char *s, size_t n, hy_buf *out, size_t *used)
{
    if (n && s[0] != '"') return JSON_BAD;
    json_state st = json_skip(s, n, false, used);
    if (st != JSON_DONE) return st;
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    for (size_t i = 1; i + 1 < *used;) {
        if (s[i] != '\\') {
            hy_buf_char(out, s[i++]);
        } else if (s[i + 1] == 'u') {
            i += unescape_u(s + i, *used - i, out);
        } else {
            const char *k = strchr(from, s[i + 1]);
            hy_buf_char(out, k ? to[k - from] : s[i + 1]);
            i += 2;
        }
    }
    return JSON_DONE;
}

void json_escape(const char *s, size_t n, hy_buf *out)
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
        hy_buf_put(out, s + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\') hy_buf_printf(out, "\\%c", c);
        else if (c == '\n') hy_buf_str(out, "\\n");
        else if (c == '\t') hy_buf_str(out, "\\t");
        else if (c == '\r') hy_buf_str(out, "\\r");
        else hy_buf_printf(out, "\\u%04x", c);
    }
    hy_buf_put(out, s + from, n - from);
}
