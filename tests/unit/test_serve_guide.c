/* Guides of tool choices, both ways: texts drawn at random from a family's grammar come apart into calls with
 * declared names and arguments that their schemas accept. */
#include "format_help.h"
#include "gram/gram.h"
#include "serve/format_impl.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"city\": {\"type\": \"string\", \"maxLength\": 12}, \"unit\": {\"enum\": [\"c\", \"f\"]},"
    " \"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 7}}, \"required\": [\"city\"]}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"now\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"put-it\", \"strict\": true, \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"ok\": {\"type\": \"boolean\"}, \"note\": {\"type\": [\"string\", \"null\"]}, \"at\": {\"$ref\": \"#/$defs/p\"},"
    " \"tags\": {\"type\": \"array\", \"items\": {\"type\": \"string\", \"maxLength\": 3}, \"maxItems\": 2}, \"n\": {\"type\": \"number\", \"minimum\": -9, \"maximum\": 99}},"
    " \"required\": [\"ok\", \"at\"], \"additionalProperties\": false,"
    " \"$defs\": {\"p\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"integer\"}}, \"required\": [\"x\"],"
    " \"additionalProperties\": false}}}}}]";

static const char *const control[] = {
    "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>", "<|open|>", "<|close|>", "<|sep|>", "[TOOL_CALLS]", "[ARGS]",
    "[THINK]", "[/THINK]", "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>", "<|START_ACTION|>",
    "<|END_ACTION|>", "<|START_RESPONSE|>", "<|tool_call_start|>", "<|tool_call_end|>", "<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>",
    "<tool_call>", "</tool_call>", "<arg_key>", "<|tool_call>", "<tool_call|>", "<|\"|>", "]<]minimax[>[", "<|tools_prefix|>",
};
#define DRAWS 20
#define N_CONTROL HY_COUNT(control)
#define END ((int32_t)(256 + N_CONTROL))

static hy_status piece(void *ctx, int32_t id, hy_buf *out, uint32_t *flags, hy_err *err)
{
    (void)ctx;
    (void)err;
    if (id < 256) {
        hy_buf_char(out, (char)id);
    } else if (id < END) {
        hy_buf_str(out, control[id - 256]);
        *flags = HY_GRAM_TOK_CONTROL;
    } else {
        hy_buf_str(out, "</s>");
        *flags = HY_GRAM_TOK_CONTROL;
    }
    return HY_OK;
}

typedef struct walk {
    hy_gram_run *run;
    hy_buf text;
    uint64_t seed, n;
} walk;

static uint64_t draw(walk *w)
{
    return hy_rng_at(w->seed, 1, w->n++);
}

static bool step_byte(walk *w, int32_t id)
{
    if (!hy_gram_allows(w->run, id) || !hy_gram_accept(w->run, id)) return false;
    if (id < 256) hy_buf_char(&w->text, (char)id);
    else hy_buf_str(&w->text, control[id - 256]);
    return true;
}

/* Writes the whole of s, or nothing. */
static bool step_string(walk *w, const char *s)
{
    uint64_t mark = hy_gram_mark(w->run);
    size_t len = w->text.len;
    for (size_t i = 0; s && s[i]; i++)
        if (!step_byte(w, (unsigned char)s[i])) {
            assert_true(hy_gram_rollback(w->run, mark));
            w->text.len = len;
            if (w->text.data) w->text.data[len] = 0;
            return false;
        }
    return s && *s;
}

/* The marks of a family, which chance would not spell. */
static size_t marks_of(const hy_chat_format *f, const char **out)
{
    size_t n = 0;
    const call_form *m = &f->form[0];
    const char *all[] = { m->begin, m->end, m->open, m->name_end, m->head_end, m->p_open, m->p_key_end, m->p_head_end, m->p_end, m->close,
                          m->quote, f->think_close, "</parameter>", "]<]minimax[>[</city>", "]<]minimax[>[</note>", "<|end|>", "\"}", "}" };
    for (size_t i = 0; i < HY_COUNT(all); i++)
        if (all[i] && *all[i] && strlen(all[i]) < 60) out[n++] = all[i];
    return n;
}

