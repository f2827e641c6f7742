/* A byte trie in one array: the children of a node are neighbours, sorted by label. */
#include "tok/tok_impl.h"
#include <stdlib.h>
#include <string.h>

static int by_string(const void *pa, const void *pb)
{
    const tok_entry *a = pa, *b = pb;
    uint32_t n = HY_MIN(a->str.n, b->str.n);
    int c = n ? memcmp(a->str.p, b->str.p, n) : 0;
    if (c) return c;
    if (a->str.n != b->str.n) return a->str.n < b->str.n ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* A node still to be given its children: entries from .. to - 1 share its path of `depth` bytes. */
typedef struct range {
    size_t from, to;
    uint32_t depth;
} range;

static bool add_children(tok_trie *trie, uint32_t *cap, range **todo, const tok_entry *e,
                         uint32_t at)
{
    range r = (*todo)[at];
    size_t i = r.from;
    while (i < r.to && e[i].str.n == r.depth) {
        if (trie->node[at].id < 0) trie->node[at].id = e[i].id;
        i++;
    }
    trie->node[at].child = trie->n_node;
    while (i < r.to) {
        uint8_t label = (uint8_t)e[i].str.p[r.depth];
        size_t end = i + 1;
        while (end < r.to && (uint8_t)e[end].str.p[r.depth] == label) end++;
        if (trie->n_node == *cap) {
            if (*cap > UINT32_MAX / 2) return false;
            tok_node *node = hy_realloc_array(trie->node, (size_t)*cap * 2, sizeof *node);
            if (!node) return false;
            trie->node = node;
            range *more = hy_realloc_array(*todo, (size_t)*cap * 2, sizeof *more);
            if (!more) return false;
            *todo = more;
            *cap *= 2;
        }
        trie->node[trie->n_node] = (tok_node){.label = label, .id = -1};
        (*todo)[trie->n_node++] = (range){i, end, r.depth + 1};
        trie->node[at].n_child++;
        i = end;
    }
    return true;
}

hy_status tok_trie_build(tok_trie *trie, tok_entry *entry, size_t n, hy_err *err)
{
    *trie = (tok_trie){0};
    qsort(entry, n, sizeof *entry, by_string);
    size_t skip = 0;
    while (skip < n && !entry[skip].str.n) skip++;
    if (skip == n) return HY_OK;
    uint32_t cap = 1024;
    trie->node = hy_alloc_array(cap, sizeof *trie->node);
    range *todo = hy_alloc_array(cap, sizeof *todo);
    bool good = trie->node && todo;
    if (good) {
        trie->node[0] = (tok_node){.id = -1};
        todo[0] = (range){skip, n, 0};
        trie->n_node = 1;
    }
    for (uint32_t at = 0; good && at < trie->n_node; at++)
        good = add_children(trie, &cap, &todo, entry, at);
    hy_free(todo);
    if (good) return HY_OK;
    tok_trie_free(trie);
    return hy_fail_memory(err, "token trie", (uint64_t)cap * sizeof(tok_node));
}

uint32_t tok_trie_step(const tok_trie *trie, uint32_t node, uint8_t label)
{
    const tok_node *p = &trie->node[node];
    uint32_t low = p->child, high = p->child + p->n_child;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (trie->node[mid].label == label) return mid;
        if (trie->node[mid].label < label)
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

int32_t tok_trie_longest(const tok_trie *trie, const char *s, size_t n, size_t *bytes)
{
    int32_t found = -1;
    uint32_t node = 0;
    if (!trie->node) return -1;
    for (size_t i = 0; i < n; i++) {
        node = tok_trie_step(trie, node, (uint8_t)s[i]);
        if (!node) break;
        if (trie->node[node].id >= 0) {
            found = trie->node[node].id;
            *bytes = i + 1;
        }
    }
    return found;
}

void tok_trie_free(tok_trie *trie)
{
    hy_free(trie->node);
    *trie = (tok_trie){0};
}
