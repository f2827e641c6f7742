/* One byte into an automaton over characters: plain UTF-8, or the inside of a JSON string with its
 * escapes.
 *
 * What is read of a character stands in d: kind in the upper 4 bits.
 *   UTF8    bytes still to come (2 bits), length (2 bits), value so far (21 bits)
 *   ESC     behind a backslash
 *   HEX     digits read (2 bits), value so far (16 bits)
 *   SLASH, U, LOW   behind a high surrogate (10 bits): \ expected, u expected, digits of the low
 * one A byte is only taken if some character that begins so leads on to an accepting state. */
#include "gram/run.h"

enum { D_NONE, D_UTF8, D_ESC, D_HEX, D_SLASH, D_U, D_LOW };
#define D(kind) ((uint32_t)(kind) << 28)

/* May the automaton be in q after one more character, with the bounds of the length? */
static bool fits(const hy_term *m, uint32_t q, uint32_t count)
{
    if (!m->counted) return true;
    count++;
    if (m->max != HY_NONE && (count > m->max || m->dfa->len_min[q] > m->max - count)) return false;
    return count >= m->min || m->dfa->len_max[q] == HY_NONE || m->dfa->len_max[q] >= m->min - count;
}

static bool leads(const hy_term *m, const hy_thread *t, uint32_t lo, uint32_t hi)
{
    const hy_dfa *d = m->dfa;
    const uint32_t *next = d->next + (size_t)t->q * d->n_class;
    for (uint32_t i = hy_dfa_range(d, lo); i < d->n_range && d->from[i] <= hi; i++) {
        uint32_t q = next[d->cls[i]];
        if (q != HY_NONE && fits(m, q, t->count)) return true;
    }
    return false;
}

static bool take(const hy_term *m, hy_thread *t, uint32_t rune)
{
    uint32_t q = hy_dfa_step(m->dfa, t->q, rune);
    if (q == HY_NONE || !fits(m, q, t->count)) return false;
    t->q = q;
    t->d = 0;
    /* beyond min without a max all counts are alike */
    if (m->counted && (m->max != HY_NONE || t->count < m->min)) t->count++;
    return true;
}

static bool utf8_first(const hy_term *m, hy_thread *t, uint8_t b)
{
    uint32_t more = b < 0xC2 ? 0 : b < 0xE0 ? 1 : b < 0xF0 ? 2 : b < 0xF5 ? 3 : 0;
    if (!more) return false;
    uint32_t v = b & (0x3Fu >> more);
    static const uint32_t least[4] = {0, 0x80, 0x800, 0x10000};
    uint32_t lo = HY_MAX(v << 6 * more, least[more]),
             hi = HY_MIN((v + 1) << 6 * more, HY_RUNE_MAX + 1) - 1;
    if (!leads(m, t, lo, hi)) return false;
    t->d = D(D_UTF8) | more << 26 | more << 24 | v;
    return true;
}

static bool utf8_more(const hy_term *m, hy_thread *t, uint8_t b)
{
    static const uint32_t least[4] = {0, 0x80, 0x800, 0x10000};
    if ((b & 0xC0) != 0x80) return false;
    uint32_t more = (t->d >> 26 & 3) - 1, len = t->d >> 24 & 3,
             v = (t->d & 0x1FFFFF) << 6 | (b & 0x3F);
    uint32_t lo = HY_MAX(v << 6 * more, least[len]),
             hi = HY_MIN((v + 1) << 6 * more, HY_RUNE_MAX + 1) - 1;
    if (lo > hi) return false;
    if (!more) return (v < 0xD800 || v > 0xDFFF) && take(m, t, v);
    if (!leads(m, t, lo, hi)) return false;
    t->d = D(D_UTF8) | more << 26 | len << 24 | v;
    return true;
}

static uint32_t hex_digit(uint8_t b)
{
    if (b >= '0' && b <= '9') return b - '0';
    if ((b | 32) >= 'a' && (b | 32) <= 'f') return (b | 32u) - 'a' + 10;
    return 16;
}

