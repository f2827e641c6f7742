/* Families are complete: what a recipe uses has a tensor, a name in each kind of file, and a value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "arch/arch.h"
#include "arch/io.h"
#include <string.h>

static const hy_tensor_spec *spec_of(const hy_family *f, hy_role role)
{
    for (uint32_t i = 0; i < f->n_tensor; i++)
        if (f->tensors[i].role == role) return &f->tensors[i];
    return NULL;
}

/* All recipe rows of a family in order: head, block, tail. */
static const hy_recipe *row_at(const hy_family *f, uint32_t i)
{
    if (i < f->n_head_rows) return &f->head[i];
    i -= f->n_head_rows;
    if (i < f->n_block_rows) return &f->block[i];
    i -= f->n_block_rows;
    return i < f->n_tail_rows ? &f->tail[i] : NULL;
}

static bool recipe_uses(const hy_family *f, hy_role role)
{
    const hy_recipe *r;
    for (uint32_t i = 0; (r = row_at(f, i)); i++) {
        if (r->w == role) return true;
        if (role == HY_W_E_GATE && r->w == HY_W_E_UP) return true; /* moe_up implies it */
    }
    return false;
}

static void roles_have_tensors(void **state)
{
    (void)state;
    const hy_family *f;
    for (uint32_t n = 0; (f = hy_family_at(n)); n++) {
        const hy_recipe *r;
        for (uint32_t i = 0; (r = row_at(f, i)); i++)
            if (r->w != HY_W_NONE && !spec_of(f, r->w))
                fail_msg("%s: %s is used and has no tensor", f->name, hy_role_name(r->w));
        for (uint32_t i = 0; i < f->n_tensor; i++) {
            const hy_tensor_spec *s = &f->tensors[i];
            if (!recipe_uses(f, s->role)) fail_msg("%s: %s is not used", f->name, hy_role_name(s->role));
            for (uint32_t j = i + 1; j < f->n_tensor; j++)
                if (f->tensors[j].role == s->role)
                    fail_msg("%s: %s stands twice", f->name, hy_role_name(s->role));
        }
    }
}

/* A weight that may be absent is used in rows that may be left out. */
static void optional_weights_are_conditional(void **state)
{
    (void)state;
    const hy_family *f;
    for (uint32_t n = 0; (f = hy_family_at(n)); n++) {
        const hy_recipe *r;
        for (uint32_t i = 0; (r = row_at(f, i)); i++) {
            const hy_tensor_spec *s = spec_of(f, r->w);
            if (!s || s->need == HY_NEEDED || r->w == HY_W_OUTPUT) continue; /* tied */
            if (!(r->when & HY_IF_W)) fail_msg("%s: %s may be absent", f->name, hy_role_name(r->w));
        }
    }
}

/* Every slot is written before it is read. */
static void slots_are_written_first(void **state)
{
    (void)state;
    const hy_family *f;
    for (uint32_t n = 0; (f = hy_family_at(n)); n++) {
        bool written[HY_S_COUNT] = { false };
        written[HY_S_NONE] = true;
        const hy_recipe *r;
        for (uint32_t i = 0; (r = row_at(f, i)); i++) {
            bool in_place = r->op == HY_OP_ROPE || r->op == HY_OP_ACT || r->op == HY_OP_SCALE ||
                            r->op == HY_OP_SOFTCAP || r->op == HY_OP_POS_ADD;
            if (!written[r->a] || !written[r->b] || (in_place && !written[r->out]))
                fail_msg("%s: row %u (%s) reads a slot nobody wrote", f->name, i, hy_op_name(r->op));
            if (r->op != HY_OP_KV_PUT) assert_int_not_equal(r->out, HY_S_NONE);
            written[r->out] = true;
        }
        assert_true(written[HY_S_L]);
    }
}

static bool named(const hy_name *rows, uint32_t n, hy_role role)
{
    for (uint32_t i = 0; i < n; i++)
        if (rows[i].role == role) return true;
    return false;
}

static void safetensors_names_are_complete(void **state)
{
    (void)state;
    const hy_family *f;
    for (uint32_t n = 0; (f = hy_family_at(n)); n++) {
        const hy_family_io *io = f->io;
        bool moe_only_gguf = strcmp(f->name, "llama") == 0; /* safetensors say mixtral */
        if (!f->hf_type) continue;
        for (uint32_t i = 0; i < f->n_tensor; i++) {
            hy_role role = f->tensors[i].role;
            bool expert = role == HY_W_ROUTER || role == HY_W_E_GATE || role == HY_W_E_UP ||
                          role == HY_W_E_DOWN;
            if (f->tensors[i].need == HY_OPTIONAL || (expert && moe_only_gguf)) continue;
            bool ok = named(io->hf, io->n_hf, role) || named(io->hf_base, io->n_hf_base, role);
            bool shares_llama = spec_of(f, HY_W_GATE) != NULL;
            if (!ok && !(expert && shares_llama && !named(io->hf, io->n_hf, HY_W_ROUTER)))
                fail_msg("%s: %s has no name in safetensors", f->name, hy_role_name(role));
        }
    }
}

