/* The state of one sequence: threads, frames, follow sets, going back. */
#include "gram/run.h"

/* ---- frames ---------------------------------------------------------------------------------- */

static uint32_t frame_hash(uint32_t pc, uint32_t count, uint32_t parent)
{
    uint64_t h =
        ((uint64_t)pc << 32 | parent) * 0x9E3779B97F4A7C15ull ^ count * 0xC2B2AE3D27D4EB4Full;
    return (uint32_t)((h ^ h >> 29) * 0xBF58476D1CE4E5B9ull >> 40) & (2 * HY_RUN_FRAMES - 1);
}

/* The frame's number, or HY_NONE where the stack or the pool is full. */
static uint32_t frame_of(hy_gram_run *r, uint32_t pc, uint32_t count, uint32_t parent)
{
    uint32_t h = frame_hash(pc, count, parent);
    for (uint32_t f = r->frame_slot[h]; f; f = r->frame[f].chain) {
        const hy_frame *x = &r->frame[f];
        if (x->pc == pc && x->count == count && x->parent == parent) return f;
    }
    uint32_t f, depth = r->frame[parent].depth + 1;
    if (depth > HY_RUN_DEPTH) return HY_NONE;
    if (r->n_free) {
        f = r->free_frame;
        r->free_frame = r->frame[f].chain;
        r->n_free--;
    } else if (r->n_frame < HY_RUN_FRAMES) {
        f = r->n_frame++;
    } else {
        return HY_NONE;
    }
    r->frame[f] = (hy_frame){pc, count, parent, depth, r->frame_slot[h], true};
    r->frame_slot[h] = f;
    return f;
}

static void mark(hy_gram_run *r, const hy_thread *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t f = t[i].frame; f && !r->frame[f].used; f = r->frame[f].parent)
            r->frame[f].used = true;
}

static void forget(hy_gram_run *r) /* what holds frames that may be swept */
{
    for (uint32_t i = 0; i < HY_RUN_FOLLOWS; i++) r->follow[i].frame = HY_NONE;
    r->n_follow = r->n_follow_threads = 0;
}

static void sweep(hy_gram_run *r)
{
    for (uint32_t f = 1; f < r->n_frame; f++) r->frame[f].used = false;
    mark(r, r->cur.t, r->cur.n);
    for (uint64_t a = r->held_first; a < r->n_accepted; a++) {
        const hy_held *h = &r->held[a % HY_COUNT(r->held)];
        mark(r, r->held_thread + h->first, h->n);
    }
    forget(r);
    for (uint32_t i = 0; i < HY_RUN_MASKS; i++) r->mask[i].n = 0;
    memset(r->frame_slot, 0, 2 * HY_RUN_FRAMES * sizeof *r->frame_slot);
    r->n_free = 0;
    for (uint32_t f = 1; f < r->n_frame; f++) {
        hy_frame *x = &r->frame[f];
        if (!x->used) {
            x->chain = r->free_frame;
            r->free_frame = f;
            r->n_free++;
            continue;
        }
        uint32_t h = frame_hash(x->pc, x->count, x->parent);
        x->chain = r->frame_slot[h];
        r->frame_slot[h] = f;
    }
}

void hy_run_tidy(hy_gram_run *r)
{
    if (r->n_frame - r->n_free > HY_RUN_FRAMES * 3 / 4)
        sweep(r);
    else if (r->n_follow > HY_RUN_FOLLOWS / 2 || r->n_follow_threads > HY_RUN_FOLLOW / 2)
        forget(r);
}

/* ---- follow sets ----------------------------------------------------------------------------- */

typedef struct builder {
    hy_gram_run *r;
    hy_follow *f;
    uint32_t n_todo;
} builder;

/* First time at this place in this closure? */
static bool visit(hy_gram_run *r, uint32_t pc, uint32_t frame, uint32_t fresh)
{
    uint64_t key = (uint64_t)pc << 32 | frame;
    uint32_t h =
        (uint32_t)((key ^ (uint64_t)fresh << 20) * 0x9E3779B97F4A7C15ull >> 40) & (HY_RUN_SEEN - 1);
    for (uint32_t i = 0; i < HY_RUN_SEEN / 2; i++, h = (h + 1) & (HY_RUN_SEEN - 1)) {
        if (r->seen[h].stamp != r->stamp) {
            r->seen[h].stamp = r->stamp;
            r->seen[h].key = key;
            r->seen[h].fresh = fresh;
            return true;
        }
        if (r->seen[h].key == key && r->seen[h].fresh == fresh) return false;
    }
    r->overflow = true;
    return false;
}