static bool hex(const hy_term *m, hy_thread *t, uint8_t b)
{
    uint32_t k = t->d >> 16 & 3, x = hex_digit(b), v = (t->d & 0xFFFF) << 4 | x, left = 4 * (3 - k);
    if (x > 15) return false;
    if (!left) {
        if (v >= 0xDC00 && v < 0xE000) return false;
        if (v < 0xD800 || v >= 0xE000) return take(m, t, v);
        uint32_t high = v - 0xD800;
        if (!leads(m, t, 0x10000 + (high << 10), 0x10000 + (high << 10) + 0x3FF)) return false;
        t->d = D(D_SLASH) | high;
        return true;
    }
    uint32_t lo = v << left, hi = lo + (1u << left) - 1;
    bool ok = leads(m, t, lo, hi); /* surrogates lead nowhere by themselves */
    if (!ok && lo <= 0xDBFF && hi >= 0xD800) {
        uint32_t h0 = HY_MAX(lo, 0xD800u) - 0xD800, h1 = HY_MIN(hi, 0xDBFFu) - 0xD800;
        ok = leads(m, t, 0x10000 + (h0 << 10), 0x10000 + (h1 << 10) + 0x3FF);
    }
    if (ok) t->d = D(D_HEX) | (k + 1) << 16 | v;
    return ok;
}

static bool low(const hy_term *m, hy_thread *t, uint8_t b)
{
    uint32_t high = t->d >> 18 & 0x3FF, k = t->d >> 16 & 3, x = hex_digit(b),
             v = (t->d & 0xFFFF) << 4 | x;
    uint32_t left = 4 * (3 - k), lo = v << left, hi = lo + (1u << left) - 1;
    if (x > 15 || hi < 0xDC00 || lo > 0xDFFF) return false;
    lo = HY_MAX(lo, 0xDC00u) - 0xDC00;
    hi = HY_MIN(hi, 0xDFFFu) - 0xDC00;
    uint32_t base = 0x10000 + (high << 10);
    if (!left) return take(m, t, base + lo);
    if (!leads(m, t, base + lo, base + hi)) return false;
    t->d = D(D_LOW) | high << 18 | (k + 1) << 16 | v;
    return true;
}

static bool escape(const hy_term *m, hy_thread *t, uint8_t b)
{
    switch (b) {
    case '"':
    case '\\':
    case '/':
        return take(m, t, b);
    case 'b':
        return take(m, t, 8);
    case 'f':
        return take(m, t, 12);
    case 'n':
        return take(m, t, 10);
    case 'r':
        return take(m, t, 13);
    case 't':
        return take(m, t, 9);
    case 'u':
        t->d = D(D_HEX);
        return true;
    default:
        return false;
    }
}

hy_term_step hy_term_byte(const hy_term *m, hy_thread *t, uint8_t b)
{
    bool ok;
    switch (t->d >> 28) {
    case D_NONE:
        if (m->json && b < 0x60) {
            if (b == '"') return m->dfa->accept[t->q] && t->count >= m->min ? HY_TS_OUT : HY_TS_NO;
            if (b < 0x20) return HY_TS_NO;
            if (b == '\\') {
                if (!leads(m, t, 0, HY_RUNE_MAX)) return HY_TS_NO;
                t->d = D(D_ESC);
                return HY_TS_IN;
            }
        }
        ok = b < 0x80 ? take(m, t, b) : utf8_first(m, t, b);
        break;
    case D_UTF8:
        ok = utf8_more(m, t, b);
        break;
    case D_ESC:
        ok = escape(m, t, b);
        break;
    case D_HEX:
        ok = hex(m, t, b);
        break;
    case D_SLASH:
        ok = b == '\\';
        t->d = D(D_U) | (t->d & 0x3FF);
        break;
    case D_U:
        ok = b == 'u';
        t->d = D(D_LOW) | (t->d & 0x3FF) << 18;
        break;
    default:
        ok = low(m, t, b);
        break;
    }
    return ok ? HY_TS_IN : HY_TS_NO;
}

bool hy_term_may_end(const hy_term *m, const hy_thread *t)
{
    return !m->json && t->d == 0 && m->dfa->accept[t->q] && t->count >= m->min;
}

void hy_term_first(hy_term *m)
{
    for (uint32_t b = 0; b < 256; b++) {
        hy_thread t = {0};
        if (hy_term_byte(m, &t, (uint8_t)b) != HY_TS_NO) m->first[b >> 6] |= 1ull << (b & 63);
    }
}
