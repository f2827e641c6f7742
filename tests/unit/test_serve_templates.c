/* The parser against the models' own templates: a turn of the assistant as a template writes it in a history is
 * what the model was trained to write, and must come apart into what the history said. */
#include "format_help.h"
#include <dirent.h>

static int failures;
#define WRONG(...) (print_error(__VA_ARGS__), failures++)

#define NOON 1768480496        /* 2026-01-15 12:34:56, as the expected texts */

/* What a generation prompt may end with and a history not have: thoughts begun. */
static const char *const begun[] = {
    "<think>\n</think>", "<think>\n\n</think>\n\n", "<think>\n\n</think>\n", "<think></think>", "<think>\n", "<think>", "</think>",
    "<|START_THINKING|><|END_THINKING|>", "<|START_THINKING|>", "<|open|>think<|sep|>", "<|open|>response<|sep|>",
    "Here are my reasoning steps:\n",
};
/* What ends a turn; the tokens among them never come as text. */
static const char *const ends[] = {
    "<|im_end|>", "</s>", "<|eot_id|>", "<|eom_id|>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>", "[e~[",
    "<seed:eos>", "<sep>", "<|end|>", "<end_of_sentence>", "<SPECIAL_12>", "</assistant>", "<|assistant_end|>", "\n",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|><|END_THINKING|>",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<｜Assistant｜>", "<|message_sep|>",
};

static bool strip_one(char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    if (n < k || strcmp(s + n - k, tail)) return false;
    s[n - k] = 0;
    return true;
}

static void strip_ends(char *s)
{
    for (size_t i = 0; i < HY_COUNT(ends);) i = strip_one(s, ends[i]) ? 0 : i + 1;
}

static char *render(const hy_template *t, const json_t *row, size_t n_msg, bool gen)
{
    json_t *vars = json_object();
    json_t *messages = json_array(), *all = json_object_get(row, "messages");
    for (size_t i = 0; i < n_msg; i++) {
        /* templates know the thoughts by either name */
        json_t *m = json_copy(json_array_get(all, i));
        json_t *thoughts = json_object_get(m, "reasoning_content");
        if (thoughts) json_object_set(m, "thinking", thoughts);
        json_array_append_new(messages, m);
    }
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(row, "kwargs"), key, v) json_object_set(vars, key, v);
    json_object_set_new(vars, "messages", messages);
    json_object_set(vars, "tools", json_object_get(row, "tools"));
    json_object_set(vars, "bos_token", json_object_get(row, "bos_token"));
    json_object_set(vars, "eos_token", json_object_get(row, "eos_token"));
    json_object_set_new(vars, "documents", json_null());
    json_object_set_new(vars, "add_generation_prompt", json_boolean(gen));
    hy_buf out = { 0 };
    hy_err err;
    hy_status st = hy_template_render(t, vars, NOON, NULL, &out, NULL, &err);
    json_decref(vars);
    if (st != HY_OK) hy_buf_reset(&out);
    return st == HY_OK ? out.data : (hy_buf_free(&out), NULL);
}

static void trim(hy_buf *b)
{
    while (b->len && strchr(" \n", b->data[b->len - 1])) b->data[--b->len] = 0;
    size_t k = b->len ? strspn(b->data, " \n") : 0;
    if (k) memmove(b->data, b->data + k, b->len - k + 1), b->len -= k;
}

/* MiniMax-M3 leaves members that are null out. */
static json_t *without_nulls(const json_t *v)
{
    if (json_is_array(v)) {
        json_t *out = json_array(), *e;
        size_t i;
        json_array_foreach((json_t *)v, i, e) json_array_append_new(out, without_nulls(e));
        return out;
    }
    if (!json_is_object(v)) return json_deep_copy(v);
    json_t *out = json_object(), *e;
    const char *key;
    json_object_foreach((json_t *)v, key, e)
        if (!json_is_null(e)) json_object_set_new(out, key, without_nulls(e));
    return out;
}

static bool same_args(const char *text, const json_t *want, bool no_nulls)
{
    json_t *got = json_loads(text, 0, NULL), *bare = no_nulls ? without_nulls(want) : json_deep_copy(want);
    bool same = got && json_equal(got, bare);
    json_decref(got);
    json_decref(bare);
    return same;
}