/* fresh: how many of the frames on top were pushed since the last byte. */
static void push(builder *b, uint32_t pc, uint32_t frame, uint32_t fresh)
{
    hy_gram_run *r = b->r;
    if (frame == HY_NONE) {
        r->overflow = true;
        return;
    }
    if (!r->net->node[pc].live || !visit(r, pc, frame, fresh)) return;
    if (b->n_todo == HY_RUN_SEEN) {
        r->overflow = true;
        return;
    }
    r->todo[b->n_todo].pc = pc;
    r->todo[b->n_todo].frame = frame;
    r->todo[b->n_todo++].fresh = fresh;
}

static void rest_at(builder *b, uint32_t pc, uint32_t frame)
{
    hy_gram_run *r = b->r;
    const hy_node *n = &r->net->node[pc];
    if (!visit(r, pc, frame, HY_NONE)) return;
    if (b->f->n == HY_RUN_THREADS || r->n_follow_threads + b->f->n == HY_RUN_FOLLOW) {
        r->overflow = true;
        return;
    }
    r->follow_thread[b->f->first + b->f->n++] = (hy_thread){.pc = pc, .frame = frame};
    if (n->kind == N_LIT) {
        uint8_t c = (uint8_t)r->net->bytes[n->a];
        b->f->bytes[c >> 6] |= 1ull << (c & 63);
    } else {
        for (int i = 0; i < 4; i++) b->f->bytes[i] |= r->net->term[n->a].first[i];
    }
}

static void loop_end(builder *b, const hy_node *n, uint32_t frame, uint32_t fresh)
{
    hy_gram_run *r = b->r;
    const hy_node *rep = &r->net->node[n->a];
    const hy_frame f = r->frame[frame];
    if (fresh || f.pc != n->a) return; /* a turn that reads nothing is no turn */
    uint32_t count = f.count + 1;
    if (rep->max == HY_NONE) count = HY_MIN(count, rep->min);
    if (count >= rep->min) push(b, rep->next, f.parent, 0);
    if (count < rep->max) push(b, rep->a, frame_of(r, n->a, count, f.parent), 1);
}

static void visit_node(builder *b, uint32_t pc, uint32_t frame, uint32_t fresh)
{
    hy_gram_run *r = b->r;
    const hy_net *net = r->net;
    const hy_node *n = &net->node[pc];
    switch (n->kind) {
    case N_LIT:
    case N_TERM:
        rest_at(b, pc, frame);
        break;
    case N_SPLIT:
        for (uint32_t i = n->b; i-- > 0;) push(b, net->edge[n->a + i], frame, fresh);
        break;
    case N_CALL:
        if (net->node[n->next].kind == N_RET)
            push(b, net->rule[n->a], frame, fresh); /* nothing to come back to */
        else
            push(b, net->rule[n->a], frame_of(r, n->next, 0, frame), fresh + 1);
        break;
    case N_REP:
        if (n->min == 0) push(b, n->next, frame, fresh);
        if (net->node[n->a].live) push(b, n->a, frame_of(r, pc, 0, frame), fresh + 1);
        break;
    case N_REPEND:
        loop_end(b, n, frame, fresh);
        break;
    case N_RET:
        if (frame == 0)
            b->f->may_end = true;
        else
            push(b, r->frame[frame].pc, r->frame[frame].parent, fresh ? fresh - 1 : 0);
        break;
    default:
        break;
    }
}

