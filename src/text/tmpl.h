/* The template language, private to text/: values, syntax tree, runtime.
 *
 * Everything of one rendering lives in one arena, and an error leaves by longjmp to the one setjmp
 * of hy_template_render (or hy_template_parse): nothing between holds anything but arena memory, so
 * no clean-up can be missed, and every function can simply return its value. */
#ifndef HY_TEXT_TMPL_H
#define HY_TEXT_TMPL_H

#include "text/text.h"
#include <setjmp.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

typedef enum hy_vtype {
    HY_V_MISSING, /* an argument not given; never seen by a template */
    HY_V_UNDEF,
    HY_V_NONE,
    HY_V_BOOL,
    HY_V_INT,
    HY_V_FLOAT,
    HY_V_STR,
    HY_V_LIST,
    HY_V_TUPLE,
    HY_V_DICT,
    HY_V_RANGE,
    HY_V_VIEW, /* dict.keys(), .values(), .items(): aux says which */
    HY_V_GEN,  /* what map, select, reverse, ... give: read once, always true, no length */
    HY_V_SPACE, /* namespace() */
    HY_V_FUNC,  /* a global function */
    HY_V_BOUND, /* a method with its object */
    HY_V_MACRO,
    HY_V_LOOP,
    HY_V_CYCLER,
    HY_V_JOINER,
    HY_V_SELF,
    HY_V_BLOCK
} hy_vtype;

typedef struct hy_node hy_node;
typedef struct hy_rt hy_rt;
typedef struct hy_scope hy_scope;
typedef struct hy_dict hy_dict;
typedef struct hy_loop hy_loop;

typedef struct hy_str {
    const char *p; /* not NUL-terminated */
    size_t n;
    size_t n_rune; /* code points; SIZE_MAX = not counted yet */
} hy_str;

typedef struct hy_undef {
    const char *hint;       /* the whole message, or NULL */
    const char *owner;      /* "'dict object'" of a missing attribute, or NULL */
    const hy_str *name;     /* NULL: element said by hint */
    bool security;          /* refused by the sandbox */
} hy_undef;

typedef struct hy_val {
    uint8_t type; /* hy_vtype */
    bool markup;  /* HY_V_STR: marked as safe HTML */
    uint16_t aux;
    union {
        bool b;
        int64_t i;
        double f;
        hy_str *s;
        struct hy_list *l;
        hy_dict *d;
        struct hy_range *range;
        struct hy_bound *bound;
        struct hy_macro *macro;
        hy_loop *loop;
        struct hy_cycler *cycler;
        const hy_undef *undef; /* NULL: no name to tell */
        const struct hy_fn *fn;
        const hy_node *block;
    } u;
} hy_val;

typedef struct hy_list { /* list, tuple, and generator (pos: the next to read) */
    hy_val *v;
    size_t n, cap, pos;
    bool grouped; /* tuple of groupby: .grouper and .list */
} hy_list;

typedef struct hy_entry {
    hy_val key, value;
    uint64_t hash;
} hy_entry;

struct hy_dict {
    hy_entry *v;
    size_t n, cap;
    uint32_t *index; /* open addressing over v, entry + 1; only beyond a few entries */
    size_t n_index;
};

typedef struct hy_range {
    int64_t start, stop, step, n;
} hy_range;

typedef struct hy_cycler { /* joiner as well: items[0] = separator, pos = used */
    hy_list *items;
    size_t pos;
} hy_cycler;

typedef struct hy_macro {
    const hy_node *node; /* N_MACRO or N_CALLBLOCK */
    hy_scope *scope;     /* where it was defined */
} hy_macro;

typedef struct hy_kwarg {
    const hy_str *name;
    hy_val v;
} hy_kwarg;

typedef struct hy_args {
    const hy_val *v;
    size_t n;
    const hy_kwarg *kw;
    size_t n_kw;
} hy_args;

/* A function, filter, test or method. `names`: comma-separated parameters, bound to a[]; the first
 * n_need must be given; the others arrive as HY_V_MISSING. names = NULL: takes raw arguments. */