static void check_turn(const char *file, const hy_chat_format *f, const json_t *row, const json_t *turn,
                       const char *prompt, const char *text, int *n_calls, int *n_thoughts)
{
    const char *id = json_string_value(json_object_get(row, "id"));
    const json_t *calls = json_object_get(turn, "tool_calls"), *c;
    const char *thoughts = json_string_value(json_object_get(turn, "reasoning_content"));
    const char *content = json_string_value(json_object_get(turn, "content"));
    said got;
    size_t i;
    read_in_parts(&got, f, json_object_get(row, "tools"), prompt, text, strlen(text), NULL, 0);
    trim(&got.content);
    trim(&got.reasoning);
    json_array_foreach(calls, i, c) {
        const json_t *fn = json_object_get(c, "function");
        if (!strstr(text, json_string_value(json_object_get(fn, "name")))) continue; /* not rendered */
        if (i >= got.n_call || strcmp(got.name[i], json_string_value(json_object_get(fn, "name"))) ||
            !same_args(text_of(&got.args[i]), json_object_get(fn, "arguments"),
                       !strcmp(hy_chat_format_name(f), "minimax-m3")))
            WRONG("%s %s (%s): call %zu of\n%s\n came as %s\n", file, id, hy_chat_format_name(f), i, text,
                     text_of(&got.all));
        ++*n_calls;
    }
    if (thoughts && strstr(text, thoughts)) {
        if (strcmp(thoughts, text_of(&got.reasoning))) 
            WRONG("%s %s: thoughts of\n%s\n came as %s\n", file, id, text, text_of(&got.all));
        ++*n_thoughts;
    }
    bool apriel = !strcmp(hy_chat_format_name(f), "apriel"); /* its histories hold no thoughts, its answers always do */
    if (content && !apriel && strstr(text, content) && strcmp(content, text_of(&got.content)))
        WRONG("%s %s: text of\n%s\n came as %s\n", file, id, text, text_of(&got.all));
    said_free(&got);
    check_cuts(f, json_object_get(row, "tools"), prompt, text);
}

/* Some templates write a history that no model writes: the end of a turn within one, or thoughts left open. */
static bool two_turns(const char *text)
{
    return strstr(text, "<｜Assistant｜>") || strstr(text, "<SPECIAL_12>") ||
           (strstr(text, "<think>") && !strstr(text, "</think>"));
}

static void check_row(const char *file, const hy_template *t, const hy_chat_format *f, const json_t *row, int *n_calls,
                      int *n_thoughts)
{
    const json_t *messages = json_object_get(row, "messages");
    for (size_t k = 1; k < json_array_size(messages); k++) {
        const json_t *turn = json_array_get(messages, k);
        const json_t *role = json_object_get(turn, "role");
        if (!json_is_string(role) || strcmp(json_string_value(role), "assistant")) continue;
        const json_t *calls = json_object_get(turn, "tool_calls");
        if (calls ? !json_array_size(json_object_get(row, "tools")) : !json_object_get(turn, "reasoning_content"))
            continue;
        /* arguments as text: the server gives templates objects */
        if (json_is_string(json_object_get(json_object_get(json_array_get(calls, 0), "function"), "arguments"))) continue;
        char *prompt = render(t, row, k, true), *full = render(t, row, k + 1, false);
        if (prompt && full) {
            for (size_t i = 0; i < HY_COUNT(begun); i++)
                if (strip_one(prompt, begun[i])) break;
            if (strncmp(prompt, full, strlen(prompt)) == 0) {
                char *text = full + strlen(prompt);
                strip_ends(text);
                if (two_turns(text)) check_cuts(f, json_object_get(row, "tools"), prompt, text);
                else check_turn(file, f, row, turn, prompt, text, n_calls, n_thoughts);
            }
        }
        free(prompt);
        free(full);
    }
}