const hy_follow *hy_run_follow(hy_gram_run *r, uint32_t pc, uint32_t frame)
{
    uint64_t key = ((uint64_t)pc << 32 | frame) * 0x9E3779B97F4A7C15ull;
    uint32_t h = (uint32_t)(key >> 40) & (HY_RUN_FOLLOWS - 1);
    for (; r->follow[h].frame != HY_NONE; h = (h + 1) & (HY_RUN_FOLLOWS - 1))
        if (r->follow[h].pc == pc && r->follow[h].frame == frame) return &r->follow[h];
    if (r->n_follow >= HY_RUN_FOLLOWS * 3 / 4) {
        r->overflow = true;
        return NULL;
    }
    hy_follow *f = &r->follow[h];
    *f = (hy_follow){.pc = pc, .frame = frame, .first = r->n_follow_threads};
    r->n_follow++;
    if (++r->stamp == 0) {
        memset(r->seen, 0, HY_RUN_SEEN * sizeof *r->seen);
        r->stamp = 1;
    }
    builder b = {r, f, 0};
    push(&b, pc, frame, 0);
    while (b.n_todo) {
        b.n_todo--;
        visit_node(&b, r->todo[b.n_todo].pc, r->todo[b.n_todo].frame, r->todo[b.n_todo].fresh);
    }
    r->n_follow_threads += f->n;
    return f;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void put(hy_gram_run *r, hy_set *out, const hy_thread *t)
{
    for (uint32_t i = 0; i < out->n; i++)
        if (memcmp(&out->t[i], t, sizeof *t) == 0) return;
    if (out->n == out->cap)
        r->overflow = true;
    else
        out->t[out->n++] = *t;
}

static void put_follow(hy_gram_run *r, hy_set *out, uint32_t pc, uint32_t frame)
{
    const hy_follow *f = hy_run_follow(r, pc, frame);
    if (!f) return;
    out->may_end |= f->may_end;
    for (uint32_t i = 0; i < f->n; i++) put(r, out, &r->follow_thread[f->first + i]);
}

/* A thread that reads byte b itself. */
static void consume(hy_gram_run *r, const hy_thread *t, uint8_t b, hy_set *out)
{
    const hy_node *n = &r->net->node[t->pc];
    hy_thread to = *t;
    if (n->kind == N_LIT) {
        if ((uint8_t)r->net->bytes[n->a + t->q] != b) return;
        if (++to.q < n->b)
            put(r, out, &to);
        else
            put_follow(r, out, n->next, t->frame);
        return;
    }
    switch (hy_term_byte(&r->net->term[n->a], &to, b)) {
    case HY_TS_IN:
        put(r, out, &to);
        break;
    case HY_TS_OUT:
        put_follow(r, out, n->next, t->frame);
        break;
    default:
        break;
    }
}

void hy_run_step(hy_gram_run *r, const hy_thread *t, uint32_t n, uint8_t b, hy_set *out)
{
    out->n = 0;
    out->may_end = false;
    for (uint32_t i = 0; i < n; i++) {
        const hy_node *x = &r->net->node[t[i].pc];
        if (x->kind == N_TERM && hy_term_may_end(&r->net->term[x->a], &t[i])) {
            const hy_follow *f = hy_run_follow(r, x->next, t[i].frame);
            if (f && f->bytes[b >> 6] >> (b & 63) & 1)
                for (uint32_t k = 0; k < f->n; k++)
                    consume(r, &r->follow_thread[f->first + k], b, out);
        }
        consume(r, &t[i], b, out);
    }
}

bool hy_run_set_may_end(hy_gram_run *r, const hy_thread *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const hy_node *x = &r->net->node[t[i].pc];
        if (x->kind != N_TERM || !hy_term_may_end(&r->net->term[x->a], &t[i])) continue;
        const hy_follow *f = hy_run_follow(r, x->next, t[i].frame);
        if (f && f->may_end) return true;
    }
    return false;
}

static bool can_read(hy_gram_run *r, const hy_thread *t)
{
    const hy_node *x = &r->net->node[t->pc];
    if (x->kind == N_LIT) return true;
    const hy_term *m = &r->net->term[x->a];
    if (m->json || t->d) return true;
    if (m->dfa->len_max[t->q] > 0 && !(m->counted && t->count >= m->max)) return true;
    const hy_follow *f = hy_run_follow(r, x->next, t->frame);
    return f && f->n > 0;
}

/* What can be told of a new current state. */
static void settle(hy_gram_run *r)
{
    r->may_end = r->cur.may_end || hy_run_set_may_end(r, r->cur.t, r->cur.n);
    r->done = r->may_end;
    for (uint32_t i = 0; r->done && i < r->cur.n; i++) r->done = !can_read(r, &r->cur.t[i]);
}

/* ---- opening and the public steps ------------------------------------------------------------ */

static bool take(void *pp, size_t n, size_t size, uint64_t *bytes)
{
    void **p = pp;
    *p = hy_calloc(n, size);
    *bytes += n * size;
    return *p != NULL;
}