typedef struct hy_fn {
    const char *name;
    hy_val (*call)(hy_rt *rt, hy_val self, const hy_val *a, const hy_args *raw);
    const char *names;
    uint8_t n_need;
} hy_fn;
#define HY_FN_ARGS 6

typedef struct hy_bound {
    hy_val self;
    const hy_fn *fn;
} hy_bound;

typedef struct hy_iter {
    hy_val src;
    size_t i;
} hy_iter;

/* ---- syntax tree ----------------------------------------------------------------------------- */

typedef enum hy_nkind {
    N_CONST, N_NAME, N_NSREF, N_TUPLE, N_LIST, N_DICT, N_COND, N_OR, N_AND, N_NOT, N_COMPARE, N_BIN,
    N_CONCAT, N_NEG, N_POS, N_ATTR, N_ITEM, N_SLICE, N_CALL, N_FILTER, N_TEST,
    N_DATA, N_OUTPUT, N_SET, N_SETBLOCK, N_FOR, N_IF, N_WITH, N_SCOPE, N_BLOCK, N_CALLBLOCK,
    N_FILTERBLOCK, N_MACRO, N_BREAK, N_CONTINUE, N_UNSUPPORTED
} hy_nkind;

typedef enum hy_op {
    OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW,
    OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOTIN
} hy_op;

typedef struct hy_nodes {
    hy_node **v;
    uint32_t n, cap;
} hy_nodes;

typedef struct hy_cargs { /* the arguments of a call, as written */
    hy_nodes pos, kw;     /* kw: value nodes, names in kw_name */
    hy_str **kw_name;
    hy_node *star, *star2;
} hy_cargs;

enum { HY_M_CALLER = 1, HY_M_KWARGS = 2, HY_M_VARARGS = 4 };

/* What the members mean for each kind stands where the parser makes it. */
struct hy_node {
    uint8_t kind, op;
    bool flag;      /* recursive, scoped */
    uint8_t uses;   /* macro: HY_M_* */
    int32_t line;
    hy_val value;   /* constant, data, or the name as a string */
    hy_str *attr;   /* N_NSREF, N_BLOCK */
    hy_node *a, *b, *c;
    hy_nodes list, list2;
    hy_nodes body, orelse;
    hy_cargs *args;
    const hy_fn *fn;
};

struct hy_template {
    hy_arena *arena;
    hy_nodes body;
    hy_nodes blocks;
    const hy_str *n_loop, *n_caller, *n_kwargs, *n_varargs; /* as interned */
};

/* ---- runtime --------------------------------------------------------------------------------- */

typedef struct hy_slot {
    const hy_str *name; /* interned by the parser: compared as a pointer */
    hy_val v;
} hy_slot;

struct hy_scope {
    hy_scope *up;
    hy_slot *v;
    uint32_t n, cap;
};

struct hy_loop {
    const hy_node *node;
    hy_scope *outer;       /* where the loop stands */
    hy_iter it;
    hy_list *rest;         /* the rest, once a length was asked of something without one */
    size_t rest_pos;
    int64_t index0, length; /* length < 0: not known */
    uint32_t depth0;
    bool has_after, ended;
    hy_val after, before, current;
    hy_list *changed;
};

struct hy_rt {
    const hy_template *t;
    hy_arena *arena;
    hy_buf *out;
    size_t out_start;
    hy_dict *vars;
    hy_scope *root;
    uint64_t steps, max_steps, mem, max_mem, max_out;
    uint32_t depth, max_depth, nest;
    int32_t line;
    int64_t now;
    bool raised;
    char *cat_end; /* end of the last string made by +, with cat_room bytes free behind it */
    size_t cat_room;
    hy_err *err;
    hy_status code;
    jmp_buf jmp;
};
#define HY_NEST_MAX 2500     /* tree levels on the C stack, all calls together */
#define HY_VALUE_DEPTH 900   /* nesting of lists in lists for str(), ==, tojson */

