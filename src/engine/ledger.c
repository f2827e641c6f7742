/* Memory by purpose, as it lies in the process now. Large regions are asked for page by page (a pool that has
 * not been touched costs nothing yet); what the process holds beside them is told apart by the system. */
#include "engine.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes of [p, p + n) that are in memory. */
static uint64_t resident(const void *p, uint64_t n)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), sum = 0;
    uintptr_t at = (uintptr_t)p / page * page, end = (uintptr_t)p + n;
    unsigned char seen[4096];
    while (p && at < end) {
        uint64_t n_page = HY_MIN((end - at + page - 1) / page, sizeof seen);
        if (mincore((void *)at, n_page * page, seen) != 0) return sum;
        for (uint64_t i = 0; i < n_page; i++) sum += (seen[i] & 1) * page;
        at += n_page * page;
    }
    return sum;
}

static uint64_t of(hy_region r)
{
    return resident(r.p, r.n_bytes);
}

/* Resident pages of the process, and those of them that are files'. */
static bool statm(uint64_t *rss, uint64_t *shared)
{
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return false;
    uint64_t size, a, b;
    int n = fscanf(f, "%" SCNu64 " %" SCNu64 " %" SCNu64, &size, &a, &b);
    fclose(f);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *rss = a * page;
    *shared = b * page;
    return n == 3;
}

static void put(hy_stats *out, const char *name, uint64_t bytes)
{
    if (out->n_ledger == HY_STATS_LEDGER) return;
    out->ledger[out->n_ledger].name = name;
    out->ledger[out->n_ledger++].bytes = bytes;
}

static uint64_t kv_resident(const hy_core *c)
{
    uint64_t sum = 0, n;
    for (uint32_t g = 0; g < hy_kv_n_group(c->kv); g++) {
        const void *p = hy_kv_region(c->kv, g, &n);
        sum += resident(p, n);
    }
    return sum;
}

static uint64_t sampler_resident(const hy_sampler *s)
{
    uint64_t sum = 0, n;
    const void *p;
    for (uint32_t i = 0; (p = hy_sampler_array(s, i, &n)); i++) sum += resident(p, n);
    return sum;
}

/* Weights that are a file's pages: the system counts them as files. */
static uint64_t mapped_resident(const hy_engine *e)
{
    const hy_drafts *d = e->drafts;
    const hy_model *const all[] = { e->core->model, d && d->own ? d->own->model : NULL, d ? d->self : NULL };
    uint64_t sum = 0;
    for (uint32_t i = 0; i < HY_COUNT(all); i++)
        if (all[i] && hy_model_is_mapped(all[i])) sum += of(hy_model_region(all[i]));
    return sum;
}

static uint64_t drafts_resident(const hy_drafts *d)
{
    uint64_t n = hy_spec_store_bytes(d->store);
    if (d->own) n += of(hy_model_region(d->own->model)) + kv_resident(d->own) + of(hy_plan_region(d->own->plan));
    if (d->self) n += of(hy_model_region(d->self)) + of(hy_plan_region(d->self_plan));
    return n;
}

uint64_t hy_ledger(const hy_engine *e, hy_stats *out)
{
    const hy_core *c = e->core;
    uint64_t rss = 0, shared = 0, n_vocab = c->model->hp.n_vocab, sum = 0;
    uint64_t logits = (uint64_t)hy_engine_out_rows(e) * n_vocab * sizeof(float);
    put(out, "weights", of(hy_model_region(c->model)));
    put(out, "kv_pool", kv_resident(c));
    put(out, "kv_tables", hy_kv_table_bytes(c->kv) + hy_kv_group_of(c->kv, 0)->n_page);
    put(out, "plan", of(hy_plan_region(c->plan)));
    put(out, "logits", resident(e->logits, logits));
    put(out, "requests", HY_GET(e->c_request_bytes));
    put(out, "sampler", sampler_resident(e->sampler));
    put(out, "tokenizer", c->tok_bytes);
    put(out, "guides", HY_GET(e->c_guide_bytes));
    if (e->drafts) put(out, "drafts", drafts_resident(e->drafts));
    for (uint32_t i = 0; i < out->n_ledger; i++) sum += out->ledger[i].bytes;
    bool known = statm(&rss, &shared);
    uint64_t mapped = mapped_resident(e);
    rss -= HY_MIN(rss, mapped);
    shared -= HY_MIN(shared, mapped);
    sum -= HY_MIN(sum, mapped);
    put(out, "files", shared); /* the program, its libraries, what is still mapped of the model */
    put(out, "other", known && rss > shared + sum ? rss - shared - sum : 0); /* threads, the heap's slack */
    return sum + mapped + shared + out->ledger[out->n_ledger - 1].bytes;
}
