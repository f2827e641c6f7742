/* JSON numbers within bounds, as automata over their text. A state is what must be known of the
 * digits read so far; states are found by trying every character from the start, then trimmed and
 * merged. With bounds (but zero) or multipleOf the exponent form is left out: 1e2 can be written
 * 100. */
#include "gram/gram_impl.h"

enum { MUL_MAX = 100000, STATE_MAX = 400000 };

bool hy_decimal_parse(hy_decimal *d, const char *s)
{
    *d = (hy_decimal){0};
    int32_t point = 0;
    bool seen_point = false;
    if (*s == '-') {
        d->neg = true;
        s++;
    }
    for (; (*s >= '0' && *s <= '9') || *s == '.'; s++) {
        if (*s == '.') {
            seen_point = true;
            continue;
        }
        if (!seen_point && (d->n || *s != '0')) point++;
        if (seen_point && !d->n && *s == '0') {
            point--;
            continue;
        }
        if (!d->n && *s == '0') continue;
        if (d->n == HY_COUNT(d->digit)) {
            if (*s != '0') return false;
            continue;
        }
        d->digit[d->n++] = (uint8_t)(*s - '0');
    }
    int64_t e = 0;
    if (*s == 'e' || *s == 'E') {
        bool minus = s[1] == '-';
        for (s += s[1] == '-' || s[1] == '+' ? 2 : 1; *s >= '0' && *s <= '9'; s++)
            e = HY_MIN(e * 10 + *s - '0', 100000);
        if (minus) e = -e;
    }
    while (d->n && d->digit[d->n - 1] == 0) d->n--;
    d->exp = d->n ? point + (int32_t)e : 0;
    if (!d->n) d->neg = false;
    return true;
}