static bool allocate(hy_gram_run *r)
{
    uint64_t bytes = sizeof *r;
    bool ok = take(&r->frame, HY_RUN_FRAMES, sizeof *r->frame, &bytes) &&
              take(&r->frame_slot, 2 * HY_RUN_FRAMES, sizeof *r->frame_slot, &bytes) &&
              take(&r->follow, HY_RUN_FOLLOWS, sizeof *r->follow, &bytes) &&
              take(&r->follow_thread, HY_RUN_FOLLOW + HY_RUN_THREADS, sizeof(hy_thread), &bytes) &&
              take(&r->seen, HY_RUN_SEEN, sizeof *r->seen, &bytes) &&
              take(&r->todo, HY_RUN_SEEN, sizeof *r->todo, &bytes) &&
              take(&r->cur.t, HY_RUN_THREADS, sizeof(hy_thread), &bytes) &&
              take(&r->next.t, HY_RUN_THREADS, sizeof(hy_thread), &bytes) &&
              take(&r->spare.t, HY_RUN_THREADS, sizeof(hy_thread), &bytes);
    if (ok && r->v)
        ok = take(&r->walk, HY_RUN_WALK, sizeof(hy_thread), &bytes) &&
             take(&r->held_thread, HY_RUN_HELD, sizeof(hy_thread), &bytes) &&
             take(&r->mask_bits, (size_t)HY_RUN_MASKS * r->v->n_words, sizeof(uint32_t), &bytes);
    r->bytes = bytes;
    return ok;
}

hy_status hy_gram_run_open(hy_gram_run **out, hy_gram *g, const hy_gram_vocab *v, hy_err *err)
{
    hy_gram_run *r = HY_NEW(hy_gram_run);
    if (!r) return hy_fail_memory(err, "grammar state", sizeof *r);
    r->g = hy_gram_ref(g);
    r->net = &g->net;
    r->v = v;
    if (!allocate(r)) {
        hy_gram_run_close(r);
        return hy_fail_memory(err, "grammar state", 1 << 20);
    }
    r->n_frame = 1; /* 0: the bottom of every stack */
    r->cur.cap = r->next.cap = r->spare.cap = HY_RUN_THREADS;
    for (uint32_t i = 0; v && i < HY_RUN_MASKS; i++)
        r->mask[i].bits = r->mask_bits + (size_t)i * v->n_words;
    forget(r);
    put_follow(r, &r->cur, r->net->rule[0], 0);
    settle(r);
    *out = r;
    return HY_OK;
}

void hy_gram_run_close(hy_gram_run *r)
{
    if (!r) return;
    void *p[] = {r->frame,   r->frame_slot, r->follow,      r->follow_thread,
                 r->seen,    r->todo,       r->cur.t,       r->next.t,
                 r->spare.t, r->walk,       r->held_thread, r->mask_bits};
    for (size_t i = 0; i < HY_COUNT(p); i++) hy_free(p[i]);
    hy_gram_unref(r->g);
    hy_free(r);
}

uint64_t hy_gram_run_bytes(const hy_gram_run *r) { return r->bytes; }

/* The text's bytes from the current state; the result is in r->next. False: they do not fit. */
static bool advance(hy_gram_run *r, const char *s, size_t n)
{
    const hy_thread *t = r->cur.t;
    uint32_t n_t = r->cur.n;
    for (size_t i = 0; i < n; i++) {
        hy_run_step(r, t, n_t, (uint8_t)s[i], &r->spare);
        if (!r->spare.n && !r->spare.may_end) return false;
        hy_set swap = r->next;
        r->next = r->spare;
        r->spare = swap;
        t = r->next.t;
        n_t = r->next.n;
    }
    return n > 0;
}

/* Keeps the current state for going back; drops the oldest where there is no room. */
static void hold(hy_gram_run *r)
{
    uint32_t n = r->cur.n;
    if (n > HY_RUN_HELD / 2) { /* so large that it is not kept: nothing before it either */
        r->held_first = r->n_accepted + 1;
        return;
    }
    if (r->n_accepted - r->held_first == HY_GRAM_HISTORY) r->held_first++;
    uint32_t at = r->held_at + n > HY_RUN_HELD ? 0 : r->held_at;
    while (r->held_first < r->n_accepted) { /* older ones in the way */
        const hy_held *o = &r->held[r->held_first % HY_COUNT(r->held)];
        bool behind = at == 0 && r->held_at != 0 && o->first >= r->held_at;
        if (!behind && (o->first >= at + n || o->first + o->n <= at)) break;
        r->held_first++;
    }
    memcpy(r->held_thread + at, r->cur.t, n * sizeof *r->cur.t);
    r->held[r->n_accepted % HY_COUNT(r->held)] = (hy_held){at, n, r->cur.may_end};
    r->held_at = at + n;
}

static bool is_end(const hy_gram_vocab *v, int32_t id)
{
    for (uint32_t i = 0; i < v->n_end; i++)
        if (v->end[i] == id) return true;
    return false;
}