/* Calls and thoughts that must have been seen; where a template shows none, "-". */
static const struct { const char *file, *format; int calls, thoughts; } want[] = {
    { "Apertus-8B-Instruct", "apertus", 1, 0 },
    { "Apriel-1.6-15b-Thinker-fixed", "apriel", 1, 1 },
    { "ByteDance-Seed-OSS", "seed-oss", 1, 1 },
    { "Cohere2MoE", "cohere", 1, 1 },
    { "CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere", 1, 1 },
    { "GLM-4.7-Flash", "glm", 1, 1 },
    { "GigaChat3-10B-A1.8B", "gigachat", 1, 0 },
    { "HuggingFaceTB-SmolLM3-3B", "think", 0, 0 },
    { "Kimi-K2-Instruct", "kimi-k2", 0, 0 },
    { "Kimi-K3", "kimi-k3", 1, 1 },
    { "LFM2-8B-A1B", "lfm2", 0, 0 },
    { "MiniMax-M1", "minimax-m1", 1, 0 },
    { "MiniMax-M2", "minimax-m2", 1, 1 },
    { "MiniMax-M3", "minimax-m3", 1, 1 },
    { "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3-coder", 1, 1 },
    { "NVIDIA-Nemotron-Nano-v2", "nemotron", 1, 0 },
    { "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", 1, 0 },
    { "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", 1, 0 },
    { "Qwen-QwQ-32B", "hermes", 1, 0 },
    { "Qwen-Qwen2.5-7B-Instruct", "hermes", 1, 0 },
    { "Qwen3-Coder", "qwen3-coder", 1, 0 },
    { "Reka-Edge", "hermes", 1, 1 },
    { "StepFun3.5-Flash", "qwen3-coder", 1, 1 },
    { "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-v3", 1, 0 },
    { "deepseek-ai-DeepSeek-V4", "deepseek-dsml", 1, 1 },
    { "gguf-command-r", "plain", 0, 0 },
    { "gguf-command-r.tool_use", "command-r", 0, 0 },
    { "gguf-qwen2", "plain", 0, 0 },
    { "gguf-qwen35", "plain", 0, 0 },
    { "gguf-smollm2", "plain", 0, 0 },
    { "llama-cpp-rwkv-world", "think", 0, 0 },
    { "meetkai-functionary-medium-v3.1", "functionary", 1, 0 },
    { "meta-llama-Llama-3.1-8B-Instruct", "llama3", 1, 0 },
    { "meta-llama-Llama-3.2-3B-Instruct", "llama3", 1, 0 },
    { "meta-llama-Llama-3.3-70B-Instruct", "llama3", 1, 0 },
    { "microsoft-Phi-3.5-mini-instruct", "plain", 0, 0 },
    { "mistralai-Ministral-3-14B-Reasoning-2512", "mistral", 1, 0 },
    { "moonshotai-Kimi-K2", "kimi-k2", 1, 0 },
    { "openbmb-MiniCPM5-1B", "minicpm", 1, 1 },
    { "poolside-Laguna-S-2.1", "glm", 1, 1 },
    { "poolside-Laguna-XS-2.1", "glm", 1, 1 },
    { "unsloth-Apriel-1.5", "apriel", 1, 0 },
};

static void test_templates(void **state)
{
    (void)state;
    for (size_t k = 0; k < HY_COUNT(want); k++) {
        char path[512];
        char *src, *rows;
        size_t n_src, n_rows;
        hy_err err;
        hy_template *t;
        int n_calls = 0, n_thoughts = 0;
        snprintf(path, sizeof path, HY_DATA "/templates/templates/%s.jinja", want[k].file);
        if (hy_read_file(path, HY_MIB, &src, &n_src, &err) != HY_OK) fail_msg("%s", err.msg);
        const hy_chat_format *f = hy_chat_format_of(src);
        assert_string_equal(hy_chat_format_name(f), want[k].format);
        if (hy_template_parse(&t, src, n_src, &err) != HY_OK) fail_msg("%s", err.msg);
        snprintf(path, sizeof path, HY_DATA "/templates/expected/%s.jsonl", want[k].file);
        if (hy_read_file(path, 16 * HY_MIB, &rows, &n_rows, &err) != HY_OK) fail_msg("%s", err.msg);
        json_t *first = json_loads(rows, JSON_DISABLE_EOF_CHECK, NULL);
        hy_free(rows);
        if (hy_read_file(HY_DATA "/formats/turns.jsonl", HY_MIB, &rows, &n_rows, &err) != HY_OK) fail_msg("%s", err.msg);
        for (char *line = strtok(rows, "\n"); line; line = strtok(NULL, "\n")) {
            json_t *row = json_loads(line, 0, NULL);
            assert_non_null(row);
            json_object_set(row, "bos_token", json_object_get(first, "bos_token"));
            json_object_set(row, "eos_token", json_object_get(first, "eos_token"));
            check_row(want[k].file, t, f, row, &n_calls, &n_thoughts);
            json_decref(row);
        }
        json_decref(first);
        if (getenv("V")) print_message("%s %d %d\n", want[k].file, n_calls, n_thoughts);
        if ((n_calls > 0) != want[k].calls || (n_thoughts > 0) != want[k].thoughts)
            WRONG("%s: %d calls and %d thoughts seen\n", want[k].file, n_calls, n_thoughts);
        hy_template_free(t);
        hy_free(src);
        hy_free(rows);
    }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_templates) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
