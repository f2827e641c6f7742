/* Private to serve/: chat messages gathered from the parts of another API's turns (messages_in.c, responses_in.c). */
#ifndef HY_SERVE_TURNS_H
#define HY_SERVE_TURNS_H

#include "text/text.h"

typedef struct hy_turns {
    json_t *list;              /* the messages so far */
    const char *role;          /* of the turn that is being gathered, or NULL */
    hy_buf text, thoughts;     /* its parts */
    bool has_text;
    json_t *calls;             /* array, or NULL */
    json_t *names;             /* id of a call -> its tool */
    bool failed;               /* memory ran out */
} hy_turns;

bool hy_turns_open(hy_turns *t, const char *role); /* false: out of memory; close it all the same */
void hy_turns_close(hy_turns *t);                  /* frees what is held, but for list */
void hy_turns_add(hy_turns *t, json_t *take);      /* a whole message; NULL counts as memory that ran out */
json_t *hy_turns_text(hy_turns *t, hy_buf *b);     /* b's content as a JSON string; b is empty afterwards */
void hy_turns_flush(hy_turns *t);                  /* the turn becomes a message, if there is anything in it */

#endif
