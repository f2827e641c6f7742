/* Private to gram/: the compile context, sets of code points, expressions, automata, the network.
 *
 * Everything that compiling makes lives in two arenas (`tmp` until compiling ends, `keep` as long as the
 * grammar), and an error leaves by longjmp to the one setjmp of hy_gram_compile: nothing in between holds
 * anything else, so every function can simply return its value. */
#ifndef HY_GRAM_IMPL_H
#define HY_GRAM_IMPL_H

#include "gram/gram.h"
#include "text/text.h"
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#define HY_RUNE_MAX 0x10FFFFu
#define HY_NONE UINT32_MAX    /* no state, no node, no bound */
#define HY_GC_DEPTH 200       /* nesting of schemas, groups, values */
#define HY_GC_TEXT (4u << 20) /* bytes of a source */
#define HY_GC_WORK 400000000u /* steps of compiling, about a nanosecond each */

typedef struct hy_gc {
    hy_arena *keep, *tmp;
    size_t keep_max, tmp_max;  /* bytes */
    uint64_t work;             /* steps left, about a nanosecond each */
    uint32_t depth;
    struct hy_net *net;
    json_t *made;              /* array of the values made while compiling */
    const char *what;          /* names the part being compiled in messages */
    hy_err *err;
    hy_status code;
    jmp_buf jmp;
} hy_gc;
_Noreturn void hy_gc_fail(hy_gc *gc, hy_status code, const char *fmt, ...) HY_PRINTF(3, 4);
void *hy_gc_tmp(hy_gc *gc, size_t n, size_t size);   /* zeroed */
void *hy_gc_keep(hy_gc *gc, size_t n, size_t size);
#define HY_TMP(gc, type, n) ((type *)hy_gc_tmp((gc), (n), sizeof(type)))
void hy_gc_spend(hy_gc *gc, uint64_t units);
void hy_gc_enter(hy_gc *gc);                         /* one level deeper, or fails */
void hy_gc_leave(hy_gc *gc);
/* Room for one more in an array of tmp that doubles: p = hy_gc_grow(...). */
void *hy_gc_grow(hy_gc *gc, void *p, size_t n, size_t *cap, size_t size);

/* ---- cset.c: sets of code points --------------------------------------------------------------- */

typedef struct hy_range { uint32_t lo, hi; } hy_range;
typedef struct hy_cset {       /* sorted, disjoint, not adjacent, without surrogates once normal */
    hy_range *r;
    size_t n, cap;
} hy_cset;
hy_cset *hy_cset_new(hy_gc *gc);
hy_cset *hy_cset_one(hy_gc *gc, uint32_t lo, uint32_t hi);
void hy_cset_add(hy_gc *gc, hy_cset *s, uint32_t lo, uint32_t hi);
void hy_cset_add_set(hy_gc *gc, hy_cset *s, const hy_cset *t);
void hy_cset_norm(hy_gc *gc, hy_cset *s);
hy_cset *hy_cset_not(hy_gc *gc, const hy_cset *s);
void hy_cset_fold(hy_gc *gc, hy_cset *s);            /* adds the other case of every letter */
hy_cset *hy_cset_escape(hy_gc *gc, char c);          /* d w s; upper case: the complement */
/* \p{...}: a general category, by its short or long name; NULL: unknown */
hy_cset *hy_cset_category(hy_gc *gc, const char *name, size_t n);

/* ---- expressions ------------------------------------------------------------------------------- */

typedef enum hy_akind {
    A_SET,   /* one code point of set */
    A_CAT,   /* kids in order; none: the empty text */
    A_ALT,   /* one of kids; none: nothing matches */
    A_REP,   /* kid[0], min to max times (HY_NONE: no limit) */
    A_BOL, A_EOL,
    A_DFA,   /* a text of that automaton */
    A_LOOK,  /* kid[0] must (min = 1) or must not (0) match what follows; only inside regex.c */
    /* only in grammars */
    A_RULE,  /* min: rule */
    A_BYTES, /* bytes that are no UTF-8: control tokens */
    A_NET    /* min: node of the network's rule */
} hy_akind;
typedef struct hy_dfa hy_dfa;
typedef struct hy_ast {
    hy_akind kind;
    uint32_t min, max;
    const hy_cset *set;
    const hy_dfa *dfa;
    const char *bytes;
    struct hy_ast **kid;
    size_t n, cap;
    uint8_t regular; /* gbnf.c: 0 not known, 1 no, 2 yes */
} hy_ast;
hy_ast *hy_ast_new(hy_gc *gc, hy_akind kind);
void hy_ast_add(hy_gc *gc, hy_ast *a, hy_ast *kid);
hy_ast *hy_ast_set(hy_gc *gc, const hy_cset *set);
hy_ast *hy_ast_any(hy_gc *gc);                       /* any text */
hy_ast *hy_ast_rep(hy_gc *gc, hy_ast *kid, uint32_t min, uint32_t max);
hy_ast *hy_ast_text(hy_gc *gc, const char *s, size_t n); /* valid UTF-8 */
hy_ast *hy_ast_dfa(hy_gc *gc, const hy_dfa *d);

