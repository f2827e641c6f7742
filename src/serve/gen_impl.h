/* Private to gen*.c: generation from inside. */
#ifndef HY_SERVE_GEN_IMPL_H
#define HY_SERVE_GEN_IMPL_H

#include "serve/gen.h"

typedef struct hy_gen_prompt_ids {
    int32_t *ids;              /* from the engine: hy_memory_free */
    size_t n;
    char *text;                /* chat: the template's text; hy_memory_free */
} hy_gen_prompt_ids;

struct hy_gen {
    hy_exchange *x;
    hy_engine *e;
    hy_ask ask;
    const hy_gen_sink *sink;
    void *user;
    int64_t created;
    const hy_chat_format *format; /* chat; else NULL */
    hy_buf guide_text, guide_schemas; /* of the family's form */
    hy_buf tenant;             /* with the salt */
    hy_params p;               /* all but the prompt */
    const char **stop;
    hy_bias *bias;
    hy_gen_prompt_ids *prompt;
    uint32_t n_prompt, n_submitted;
    hy_answer *answer;
    uint32_t n_answer, n_open; /* open: submitted and not done */
    uint32_t n_done;
    bool over;                 /* answered, or failed: late events are dropped */
};

/* Private to an answer. */
struct hy_gen_feed {
    hy_gen *g;
    hy_answer *a;
    hy_chat_parser *parser;    /* chat */
    hy_utf8_stream utf8;       /* where tokens begin in the text */
    size_t n_made;             /* bytes of text that all tokens so far make */
    size_t n_text;             /* bytes of text that came */
    size_t cut;                /* text ends here: a token of stop_token_ids began; SIZE_MAX: none */
    int32_t cut_id;
    size_t n_counted;          /* tokens up to and with the one that cut */
    bool spoke;                /* content or a call came: what follows is no thought */
};

/* messages.c: variables of the template. args_as_text: arguments of calls stay text, for templates that join them
 * to strings. *has_calls: there are any. */
hy_status hy_messages_vars(const hy_ask *a, const char *source, bool args_as_text, bool *has_calls, json_t **out,
                           hy_err *err);

/* ask.c: the guide of the fields, of which one may be given. *param names it. */
hy_status hy_ask_guide_fields(hy_ask *a, const char **param, hy_err *err);

/* gen_prompt.c. *param names the field on failure. */
hy_status hy_gen_prompts(hy_gen *g, const char **param, hy_err *err);
hy_status hy_gen_params(hy_gen *g, const char **param, hy_err *err);
/* After a refusal: a guide of the tools in which schemas that are not strict keep names, types and enums only. */
bool hy_gen_relax(hy_gen *g);

/* gen_feed.c */
hy_status hy_feed_open(hy_gen *g, hy_answer *a, hy_err *err);
hy_status hy_feed_event(hy_gen *g, hy_answer *a, const hy_event *ev, hy_err *err);
hy_status hy_feed_end(hy_gen *g, hy_answer *a, const hy_event *ev, hy_err *err);
void hy_answer_free(hy_answer *a);

#endif
