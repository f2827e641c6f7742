/* What speculation keeps: finished answers, each tenant's for itself; a self-draft's weights beside the model. */
#include "engine_help.h"
#include "base/base.h"
#include <glob.h>
#include <sys/stat.h>

enum { N_PROMPT = 24 };

static char folder[64], model[96];

static void with_store(hy_options *o)
{
    o->speculate = "ngram";
    o->spec_store = 4096;
    o->spec_always = true;
    o->n_seq = 2;
}

/* A sampled answer: nothing in its own text tells how it goes on, a finished one does. */
static void ask_as(hy_engine *e, const char *tenant, answer *a)
{
    int32_t ids[N_PROMPT];
    hy_params p;
    for (int i = 0; i < N_PROMPT; i++) ids[i] = 10 + i * 17;
    hy_params_init(&p);
    p.tokens = ids;
    p.n_tokens = N_PROMPT;
    p.max_tokens = 60;
    p.seed = 77;
    p.temperature = 0.9;
    p.ignore_eos = true;
    p.tenant = tenant;
    finish(ask(e, &p), a);
}

static void tenants_share_no_answer(void **state)
{
    static const char *const others[] = { "b", "", "a\x1fx" };
    answer first, again, other;
    hy_engine *e = open_model(LLAMA3, with_store);
    ask_as(e, "a", &first);
    ask_as(e, "a", &again);
    same_answer("again", 0, &again, &first);
    print_message("first: %u of %u, again: %u of %u\n", first.usage.n_accepted, first.usage.n_drafted, again.usage.n_accepted,
                  again.usage.n_drafted);
    assert_true(again.usage.n_accepted > 40 && first.usage.n_accepted < 15);
    for (unsigned i = 0; i < HY_COUNT(others); i++) {
        ask_as(e, others[i], &other);
        same_answer("other", i, &other, &first);
        assert_int_equal(other.usage.n_drafted, first.usage.n_drafted);
        assert_int_equal(other.usage.n_accepted, first.usage.n_accepted);
    }
    hy_close(e);
}

static void drafts_for_itself(hy_options *o)
{
    o->speculate = "self";
    o->packed_cache = true;
    o->spec_always = true;
    o->n_seq = 2;
}

static size_t n_kept(char *name, size_t n)
{
    char pattern[160];
    glob_t g;
    snprintf(pattern, sizeof pattern, "%s*.self-*.packed", model);
    size_t found = glob(pattern, 0, NULL, &g) == 0 ? g.gl_pathc : 0;
    if (found) snprintf(name, n, "%s", g.gl_pathv[0]);
    globfree(&g);
    return found;
}

static void self_weights_are_kept(void **state)
{
    answer first, again;
    char kept[256];
    struct stat a, b;
    assert_int_equal(n_kept(kept, sizeof kept), 0);
    hy_engine *e = open_model(model, drafts_for_itself);
    ask_as(e, "a", &first);
    hy_close(e);
    assert_int_equal(n_kept(kept, sizeof kept), 1);
    assert_int_equal(stat(kept, &a), 0);
    e = open_model(model, drafts_for_itself);
    ask_as(e, "a", &again);
    hy_close(e);
    same_answer("kept", 0, &again, &first);
    assert_int_equal(again.usage.n_drafted, first.usage.n_drafted);
    assert_int_equal(again.usage.n_accepted, first.usage.n_accepted);
    assert_true(again.usage.n_accepted > 0);
    assert_int_equal(stat(kept, &b), 0); /* it was used, not written again */
    assert_true(a.st_ino == b.st_ino && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_mtim.tv_sec == b.st_mtim.tv_sec);
}

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hayate-keeps-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/model.gguf", folder);
    return symlink(LLAMA3, model);
}

static int remove_folder(void **state)
{
    char pattern[96];
    glob_t g;
    snprintf(pattern, sizeof pattern, "%s/*", folder);
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++) unlink(g.gl_pathv[i]);
    globfree(&g);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tenants_share_no_answer), cmocka_unit_test(self_weights_are_kept) };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