/* ---- regex.c ----------------------------------------------------------------------------------- */

typedef enum hy_re_mode {
    HY_RE_SEARCH, /* ECMA 262: found anywhere */
    HY_RE_FULL    /* Python: the whole text */
} hy_re_mode;
/* Parses and builds. `what` goes before the message. */
hy_dfa *hy_regex_dfa(hy_gc *gc, const char *what, const char *s, size_t n, hy_re_mode mode);
/* Is the expression ^[set]{min,max}$ ? Then no automaton with so many states is needed. */
bool hy_regex_simple(hy_gc *gc, const char *what, const char *s, size_t n, hy_re_mode mode,
                     hy_dfa **dfa, uint32_t *min, uint32_t *max);

/* ---- dfa.c, dfa_ops.c: automata over code points ----------------------------------------------- */

/* Every state can reach an accepting one, and the start is state 0; no state at all: the empty
 * language. Code points fall into classes by ranges: range i holds [from[i], from[i + 1]). */
struct hy_dfa {
    uint32_t n_state, n_class, n_range;
    uint32_t *next;            /* [n_state, n_class]; HY_NONE: none */
    uint8_t *accept;           /* [n_state] */
    uint32_t *from;            /* [n_range], from[0] = 0 */
    uint16_t *cls;             /* [n_range]; surrogates: a class that leads nowhere */
    uint16_t ascii[128];       /* class of the code point */
    uint32_t *len_min, *len_max; /* [n_state] code points to an accepting state; HY_NONE: no limit */
    const hy_dfa *kept, *full; /* its copy in keep; itself without the empty text (net.c) */
};
hy_dfa *hy_dfa_from(hy_gc *gc, const hy_ast *a);     /* A_BOL, A_EOL: ends of the text */
hy_dfa *hy_dfa_try(hy_gc *gc, const hy_ast *a, uint64_t work); /* NULL: it would be too large */
hy_dfa *hy_dfa_any(hy_gc *gc);
hy_dfa *hy_dfa_none(hy_gc *gc);
hy_dfa *hy_dfa_and(hy_gc *gc, const hy_dfa *a, const hy_dfa *b);
hy_dfa *hy_dfa_minus(hy_gc *gc, const hy_dfa *a, const hy_dfa *b);
hy_dfa *hy_dfa_length(hy_gc *gc, const hy_dfa *a, uint32_t min, uint32_t max); /* unrolled */
bool hy_dfa_is_any(const hy_dfa *d);
bool hy_dfa_match(const hy_dfa *d, const char *s, size_t n);
uint32_t hy_dfa_range(const hy_dfa *d, uint32_t rune); /* index of its range */
const hy_dfa *hy_dfa_keep(hy_gc *gc, hy_dfa *d);     /* its copy in keep */
/* For builders: drops what cannot accept, merges equal states, fills the rest. */
hy_dfa *hy_dfa_finish(hy_gc *gc, hy_dfa *d);

HY_INLINE uint32_t hy_dfa_class(const hy_dfa *d, uint32_t rune)
{
    return rune < 128 ? d->ascii[rune] : d->cls[hy_dfa_range(d, rune)];
}
HY_INLINE uint32_t hy_dfa_step(const hy_dfa *d, uint32_t q, uint32_t rune)
{
    return d->next[(size_t)q * d->n_class + hy_dfa_class(d, rune)];
}

