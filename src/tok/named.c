/* Pre-tokenizers by the names that GGUF files carry in tokenizer.ggml.pre.
 *
 * A step is a letter and its argument: N NFC; D single digits; d runs of digits; P runs of
 * punctuation; B byte alphabet after GPT-2's cuts; b byte alphabet; R cut at this expression;
 * S spaces become U+2581. The expressions are those of the models' tokenizer.json files. */
#include "tok/tok_impl.h"
#include <string.h>

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACE_TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACE_TAIL
#define LLAMA3 ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" OTHERS
#define QWEN2 ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" OTHERS
#define QWEN35                                                                                     \
    ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACE_TAIL
#define CASED(upper, lower, ending)                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower  \
    "*" ending
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SLASHES "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACE_TAIL
#define GPT4O CASED(UPPER, LOWER, ENDINGS "?") "|\\p{N}{1,3}" SLASHES
#define TEKKEN CASED(UPPER, LOWER, "") "|\\p{N}" SLASHES
#define YOUTU CASED(UPPER, LOWER, ENDINGS "?") "|\\p{N}" SLASHES
/* UPPER and LOWER less Han, which PCRE2 can only say by what they leave out */
#define UPPER_NO_HAN "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"
#define LOWER_NO_HAN "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"
#define KIMI "\\p{Han}+|" CASED(UPPER_NO_HAN, LOWER_NO_HAN, ENDINGS "?") "|\\p{N}{1,3}" OTHERS
#define MARKS                                                                                      \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "\
    "?[\\p{P}\\p{S}]+"
#define DEEPSEEK3 MARKS "[\\r\\n]*" SPACE_TAIL
#define CJK "[一-龥぀-ゟ゠-ヿ]+"
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"
#define THREES "(?=(\\d{3})+(?!\\d))"
#define CASCADE                                                                                    \
    "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"               \
    "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define DEEPSEEK_LETTERS                                                                           \
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-" \
    "Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\\x{1F7D}ᾀ-ᾴᾶ-ᾼ\\x{1FBE}ῂ-ῄῆ-ῌῐ-\\x{1FD3}ῖ-\\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ" \
    "\\x{2126}ℨ\\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀" \
    "-𐳲𑢠-𑣟𞤀-𞥃]+"
#define AFMOE_ASIAN "[一-鿿㐀-䶿\\x{F900}-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"

#define NO_MERGES 1 /* a word that is a token is taken whole */
#define BOS 2
#define SEP 4       /* like RoBERTa: <s> text </s> */

