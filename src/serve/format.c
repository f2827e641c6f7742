/* The table of families. A row is chosen by what the template's source contains; the first that fits. Marks are
 * those of the models' own templates (tests/data/templates) and, where those only show prompts, of their authors'
 * documentation. */
#include "serve/format_impl.h"
#include <string.h>

#define THINK_TAGS .think_open = "<think>", .think_close = "</think>"
#define OBJECT(b, e, fl, n, a, g)                                                                  \
    { .shape = SHAPE_OBJECT, .flags = fl, .begin = b, .end = e, .key_name = n, .key_args = a, .gap = g }
#define HERMES OBJECT("<tool_call>", "</tool_call>", 0, "name", "arguments", "\n")
#define BARE(args) OBJECT(NULL, NULL, FORM_BARE, "name", args, NULL)

#define QWEN_XML(b, e, fl, g)                                                                      \
    { .shape = SHAPE_XML, .flags = FORM_BEGIN_OPTIONAL | FORM_REPR | fl, .begin = b, .end = e,     \
      .open = "<function=", .name_end = ">", .p_open = "<parameter=", .p_key_end = ">",            \
      .p_end = "</parameter>", .close = "</function>", .gap = g }
#define QWEN_CODER QWEN_XML("<tool_call>", "</tool_call>", FORM_NEWLINES, "\n")

#define INVOKE(b, e)                                                                               \
    { .shape = SHAPE_XML, .begin = b, .end = e, .open = "<invoke name=\"", .name_end = "\"",       \
      .head_end = ">", .p_open = "<parameter name=\"", .p_key_end = "\"", .p_head_end = ">",       \
      .p_end = "</parameter>", .close = "</invoke>", .gap = "\n" }
#define DSML(b, e)                                                                                 \
    { .shape = SHAPE_XML, .begin = b, .end = e, .open = "<｜DSML｜invoke name=\"", .name_end = "\"", \
      .head_end = ">", .p_open = "<｜DSML｜parameter name=\"", .p_key_end = "\"", .p_head_end = ">", \
      .attr = " string", .p_end = "</｜DSML｜parameter>", .close = "</｜DSML｜invoke>", .gap = "\n" }
#define DEEPSEEK(kind, sep, fence)                                                                 \
    { .shape = SHAPE_NAMED, .begin = "<｜tool▁calls▁begin｜>", .end = "<｜tool▁calls▁end｜>",       \
      .open = "<｜tool▁call▁begin｜>" kind, .name_end = sep, .close = fence "<｜tool▁call▁end｜>" }
#define GLM                                                                                        \
    { .shape = SHAPE_XML, .open = "<tool_call>", .p_open = "<arg_key>", .p_key_end = "</arg_key>", \
      .p_head_end = "<arg_value>", .p_end = "</arg_value>", .close = "</tool_call>", .gap = "\n" }
#define MISTRAL_ARGS                                                                               \
    { .shape = SHAPE_NAMED, .open = "[TOOL_CALLS]", .name_end = "[ARGS]" },                        \
    { .shape = SHAPE_NAMED, .open = "[TOOL_CALLS]", .name_end = "[CALL_ID]", .head_end = "[ARGS]" }, \
    OBJECT("[TOOL_CALLS]", NULL, FORM_LIST, "name", "arguments", NULL)
#define COHERE                                                                                     \
    OBJECT("<|START_ACTION|>", "<|END_ACTION|>", FORM_LIST, "tool_name", "parameters", NULL)