/* One random text; false when it did not come to an end. */
static bool wander(walk *w, const hy_chat_format *f)
{
    const char *mark[32];
    size_t n_mark = marks_of(f, mark);
    uint32_t bits[HY_GRAM_WORDS(END + 1)];
    for (int k = 0; k < 1200; k++) {
        if (hy_gram_may_end(w->run) && (hy_gram_done(w->run) || draw(w) % 4 == 0)) return true;
        if (draw(w) % 4 == 0 && step_string(w, mark[draw(w) % n_mark])) continue;
        hy_gram_mask(w->run, bits);
        int32_t allowed[256 + N_CONTROL + 1], n = 0, plain[256], n_plain = 0;
        for (int32_t id = 0; id < END; id++)
            if (bits[id / 32] >> (id % 32) & 1) {
                allowed[n++] = id;
                if (id < 256 && strchr("\"}])<,: ae1", id) && id) plain[n_plain++] = id;
            }
        if (n == 0) return hy_gram_may_end(w->run);
        uint64_t r = draw(w);
        assert_true(step_byte(w, n_plain && r % 3 ? plain[draw(w) % (uint64_t)n_plain] : allowed[draw(w) % (uint64_t)n]));
    }
    return false;
}

static const json_t *params(const json_t *tools, const char *name)
{
    const json_t *schema = NULL;
    assert_non_null(tool_find(tools, name, strlen(name), &schema));
    return schema;
}

static void check_args(const json_t *tools, const char *name, const char *args, const char *text)
{
    static const char none[] = "{\"type\": \"object\"}";
    const json_t *schema = params(tools, name);
    char *own = schema ? json_dumps(schema, 0) : NULL;
    hy_gram_source src = { .kind = HY_GRAM_JSON_SCHEMA, .text = own ? own : none, .n = strlen(own ? own : none) };
    hy_gram *g = NULL;
    hy_err err;
    bool ok = false;
    if (hy_gram_compile(&g, &src, &err) != HY_OK) fail_msg("%s", err.msg);
    /* members in the order of the schema, as a grammar of JSON wants them: through a sorted copy */
    json_t *v = json_loads(args, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(v)) fail_msg("%s: arguments %s of\n%s", name, args, text);
    json_t *ordered = json_object(), *m;
    const char *key;
    json_object_foreach(json_object_get(schema, "properties"), key, m)
        if (json_object_get(v, key)) json_object_set(ordered, key, json_object_get(v, key));
    assert_int_equal(json_object_size(ordered), json_object_size(v));
    char *again = json_dumps(ordered, JSON_COMPACT);
    if (hy_gram_match(g, again, strlen(again), &ok, &err) != HY_OK || !ok) fail_msg("%s does not accept %s of\n%s", name, args, text);
    free(again);
    free(own);
    json_decref(v);
    json_decref(ordered);
    hy_gram_unref(g);
}

