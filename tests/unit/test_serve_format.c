/* Formats: samples written by hand after the families' documentation, texts that only look like calls, and the
 * invariants: the same pieces however the text is cut, nothing lost. */
#include "format_help.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"},"
    " \"metric\": {\"type\": \"boolean\"}, \"tags\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}},"
    " \"at\": {\"$ref\": \"#/$defs/place\"}, \"note\": {\"type\": [\"string\", \"null\"]}},"
    " \"$defs\": {\"place\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"number\"}}}}}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"now\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"python\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"code\": {\"type\": \"string\"}}}}}]";

/* What templates contain; enough to choose the family. */
#define GPT_OSS "<|channel|><|message|>"
#define HERMES "<tool_call></think>"
#define QWEN_CODER "<function=<parameter="
#define MISTRAL "[TOOL_CALLS][ARGS][THINK]"
#define MISTRAL_V3 "[TOOL_CALLS]"
#define DEEPSEEK_V31 "<｜tool▁sep｜>"
#define DEEPSEEK_V3 "<｜tool▁sep｜>```json"
#define KIMI "<|tool_call_argument_begin|>"
#define COHERE "<|START_ACTION|>"
#define COMMAND_R "Action: tool_name ```json"
#define LLAMA3 "function name, \"parameters\": dictionary <|python_tag|>"
#define LLAMA4 "<|python_start|>"
#define LFM2 "<|tool_list_start|>"
#define OLMO3 "<function_calls>"
#define GRANITE "<|tool_call|>"
#define PHI4 "<|tool|><|/tool|>"
#define FIRE "functools["
#define HUNYUAN "<tool_calls><tool_call>```json"
#define JAMBA "<tool_calls>"
#define GEMMA4 "<|tool_call>"
#define FGEMMA "<start_function_call>"
#define INTERNLM "<|action_start|>"
#define LONGCAT "<longcat_tool_call>"
#define GLM "<arg_key>"
#define MINICPM "<function name=<param name="
#define ERNIE "<tool_call><response></think>"
#define DSML "｜DSML｜"
#define PLAIN "user: {{ messages }}"
#define THINK "</think>"
#define SEED "<seed:tool_call>"
#define FUNCTIONARY "<function="
#define NEMOTRON "<TOOLCALL>"
#define APERTUS "<|tools_prefix|>"
#define APRIEL "[BEGIN FINAL RESPONSE]"

#define PARIS "{\"city\": \"Paris\"}"