_Noreturn void hy_rt_fail(hy_rt *rt, hy_status code, const char *fmt, ...) HY_PRINTF(3, 4);
_Noreturn void hy_rt_fail_undef(hy_rt *rt, hy_val v);
void *hy_rt_alloc(hy_rt *rt, size_t n, size_t align);
#define HY_RT_NEW(rt, type, n) ((type *)hy_rt_array((rt), (n), sizeof(type), _Alignof(type)))
void *hy_rt_array(hy_rt *rt, size_t n, size_t size, size_t align);
void hy_rt_step(hy_rt *rt, uint64_t n);
void hy_rt_put(hy_rt *rt, const char *s, size_t n); /* output */
hy_val hy_rt_take(hy_rt *rt, size_t mark);          /* output since mark becomes a string */

/* tmpl_value.c: making values */
extern const hy_val hy_v_none, hy_v_missing;
hy_val hy_v_bool(bool b);
hy_val hy_v_int(int64_t i);
hy_val hy_v_float(double f);
hy_val hy_v_str(hy_rt *rt, const char *p, size_t n);  /* keeps the pointer */
hy_val hy_v_text(hy_rt *rt, const char *z);
hy_val hy_v_strs(hy_str *s);
hy_val hy_v_undef(hy_rt *rt, const char *hint);
hy_val hy_v_undef_name(hy_rt *rt, const hy_str *name);
hy_val hy_v_list(hy_rt *rt, hy_vtype type, size_t cap); /* empty, with room */
hy_val hy_v_dict(hy_rt *rt);
void hy_list_push(hy_rt *rt, hy_list *l, hy_val v);
void hy_dict_set(hy_rt *rt, hy_dict *d, hy_val key, hy_val v);
const hy_val *hy_dict_get(hy_rt *rt, const hy_dict *d, hy_val key); /* NULL: not there */
const hy_val *hy_dict_get_str(hy_rt *rt, const hy_dict *d, const hy_str *key);
hy_val hy_v_from_json(hy_rt *rt, const json_t *j, int depth);
size_t hy_str_runes(const hy_str *s);
size_t hy_str_offset(const hy_str *s, size_t i_rune);  /* byte offset of a code point */

/* asking */
HY_INLINE bool hy_is_int(hy_val v) { return v.type == HY_V_INT || v.type == HY_V_BOOL; }
HY_INLINE bool hy_is_num(hy_val v) { return hy_is_int(v) || v.type == HY_V_FLOAT; }
HY_INLINE int64_t hy_as_int(hy_val v) { return v.type == HY_V_BOOL ? v.u.b : v.u.i; }
HY_INLINE double hy_as_float(hy_val v)
{
    return v.type == HY_V_FLOAT ? v.u.f : (double)hy_as_int(v);
}
bool hy_v_truth(hy_rt *rt, hy_val v);
bool hy_v_eq(hy_rt *rt, hy_val a, hy_val b);
int hy_v_order(hy_rt *rt, hy_val a, hy_val b, const char *op); /* < 0, 0, > 0; 2 = unordered (NaN) */
uint64_t hy_v_hash(hy_rt *rt, hy_val v);
const char *hy_v_type_name(hy_val v);
bool hy_v_has_len(hy_val v);
int64_t hy_v_len(hy_rt *rt, hy_val v);
bool hy_v_contains(hy_rt *rt, hy_val in, hy_val item);
bool hy_v_is(hy_val a, hy_val b);

/* walking */
bool hy_v_iterable(hy_val v);
void hy_iter_init(hy_rt *rt, hy_iter *it, hy_val v);
bool hy_iter_next(hy_rt *rt, hy_iter *it, hy_val *out);
hy_list *hy_v_to_list(hy_rt *rt, hy_val v); /* a fresh list */

