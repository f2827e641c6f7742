/* Private to format_*.c: the table of families, and the parser from inside.
 *
 * A family writes its calls in one of a few shapes; a shape is described by the strings around its parts.
 *
 *   begin  open NAME name_end ... head_end  ARGUMENTS  close  (more calls)  end
 *
 * The parser keeps the text that it cannot decide about in `in`, and every decision depends on a prefix of the
 * text alone, so that the same text gives the same pieces however it is cut. White space between the parts of
 * a call, and between it and the text around it, belongs to nobody. */
#ifndef HY_SERVE_FORMAT_IMPL_H
#define HY_SERVE_FORMAT_IMPL_H

#include "serve/format.h"

typedef enum call_shape {
    SHAPE_NONE,
    SHAPE_OBJECT,              /* {"name": N, "arguments": {...}}, alone or in a list */
    SHAPE_KEYED,               /* {"N": {...}}, alone or in a list */
    SHAPE_NAMED,               /* N, then the arguments as JSON */
    SHAPE_XML,                 /* N, then each argument between marks */
    SHAPE_PYTHON,              /* N(key=value, ...) with values as Python writes them */
    SHAPE_GEMMA                /* call:N{key:value, ...} with strings between quote tokens */
} call_shape;

enum {
    FORM_BARE = 1,             /* nothing before it: only at the start of the answer */
    FORM_BEGIN_OPTIONAL = 2,   /* NAMED, XML: `open` begins a call without `begin`, too */
    FORM_NEWLINES = 4,         /* XML: one newline after the key's mark and one before p_end are not the value's */
    FORM_NESTED = 8,           /* XML: values are elements again (MiniMax-M3) */
    FORM_LIST = 16,            /* OBJECT, KEYED, PYTHON: written as a list */
    FORM_ONE = 32,             /* this family writes one call an answer */
    FORM_REPR = 64,            /* XML: values other than strings may be Python's repr, False or {'a': 1} */
    FORM_PREFIX_ID = 128,      /* the call's id is "functions.NAME:INDEX" (Kimi K2) */
    FORM_CDATA = 256           /* XML: strings may stand in <![CDATA[...]]> */
};

typedef struct call_form {
    call_shape shape;
    unsigned flags;
    const char *begin, *end;   /* around all calls; NULL: nothing */
    const char *open;          /* NAMED, XML: before the name */
    const char *name_end;      /* after it; NULL: the name ends where no name can go on */
    const char *head_end;      /* what lies between name_end and this is attributes; NULL: nothing */
    const char *p_open, *p_key_end, *p_head_end, *p_end; /* XML; "%" in p_end is the key */
    const char *close;         /* after a call's arguments; NULL: nothing */
    const char *key_name, *key_args; /* OBJECT: as this family writes the keys */
    const char *attr;          /* XML: attribute of an argument: " string" (true or false), " type" (its name) */
    const char *quote;         /* GEMMA: around strings */
    const char *gap;           /* written between begin, calls and end; NULL: nothing */
} call_form;

enum {
    THINK_FIRST = 1,           /* the answer starts with thoughts, which nothing opens */
    THINK_ANYWHERE = 2,        /* its marks are tokens of their own: thoughts may follow text */
    THINK_CALLS = 4,           /* a call may end the thoughts */
    FORMAT_HARMONY = 8,        /* messages with channels (gpt-oss) */
    FORMAT_SPECIAL = 16,       /* marks are control tokens */
    FORMAT_MISTRAL_ID = 32     /* ids are 9 letters or digits */
};

#define FORMAT_FORMS 3
#define FORMAT_DROPS 5
#define FORMAT_MARKS 3

struct hy_chat_format {
    const char *name;
    const char *mark[FORMAT_MARKS];    /* all of these are in the template's source... */
    const char *no_mark;               /* ...and this is not */
    unsigned flags;
    const char *think_open, *think_close;
    const char *drop[FORMAT_DROPS];    /* marks around the answer's text, not shown */
    call_form form[FORMAT_FORMS];      /* the first is what the guide writes */
};

extern const hy_chat_format hy_format_rows[];  /* the last one is "plain" */
extern const uint32_t hy_format_n_row;

/* ---- JSON, byte by byte (format_json.c) ---------------------------------------------------------- */

#define JSON_DEPTH 256
typedef enum json_state { JSON_MORE, JSON_DONE, JSON_BAD } json_state;
/* Follows one JSON value. */
typedef struct json_scan {
    uint64_t object[JSON_DEPTH / 64];  /* bit: this level is an object */
    uint32_t depth;
    uint8_t at, hex;                   /* private: what may come next */
    const char *word;                  /* the rest of true, false, null */
} json_scan;
void json_scan_init(json_scan *j);
/* Reads s[0..n); *used: bytes that belong to the value (a number ends before the first byte that does not).
 * out, when not NULL, gets them with raw control characters inside strings escaped. final: no more comes. */