static void families_are_found(void **state)
{
    (void)state;
    static const struct { const char *gguf, *hf, *name; } want[] = {
        { "llama", "llama", "llama" }, { "qwen2moe", "qwen2_moe", "qwen2_moe" },
        { "gemma3", "gemma3", "gemma3" }, { "gemma3", "gemma3_text", "gemma3" },
        { "phi2", "phi", "phi2" }, { "gptneox", "gpt_neox", "gptneox" },
        { "command-r", "cohere", "cohere" }, { "gpt-oss", "gpt_oss", "gpt_oss" },
    };
    for (size_t i = 0; i < HY_COUNT(want); i++) {
        const hy_family *f = NULL;
        hy_err err;
        assert_int_equal(hy_family_by_gguf(&f, want[i].gguf, &err), HY_OK);
        assert_string_equal(f->name, want[i].name);
        assert_int_equal(hy_family_by_hf(&f, want[i].hf, &err), HY_OK);
        assert_string_equal(f->name, want[i].name);
    }
}

static void unknown_family_is_named(void **state)
{
    (void)state;
    const hy_family *f = NULL;
    static const char *const names[] = { "llam", "llama,", "", "gpt5", "gemma3_text,gemma3" };
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        hy_err err = { 0 };
        assert_int_equal(hy_family_by_gguf(&f, names[i], &err), HY_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, names[i]));
        assert_int_equal(hy_family_by_hf(&f, names[i], &err), HY_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, names[i]));
        assert_non_null(strstr(err.msg, "qwen3"));
        assert_non_null(strstr(err.msg, "gpt_oss"));
    }
}

static void sizes_by_meaning(void **state)
{
    (void)state;
    hy_layer_params layer[2] = {
        { .n_head = 8, .n_kv_head = 2, .n_ff = 100, .rope = 0 },
        { .n_head = 4, .n_kv_head = 1, .n_ff = 50, .rope = -1 },
    };
    hy_hparams hp = { .n_layer = 2, .n_embd = 64, .n_vocab = 1000, .n_ctx_train = 512, .n_head = 8,
                      .n_kv_head = 2, .d_k = 16, .d_v = 24, .n_ff = 100, .n_expert = 6,
                      .n_ff_expert = 33, .n_ff_shared = 44, .layer = layer };
    hp.rope[0].n_rot = 12;
    static const struct { hy_dim d; uint64_t first, second; } want[] = {
        { HY_D_EMBD, 64, 64 }, { HY_D_VOCAB, 1000, 1000 }, { HY_D_CTX, 512, 512 },
        { HY_D_Q, 128, 64 }, { HY_D_K, 32, 16 }, { HY_D_V, 48, 24 }, { HY_D_O, 192, 96 },
        { HY_D_HEAD_K, 16, 16 }, { HY_D_FF, 100, 50 }, { HY_D_EXPERT, 6, 6 },
        { HY_D_FF_EXPERT, 33, 33 }, { HY_D_FF_SHARED, 44, 44 }, { HY_D_N_HEAD, 8, 4 },
        { HY_D_N_KV_HEAD, 2, 1 }, { HY_D_ONE, 1, 1 }, { HY_D_ROT_HALF, 6, 6 },
    };
    for (size_t i = 0; i < HY_COUNT(want); i++) {
        assert_int_equal(hy_dim_size(&hp, 0, want[i].d), want[i].first);
        assert_int_equal(hy_dim_size(&hp, 1, want[i].d), want[i].second);
    }
}

static void names_of_things(void **state)
{
    (void)state;
    assert_string_equal(hy_role_name(HY_W_TOK_EMBD), "token_embd");
    assert_string_equal(hy_role_name(HY_W_S_DOWN), "blk.%u.ffn_down_shexp");
    assert_string_equal(hy_op_name(HY_OP_EMBED), "embed");
    assert_string_equal(hy_op_name(HY_OP_ROPE_KV), "head_norm+rope+kv_put");
    assert_string_equal(hy_slot_name(HY_S_X), "X");
    assert_string_equal(hy_slot_name(HY_S_L), "L");
    assert_true(hy_role_is_vector(HY_W_Q_NORM));
    assert_false(hy_role_is_vector(HY_W_Q));
    assert_false(hy_role_is_vector(HY_W_POS_EMBD));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_have_tensors),
        cmocka_unit_test(optional_weights_are_conditional),
        cmocka_unit_test(slots_are_written_first),
        cmocka_unit_test(safetensors_names_are_complete),
        cmocka_unit_test(families_are_found),
        cmocka_unit_test(unknown_family_is_named),
        cmocka_unit_test(sizes_by_meaning),
        cmocka_unit_test(names_of_things),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