const hy_chat_format hy_format_rows[] = {
    { .name = "gpt-oss", .mark = { "<|channel|>", "<|message|>" }, .flags = FORMAT_HARMONY | FORMAT_SPECIAL,
      .form = { { .shape = SHAPE_NAMED } } },
    { .name = "kimi-k3", .mark = { "<|open|>", "<|sep|>" }, .flags = FORMAT_SPECIAL | THINK_ANYWHERE,
      .think_open = "<|open|>think<|sep|>", .think_close = "<|close|>think<|sep|>",
      .drop = { "<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>" },
      .form = { { .shape = SHAPE_XML, .begin = "<|open|>tools<|sep|>", .end = "<|close|>tools<|sep|>",
                  .open = "<|open|>call tool=\"", .name_end = "\"", .head_end = "<|sep|>",
                  .p_open = "<|open|>argument key=\"", .p_key_end = "\"", .p_head_end = "<|sep|>", .attr = " type",
                  .p_end = "<|close|>argument<|sep|>", .close = "<|close|>call<|sep|>" } } },
    { .name = "minimax-m3", .mark = { "]<]minimax[>[" }, .flags = FORMAT_SPECIAL,
      .think_open = "<mm:think>", .think_close = "</mm:think>",
      .form = { { .shape = SHAPE_XML, .flags = FORM_NESTED, .begin = "]<]minimax[>[<tool_call>",
                  .end = "]<]minimax[>[</tool_call>", .open = "]<]minimax[>[<invoke name=\"", .name_end = "\"",
                  .head_end = ">", .p_open = "]<]minimax[>[<", .p_key_end = ">", .p_end = "]<]minimax[>[</%>",
                  .close = "]<]minimax[>[</invoke>", .gap = "\n" } } },
    { .name = "minimax-m2", .mark = { "<minimax:tool_call>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { INVOKE("<minimax:tool_call>", "</minimax:tool_call>") } },
    { .name = "deepseek-dsml", .mark = { "｜DSML｜" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { DSML("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
                DSML("<｜DSML｜function_calls>", "</｜DSML｜function_calls>") } },
    { .name = "deepseek-v3", .mark = { "<｜tool▁sep｜>", "```json" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { DEEPSEEK("function<｜tool▁sep｜>", "\n```json", "\n```") } },
    { .name = "deepseek-v3.1", .mark = { "<｜tool▁sep｜>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { DEEPSEEK("", "<｜tool▁sep｜>", "") } },
    { .name = "kimi-k2", .mark = { "<|tool_call_argument_begin|>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { { .shape = SHAPE_NAMED, .flags = FORM_PREFIX_ID, .begin = "<|tool_calls_section_begin|>",
                  .end = "<|tool_calls_section_end|>", .open = "<|tool_call_begin|>", .name_end = ":",
                  .head_end = "<|tool_call_argument_begin|>", .close = "<|tool_call_end|>" } } },
    { .name = "seed-oss", .mark = { "<seed:tool_call>" }, .flags = FORMAT_SPECIAL,
      .think_open = "<seed:think>", .think_close = "</seed:think>",
      .form = { QWEN_XML("<seed:tool_call>", "</seed:tool_call>", 0, "\n") } },
    { .name = "cohere", .mark = { "<|START_ACTION|>" }, .flags = FORMAT_SPECIAL | THINK_ANYWHERE,
      .think_open = "<|START_THINKING|>", .think_close = "<|END_THINKING|>",
      .drop = { "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>" },
      .form = { COHERE } },
    { .name = "command-r", .mark = { "Action:", "tool_name", "```json" },
      .form = { OBJECT("Action: ```json", "```", FORM_LIST, "tool_name", "parameters", "\n"),
                OBJECT("Action:```json", "```", FORM_LIST, "tool_name", "parameters", "\n") } },
    { .name = "mistral", .mark = { "[TOOL_CALLS]", "[ARGS]", "[THINK]" },
      .flags = FORMAT_SPECIAL | FORMAT_MISTRAL_ID | THINK_ANYWHERE, .think_open = "[THINK]", .think_close = "[/THINK]",
      .form = { MISTRAL_ARGS } },
    { .name = "mistral", .mark = { "[TOOL_CALLS]", "[ARGS]" }, .flags = FORMAT_SPECIAL | FORMAT_MISTRAL_ID,
      .form = { MISTRAL_ARGS } },
    { .name = "mistral-v3", .mark = { "[TOOL_CALLS]" }, .flags = FORMAT_SPECIAL | FORMAT_MISTRAL_ID,
      .form = { OBJECT("[TOOL_CALLS]", NULL, FORM_LIST, "name", "arguments", NULL) } },
    { .name = "apertus", .mark = { "<|tools_prefix|>" }, .flags = FORMAT_SPECIAL | THINK_ANYWHERE,
      .think_open = "<|inner_prefix|>", .think_close = "<|inner_suffix|>",
      .form = { { .shape = SHAPE_KEYED, .flags = FORM_LIST, .begin = "<|tools_prefix|>",
                  .end = "<|tools_suffix|>" } } },
    { .name = "lfm2", .mark = { "<|tool_list_start|>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { { .shape = SHAPE_PYTHON, .flags = FORM_LIST, .begin = "<|tool_call_start|>",
                  .end = "<|tool_call_end|>" },
                OBJECT("<|tool_call_start|>", "<|tool_call_end|>", FORM_LIST, "name", "arguments", NULL) } },
    { .name = "gigachat", .mark = { "function call", "<|role_sep|>" }, .flags = FORMAT_SPECIAL,
      .form = { OBJECT("<|message_sep|>\n\nfunction call<|role_sep|>\n", "<|message_sep|>", FORM_ONE, "name",
                       "arguments", NULL) } },
    { .name = "nemotron", .mark = { "<TOOLCALL>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { OBJECT("<TOOLCALL>", "</TOOLCALL>", FORM_LIST, "name", "arguments", NULL) } },
    { .name = "apriel", .mark = { "[BEGIN FINAL RESPONSE]" }, .flags = THINK_FIRST | THINK_CALLS,
      .think_close = "[BEGIN FINAL RESPONSE]", .drop = { "[END FINAL RESPONSE]" },
      .form = { OBJECT("<tool_calls>", "</tool_calls>", FORM_LIST, "name", "arguments", NULL) } },
    { .name = "hunyuan", .mark = { "<tool_calls>", "<tool_call>", "```json" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS, .drop = { "<answer>", "</answer>" },
      .form = { { .shape = SHAPE_NAMED, .begin = "<tool_calls>", .end = "</tool_calls>", .open = "<tool_call>",
                  .name_end = "\n```json", .close = "\n```\n</tool_call>", .gap = "\n" } } },
    { .name = "minimax-m1", .mark = { "<tool_calls>", "<beginning_of_sentence>" },
      THINK_TAGS,
      .form = { OBJECT("<tool_calls>", "</tool_calls>", 0, "name", "arguments", "\n") } },
    { .name = "jamba", .mark = { "<tool_calls>" },
      .form = { OBJECT("<tool_calls>", "</tool_calls>", FORM_LIST, "name", "arguments", NULL) } },
    { .name = "minicpm", .mark = { "<function name=", "<param name=" },
      THINK_TAGS,
      .form = { { .shape = SHAPE_XML, .flags = FORM_CDATA | FORM_REPR, .open = "<function name=\"", .name_end = "\"",
                  .head_end = ">", .p_open = "<param name=\"", .p_key_end = "\"", .p_head_end = ">",
                  .p_end = "</param>", .close = "</function>", .gap = "\n" } } },
    { .name = "glm", .mark = { "<arg_key>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS, .form = { GLM } },
    { .name = "qwen3-coder", .mark = { "<function=", "<parameter=", "</think>" },
      THINK_TAGS, .form = { QWEN_CODER, HERMES } },
    { .name = "qwen3-coder", .mark = { "<function=", "<parameter=" }, .form = { QWEN_CODER, HERMES } },
    { .name = "functionary", .mark = { "<function=" }, .flags = FORMAT_SPECIAL,
      .form = { { .shape = SHAPE_NAMED, .open = "<function=", .name_end = ">", .close = "</function>" } } },
    { .name = "longcat", .mark = { "<longcat_tool_call>" },
      .think_open = "<longcat_think>", .think_close = "</longcat_think>",
      .form = { OBJECT("<longcat_tool_call>", "</longcat_tool_call>", 0, "name", "arguments", "\n") } },
    { .name = "internlm", .mark = { "<|action_start|>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { OBJECT("<|action_start|><|plugin|>", "<|action_end|>", 0, "name", "parameters", "\n") } },
    { .name = "functiongemma", .mark = { "<start_function_call>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS,
      .form = { { .shape = SHAPE_GEMMA, .begin = "<start_function_call>", .end = "<end_function_call>",
                  .open = "call:", .quote = "<escape>" } } },
    { .name = "gemma4", .mark = { "<|tool_call>" }, .flags = FORMAT_SPECIAL | THINK_ANYWHERE,
      .think_open = "<|channel>thought", .think_close = "<channel|>",
      .form = { { .shape = SHAPE_GEMMA, .begin = "<|tool_call>", .end = "<tool_call|>", .open = "call:",
                  .quote = "<|\"|>" } } },
    { .name = "phi4", .mark = { "<|/tool|>" }, .flags = FORMAT_SPECIAL,
      .form = { OBJECT("<|tool_call|>", "<|/tool_call|>", FORM_LIST, "name", "arguments", NULL),
                OBJECT("functools", NULL, FORM_LIST, "name", "arguments", NULL) } },
    { .name = "granite", .mark = { "<|tool_call|>" }, .flags = FORMAT_SPECIAL,
      THINK_TAGS, .drop = { "<response>", "</response>" },
      .form = { OBJECT("<|tool_call|>", NULL, FORM_LIST, "name", "arguments", NULL) } },
    { .name = "firefunction", .mark = { "functools[" },
      .form = { OBJECT("functools", NULL, FORM_LIST, "name", "arguments", NULL) } },
    { .name = "ernie", .mark = { "<tool_call>", "<response>", "</think>" },
      THINK_TAGS, .drop = { "<response>", "</response>" },
      .form = { HERMES } },
    { .name = "hermes", .mark = { "<tool_call>", "</think>" }, THINK_TAGS,
      .form = { HERMES } },
    { .name = "hermes", .mark = { "<tool_call>" }, .form = { HERMES } },
    { .name = "olmo3", .mark = { "<function_calls>" }, THINK_TAGS,
      .form = { { .shape = SHAPE_PYTHON, .begin = "<function_calls>", .end = "</function_calls>", .gap = "\n" } } },
    { .name = "llama4", .mark = { "<|python_start|>" }, .flags = FORMAT_SPECIAL,
      .form = { { .shape = SHAPE_PYTHON, .flags = FORM_BARE | FORM_LIST },
                { .shape = SHAPE_PYTHON, .flags = FORM_LIST, .begin = "<|python_start|>", .end = "<|python_end|>" },
                BARE("parameters") } },
    { .name = "llama3", .mark = { "function name, \"parameters\"" }, .flags = FORMAT_SPECIAL,
      .form = { OBJECT(NULL, NULL, FORM_BARE | FORM_ONE, "name", "parameters", NULL),
                OBJECT("<|python_tag|>", NULL, 0, "name", "parameters", NULL),
                { .shape = SHAPE_PYTHON, .begin = "<|python_tag|>" } } },
    { .name = "think", .mark = { "</think>" }, THINK_TAGS,
      .form = { BARE("arguments") } },
    { .name = "plain", .form = { BARE("arguments") } },
};
const uint32_t hy_format_n_row = HY_COUNT(hy_format_rows);

static bool fits(const hy_chat_format *f, const char *source)
{
    for (int i = 0; i < FORMAT_MARKS && f->mark[i]; i++)
        if (!strstr(source, f->mark[i])) return false;
    return !f->no_mark || !strstr(source, f->no_mark);
}

const hy_chat_format *hy_chat_format_of(const char *source)
{
    const hy_chat_format *f = hy_format_rows, *plain = &hy_format_rows[hy_format_n_row - 1];
    if (!source) return plain;
    while (f != plain && !fits(f, source)) f++;
    return f;
}

const char *hy_chat_format_name(const hy_chat_format *f)
{
    return f->name;
}

bool hy_chat_format_reasons(const hy_chat_format *f)
{
    return f->think_close || f->flags & FORMAT_HARMONY;
}

bool hy_chat_format_calls(const hy_chat_format *f)
{
    return strcmp(f->name, "plain") != 0 && strcmp(f->name, "think") != 0;
}

bool hy_chat_format_needs_special(const hy_chat_format *f)
{
    return f->flags & FORMAT_SPECIAL;
}