json_state json_scan_put(json_scan *j, const char *s, size_t n, bool final, size_t *used, hy_buf *out);
/* A value at s: JSON_DONE and its length; MORE when it is not whole. */
json_state json_skip(const char *s, size_t n, bool final, size_t *used);
/* A string literal at s: appends what it says. */
json_state json_string_at(const char *s, size_t n, hy_buf *out, size_t *used);
/* Appends s as the inside of a JSON string; bytes above 0x7f pass, so parts of characters may come apart. */
void json_escape(const char *s, size_t n, hy_buf *out);

/* ---- values (format_value.c) --------------------------------------------------------------------- */

enum {
    TYPE_STRING = 1, TYPE_NUMBER = 2, TYPE_INTEGER = 4, TYPE_BOOLEAN = 8, TYPE_NULL = 16, TYPE_ARRAY = 32,
    TYPE_OBJECT = 64, TYPE_ANY = 127
};
/* The types that a schema allows (through $ref, anyOf, enum, ...); root: where $ref points into. */
unsigned schema_types(const json_t *schema, const json_t *root);
/* $ref followed; never NULL unless schema is. */
const json_t *schema_deref(const json_t *schema, const json_t *root);
const json_t *schema_property(const json_t *schema, const json_t *root, const char *key, size_t n_key);
/* Text of an argument as a model wrote it between marks -> JSON of a type that is allowed. */
void value_to_json(const char *s, size_t n, unsigned types, hy_buf *out);
/* The same for elements within elements; mark stands before every tag (MiniMax-M3). */
void nested_to_json(const char *s, size_t n, const char *mark, const json_t *schema, const json_t *root, uint32_t depth,
                    hy_buf *out);
/* A literal at s as Python (quote NULL) or Gemma writes it -> JSON; *used as above. */
json_state literal_to_json(const char *s, size_t n, const char *quote, bool final, uint32_t depth, hy_buf *out,
                           size_t *used);

/* ---- the parser ---------------------------------------------------------------------------------- */

typedef enum parse_state {
    ST_TEXT, ST_HEAD, ST_ARGS_JSON, ST_ARGS_XML, ST_VALUE, ST_ARGS_LITERAL, ST_TAIL, ST_NEXT,
    ST_HEADER, ST_BODY, ST_CALL_BODY, ST_AFTER /* harmony */
} parse_state;

/* What a state did with the text. */
typedef enum step { STEP_MORE, STEP_AGAIN } step;

struct hy_chat_parser {
    const hy_chat_format *f;
    const json_t *tools;       /* NULL: no calls */
    uint64_t id_seed;
    hy_piece_fn *fn;           /* during a put */
    void *ctx;

    hy_buf in;                 /* undecided text is in.data[at .. in.len) */
    size_t at;
    size_t wait;               /* do nothing before so much is undecided */
    bool final;

    parse_state state;
    bool thinking;             /* text is thoughts */
    bool skip_space;           /* white space that comes next belongs to marks */
    bool blank;                /* nothing but white space was shown since the start or the end of thoughts */
    bool no_bare;              /* what stood at the start was no call */

    size_t head;               /* ST_HEAD: where the call begins in the undecided text; before it white space */
    const call_form *form;
    bool in_section, in_list;
    uint32_t n_call;
    const json_t *schema;      /* of the call's parameters, or NULL */
    json_scan scan;
    uint32_t n_arg;            /* arguments written */

    unsigned types;            /* of the argument that is being read */
    bool streamed, started, cdata; /* it goes out as it comes; its first byte was seen */
    size_t looked;             /* no p_end begins before this byte of the undecided text */
    const json_t *p_schema;
    hy_buf p_end;              /* of this argument */
    hy_buf key;
    hy_buf tmp;
};

/* parse.c */
const char *parser_text(const hy_chat_parser *p, size_t *n);
void parser_take(hy_chat_parser *p, size_t n);         /* forget n undecided bytes */
void parser_show(hy_chat_parser *p, size_t n);         /* n undecided bytes are content or thoughts */
void parser_args(hy_chat_parser *p, const char *s, size_t n);
void parser_call(hy_chat_parser *p, const char *name, const json_t *schema);
/* Where among the undecided a mark at offset i stands: 1 it does, 0 it does not, -1 more text decides. */
int mark_at(const char *s, size_t n, size_t i, const char *mark, bool final);
bool is_space(char c);
size_t skip_space(const char *s, size_t n, size_t i);

/* call.c: ST_HEAD to ST_NEXT */
step parser_stop_call(hy_chat_parser *p);              /* what follows is no part of a call */
step parser_wait(hy_chat_parser *p);                   /* STEP_MORE, and for long texts not for every byte */
step step_head(hy_chat_parser *p);
step step_args_json(hy_chat_parser *p);
step step_tail(hy_chat_parser *p);
step step_next(hy_chat_parser *p);
/* args.c */
step step_args_xml(hy_chat_parser *p);
step step_value(hy_chat_parser *p);
step step_args_literal(hy_chat_parser *p);
/* harmony.c */
void harmony_start(hy_chat_parser *p, const char *prompt);
step step_harmony(hy_chat_parser *p);

/* The declared tool of that name: its parameters' schema in *schema (NULL when it has none). The name as it was
 * declared, or NULL. */
const char *tool_find(const json_t *tools, const char *name, size_t n, const json_t **schema);

#endif