static bool try_token(hy_gram_run *r, int32_t id)
{
    const hy_gram_vocab *v = r->v;
    if (r->ended || id < 0 || (uint32_t)id >= v->n_vocab) return false;
    hy_run_tidy(r);
    uint32_t at = v->text_at[id];
    return advance(r, v->text + at, v->text_at[id + 1] - at);
}

bool hy_gram_allows(hy_gram_run *r, int32_t id)
{
    if (!r->ended && r->may_end && is_end(r->v, id)) return true;
    return try_token(r, id);
}

bool hy_gram_accept(hy_gram_run *r, int32_t id)
{
    bool end = !r->ended && r->may_end && is_end(r->v, id);
    if (!end && !try_token(r, id)) return false;
    hold(r);
    r->n_accepted++;
    if (end) {
        r->ended = true;
        return true;
    }
    hy_set swap = r->cur;
    r->cur = r->next;
    r->next = swap;
    settle(r);
    return true;
}

bool hy_gram_may_end(const hy_gram_run *r) { return r->may_end; }

bool hy_gram_done(const hy_gram_run *r) { return r->ended || r->done; }

uint64_t hy_gram_mark(const hy_gram_run *r) { return r->n_accepted; }

bool hy_gram_rollback(hy_gram_run *r, uint64_t mark)
{
    if (mark == r->n_accepted) return true;
    if (mark > r->n_accepted || mark < r->held_first) return false;
    const hy_held *h = &r->held[mark % HY_COUNT(r->held)];
    memcpy(r->cur.t, r->held_thread + h->first, h->n * sizeof *r->cur.t);
    r->cur.n = h->n;
    r->cur.may_end = h->may_end;
    r->ended = false;
    r->n_accepted = mark;
    r->held_at = h->first;
    settle(r);
    return true;
}

static void set_bytes(hy_gram_run *r, const hy_thread *t, uint64_t bytes[4])
{
    const hy_node *x = &r->net->node[t->pc];
    if (x->kind == N_LIT) {
        uint8_t c = (uint8_t)r->net->bytes[x->a + t->q];
        bytes[c >> 6] |= 1ull << (c & 63);
        return;
    }
    const hy_term *m = &r->net->term[x->a];
    for (uint32_t b = 0; b < 256; b++) {
        hy_thread to = *t;
        if (hy_term_byte(m, &to, (uint8_t)b) != HY_TS_NO) bytes[b >> 6] |= 1ull << (b & 63);
    }
    if (!hy_term_may_end(m, t)) return;
    const hy_follow *f = hy_run_follow(r, x->next, t->frame);
    for (int i = 0; f && i < 4; i++) bytes[i] |= f->bytes[i];
}

size_t hy_gram_forced(hy_gram_run *r, char *out, size_t cap)
{
    size_t n = 0;
    hy_run_tidy(r);
    if (r->ended || r->may_end) return 0;
    const hy_set *s = &r->cur;
    for (bool end = false; n < cap && !end; n++) {
        uint64_t bytes[4] = {0};
        for (uint32_t i = 0; i < s->n; i++) set_bytes(r, &s->t[i], bytes);
        uint32_t b = 0, many = 0;
        for (uint32_t i = 0; i < 4; i++) {
            many += (uint32_t)__builtin_popcountll(bytes[i]);
            if (bytes[i]) b = 64 * i + (uint32_t)__builtin_ctzll(bytes[i]);
        }
        if (many != 1) break;
        out[n] = (char)b;
        hy_run_step(r, s->t, s->n, (uint8_t)b, &r->spare);
        hy_set swap = r->next;
        r->next = r->spare;
        r->spare = swap;
        s = &r->next;
        end = s->may_end || hy_run_set_may_end(r, s->t, s->n);
    }
    return n;
}

hy_status hy_gram_match(hy_gram *g, const char *text, size_t n, bool *matches, hy_err *err)
{
    hy_gram_run *r;
    HY_TRY(hy_gram_run_open(&r, g, NULL, err));
    bool ok = true, may_end = r->may_end;
    for (size_t i = 0; ok && i < n; i++) {
        hy_run_tidy(r);
        ok = advance(r, text + i, 1);
        hy_set swap = r->cur;
        r->cur = r->next;
        r->next = swap;
        may_end = ok && (r->cur.may_end || hy_run_set_may_end(r, r->cur.t, r->cur.n));
    }
    *matches = ok && may_end;
    bool lost = r->overflow && !*matches;
    hy_gram_run_close(r);
    if (lost)
        return hy_fail(err, HY_E_LIMIT,
                       "the grammar is too ambiguous or the text too deep at this place");
    return HY_OK;
}
