/* Sets of code points as sorted ranges. */
#include "gram/gram_impl.h"
#include <stdlib.h>
#include <utf8proc.h>

hy_cset *hy_cset_new(hy_gc *gc) { return HY_TMP(gc, hy_cset, 1); }

void hy_cset_add(hy_gc *gc, hy_cset *s, uint32_t lo, uint32_t hi)
{
    hy_gc_spend(gc, 5);
    s->r = hy_gc_grow(gc, s->r, s->n, &s->cap, sizeof *s->r);
    s->r[s->n++] = (hy_range){lo, hi};
}

hy_cset *hy_cset_one(hy_gc *gc, uint32_t lo, uint32_t hi)
{
    hy_cset *s = hy_cset_new(gc);
    hy_cset_add(gc, s, lo, hi);
    hy_cset_norm(gc, s);
    return s;
}

void hy_cset_add_set(hy_gc *gc, hy_cset *s, const hy_cset *t)
{
    for (size_t i = 0; i < t->n; i++) hy_cset_add(gc, s, t->r[i].lo, t->r[i].hi);
}

static int by_lo(const void *a, const void *b)
{
    const hy_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Adds [lo, hi] less the surrogates, which no UTF-8 text can hold. */
static void put(hy_gc *gc, hy_cset *out, uint32_t lo, uint32_t hi)
{
    hi = HY_MIN(hi, HY_RUNE_MAX);
    if (lo > hi) return;
    if (lo < 0xE000 && hi >= 0xD800) {
        if (lo < 0xD800) put(gc, out, lo, 0xD7FF);
        if (hi > 0xDFFF) put(gc, out, 0xE000, hi);
        return;
    }
    if (out->n && lo <= out->r[out->n - 1].hi + 1) {
        out->r[out->n - 1].hi = HY_MAX(out->r[out->n - 1].hi, hi);
        return;
    }
    hy_cset_add(gc, out, lo, hi);
}

void hy_cset_norm(hy_gc *gc, hy_cset *s)
{
    if (s->n > 1) qsort(s->r, s->n, sizeof *s->r, by_lo);
    hy_cset out = {0};
    for (size_t i = 0; i < s->n; i++) put(gc, &out, s->r[i].lo, s->r[i].hi);
    *s = out;
}

hy_cset *hy_cset_not(hy_gc *gc, const hy_cset *s)
{
    hy_cset *out = hy_cset_new(gc);
    uint32_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->r[i].lo > at) put(gc, out, at, s->r[i].lo - 1);
        at = s->r[i].hi + 1;
    }
    if (at <= HY_RUNE_MAX) put(gc, out, at, HY_RUNE_MAX);
    return out;
}

void hy_cset_fold(hy_gc *gc, hy_cset *s)
{
    size_t n = s->n;
    for (size_t i = 0; i < n; i++) {
        uint32_t hi = HY_MIN(s->r[i].hi, 0x24FFu); /* cased scripts beyond are rare and historic */
        for (uint32_t c = s->r[i].lo; c <= hi; c++) {
            uint32_t lower = (uint32_t)utf8proc_tolower((int32_t)c),
                     upper = (uint32_t)utf8proc_toupper((int32_t)c);
            if (lower != c) hy_cset_add(gc, s, lower, lower);
            if (upper != c) hy_cset_add(gc, s, upper, upper);
        }
    }
    hy_cset_norm(gc, s);
}