static int magnitude(const hy_decimal *a, const hy_decimal *b)
{
    if (!a->n || !b->n) return (int)(a->n != 0) - (int)(b->n != 0);
    if (a->exp != b->exp) return a->exp < b->exp ? -1 : 1;
    for (uint32_t i = 0; i < HY_MAX(a->n, b->n); i++) {
        int x = i < a->n ? a->digit[i] : 0, y = i < b->n ? b->digit[i] : 0;
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

int hy_decimal_cmp(const hy_decimal *a, const hy_decimal *b)
{
    if (a->neg != b->neg) return a->neg ? -1 : 1;
    return a->neg ? -magnitude(a, b) : magnitude(a, b);
}

enum { P_START, P_MINUS, P_ZERO, P_INT, P_POINT, P_FRAC };
enum { LESS, EQUAL, MORE };

typedef struct state {
    uint8_t phase, neg, k,
        j;          /* k, j: digits of the whole part and behind the point, as far as they matter */
    uint8_t lo, hi; /* the digits against those of the bound */
    uint8_t nonzero, frac; /* any digit; a digit behind the point */
    uint32_t mod;
} state;

typedef struct bound { /* magnitude: digits of the whole part, then those behind the point */
    uint32_t n_int, n_frac;
    uint8_t digit[120];
} bound;

typedef struct sim {
    hy_gc *gc;
    const hy_number *n;
    bound lo, hi;
    uint32_t k_max, j_max;
    uint32_t mul, mul_frac; /* mul = n->mul * 10^mul_frac; 0: none */
    state *st;
    uint32_t *slot, n_slot;
    size_t n_st, cap_st;
} sim;

static void set_bound(sim *s, bound *b, const hy_decimal *d)
{
    if (d->exp > 60 || d->exp < -20)
        hy_gc_fail(s->gc, HY_E_LIMIT, "a bound of this size (10^%d)", d->exp);
    int32_t whole = HY_MAX(d->exp, 1);
    b->n_int = (uint32_t)whole;
    int32_t frac = (int32_t)d->n - d->exp;
    b->n_frac = frac > 0 && d->n ? (uint32_t)frac : 0;
    for (uint32_t i = 0; i < b->n_int + b->n_frac; i++) {
        int32_t at = (int32_t)i - (whole - d->exp); /* place in digit[] */
        b->digit[i] = at >= 0 && at < (int32_t)d->n ? d->digit[at] : 0;
    }
    if (!d->n) b->digit[0] = 0;
}

static uint8_t compare(uint8_t before, uint32_t digit, uint32_t want)
{
    return before != EQUAL ? before : digit < want ? LESS : digit > want ? MORE : EQUAL;
}

static uint8_t end_int(const bound *b, uint8_t c, uint32_t k)
{
    return k < b->n_int ? LESS : k > b->n_int ? MORE : c;
}

static uint8_t final_cmp(const bound *b, uint8_t c, const state *s)
{
    if (s->phase == P_INT || s->phase == P_ZERO) c = end_int(b, c, s->k);
    if (c != EQUAL) return c;
    for (uint32_t j = s->phase == P_FRAC ? s->j : 0; j < b->n_frac; j++)
        if (b->digit[b->n_int + j]) return LESS;
    return EQUAL;
}

static bool accepts(const sim *m, const state *s)
{
    const hy_number *n = m->n;
    if (s->phase != P_ZERO && s->phase != P_INT && s->phase != P_FRAC) return false;
    if (s->neg && !s->nonzero) return false;
    if (s->frac ? !n->fraction : !n->integer) return false;
    if (n->has_lo) {
        uint8_t c = final_cmp(&m->lo, s->lo, s);
        if (n->lo.neg ? s->neg && (c == MORE || (c == EQUAL && n->open_lo))
                      : s->neg || c == LESS || (c == EQUAL && n->open_lo))
            return false;
    }
    if (n->has_hi) {
        uint8_t c = final_cmp(&m->hi, s->hi, s);
        if (n->hi.neg ? !s->neg || c == LESS || (c == EQUAL && n->open_hi)
                      : !s->neg && (c == MORE || (c == EQUAL && n->open_hi)))
            return false;
    }
    if (m->mul) {
        uint64_t mod = s->mod;
        for (uint32_t j = s->phase == P_FRAC ? s->j : 0; j < m->mul_frac; j++)
            mod = mod * 10 % m->mul;
        if (mod) return false;
    }
    return true;
}

/* symbol: 0..9 digits, 10 minus, 11 point */
static bool step(const sim *m, const state *from, uint32_t symbol, state *to)
{
    state s = *from;
    if (symbol == 10) {
        if (s.phase != P_START) return false;
        s.phase = P_MINUS;
        s.neg = 1;
    } else if (symbol == 11) {
        if ((s.phase != P_ZERO && s.phase != P_INT) || (!m->n->fraction && !m->n->integer))
            return false;
        if (!m->n->fraction) return false;
        s.lo = end_int(&m->lo, s.lo, s.k);
        s.hi = end_int(&m->hi, s.hi, s.k);
        s.phase = P_POINT;
        s.k = 0;
    } else if (s.phase == P_START || s.phase == P_MINUS || s.phase == P_INT) {
        s.phase = s.phase != P_INT && symbol == 0 ? P_ZERO : P_INT;
        if (s.k < m->lo.n_int) s.lo = compare(s.lo, symbol, m->lo.digit[s.k]);
        if (s.k < m->hi.n_int) s.hi = compare(s.hi, symbol, m->hi.digit[s.k]);
        s.k = (uint8_t)HY_MIN(s.k + 1u, m->k_max);
        s.nonzero |= symbol != 0;
        if (m->mul) s.mod = (uint32_t)(((uint64_t)s.mod * 10 + symbol) % m->mul);
    } else if (s.phase == P_POINT || s.phase == P_FRAC) {
        s.phase = P_FRAC;
        s.lo = compare(s.lo, symbol, s.j < m->lo.n_frac ? m->lo.digit[m->lo.n_int + s.j] : 0);
        s.hi = compare(s.hi, symbol, s.j < m->hi.n_frac ? m->hi.digit[m->hi.n_int + s.j] : 0);
        if (m->mul && s.j < m->mul_frac)
            s.mod = (uint32_t)(((uint64_t)s.mod * 10 + symbol) % m->mul);
        else if (m->mul && symbol)
            return false;
        s.j = (uint8_t)HY_MIN(s.j + 1u, m->j_max);
        s.nonzero |= symbol != 0;
        s.frac |= symbol != 0;
    } else {
        return false;
    }
    *to = s;
    return true;
}

static uint32_t find(sim *m, const state *s)
{
    if (m->n_st * 2 >= m->n_slot) {
        uint32_t n = HY_MAX(256u, m->n_slot * 2);
        m->slot = HY_TMP(m->gc, uint32_t, n);
        m->n_slot = n;
        for (uint32_t i = 0; i < m->n_st; i++) {
            uint32_t h = (uint32_t)hy_hash64(&m->st[i], sizeof *s, 1) & (n - 1);
            while (m->slot[h]) h = (h + 1) & (n - 1);
            m->slot[h] = i + 1;
        }
    }
    uint32_t h = (uint32_t)hy_hash64(s, sizeof *s, 1) & (m->n_slot - 1);
    for (; m->slot[h]; h = (h + 1) & (m->n_slot - 1))
        if (memcmp(&m->st[m->slot[h] - 1], s, sizeof *s) == 0) return m->slot[h] - 1;
    if (m->n_st >= STATE_MAX)
        hy_gc_fail(m->gc, HY_E_LIMIT, "bounds of a number need too many states");
    m->st = hy_gc_grow(m->gc, m->st, m->n_st, &m->cap_st, sizeof *m->st);
    m->st[m->n_st] = *s;
    m->slot[h] = (uint32_t)++m->n_st;
    return (uint32_t)m->n_st - 1;
}

static void set_multiple(sim *m)
{
    const hy_decimal *d = &m->n->mul;
    int32_t frac = HY_MAX((int32_t)d->n - d->exp, 0);
    uint64_t v = 0;
    for (int32_t i = 0; i < d->exp + frac; i++) {
        v = v * 10 + (i < (int32_t)d->n ? d->digit[i] : 0);
        if (v > MUL_MAX) break;
    }
    if (v > MUL_MAX || frac > 20)
        hy_gc_fail(m->gc, HY_E_UNSUPPORTED, "multipleOf with so many digits");
    m->mul = (uint32_t)v;
    m->mul_frac = (uint32_t)frac;
}

static void alphabet(hy_gc *gc, hy_dfa *d) /* classes 0..9, minus, point, others */
{
    static const struct {
        uint32_t from;
        uint16_t cls;
    } r[] = {{0, 12},  {'-', 10}, {'.', 11}, {'/', 12}, {'0', 0}, {'1', 1}, {'2', 2}, {'3', 3},
             {'4', 4}, {'5', 5},  {'6', 6},  {'7', 7},  {'8', 8}, {'9', 9}, {':', 12}};
    d->n_class = 13;
    d->n_range = HY_COUNT(r);
    d->from = HY_TMP(gc, uint32_t, HY_COUNT(r));
    d->cls = HY_TMP(gc, uint16_t, HY_COUNT(r));
    for (size_t i = 0; i < HY_COUNT(r); i++) {
        d->from[i] = r[i].from;
        d->cls[i] = r[i].cls;
    }
}

/* Kinds of numbers for which the digits' values do not matter: any, whole, on one side of zero;
 * these may be written with an exponent, as far as those of doubles go. NULL: another kind. */
static const char *simple_form(const hy_number *n)
{
#define EXPONENT                                                                                   \
    "([eE](\\+?([0-9]{1,2}|[12][0-9]{2}|30[0-8])|-([0-9]{1,2}|[12][0-9]{2}|3[01][0-9]|32[0-4])))?"
#define UNSIGNED "(0|[1-9][0-9]*)(\\.[0-9]+)?" EXPONENT
    if (n->has_mul || !n->integer) return NULL;
    if (!n->has_lo && !n->has_hi) return n->fraction ? "-?" UNSIGNED : "-?(0|[1-9][0-9]*)";
    if (!n->fraction || (n->has_lo && n->has_hi)) return NULL;
    const hy_decimal *d = n->has_lo ? &n->lo : &n->hi;
    if (d->n) return NULL;
    if (n->has_lo) return n->open_lo ? "(?=[0-9.]*[1-9])" UNSIGNED : UNSIGNED;
    return n->open_hi ? "(?=-[0-9.]*[1-9])-" UNSIGNED : "-" UNSIGNED "|0(\\.0+)?" EXPONENT;
#undef UNSIGNED
#undef EXPONENT
}

static uint32_t digits_of(const hy_decimal *d)
{
    int32_t whole = HY_MAX(d->exp, 1), frac = HY_MAX((int32_t)d->n - d->exp, 0);
    return (uint32_t)HY_MIN(whole, 400) + (uint32_t)HY_MIN(frac, 400);
}

uint32_t hy_number_len_max(const hy_number *n)
{
    uint32_t most = 0;
    if (n->has_lo) most = HY_MAX(most, digits_of(&n->lo));
    if (n->has_hi) most = HY_MAX(most, digits_of(&n->hi));
    return HY_MAX(HY_NUMBER_LEN, most + HY_NUMBER_LEN / 2);
}

hy_dfa *hy_number_dfa(hy_gc *gc, const hy_number *n)
{
    const char *form = simple_form(n);
    if (form) return hy_regex_dfa(gc, NULL, form, strlen(form), HY_RE_FULL);
    sim m = {.gc = gc, .n = n};
    if (n->has_lo) set_bound(&m, &m.lo, &n->lo);
    if (n->has_hi) set_bound(&m, &m.hi, &n->hi);
    if (n->has_mul) set_multiple(&m);
    m.k_max = HY_MAX(m.lo.n_int, m.hi.n_int) + 1;
    m.j_max = HY_MAX(HY_MAX(m.lo.n_frac, m.hi.n_frac), m.mul_frac);
    state s = {.lo = EQUAL, .hi = EQUAL};
    find(&m, &s);
    hy_dfa *d = HY_TMP(gc, hy_dfa, 1);
    alphabet(gc, d);
    size_t cap = 0, cap_acc = 0;
    for (uint32_t q = 0; q < m.n_st; q++) {
        hy_gc_spend(gc, 600);
        while ((size_t)(q + 1) * 13 > cap)
            d->next = hy_gc_grow(gc, d->next, cap, &cap, sizeof *d->next);
        d->accept = hy_gc_grow(gc, d->accept, q, &cap_acc, 1);
        d->accept[q] = accepts(&m, &m.st[q]);
        for (uint32_t c = 0; c < 13; c++) {
            bool ok = c < 12 && step(&m, &m.st[q], c, &s);
            uint32_t to = ok ? find(&m, &s) : HY_NONE;
            d->next[(size_t)q * 13 + c] = to;
        }
    }
    d->n_state = (uint32_t)m.n_st;
    return hy_dfa_finish(gc, d);
}