/* tmpl_text.c: strings being built, str(), repr(), float repr */
typedef struct hy_sb {
    hy_rt *rt;
    char *p;
    size_t n, cap;
} hy_sb;
void hy_sb_put(hy_sb *b, const char *s, size_t n);
void hy_sb_str(hy_sb *b, const char *z);
void hy_sb_rune(hy_sb *b, uint32_t r);
void hy_sb_fill(hy_sb *b, uint32_t rune, int64_t n);
void hy_sb_val(hy_sb *b, hy_val v);                 /* str(v) */
void hy_sb_repr(hy_sb *b, hy_val v, int depth);
hy_val hy_sb_take(hy_sb *b);
hy_val hy_v_to_str(hy_rt *rt, hy_val v);            /* markup kept */
const char *hy_v_repr_z(hy_rt *rt, hy_val v);       /* NUL-terminated, shortened; for messages */
const char *hy_str_z(hy_rt *rt, const hy_str *s);
void hy_float_repr(double f, char out[40]);
hy_val hy_v_escape(hy_rt *rt, hy_val v);            /* HTML; Markup stays */
bool hy_str_to_int(const hy_str *s, int base, int64_t *out, bool *too_big);
bool hy_str_to_float(hy_rt *rt, const hy_str *s, double *out);

/* tmpl_ops.c */
hy_val hy_op_binary(hy_rt *rt, hy_op op, hy_val a, hy_val b);
bool hy_op_compare(hy_rt *rt, hy_op op, hy_val a, hy_val b);
hy_val hy_op_item(hy_rt *rt, hy_val obj, hy_val key);   /* obj[key], undefined when not there */
hy_val hy_op_attr(hy_rt *rt, hy_val obj, hy_str *name); /* obj.name */
hy_val hy_op_slice(hy_rt *rt, hy_val obj, hy_val lo, hy_val hi, hy_val step);
hy_val hy_op_call(hy_rt *rt, hy_val f, const hy_args *args);
hy_val hy_fn_call(hy_rt *rt, const hy_fn *fn, hy_val self, const hy_args *args);
hy_val hy_path_get(hy_rt *rt, hy_val item, hy_val path, hy_val dflt); /* "a.b.0" of a filter */

/* tables */
const hy_fn *hy_find_filter(const char *name, size_t n);
const hy_fn *hy_find_test(const char *name, size_t n);
const hy_fn *hy_find_global(const char *name, size_t n);
const hy_fn *hy_find_str_method(const char *name, size_t n);
const hy_fn *hy_find_method(hy_vtype type, const char *name, size_t n);
const hy_fn *hy_fn_find(const hy_fn *table, size_t count, const char *name, size_t n);
extern const hy_fn hy_filters_seq[], hy_filters_text[];
extern const size_t hy_n_filters_seq, hy_n_filters_text;

/* tmpl_exec.c */
hy_val hy_macro_call(hy_rt *rt, hy_macro *m, const hy_args *args);
hy_val hy_loop_call(hy_rt *rt, hy_loop *loop, const hy_args *args);
hy_val hy_loop_attr(hy_rt *rt, hy_loop *loop, const hy_str *name, bool *found);
hy_val hy_block_call(hy_rt *rt, const hy_node *block);
hy_val hy_eval(hy_rt *rt, hy_scope *sc, const hy_node *n);

/* tmpl_format.c */
hy_val hy_format_percent(hy_rt *rt, hy_val fmt, hy_val args);
hy_val hy_format_braces(hy_rt *rt, hy_val fmt, const hy_args *args);
hy_val hy_strftime(hy_rt *rt, const hy_str *fmt);
/* tmpl_json.c */
typedef struct hy_dump {
    const hy_str *indent; /* NULL: one line */
    const hy_str *item_sep, *key_sep;
    bool sort_keys, ascii;
} hy_dump;
void hy_json_dump(hy_sb *b, hy_val v, const hy_dump *o, int depth);
/* tmpl_str.c: shared by filters and methods */
hy_val hy_str_case(hy_rt *rt, hy_val s, char how); /* u, l, c(apitalize), t(itle), s(wapcase), f(old) */
hy_val hy_str_strip(hy_rt *rt, hy_val s, hy_val chars, bool left, bool right);
hy_val hy_str_replace(hy_rt *rt, hy_val s, hy_val old, hy_val with, int64_t count);
hy_list *hy_str_lines(hy_rt *rt, const hy_str *s, bool keep);
hy_val hy_str_sub(hy_rt *rt, const hy_str *s, size_t from, size_t to, bool markup); /* bytes */
size_t hy_bytes_find(const char *s, size_t n, const char *what, size_t m); /* SIZE_MAX: no */

