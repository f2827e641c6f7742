/* Private to serve/: a request's fields as tables. One row says what a field is called, which values it takes and
 * what becomes of it; reading, error messages and docs/api.md all come from the rows. */
#ifndef HY_SERVE_FIELDS_H
#define HY_SERVE_FIELDS_H

#include "serve/http.h"

typedef enum hy_field_kind {
    HY_F_BOOL,                 /* bool */
    HY_F_INT,                  /* int64_t within min..max; 3.0 counts as 3 */
    HY_F_NUM,                  /* double within min..max */
    HY_F_STR,                  /* const char *, without NUL; choices: "a|b|c", or NULL for any */
    HY_F_STRS,                 /* const json_t *: a string or an array of at most max strings */
    HY_F_INTS,                 /* const json_t *: an array of at most max integers */
    HY_F_OBJECT,               /* const json_t *: an object */
    HY_F_ARRAY,                /* const json_t *: an array of at most max members (0: any number) */
    HY_F_ANY,                  /* const json_t *: the route looks itself */
    HY_F_IGNORE,               /* accepted, without effect here */
    HY_F_REFUSE                /* refused by name unless null or one of `choices` (JSON texts, "|" between) */
} hy_field_kind;

typedef struct hy_field {
    const char *name;
    hy_field_kind kind;
    double min, max;
    size_t at;                 /* offset in the struct that is filled */
    const char *choices;
    const char *doc;           /* one sentence; of a refused field the reason */
    size_t at_set;             /* offset of a bool that is set when the field was given; 0: none */
} hy_field;

/* Reads body by rows (the last has a NULL name) into *into. null counts as absent, unknown names are ignored.
 * HY_E_ARG: the message names field, value and limits; *param is the row's name. */
hy_status hy_fields_read(const hy_field *rows, const json_t *body, void *into, const char **param, hy_err *err);
/* The same, answering a 400 itself and returning false. */
bool hy_fields_read_x(hy_exchange *x, const hy_field *rows, const json_t *body, void *into);
/* A table in Markdown: field, values, meaning. */
void hy_fields_doc(const hy_field *rows, hy_buf *out);

/* "a string", "an array of 3", "the number 1.5", "\"hot\"": a value as messages show it, cut short. */
void hy_json_show(const json_t *v, char *out, size_t n);

/* Is v an array of integers only, and not empty? */
bool hy_json_is_ids(const json_t *v);
/* Such an array as token ids of the model; what: for memory, at: its path in messages. Free with hy_memory_free. */
hy_status hy_json_ids(const hy_engine *e, const json_t *v, const char *what, const char *at, int32_t **ids, size_t *n,
                      hy_err *err);

/* The row of "speculate", into a hy_ask at `at`. */
#define HY_FIELD_SPECULATE(at)                                                                                         \
    { "speculate", HY_F_STR, 0, 0, at, "off|ngram|draft|self|auto",                                                    \
      "who drafts tokens ahead, of what `--speculate` opened; the text stays the same", 0 }

#endif
