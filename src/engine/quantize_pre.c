/* The name that GGUF gives to a byte-level pre-tokenizer, found by what tokenizer.json says it does. */
#include "quantize_tok.h"
#include <string.h>

#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define SLASHES "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"      \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*" TAIL

/* Steps in order: N NFC, D each digit alone, d runs of digits, P punctuation, B GPT-2's expression and
 * bytes, b bytes, R an expression. whole: words that are tokens are not merged. */
static const struct { const char *steps; int whole; const char *name; } known[] = {
    { "B;", -1, "gpt-2" },
    { "N;B;", -1, "olmo" },
    { "D;B;", -1, "starcoder" },
    { "N;D;B;", -1, "command-r" },
    { "P;B;d;R[0-9][0-9][0-9];", -1, "falcon" },
    { "R" WORDS "\\p{N}{1,3}" OTHERS ";b;", 1, "llama-bpe" },
    { "R" WORDS "\\p{N}{1,3}" OTHERS ";b;", 0, "glm4" },
    { "N;R" WORDS "\\p{N}" OTHERS ";b;", -1, "qwen2" },
    { "R" WORDS "\\p{N}" OTHERS ";b;", -1, "stablelm2" },
    { "R" CASED(ENDINGS "?") "|\\p{N}{1,3}" SLASHES ";b;", -1, "gpt-4o" },
    { "R" CASED("") "|\\p{N}" SLASHES ";b;", -1, "tekken" },
    { "R\\p{N}{1,3};R[一-龥぀-ゟ゠-ヿ]+;R" DEEPSEEK3 ";b;", -1, "deepseek-v3" },
};

static void describe(const json_t *step, int depth, hy_buf *out)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    if (!type || depth > 4) return;
    const char *inner = strcmp(type, "Sequence") == 0 ? "pretokenizers" : NULL;
    if (inner) {
        json_t *list = json_object_get(step, inner);
        if (!list) list = json_object_get(step, "normalizers");
        for (size_t i = 0; i < json_array_size(list); i++) describe(json_array_get(list, i), depth + 1, out);
        return;
    }
    const char *re = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    bool isolated = behavior && strcmp(behavior, "Isolated") == 0 && !json_is_true(json_object_get(step, "invert"));
    if (strcmp(type, "NFC") == 0) hy_buf_str(out, "N");
    else if (strcmp(type, "ByteLevel") == 0)
        hy_buf_str(out, json_is_true(json_object_get(step, "add_prefix_space")) ? "?"
                        : json_is_false(json_object_get(step, "use_regex")) ? "b" : "B");
    else if (strcmp(type, "Digits") == 0)
        hy_buf_str(out, json_is_true(json_object_get(step, "individual_digits")) ? "D" : "d");
    else if (strcmp(type, "Punctuation") == 0) hy_buf_str(out, behavior && strcmp(behavior, "Contiguous") == 0 ? "P" : "?");
    else if (strcmp(type, "Split") == 0 && re && isolated) hy_buf_printf(out, "R%s", re);
    else hy_buf_printf(out, "?%s", type);
    hy_buf_char(out, ';');
}

const char *hy_q_pre_name(const json_t *root)
{
    hy_buf b = { 0 };
    bool whole = json_is_true(json_object_get(json_object_get(root, "model"), "ignore_merges"));
    describe(json_object_get(root, "normalizer"), 0, &b);
    describe(json_object_get(root, "pre_tokenizer"), 0, &b);
    const char *name = NULL;
    for (size_t i = 0; b.data && !name && i < HY_COUNT(known); i++)
        if (strcmp(b.data, known[i].steps) == 0 && (known[i].whole < 0 || known[i].whole == whole)) name = known[i].name;
    if (!name)
        hy_log(HY_LOG_WARN, "quantize_pre", "detail=\"no GGUF name for this pre-tokenizer, taken as gpt-2\" steps=\"%.200s\"",
               b.data ? b.data : "");
    hy_buf_free(&b);
    return name ? name : "gpt-2";
}
