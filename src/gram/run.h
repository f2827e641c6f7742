/* Private to gram/: a sequence's state, and the vocabulary's trie.
 *
 * A thread is a place in the network with a stack: a literal half read, or an automaton with its state. The
 * state of a sequence is a set of threads. Stacks are linked frames, each frame made once ("interned"), so
 * that equal stacks have equal numbers; frames nobody uses are swept when the pool runs low.
 *
 * After the last byte of a literal, and at the closing quote of a string, a thread is replaced by its
 * follow set: every thread that the network leads to without reading. An automaton over plain text may end
 * after any accepting state; its follow set is only entered when a byte asks for it. */
#ifndef HY_GRAM_RUN_H
#define HY_GRAM_RUN_H

#include "gram/gram_impl.h"

enum {
    HY_RUN_THREADS = 1024,     /* of one state */
    HY_RUN_FRAMES = 8192,
    HY_RUN_DEPTH = 1000,       /* frames on one stack */
    HY_RUN_FOLLOW = 16384,     /* threads of all follow sets kept */
    HY_RUN_FOLLOWS = 1024,     /* follow sets kept */
    HY_RUN_SEEN = 4096,        /* places visited to build one */
    HY_RUN_WALK = 8192,        /* threads along one path of the trie */
    HY_RUN_HELD = 4096,        /* threads of earlier states, for going back */
    HY_RUN_MASKS = 8,          /* masks kept */
    HY_RUN_MASK_KEY = 24,      /* threads of a state whose mask is kept */
    HY_TOKEN_MAX = 512         /* bytes; longer tokens are never allowed */
};

typedef struct hy_thread {
    uint32_t pc, frame;
    uint32_t q;                /* literal: bytes read; automaton: state */
    uint32_t d;                /* automaton: what is read of a character (term.c); 0: nothing */
    uint32_t count;            /* characters read, where they are counted, as far as it matters */
} hy_thread;

typedef struct hy_frame {
    uint32_t pc;               /* where to go on; a counted loop: its node */
    uint32_t count;            /* of a counted loop */
    uint32_t parent, depth, chain;
    bool used;                 /* by the sweep */
} hy_frame;

typedef struct hy_follow {     /* frame HY_NONE: none */
    uint32_t pc, frame, first, n;
    bool may_end;
    uint64_t bytes[4];         /* what may come first */
} hy_follow;

typedef struct hy_set { uint32_t n; bool may_end; hy_thread *t; uint32_t cap; } hy_set;
typedef struct hy_held { uint32_t first, n; bool may_end; } hy_held;
typedef struct hy_kept_mask {
    uint64_t used;             /* when */
    uint32_t n;                /* threads of its state; 0: none */
    bool may_end;
    hy_thread key[HY_RUN_MASK_KEY];
    uint32_t *bits;
} hy_kept_mask;

struct hy_gram_run {
    hy_gram *g;
    const hy_net *net;
    const hy_gram_vocab *v;    /* NULL: only matching */
    hy_frame *frame;
    uint32_t n_frame, free_frame, n_free; /* pool: fresh up to n_frame, then a list */
    uint32_t *frame_slot;
    hy_follow *follow;
    uint32_t n_follow, n_follow_threads;
    hy_thread *follow_thread;
    struct { uint64_t key; uint32_t stamp, fresh; } *seen;
    uint32_t stamp;
    struct { uint32_t pc, frame, fresh; } *todo;
    hy_set cur, next, spare;
    hy_thread *walk;           /* [HY_RUN_WALK] */
    hy_thread *held_thread;
    hy_held held[HY_GRAM_HISTORY + 1];
    uint32_t held_at;          /* next free in held_thread */
    uint64_t n_accepted, held_first; /* tokens; oldest one kept */
    bool may_end, done, ended, overflow;
    hy_kept_mask mask[HY_RUN_MASKS];
    uint64_t clock, bytes;
    uint32_t *mask_bits;
};

/* term.c: one byte into an automaton */
typedef enum hy_term_step { HY_TS_NO, HY_TS_IN, HY_TS_OUT } hy_term_step; /* OUT: the string is closed */
hy_term_step hy_term_byte(const hy_term *m, hy_thread *t, uint8_t b);
bool hy_term_may_end(const hy_term *m, const hy_thread *t); /* plain text: it may end here */

/* run.c */
const hy_follow *hy_run_follow(hy_gram_run *r, uint32_t pc, uint32_t frame); /* NULL: a bound is reached */
/* out: what is left of the threads after byte b; where a bound was reached some are missing */
void hy_run_step(hy_gram_run *r, const hy_thread *t, uint32_t n, uint8_t b, hy_set *out);
void hy_run_tidy(hy_gram_run *r);                     /* between tokens: makes room */
bool hy_run_set_may_end(hy_gram_run *r, const hy_thread *t, uint32_t n);

/* ---- vocab.c --------------------------------------------------------------------------------------- */

/* Kinds of characters: what a token is made of. Bits of a mask; CAT_BROKEN: bytes that are no whole
 * characters, and control tokens. */
enum { HY_CAT_OTHER = 29, HY_CAT_WIDE = 30, HY_CAT_BROKEN = 31, HY_N_CAT = 32 };
uint32_t hy_cat_of(uint8_t ascii);                    /* its number */

enum { HY_LONG = 16 };         /* characters; token sets by length are kept up to here */

/* Nodes in order of breadth: the children of n are child[n] .. child[n + 1] - 1, the tokens that end at n
 * are token[tok[n]] .. token[tok[n + 1] - 1]. Node 0: nothing read. */
struct hy_gram_vocab {
    uint32_t n_vocab, n_node, n_words, n_end, max_runes;
    uint8_t *byte;             /* [n_node] the byte that leads here */
    uint32_t *child, *tok;     /* [n_node + 1] */
    uint32_t *kinds;           /* [n_node] kinds of characters of all tokens at and below the node */
    int32_t *token, *end;
    uint32_t *with;            /* [HY_N_CAT, n_words] tokens that have a character of the kind */
    uint32_t *longer;          /* [HY_LONG, n_words] tokens of more than k characters */
    uint32_t *known;           /* [n_words] tokens in the trie */
    int32_t *long_token;       /* those of HY_LONG characters and more, shortest first */
    uint8_t *long_runes;
    uint32_t *long_kinds;
    uint32_t n_long;
    uint32_t *text_at;         /* [n_vocab + 1] */
    char *text;
    uint64_t bytes;            /* held */
};

#endif