/* number.c, format.c: languages as automata over the text */
typedef struct hy_decimal {    /* sign * 0.digits * 10^exp; digits without zeros at the ends */
    bool neg;
    int32_t exp;
    uint32_t n;                /* 0: zero */
    uint8_t digit[40];
} hy_decimal;
bool hy_decimal_parse(hy_decimal *d, const char *s); /* JSON number; false: too long */
int hy_decimal_cmp(const hy_decimal *a, const hy_decimal *b);
typedef struct hy_number {     /* which numbers */
    bool integer, fraction;    /* whole ones, others */
    bool has_lo, has_hi, open_lo, open_hi, has_mul;
    hy_decimal lo, hi, mul;
} hy_number;
hy_dfa *hy_number_dfa(hy_gc *gc, const hy_number *n);
/* Characters of the longest number that is written: 17 digits, sign, point and exponent of any double are
 * 24, the largest integer of 128 bits is 40; a model that writes 3s behind 0. for ever comes to an end.
 * Longer where bounds are so. */
#define HY_NUMBER_LEN 48u
uint32_t hy_number_len_max(const hy_number *n);
/* the expression of a format, NULL: none known; *known: it is a format we cannot enforce */
const char *hy_format_regex(const char *name, bool *known);

/* ---- net.c: the network ------------------------------------------------------------------------ */

typedef enum hy_nkind { N_LIT, N_TERM, N_SPLIT, N_CALL, N_REP, N_REPEND, N_RET, N_FAIL } hy_nkind;
typedef struct hy_node {
    uint8_t kind;
    bool live;                 /* the end of its rule can be reached */
    uint32_t a, b;             /* LIT: bytes [a, a + b); TERM: term a; SPLIT: edges [a, a + b);
                                * CALL: rule a; REP: body a; REPEND: its REP a */
    uint32_t min, max;         /* REP */
    uint32_t next;
} hy_node;
typedef struct hy_term {       /* a text of an automaton */
    const hy_dfa *dfa;
    bool json;                 /* inside a JSON string: escapes; the closing quote ends it */
    bool counted;              /* min, max code points are to be counted */
    uint32_t min, max;         /* max HY_NONE: no limit */
    uint64_t first[4];         /* bytes it may begin with */
} hy_term;
typedef struct hy_net {
    hy_node *node;
    hy_term *term;
    uint32_t *edge, *rule;     /* rule: first node */
    const char **name;         /* of rules; only while compiling */
    char *bytes;
    size_t n_node, n_term, n_edge, n_rule, n_bytes;
    size_t cap_node, cap_term, cap_edge, cap_rule, cap_name, cap_bytes;
} hy_net;
/* Building goes from the end to the front: each gives a node that leads to `next`. */
uint32_t hy_net_lit(hy_gc *gc, const char *s, size_t n, uint32_t next);
uint32_t hy_net_term(hy_gc *gc, hy_dfa *d, bool json, uint32_t min, uint32_t max, uint32_t next);
uint32_t hy_net_split(hy_gc *gc, const uint32_t *to, size_t n);
uint32_t hy_net_call(hy_gc *gc, uint32_t rule, uint32_t next);
uint32_t hy_net_ret(hy_gc *gc);
uint32_t hy_net_fail(hy_gc *gc);
uint32_t hy_net_rule(hy_gc *gc, const char *name);   /* first node unset */
/* A loop: rep = hy_net_rep(...); its body must lead to *end; then hy_net_rep_body(rep, body). */
uint32_t hy_net_rep(hy_gc *gc, uint32_t min, uint32_t max, uint32_t next, uint32_t *end);
void hy_net_rep_body(hy_gc *gc, uint32_t rep, uint32_t body);
/* Left recursion and languages without a text are errors; then everything is copied to keep. */
void hy_net_finish(hy_gc *gc, const char *what);

void hy_term_first(hy_term *m);                      /* term.c: fills first */

struct hy_gram {
    hy_arena *arena;
    hy_net net;                /* rule 0: root */
    uint64_t n_step;           /* that compiling took */
    atomic_uint n_ref;
};

/* gbnf.c, schema.c: fill rule 0 of gc->net (gbnf) or the rule given */
void hy_gbnf_compile(hy_gc *gc, const char *s, size_t n, json_t *schemas);
/* A rule for one value by the schema; `root` resolves "#". */
uint32_t hy_schema_rule(hy_gc *gc, json_t *root, json_t *schema);

#endif