/* unicode.c: properties and case, as Python's str has them */
bool hy_uc_space(uint32_t c);
bool hy_uc_alpha(uint32_t c);
bool hy_uc_decimal(uint32_t c);
bool hy_uc_digit(uint32_t c);
bool hy_uc_numeric(uint32_t c);
bool hy_uc_upper(uint32_t c);
bool hy_uc_lower(uint32_t c);
bool hy_uc_title(uint32_t c);
bool hy_uc_printable(uint32_t c);
bool hy_uc_ignorable(uint32_t c); /* case-ignorable */
int hy_uc_to(uint32_t c, char how, uint32_t out[3]); /* u, l, t, f: code points written */

/* tmpl_lex.c */
typedef enum hy_tok {
    T_EOF, T_DATA, T_VAR_BEGIN, T_VAR_END, T_BLOCK_BEGIN, T_BLOCK_END, T_NAME, T_STRING, T_INT, T_FLOAT,
    T_ADD, T_SUB, T_DIV, T_FLOORDIV, T_MUL, T_MOD, T_POW, T_TILDE, T_LBRACKET, T_RBRACKET, T_LPAREN,
    T_RPAREN, T_LBRACE, T_RBRACE, T_EQ, T_NE, T_GT, T_GE, T_LT, T_LE, T_ASSIGN, T_DOT, T_COLON,
    T_PIPE, T_COMMA, T_SEMICOLON
} hy_tok;

typedef struct hy_token {
    uint8_t type;
    int32_t line;
    const char *p; /* text: data, name, string already unescaped */
    size_t n;
    union {
        int64_t i;
        double f;
    } num;
} hy_token;

typedef struct hy_parser {
    hy_template *t;
    const char *src;
    size_t n_src;
    hy_token *tok; /* hy_realloc'ed; freed by hy_template_parse */
    size_t n_tok, cap_tok, i;
    hy_buf text; /* source after newline normalisation */
    hy_str **names; /* interned, open addressing */
    size_t n_names, cap_names;
    uint32_t depth, loops;
    uint8_t uses;
    bool soft;
    char unknown[120]; /* a filter or test that does not exist, not yet forgiven */
    int32_t unknown_line;
    struct {
        const char *tag;
        const char *ends; /* what would close it */
    } open[64];
    uint32_t n_open;
    hy_err *err;
    hy_status code;
    jmp_buf jmp;
} hy_parser;
#define HY_PARSE_DEPTH 100

_Noreturn void hy_parse_fail(hy_parser *p, int32_t line, hy_status code, const char *fmt, ...)
    HY_PRINTF(4, 5);
void *hy_parse_alloc(hy_parser *p, size_t n);
void hy_parse_lex(hy_parser *p);
hy_str *hy_parse_name(hy_parser *p, const char *s, size_t n); /* interned */
hy_node *hy_parse_node(hy_parser *p, hy_nkind kind, int32_t line);
void hy_parse_push(hy_parser *p, hy_nodes *list, hy_node *n);
const hy_token *hy_parse_cur(hy_parser *p);
const hy_token *hy_parse_expect(hy_parser *p, hy_tok type);
bool hy_parse_is(hy_parser *p, const char *name);   /* the current token is this name */
bool hy_parse_skip(hy_parser *p, const char *name); /* and takes it */
const char *hy_parse_describe(const hy_token *t, char buf[64]);
/* tmpl_expr.c */
enum { HY_E_NOCOND = 1, HY_E_TARGET = 2, HY_E_NS = 4, HY_E_PAREN = 8, HY_E_IN = 16, HY_E_RECUR = 32 };
hy_node *hy_parse_tuple(hy_parser *p, int how);
hy_node *hy_parse_expr(hy_parser *p);
hy_node *hy_parse_target(hy_parser *p, int how);
hy_node *hy_parse_filters(hy_parser *p, hy_node *in, bool inline_first);
hy_cargs *hy_parse_args(hy_parser *p);
void hy_parse_check_unknown(hy_parser *p);

#endif