/* Draws n texts; returns how many calls they held. */
static uint32_t check_choice(const hy_chat_format *f, const json_t *tools, const hy_gram_vocab *v, hy_tool_choice choice, bool parallel,
                             const char *prompt, uint64_t seed)
{
    hy_buf text = { 0 }, schemas = { 0 };
    hy_guide guide;
    hy_err err;
    uint32_t n_call = 0, n_done = 0;
    const char *only = choice == HY_TOOLS_NAMED ? "put-it" : NULL;
    if (hy_chat_guide(f, tools, choice, only, parallel, prompt, &text, &schemas, &guide, &err) != HY_OK)
        fail_msg("%s: %s", f->name, err.msg);
    hy_gram_source src = { .kind = HY_GRAM_GBNF, .text = guide.text, .n = guide.n_text, .schemas_json = guide.schemas,
                           .n_schemas = guide.n_schemas };
    hy_gram *g;
    if (hy_gram_compile(&g, &src, &err) != HY_OK) fail_msg("%s: %s\n%s", f->name, err.msg, guide.text);
    for (uint64_t k = 0; k < DRAWS; k++) {
        walk w = { .seed = seed * 1000 + k };
        assert_int_equal(hy_gram_run_open(&w.run, g, v, &err), HY_OK);
        if (wander(&w, f)) {
            said s;
            read_in_parts(&s, f, tools, prompt, text_of(&w.text), w.text.len, NULL, 0);
            n_done++;
            if ((choice != HY_TOOLS_AUTO && s.n_call == 0) || (!parallel && s.n_call > 1))
                fail_msg("%s: %u calls in\n%s", f->name, s.n_call, text_of(&w.text));
            for (uint32_t i = 0; i < s.n_call; i++) {
                if (only) assert_string_equal(s.name[i], only);
                check_args(tools, s.name[i], text_of(&s.args[i]), text_of(&w.text));
            }
            if (choice != HY_TOOLS_AUTO && s.content.len)
                fail_msg("%s: text \"%s\" beside the calls of\n%s", f->name, text_of(&s.content), text_of(&w.text));
            n_call += s.n_call;
            said_free(&s);
        }
        hy_gram_run_close(w.run);
        hy_buf_free(&w.text);
    }
    if (n_done < DRAWS / 5) fail_msg("%s: only %u of %d texts came to an end\n%s", f->name, n_done, DRAWS, guide.text);
    hy_gram_unref(g);
    hy_buf_free(&text);
    hy_buf_free(&schemas);
    return n_call;
}

static void test_round_trip(void **state)
{
    (void)state;
    hy_err err;
    json_t *tools = json_loads(tools_text, 0, NULL);
    assert_non_null(tools);
    int32_t end = END;
    hy_gram_vocab_source src = { .n_vocab = END + 1, .piece = piece, .end = &end, .n_end = 1 };
    hy_gram_vocab *v;
    assert_int_equal(hy_gram_vocab_open(&v, &src, &err), HY_OK);
    for (uint32_t i = 0; i < hy_format_n_row; i++) {
        const hy_chat_format *f = &hy_format_rows[i];
        const char *prompt = f->flags & FORMAT_HARMONY ? "<|start|>assistant" : i % 2 && f->think_open ? f->think_open : "";
        if (getenv("V")) print_message("%s\n", f->name);
        assert_true(check_choice(f, tools, v, HY_TOOLS_REQUIRED, true, prompt, i) > 0);
        assert_true(check_choice(f, tools, v, HY_TOOLS_NAMED, false, prompt, 100 + i) > 0);
        check_choice(f, tools, v, HY_TOOLS_REQUIRED, false, prompt, 200 + i);
        check_choice(f, tools, v, HY_TOOLS_AUTO, true, prompt, 300 + i);
    }
    hy_gram_vocab_close(v);
    json_decref(tools);
}