static const struct row {
    const char *names;          /* separated by spaces */
    unsigned flags;
    const char *step[8];
} rows[] = {
    { "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum jais trillion "
      "granite-docling", 0, { "B" } },
    { "default", 0, { "B" } },
    { "jina-v1-en jina-v2-code roberta-bpe", BOS | SEP, { "B" } },
    { "mpt olmo modern-bert gpt-neox", 0, { "N", "B" } },
    { "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
      NO_MERGES | BOS, { "R" LLAMA3, "b" } },
    { "dbrx smaug-bpe chatglm-bpe glm4", 0, { "R" LLAMA3, "b" } },
    { "qwen2 deepseek-r1-qwen megrez kormo f2llmv2", 0, { "N", "R" QWEN2, "b" } },
    { "stablelm2 hunyuan solar-open grok-2", 0, { "R" QWEN2, "b" } },
    { "qwen35", 0, { "N", "R" QWEN35, "b" } },
    { "deepseek-llm", 0, { "R[\\r\\n]", "R" DEEPSEEK_LETTERS, "R\\s?[!-/:-~！-／：-～‘-‟　-。]+",
      "R\\s+$", "R[一-龥ࠀ-一가-퟿]+", "R\\p{N}+", "b" } },
    { "deepseek-coder", 0, { "R[\\r\\n]", "R\\s?\\p{L}+", "R\\s?\\p{P}+", "R[一-龥ࠀ-一가-퟿]+", "D", "b" } },
    { "deepseek-v3 hunyuan-dense joyai-llm", 0, { "R\\p{N}{1,3}", "R" CJK, "R" DEEPSEEK3, "b" } },
    { "falcon", 0, { "P", "B", "d", "R[0-9][0-9][0-9]" } },
    { "starcoder refact smollm codeshell exaone exaone4 minerva-7b mellum2", 0, { "D", "B" } },
    { "command-r", 0, { "N", "D", "B" } },
    { "poro-chat bloom gpt3-finnish", 0, { "R" BLOOM, "b" } },
    { "viking", 0, { "R" BLOOM, "D", "b" } },
    { "jais-2", 0, { "R" ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
      "|\\s*[\\r\\n]+|" CASCADE, "b" } },
    { "tekken", NO_MERGES | BOS, { "R" TEKKEN, "b" } },
    { "chameleon", 0, { "R<sentinel:[0-9]+>", "R(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
      "R([\\t\\n]|    |  )", "D", "R[\\p{P}!-/:-@\\[-`{-~]", "B" } },
    { "gpt-4o llama4 kanana2 minimax-m2", NO_MERGES, { "R" GPT4O, "b" } },
    { "tiny_aya", 0, { "R\\d{1,3}(?=(?:\\d{3})*\\b)", "R" GPT4O, "b" } },
    { "superbpe", 0, { "R\\p{N}+", "R" THREES, "b" } },
    { "bailingmoe bailingmoe2 llada-moe", 0, { "R'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|"
      "\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+", "b" } },
    { "seed-coder", 0, { "R" ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+"
      SPACE_TAIL, "b" } },
    { "kimi-k2", NO_MERGES, { "R" KIMI, "b" } },
    { "youtu", NO_MERGES, { "R[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", "R" YOUTU, "b" } },
    { "exaone-moe", 0, { "R" ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"
      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+", "b" } },
    { "afmoe", 0, { "R\\p{N}+", "R" THREES, "R" AFMOE_ASIAN, "R" DEEPSEEK3, "b" } },
    { "laguna", 0, { "R[^\\n]+|[\\n]+", "R" QWEN2, "b" } },
    { "gemma4 sarvam-moe granite-embed-multi-311m", 0, { "S" } },
};

static bool names_match(const char *names, const char *name, size_t n)
{
    while (*names) {
        size_t k = strcspn(names, " ");
        if (k == n && !memcmp(names, name, n)) return true;
        names += k;
        names += strspn(names, " ");
    }
    return false;
}

static hy_status add_step(hy_tok *t, const char *step, hy_err *err)
{
    tok_pre *p = NULL;
    tok_norm *m = NULL;
    switch (*step) {
    case 'N':
        return tok_norm_add(t, TOK_N_NFC) ? HY_OK : tok_steps_fail(err);
    case 'S':
        m = tok_norm_add(t, TOK_N_REPLACE);
        if (!m) return tok_steps_fail(err);
        m->text = (tok_str){ "\xE2\x96\x81", 3 };
        return tok_regex_new(t, &m->re, " ", 1, true, err);
    case 'D': case 'd':
        p = tok_pre_add(t, TOK_P_DIGITS);
        if (p) p->behavior = *step == 'D' ? TOK_ISOLATED : TOK_CONTIGUOUS;
        return p ? HY_OK : tok_steps_fail(err);
    case 'P':
        p = tok_pre_add(t, TOK_P_PUNCT);
        if (p) p->behavior = TOK_CONTIGUOUS;
        return p ? HY_OK : tok_steps_fail(err);
    case 'B': case 'b':
        p = tok_pre_add(t, TOK_P_BYTES);
        if (!p) return tok_steps_fail(err);
        return *step == 'B' ? tok_regex_new(t, &p->re, GPT2, strlen(GPT2), false, err) : HY_OK;
    default:
        p = tok_pre_add(t, TOK_P_SPLIT);
        if (!p) return tok_steps_fail(err);
        p->behavior = TOK_ISOLATED;
        return tok_regex_new(t, &p->re, step + 1, strlen(step + 1), false, err);
    }
}

hy_status tok_gpt2_regex(hy_tok *t, tok_regex **out, hy_err *err)
{
    return tok_regex_new(t, out, GPT2, strlen(GPT2), false, err);
}

hy_status tok_pre_named(hy_tok *t, const char *name, size_t n, const char *arch, bool *adds_bos,
                        bool *adds_sep, hy_err *err)
{
    if (!n) {
        /* files from before the key existed: GPT-NeoX normalises, the others were GPT-2 like */
        name = !strcmp(arch, "gptneox") ? "gpt-neox" : "default";
        n = strlen(name);
    }
    for (size_t i = 0; i < HY_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        if (!names_match(r->names, name, n)) continue;
        for (size_t k = 0; k < HY_COUNT(r->step) && r->step[k]; k++) HY_TRY(add_step(t, r->step[k], err));
        t->bpe.ignore_merges = r->flags & NO_MERGES;
        *adds_bos = r->flags & BOS;
        *adds_sep = r->flags & SEP;
        tok_str kept = tok_copy(t, name, n);
        if (!kept.p) return hy_fail_memory(err, "name", n);
        t->pre_name = kept.p;
        return HY_OK;
    }
    return hy_fail(err, HY_E_UNSUPPORTED, "tokenizer.ggml.pre: pre-tokenizer '%.*s' is not known",
                   (int)HY_MIN(n, 100u), name);
}