/* ECMA 262, CharacterClassEscape: digits and words are ASCII, white space is Unicode's. */
hy_cset *hy_cset_escape(hy_gc *gc, char c)
{
    static const hy_range digit[] = {{'0', '9'}};
    static const hy_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const hy_range space[] = {
        {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const hy_range *r = c == 'd' || c == 'D' ? digit : c == 'w' || c == 'W' ? word : space;
    size_t n = r == digit ? HY_COUNT(digit) : r == word ? HY_COUNT(word) : HY_COUNT(space);
    hy_cset *s = hy_cset_new(gc);
    for (size_t i = 0; i < n; i++) hy_cset_add(gc, s, r[i].lo, r[i].hi);
    hy_cset_norm(gc, s);
    return c < 'a' ? hy_cset_not(gc, s) : s;
}

/* Unicode general categories: short name, long name, as utf8proc numbers them. */
static const struct {
    const char *name, *longer;
    uint32_t mask;
} categories[] = {
#define BIT(c) (1u << UTF8PROC_CATEGORY_##c)
    {"L", "Letter", BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO)},
    {"Lu", "Uppercase_Letter", BIT(LU)},
    {"Ll", "Lowercase_Letter", BIT(LL)},
    {"Lt", "Titlecase_Letter", BIT(LT)},
    {"LC", "Cased_Letter", BIT(LU) | BIT(LL) | BIT(LT)},
    {"Lm", "Modifier_Letter", BIT(LM)},
    {"Lo", "Other_Letter", BIT(LO)},
    {"M", "Mark", BIT(MN) | BIT(MC) | BIT(ME)},
    {"Mn", "Nonspacing_Mark", BIT(MN)},
    {"Mc", "Spacing_Mark", BIT(MC)},
    {"Me", "Enclosing_Mark", BIT(ME)},
    {"N", "Number", BIT(ND) | BIT(NL) | BIT(NO)},
    {"Nd", "Decimal_Number", BIT(ND)},
    {"Nl", "Letter_Number", BIT(NL)},
    {"No", "Other_Number", BIT(NO)},
    {"P", "Punctuation", BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO)},
    {"Pc", "Connector_Punctuation", BIT(PC)},
    {"Pd", "Dash_Punctuation", BIT(PD)},
    {"Ps", "Open_Punctuation", BIT(PS)},
    {"Pe", "Close_Punctuation", BIT(PE)},
    {"Pi", "Initial_Punctuation", BIT(PI)},
    {"Pf", "Final_Punctuation", BIT(PF)},
    {"Po", "Other_Punctuation", BIT(PO)},
    {"S", "Symbol", BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO)},
    {"Sm", "Math_Symbol", BIT(SM)},
    {"Sc", "Currency_Symbol", BIT(SC)},
    {"Sk", "Modifier_Symbol", BIT(SK)},
    {"So", "Other_Symbol", BIT(SO)},
    {"Z", "Separator", BIT(ZS) | BIT(ZL) | BIT(ZP)},
    {"Zs", "Space_Separator", BIT(ZS)},
    {"Zl", "Line_Separator", BIT(ZL)},
    {"Zp", "Paragraph_Separator", BIT(ZP)},
    {"C", "Other", BIT(CC) | BIT(CF) | BIT(CO) | BIT(CN)},
    {"Cc", "Control", BIT(CC)},
    {"Cf", "Format", BIT(CF)},
    {"Co", "Private_Use", BIT(CO)},
    {"Cn", "Unassigned", BIT(CN)},
#undef BIT
};

hy_cset *hy_cset_category(hy_gc *gc, const char *name, size_t n)
{
    uint32_t mask = 0;
    for (size_t i = 0; i < HY_COUNT(categories); i++) {
        const char *a = categories[i].name, *b = categories[i].longer;
        if ((strlen(a) == n && memcmp(a, name, n) == 0) ||
            (strlen(b) == n && memcmp(b, name, n) == 0))
            mask = categories[i].mask;
    }
    if (!mask) return NULL;
    hy_gc_spend(gc, 8 * HY_RUNE_MAX);
    hy_cset *s = hy_cset_new(gc);
    for (uint32_t c = 0; c <= HY_RUNE_MAX; c++) {
        if (!(mask >> utf8proc_category((int32_t)c) & 1)) continue;
        uint32_t first = c;
        while (c < HY_RUNE_MAX && mask >> utf8proc_category((int32_t)c + 1) & 1) c++;
        hy_cset_add(gc, s, first, c);
    }
    hy_cset_norm(gc, s);
    return s;
}