/* The form of an answer, after thoughts that the prompt has begun or the model may begin. */
static void test_answer(void **state)
{
    (void)state;
    static const struct { const char *source, *prompt, *text; bool matches, tools; } c[] = {
        { "<tool_call></think>", "", "{\"a\":1}", true, false },
        { "<tool_call></think>", "", "<think>Hm.</think>{\"a\":1}", true, false },
        { "<tool_call></think>", "<think>\n", "Hm.\n</think>\n\n{\"a\":1}", true, false },
        { "<tool_call></think>", "<think>\n", "{\"a\":1}", false, false },
        { "<tool_call></think>", "<think>\n\n</think>\n", "{\"a\":1}", true, false },
        { "<tool_call></think>", "<think>\n\n</think>\n", "<think>Hm.</think>{\"a\":1}", false, false },
        { "<|START_ACTION|>", "", "<|START_RESPONSE|>{\"a\":1}<|END_RESPONSE|>", true, false },
        { "<|channel|><|message|>", "<|start|>assistant", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{\"a\":1}", true, false },
        { "plain", "", "{\"a\":1}", true, false },
        { "plain", "", "x{\"a\":1}", false, false },
        { "<tool_call>", "", "{\"a\":1}", true, true },
        { "<tool_call>", "", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", true, true },
        { "<tool_call>", "", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", false, false },
        { "<|channel|><|message|>", "<|start|>assistant", "<|channel|>commentary to=functions.now<|message|>{}", true, true },
    };
    static const char schema[] = "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}}";
    const hy_guide in = { .kind = HY_GUIDE_JSON_SCHEMA, .text = schema, .n_text = strlen(schema) };
    json_t *tools = json_loads(tools_text, 0, NULL);
    for (size_t i = 0; i < HY_COUNT(c); i++) {
        hy_buf text = { 0 }, schemas = { 0 };
        hy_guide out;
        hy_err err;
        hy_gram *g;
        bool ok = false;
        assert_int_equal(hy_chat_guide_answer(hy_chat_format_of(c[i].source), &in, c[i].tools ? tools : NULL, true, c[i].prompt, &text, &schemas, &out, &err), HY_OK);
        hy_gram_source src = { .kind = out.kind == HY_GUIDE_GBNF ? HY_GRAM_GBNF : HY_GRAM_JSON_SCHEMA, .text = out.text, .n = out.n_text,
                               .schemas_json = out.schemas, .n_schemas = out.n_schemas };
        if (hy_gram_compile(&g, &src, &err) != HY_OK) fail_msg("%s", err.msg);
        assert_int_equal(hy_gram_match(g, c[i].text, strlen(c[i].text), &ok, &err), HY_OK);
        if (ok != c[i].matches) fail_msg("%s: %s\n%s", c[i].source, c[i].text, out.text);
        hy_gram_unref(g);
        hy_buf_free(&text);
        hy_buf_free(&schemas);
    }
    json_decref(tools);
}

static void test_refused(void **state)
{
    (void)state;
    hy_err err;
    hy_guide g;
    hy_buf a = { 0 }, b = { 0 };
    json_t *tools = json_loads(tools_text, 0, NULL);
    const hy_chat_format *hermes = hy_chat_format_of("<tool_call>");
    assert_int_equal(hy_chat_guide(hermes, tools, HY_TOOLS_NAMED, "gone", true, "", &a, &b, &g, &err), HY_E_ARG);
    assert_non_null(strstr(err.msg, "gone"));
    assert_int_equal(hy_chat_guide(hermes, tools, HY_TOOLS_NONE, NULL, true, "", &a, &b, &g, &err), HY_OK);
    assert_int_equal(g.kind, HY_GUIDE_NONE);
    hy_buf_free(&a);
    hy_buf_free(&b);
    json_decref(tools);
}

/* Each allocation fails once: an error, no crash, no leak. */
static void test_memory(void **state)
{
    (void)state;
    json_t *tools = json_loads(tools_text, 0, NULL);
    static const char *const source[] = { "<function=<parameter=</think>", "<|tool_list_start|>", "<|channel|><|message|>" };
    for (size_t i = 0; i < HY_COUNT(source); i++) {
        bool whole = false;
        for (int64_t k = 0; k < 400 && !whole; k++) {
            hy_buf text = { 0 }, schemas = { 0 };
            hy_guide g;
            hy_err err;
            hy_alloc_fail_after(k);
            hy_status st = hy_chat_guide(hy_chat_format_of(source[i]), tools, HY_TOOLS_AUTO, NULL, true, "", &text, &schemas, &g, &err);
            hy_alloc_fail_after(-1);
            assert_true(st == HY_OK || st == HY_E_MEMORY);
            whole = st == HY_OK;
            hy_buf_free(&text);
            hy_buf_free(&schemas);
        }
        assert_true(whole);
    }
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_round_trip), cmocka_unit_test(test_answer),
                                        cmocka_unit_test(test_refused), cmocka_unit_test(test_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