/* want: "R:thoughts|C:text|K:name|A:arguments", a '|' between. */
static const struct sample { const char *source, *prompt, *text, *want; } samples[] = {
    /* Hermes, Qwen */
    { HERMES, "", "Hello", "C:Hello" },
    { HERMES, "", "<think>\nHm.\n</think>\n\nHello", "R:Hm.|C:Hello" },
    { HERMES, "<|im_start|>assistant\n<think>\n", "Hm.\n</think>\n\nHello", "R:Hm.|C:Hello" },
    { HERMES, "<think>\n\n</think>\n\n", "Hello", "C:Hello" },
    { HERMES, "", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " PARIS "}\n</tool_call>", "K:get_weather|A:" PARIS },
    { HERMES, "", "<think>x</think>I look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
      "{\"name\": \"get_weather\", \"arguments\": " PARIS "}\n</tool_call>", "R:x|C:I look.|K:now|A:{}|K:get_weather|A:" PARIS },
    { HERMES, "", "<tool_call>{\"arguments\": " PARIS ", \"name\": \"get_weather\"}</tool_call>", "K:get_weather|A:" PARIS },
    { HERMES, "", "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Paris\\\"}\"}</tool_call>",
      "K:get_weather|A:" PARIS },
    { HERMES, "", "<tool_call>{\"name\": \"now\"}</tool_call>", "K:now|A:{}" },
    { HERMES, "", "<tool_call>{\"name\": \"now\", \"arguments\": null}</tool_call> Done.", "K:now|A:{}|C:Done." },
    { HERMES, "", "<tool_call>[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", \"arguments\": {}}]</tool_call>",
      "K:now|A:{}|K:now|A:{}" },
    { HERMES, "", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\nb\"}}\n</tool_call>",
      "K:get_weather|A:{\"city\": \"a\\nb\"}" },
    { HERMES, "", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}", "K:now|A:{}" },
    { HERMES, "", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_c", "K:now|A:{}" },
    { HERMES, "", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa", "K:get_weather|A:{\"city\": \"Pa" },
    /* not calls: nothing is lost */
    { HERMES, "", "Use <tool_call> tags, \n then stop.", "C:Use <tool_call> tags, \n then stop." },
    { HERMES, "", "<tool_call>\n{\"name\": \"rm_rf\", \"arguments\": {}}\n</tool_call>",
      "C:<tool_call>\n{\"name\": \"rm_rf\", \"arguments\": {}}\n</tool_call>" },
    { HERMES, "", "<tool_call>\n{\"name\": 7}", "C:<tool_call>\n{\"name\": 7}" },
    { HERMES, "", "a \n<tool_call>\n{\"na", "C:a \n<tool_call>\n{\"na" },
    { HERMES, "", "a <tool_", "C:a <tool_" },
    { HERMES, "", "a\n\n", "C:a\n\n" },
    { HERMES, "", "The tag <think> opens thoughts.", "C:The tag <think> opens thoughts." },
    { HERMES, "", "<think>never closed", "R:never closed" },
    { HERMES, "", "<tool_call>{\"name\": \"now\", \"arguments\": {}} oops</tool_call>", "K:now|A:{}|C:oops</tool_call>" },
    { HERMES, "", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\" \"x\"}}", "K:get_weather|A:{\"city\" |C:\"x\"}}" },
    /* Qwen3-Coder */
    { QWEN_CODER, "", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
      "</function>\n</tool_call>", "K:get_weather|A:{\"city\": \"Paris\", \"days\": 3}" },
    { QWEN_CODER, "", "<function=get_weather>\n<parameter=metric>\nTrue\n</parameter>\n<parameter=tags>\n['a', \"b\"]\n</parameter>\n"
      "</function>", "K:get_weather|A:{\"metric\": true, \"tags\": [\"a\", \"b\"]}" },
    { QWEN_CODER, "", "<function=get_weather><parameter=city>\na </parameter> b\n</parameter></function>",
      "K:get_weather|A:{\"city\": \"a </parameter> b\"}" },
    { QWEN_CODER, "", "<function=get_weather>\n<parameter=at>\n{\"x\": 1}\n</parameter>\n<parameter=note>\nnull\n</parameter>\n</function>",
      "K:get_weather|A:{\"at\": {\"x\": 1}, \"note\": null}" },
    { QWEN_CODER, "", "<function=get_weather>\n<parameter=city>\n\n  x\n\n</parameter>\n</function>",
      "K:get_weather|A:{\"city\": \"\\n  x\\n\"}" },
    { QWEN_CODER, "", "<tool_call>\n<function=now>\n</function>\n</tool_call>", "K:now|A:{}" },
    { QWEN_CODER, "", "<tool_call>\n<function=now>\n</tool_call>", "K:now|A:{}" },
    { QWEN_CODER, "", "<function=gone>\n</function>", "C:<function=gone>\n</function>" },
    { QWEN_CODER, "", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", "K:now|A:{}" },
    { QWEN_CODER, "", "<function=get_weather>\n<parameter=city>\nPar", "K:get_weather|A:{\"city\": \"Par" },
    { SEED, "", "<seed:think>t</seed:think><seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>\n"
      "</seed:tool_call>", "R:t|K:get_weather|A:" PARIS },
    /* GLM */
    { GLM, "", "<think>t</think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
      "<arg_value>2</arg_value>\n</tool_call>", "R:t|K:get_weather|A:{\"city\": \"Paris\", \"days\": 2}" },
    { GLM, "", "<tool_call>now</tool_call><tool_call>now</tool_call>", "K:now|A:{}|K:now|A:{}" },
    { GLM, "", "<tool_call>now or later", "C:<tool_call>now or later" },
    /* gpt-oss */
    { GPT_OSS, "<|start|>assistant", "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hi.",
      "R:Think.|C:Hi." },
    { GPT_OSS, "<|start|>assistant", "<|channel|>analysis<|message|>T<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
      "<|constrain|>json<|message|>" PARIS "<|call|>", "R:T|K:get_weather|A:" PARIS },
    { GPT_OSS, "<|start|>assistant", " to=functions.now<|channel|>commentary json<|message|>{}", "K:now|A:{}" },
    { GPT_OSS, "<|start|>assistant", "<|channel|>commentary<|message|>I check.<|end|><|start|>assistant<|channel|>commentary"
      " to=functions.now <|constrain|>json<|message|>", "C:I check.|K:now|A:{}" },
    { GPT_OSS, "<|start|>assistant<|channel|>final<|message|>", "Hi", "C:Hi" },
    { GPT_OSS, "<|start|>assistant", "just text", "C:just text" },
    { GPT_OSS, "<|start|>assistant", "<|channel|>final<|message|>a <| b <|endless", "C:a <| b <|endless" },
    { GPT_OSS, "<|start|>assistant", "<|channel|>commentary to=functions.gone<|message|>{}", "C:{}" },
    /* Mistral */
    { MISTRAL, "", "[THINK]t[/THINK]Hello[TOOL_CALLS]get_weather[ARGS]" PARIS "[TOOL_CALLS]now[ARGS]{}",
      "R:t|C:Hello|K:get_weather|A:" PARIS "|K:now|A:{}" },
    { MISTRAL, "", "[TOOL_CALLS]now[CALL_ID]123456789[ARGS]{}", "K:now|A:{}" },
    { MISTRAL, "", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]", "K:now|A:{}" },
    { MISTRAL_V3, "", "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": " PARIS "}, {\"name\": \"now\", \"arguments\": {}, \"id\": \"x\"}]",
      "K:get_weather|A:" PARIS "|K:now|A:{}" },
    /* DeepSeek */
    { DEEPSEEK_V3, "<think>\n", "t\n</think>\n\nOk.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" PARIS
      "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      "R:t|C:Ok.|K:get_weather|A:" PARIS "|K:now|A:{}" },
    { DEEPSEEK_V31, "", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" PARIS
      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "K:get_weather|A:" PARIS },
    { DSML, "", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">7"
      "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
      "</｜DSML｜function_calls>", "K:get_weather|A:{\"city\": \"7\", \"days\": 7}" },
    /* others */
    { KIMI, "", "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" PARIS
      "<|tool_call_end|><|tool_calls_section_end|>", "C:Ok.|K:get_weather|A:" PARIS },
    { COHERE, "", "<|START_THINKING|>t<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
      "\"parameters\": " PARIS "}\n]<|END_ACTION|>", "R:t|K:get_weather|A:" PARIS },
    { COHERE, "", "<|START_RESPONSE|>Hi<|END_RESPONSE|>", "C:Hi" },
    { COMMAND_R, "", "Action: ```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": " PARIS "\n    }\n]```",
      "K:get_weather|A:" PARIS },
    { LLAMA3, "", "{\"name\": \"get_weather\", \"parameters\": " PARIS "}", "K:get_weather|A:" PARIS },
    { LLAMA3, "", "{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": " PARIS "}", "K:get_weather|A:" PARIS },
    { LLAMA3, "", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}", "K:now|A:{}|K:now|A:{}" },
    { LLAMA3, "", "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}", "K:now|A:{}|K:now|A:{}" },
    { LLAMA3, "", "<|python_tag|>python.call(code=\"print(1)\")", "K:python|A:{\"code\": \"print(1)\"}" },
    { LLAMA3, "", "{\"name\": \"Bob\", \"age\": 3}", "C:{\"name\": \"Bob\", \"age\": 3}" },
    { LLAMA3, "", "{\"name\": \"now\"}", "C:{\"name\": \"now\"}" },
    { LLAMA3, "", "{\"answer\": 42}", "C:{\"answer\": 42}" },
    { LLAMA3, "", "So {\"name\": \"now\", \"parameters\": {}}", "C:So {\"name\": \"now\", \"parameters\": {}}" },
    { LLAMA4, "", "[get_weather(city=\"Paris\", days=2), now()]", "K:get_weather|A:{\"city\": \"Paris\", \"days\": 2}|K:now|A:{}" },
    { LLAMA4, "", "<|python_start|>[now()]<|python_end|>", "K:now|A:{}" },
    { LLAMA4, "", "[1, 2]", "C:[1, 2]" },
    { LFM2, "", "<|tool_call_start|>[get_weather(city='Pa\\'ris', metric=True, tags=['a', 'b'], note=None)]<|tool_call_end|>Wait.",
      "K:get_weather|A:{\"city\": \"Pa'ris\", \"metric\": true, \"tags\": [\"a\", \"b\"], \"note\": null}|C:Wait." },
    { LFM2, "", "<|tool_call_start|>[{\"name\": \"now\", \"arguments\": {}}]<|tool_call_end|>", "K:now|A:{}" },
    { LFM2, "", "<|tool_call_start|>[get_weather(\"Paris\", 2)]<|tool_call_end|>", "K:get_weather|A:{\"city\": \"Paris\", \"days\": 2}" },
    { OLMO3, "", "<function_calls>\nget_weather(city=\"Paris\")\nnow()\n</function_calls>", "K:get_weather|A:" PARIS "|K:now|A:{}" },
    { GRANITE, "", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]", "K:now|A:{}" },
    { PHI4, "", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>", "K:now|A:{}" },
    { FIRE, "", " functools[{\"name\": \"now\", \"arguments\": {}}]", "K:now|A:{}" },
    { FIRE, "", "import functools\n", "C:import functools\n" },
    { HUNYUAN, "", "<think>t</think><answer><tool_calls>\n<tool_call>get_weather\n```json\n" PARIS "\n```\n</tool_call>\n</tool_calls></answer>",
      "R:t|K:get_weather|A:" PARIS },
    { JAMBA, "", "<tool_calls>[\n  {\"name\": \"now\", \"arguments\": {}}\n]</tool_calls>", "K:now|A:{}" },
    { GEMMA4, "", "<|channel>thought\nHm.<channel|>Ok.<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>,days:2,metric:true,"
      "tags:[<|\"|>a<|\"|>],at:{x:1.5}}<tool_call|>",
      "R:Hm.|C:Ok.|K:get_weather|A:{\"city\": \"Paris\", \"days\": 2, \"metric\": true, \"tags\": [\"a\"], \"at\": {\"x\": 1.5}}" },
    { FGEMMA, "", "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>", "K:get_weather|A:" PARIS },
    { INTERNLM, "", "Sure.<|action_start|><|plugin|>\n{\"name\": \"get_weather\", \"parameters\": " PARIS "}<|action_end|>",
      "C:Sure.|K:get_weather|A:" PARIS },
    { LONGCAT, "", "<longcat_tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</longcat_tool_call>", "K:now|A:{}" },
    { MINICPM, "", "<function name=\"get_weather\"><param name=\"city\"><![CDATA[a </param> b]]></param><param name=\"days\">2</param></function>",
      "K:get_weather|A:{\"city\": \"a </param> b\", \"days\": 2}" },
    { ERNIE, "", "<think>\nt\n</think>\n<response>\nHi\n</response>", "R:t|C:Hi" },
    { NEMOTRON, "<think>\n", "t\n</think>\n<TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>", "R:t|K:now|A:{}" },
    { APERTUS, "", "<|inner_prefix|>t<|inner_suffix|>Hi<|tools_prefix|>[{\"get_weather\": " PARIS "}, {\"now\": {}}]<|tools_suffix|>",
      "R:t|C:Hi|K:get_weather|A:" PARIS "|K:now|A:{}" },
    { APRIEL, "Here are my reasoning steps:\n", "Step.\n[BEGIN FINAL RESPONSE]\nHi\n[END FINAL RESPONSE]", "R:Step.|C:Hi" },
    { APRIEL, "", "Step.\n<tool_calls>[{\"name\": \"now\", \"arguments\": {}}]</tool_calls>", "R:Step.|K:now|A:{}" },
    { FUNCTIONARY, "", "Ok.<function=get_weather>" PARIS "</function><function=now>{}</function>", "C:Ok.|K:get_weather|A:" PARIS "|K:now|A:{}" },
    { PLAIN, "", "{\"name\": \"get_weather\", \"arguments\": " PARIS "}", "K:get_weather|A:" PARIS },
    { PLAIN, "", "[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", \"arguments\": {}}]", "K:now|A:{}|K:now|A:{}" },
    { PLAIN, "", " <think>x</think>", "C: <think>x</think>" },
    { THINK, "<think>\n", "a\n</think>b", "R:a|C:b" },
    { THINK, "", "</think>b", "C:b" },
};

static json_t *the_tools(void)
{
    json_t *t = json_loads(tools_text, 0, NULL);
    assert_non_null(t);
    return t;
}

/* "\x1fK:name id" -> "|K:name" */
static void plain_form(const hy_buf *all, hy_buf *out)
{
    for (size_t i = 0; i < all->len; i++) {
        if (all->data[i] != '\x1f') {
            hy_buf_char(out, all->data[i]);
            continue;
        }
        if (out->len) hy_buf_char(out, '|');
        if (all->data[i + 1] != 'K') continue;
        for (i++; all->data[i] != ' '; i++) hy_buf_char(out, all->data[i]);
        while (i + 1 < all->len && all->data[i + 1] != '\x1f') i++;
    }
}

static void test_samples(void **state)
{
    (void)state;
    json_t *tools = the_tools();
    int wrong = 0;
    for (size_t k = 0; k < HY_COUNT(samples); k++) {
        const struct sample *x = &samples[k];
        const hy_chat_format *f = hy_chat_format_of(x->source);
        said s;
        hy_buf got = { 0 };
        read_in_parts(&s, f, tools, x->prompt, x->text, strlen(x->text), NULL, 0);
        plain_form(&s.all, &got);
        if (strcmp(text_of(&got), x->want)) {
            print_error("%s: %s\n got:  %s\n want: %s\n", hy_chat_format_name(f), x->text, text_of(&got), x->want);
            wrong++;
        }
        hy_buf_free(&got);
        said_free(&s);
        check_cuts(f, tools, x->prompt, x->text);
    }
    json_decref(tools);
    assert_int_equal(wrong, 0);
}

/* Without tools a call is text, whole. */
static void test_no_tools(void **state)
{
    (void)state;
    const char *text = "Ok <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n";
    said s;
    read_in_parts(&s, hy_chat_format_of(HERMES), NULL, "", text, strlen(text), NULL, 0);
    assert_string_equal(text_of(&s.content), text);
    assert_int_equal(s.n_call, 0);
    said_free(&s);
}

/* Ids: distinct, of the family's form, the same for the same seed. */
static void test_ids(void **state)
{
    (void)state;
    static const struct { const char *source, *text, *prefix; size_t n; } c[] = {
        { HERMES, "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", "call_", 29 },
        { MISTRAL, "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{}", "", 9 },
        { KIMI, "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
          "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "functions.now:", 15 },
    };
    json_t *tools = the_tools();
    for (size_t k = 0; k < HY_COUNT(c); k++) {
        said a, b;
        read_in_parts(&a, hy_chat_format_of(c[k].source), tools, "", c[k].text, strlen(c[k].text), NULL, 0);
        read_in_parts(&b, hy_chat_format_of(c[k].source), tools, "", c[k].text, strlen(c[k].text), NULL, 0);
        assert_int_equal(a.n_call, 2);
        assert_string_not_equal(a.id[0], a.id[1]);
        for (int i = 0; i < 2; i++) {
            assert_string_equal(a.id[i], b.id[i]);
            assert_int_equal(strlen(a.id[i]), c[k].n);
            assert_memory_equal(a.id[i], c[k].prefix, strlen(c[k].prefix));
        }
        said_free(&a);
        said_free(&b);
    }
    json_decref(tools);
}

/* Random texts out of the families' own marks: any cut gives the same, and without tools or marks nothing is
 * lost but white space and marks. */
static void test_random(void **state)
{
    (void)state;
    static const char *const part[] = {
        "<tool_call>", "</tool_call>", "{\"name\": \"now\", \"arguments\": {}}", "{\"name\": \"get_weather\", ", "\"arguments\": ", PARIS,
        "<function=now>", "<function=get_weather>", "<parameter=city>", "</parameter>", "</function>", "<think>", "</think>", "\n", " ", "x",
        "\"", "{", "}", "[", "]", ",", "[TOOL_CALLS]", "now", "[ARGS]", "{}", "<|channel|>", "analysis", "final", "<|message|>", "<|end|>",
        "<|start|>assistant", "commentary to=functions.now", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "city", "🦊",
        "<|tool_call_start|>", "get_weather(city=", "'a'", ")", "<|tool_call_end|>", "call:now{", "<|\"|>", "<tool_call|>", "<|tool_call>",
        "]<]minimax[>[", "<invoke name=\"get_weather\">", "</invoke>", "<city>", "</city>", "Action: ```json", "```", "functools",
        "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<|START_ACTION|>", "<![CDATA[", "]]>",
    };
    static const char *const source[] = {
        HERMES, QWEN_CODER, GLM, GPT_OSS, MISTRAL, DEEPSEEK_V3, LFM2, LLAMA3, LLAMA4, GEMMA4, COHERE, MINICPM, "]<]minimax[>[", APRIEL, PLAIN,
        KIMI, COMMAND_R, FIRE,
    };
    json_t *tools = the_tools();
    for (uint64_t k = 0; k < 1500; k++) {
        hy_buf text = { 0 };
        uint64_t n = 1 + hy_rng_at(1, k, 0) % 14;
        for (uint64_t i = 0; i < n; i++) hy_buf_str(&text, part[hy_rng_at(2, k, i) % HY_COUNT(part)]);
        const hy_chat_format *f = hy_chat_format_of(source[k % HY_COUNT(source)]);
        check_cuts(f, hy_rng_at(3, k, 0) % 8 ? tools : NULL, hy_rng_at(4, k, 0) % 4 ? "" : "<think>\n", text.data);
        hy_buf_free(&text);
    }
    json_decref(tools);
}

static void test_tools_check(void **state)
{
    (void)state;
    static const struct { const char *tools, *path; } bad[] = {
        { "{}", "tools:" },
        { "[1]", "tools[0]:" },
        { "[{}]", "tools[0].type" },
        { "[{\"type\": \"web_search\"}]", "tools[0].type" },
        { "[{\"type\": \"function\"}]", "tools[0].function:" },
        { "[{\"type\": \"function\", \"function\": {}}]", "tools[0].function.name" },
        { "[{\"type\": \"function\", \"function\": {\"name\": \"a b\"}}]", "tools[0].function.name" },
        { "[{\"type\": \"function\", \"function\": {\"name\": \"\"}}]", "tools[0].function.name" },
        { "[{\"type\": \"function\", \"function\": {\"name\": \"a\", \"description\": 1}}]", "tools[0].function.description" },
        { "[{\"type\": \"function\", \"function\": {\"name\": \"a\", \"parameters\": []}}]", "tools[0].function.parameters" },
        { "[{\"type\": \"function\", \"function\": {\"name\": \"a\", \"parameters\": {\"type\": \"array\"}}}]", "tools[0].function.parameters.type" },
        { "[{\"type\": \"function\", \"function\": {\"name\": \"a\"}}, {\"type\": \"function\", \"function\": {\"name\": \"a\"}}]", "tools[1].function.name" },
    };
    hy_err err;
    for (size_t i = 0; i < HY_COUNT(bad); i++) {
        json_t *t = json_loads(bad[i].tools, JSON_DECODE_ANY, NULL);
        assert_int_equal(hy_tools_check(t, &err), HY_E_ARG);
        assert_memory_equal(err.msg, bad[i].path, strlen(bad[i].path));
        json_decref(t);
    }
    json_t *good = the_tools();
    assert_int_equal(hy_tools_check(good, &err), HY_OK);
    json_decref(good);
}

/* Templates without calls: calls and results become text. */
static void test_plain_history(void **state)
{
    (void)state;
    json_t *list = json_loads(
        "[{\"role\": \"user\", \"content\": \"Weather?\"},"
        " {\"role\": \"assistant\", \"content\": \"I look.\", \"tool_calls\": ["
        "  {\"id\": \"a\", \"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}},"
        "  {\"id\": \"b\", \"type\": \"function\", \"function\": {\"name\": \"now\", \"arguments\": {}}}]},"
        " {\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": \"20\"},"
        " {\"role\": \"tool\", \"tool_call_id\": \"b\", \"content\": \"12:00\"},"
        " {\"role\": \"assistant\", \"content\": \"Warm.\"}]", 0, NULL);
    json_t *want = json_loads(
        "[{\"role\": \"user\", \"content\": \"Weather?\"},"
        " {\"role\": \"assistant\", \"content\": \"I look.\\n[{\\\"name\\\": \\\"get_weather\\\", \\\"arguments\\\": {\\\"city\\\": \\\"Rome\\\"}}, "
        "{\\\"name\\\": \\\"now\\\", \\\"arguments\\\": {}}]\"},"
        " {\"role\": \"user\", \"tool_call_id\": \"a\", \"content\": \"Result of get_weather: 20\\nResult of now: 12:00\"},"
        " {\"role\": \"assistant\", \"content\": \"Warm.\"}]", 0, NULL);
    assert_non_null(list);
    assert_non_null(want);
    assert_true(hy_chat_plain_history(list));
    if (!json_equal(list, want)) fail_msg("%s", json_dumps(list, 0));
    json_decref(list);
    json_decref(want);
}

/* What remains of schemas that cannot be enforced whole; strict ones stay. */
static void test_simple_tools(void **state)
{
    (void)state;
    static const char rest[] =
        "\"properties\": {\"a\": {\"$ref\": \"#/$defs/l\"}, \"b\": {\"enum\": [1, 2], \"multipleOf\": 2}},"
        " \"required\": [\"a\"], \"minProperties\": 2, \"$defs\": {\"l\": {\"type\": \"array\", \"uniqueItems\": true}}";
    char text[1024];
    snprintf(text, sizeof text,
             "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", %s}}},"
             " {\"type\": \"function\", \"function\": {\"name\": \"g\", \"strict\": true,"
             " \"parameters\": {\"type\": \"object\", %s}}}]", rest, rest);
    json_t *tools = json_loads(text, 0, NULL), *simple = hy_tools_simple(tools);
    json_t *want = json_loads("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"array\"}, \"b\": {\"enum\": [1, 2]}},"
                              " \"required\": [\"a\"]}", 0, NULL);
    assert_non_null(tools);
    assert_non_null(simple);
    assert_true(json_equal(json_object_get(json_object_get(json_array_get(simple, 0), "function"), "parameters"), want));
    assert_true(json_equal(json_array_get(simple, 1), json_array_get(tools, 1)));
    json_decref(tools);
    json_decref(simple);
    json_decref(want);
}

/* Each allocation fails once: an error, no crash, no leak. */
static void test_memory(void **state)
{
    (void)state;
    json_t *tools = the_tools();
    const char *text = "<think>x</think>I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
                       "<parameter=tags>\n['a']\n</parameter>\n</function>\n</tool_call>";
    const hy_chat_format *f = hy_chat_format_of(QWEN_CODER "</think>");
    bool whole = false;
    for (int64_t k = 0; k < 60 && !whole; k++) {
        hy_err err;
        hy_chat_parser *p = NULL;
        hy_alloc_fail_after(k);
        hy_status st = hy_chat_parser_open(&p, f, tools, "", 1, &err);
        for (const char *c = text; *c && st == HY_OK; c++) st = hy_chat_parser_put(p, c, 1, NULL, NULL, &err);
        if (st == HY_OK) st = hy_chat_parser_end(p, NULL, NULL, &err);
        hy_alloc_fail_after(-1);
        assert_true(st == HY_OK || st == HY_E_MEMORY);
        hy_chat_parser_close(p);
        whole = st == HY_OK;
    }
    assert_true(whole);
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples), cmocka_unit_test(test_no_tools),    cmocka_unit_test(test_ids),
        cmocka_unit_test(test_random),  cmocka_unit_test(test_tools_check), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_plain_history), cmocka_unit_test(test_simple_tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
