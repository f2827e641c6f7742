/* JSON Schema, private to gram/: conditions, branches, what a branch demands.
 *
 * A value is asked to meet a set of conditions. expand() follows $ref, allOf, anyOf, oneOf, if, not,
 * dependent... and gives branches: lists of conditions without such words, one of which must hold. Each
 * branch is then gathered per type and written into the network. Sets of conditions that were met before
 * share a rule, which is what makes recursion end. */
#ifndef HY_GRAM_SCHEMA_H
#define HY_GRAM_SCHEMA_H

#include "gram/gram_impl.h"

enum { T_NULL = 1, T_BOOL = 2, T_INT = 4, T_FRAC = 8, T_STR = 16, T_ARR = 32, T_OBJ = 64, T_ALL = 127 };

typedef enum hy_ckind {
    C_IS,      /* s; in a branch: the words of s that look at the value itself, and types says
                * whether s was asked for itself rather than reached by $ref, allOf, ... */
    C_NOT,     /* not s; never in a branch */
    C_BREAKS,  /* breaks the word `key` of s (for properties and required: at the property `name`) */
    C_ABSENT,  /* an object without `name` */
    C_PRESENT, /* an object with `name` */
    C_TYPES    /* of these types */
} hy_ckind;
typedef struct hy_cond {
    hy_ckind kind;
    uint32_t types;
    json_t *s;
    const char *key, *name;
} hy_cond;
typedef struct hy_conds {
    hy_cond *c;
    size_t n, cap;
} hy_conds;

typedef struct hy_chain {      /* the schemas one was reached through, in the same place of the value */
    json_t *s;
    const struct hy_chain *up;
} hy_chain;

typedef struct hy_sc {
    hy_gc *gc;
    json_t *root;
    hy_dfa *any, *space, *number_any, *integer_any;
    struct { const char *key, *p; hy_dfa *dfa; } *pattern;
    size_t n_pattern, cap_pattern;
    struct { hy_conds key, c; uint32_t rule; } *memo; /* key: c sorted */
    size_t n_memo, cap_memo, n_done;
    uint32_t *slot, n_slot;
    json_t **checked;          /* set of schemas whose words are well formed; a hash */
    size_t n_checked, n_checked_slot;
    size_t i_value;            /* place in its enum of the value that is looked at */
} hy_sc;

typedef struct hy_branch {     /* what the conditions of a branch demand */
    hy_conds c;
    uint32_t types;
    bool typed;                /* a type is said */
    uint32_t families;         /* types whose words appear */
    json_t *finite;            /* enum list or const's value: the other conditions filter it */
    bool finite_list;
    json_t **excluded;
    size_t n_excluded, cap_excluded;
    hy_number num;
    hy_dfa *num_more;          /* further multiples, or NULL */
    hy_ast *num_not;           /* numbers that are left out, or NULL */
    uint32_t min_len, max_len, min_items, max_items, min_props, max_props;
    bool unique, props_counted;
    hy_dfa *str;               /* NULL: any */
} hy_branch;

void hy_cond_add(hy_sc *sc, hy_conds *l, hy_cond c);
void hy_cond_put(hy_sc *sc, hy_conds *l, hy_ckind kind, json_t *s, const char *key, const char *name);
void hy_cond_is(hy_sc *sc, hy_conds *l, json_t *s);
void hy_cond_types(hy_sc *sc, hy_conds *l, uint32_t types);
json_t *hy_schema_ref(hy_sc *sc, const char *ref);
void hy_schema_check(hy_sc *sc, json_t *s);            /* words well formed, or fails */
_Noreturn void hy_schema_cannot(hy_sc *sc, const char *key, const char *why);
_Noreturn void hy_schema_bad(hy_sc *sc, const char *key, const char *why);

/* schema_expand.c */
/* loose: where exactness is out of reach, branches that allow more */
size_t hy_schema_expand(hy_sc *sc, const hy_conds *c, bool loose, hy_conds **branches);
bool hy_schema_empty(hy_sc *sc, const hy_conds *c, int depth); /* surely no value meets them */

/* schema_value.c: does a value at hand meet it? */
bool hy_schema_valid(hy_sc *sc, json_t *v, json_t *s);
bool hy_cond_valid(hy_sc *sc, json_t *v, const hy_cond *c);
bool hy_json_same(hy_gc *gc, const json_t *a, const json_t *b);   /* 1 and 1.0 are the same */
uint32_t hy_json_type(const json_t *v);
void hy_number_text(const json_t *v, char out[40]);    /* shortest that reads back */
uint32_t hy_type_mask(const char *name);               /* 0: unknown */

/* schema_gather.c */
bool hy_schema_gather(hy_sc *sc, const hy_conds *c, hy_branch *b); /* false: nothing can meet it */
hy_dfa *hy_schema_pattern(hy_sc *sc, const char *key, const char *p); /* pattern, or a format's name */
hy_dfa *hy_schema_number(hy_sc *sc, const hy_branch *b); /* its numbers, as text */
hy_dfa *hy_schema_string(hy_sc *sc, hy_branch *b);     /* its strings; min_len and max_len still apply */
hy_dfa *hy_schema_names(hy_sc *sc, json_t *s);         /* the strings that meet s */
/* What the property `name` of an object has to meet. */
void hy_schema_property(hy_sc *sc, const hy_conds *c, const char *name, hy_conds *out);

/* schema_emit.c, schema_object.c, schema_array.c: into the network */
uint32_t hy_schema_call(hy_sc *sc, const hy_conds *c, uint32_t next); /* a rule for the conditions */
uint32_t hy_emit_object(hy_sc *sc, hy_branch *b, uint32_t next);
uint32_t hy_emit_array(hy_sc *sc, hy_branch *b, uint32_t next);
uint32_t hy_schema_emit(hy_sc *sc, const hy_conds *c, uint32_t next); /* any value that meets them */
uint32_t hy_emit_space(hy_sc *sc, uint32_t next);
uint32_t hy_emit_key(hy_sc *sc, const char *name, uint32_t next); /* "name": and perhaps a space */
uint32_t hy_emit_close(hy_sc *sc, char c, uint32_t next); /* space, then the bracket */
/* min..max times (", " and what body gives), then next */
typedef uint32_t hy_emit_body(hy_sc *sc, void *ctx, uint32_t next);
uint32_t hy_emit_more(hy_sc *sc, uint32_t min, uint32_t max, hy_emit_body *body, void *ctx, uint32_t next);

#endif
