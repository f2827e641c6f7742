/* The fields of /v1/completions and /v1/chat/completions. */
#include "serve/openai.h"

#define AT(member) offsetof(hy_body, member)
#define INT_MAX_ 2147483647.0
#define I64 9.3e18

/* name, kind, min, max, offset, choices, doc, offset of "was given" */
#define BOOL(n, m, d)            { n, HY_F_BOOL, 0, 0, AT(m), NULL, d, 0 }
#define INT(n, lo, hi, m, d)     { n, HY_F_INT, lo, hi, AT(m), NULL, d, 0 }
#define NUM(n, lo, hi, m, d)     { n, HY_F_NUM, lo, hi, AT(m), NULL, d, 0 }
#define STR(n, m, c, d)          { n, HY_F_STR, 0, 0, AT(m), c, d, 0 }
#define OBJ(n, m, d)             { n, HY_F_OBJECT, 0, 0, AT(m), NULL, d, 0 }
#define ARR(n, hi, m, d)         { n, HY_F_ARRAY, 0, hi, AT(m), NULL, d, 0 }
#define ANY(n, m, v, d)          { n, HY_F_ANY, 0, 0, AT(m), v, d, 0 }
#define IGNORE(n, d)             { n, HY_F_IGNORE, 0, 0, 0, NULL, d, 0 }
#define REFUSE(n, c, d)          { n, HY_F_REFUSE, 0, 0, 0, c, d, 0 }

/* What both take. */
#define SAMPLING                                                                                                       \
    NUM("temperature", 0, 100, ask.temperature, "0: greedy; default 1"),                                               \
    NUM("top_p", 0, 1, ask.top_p, "nucleus; default 1 (off)"),                                                         \
    INT("top_k", -1, INT_MAX_, ask.top_k, "the k most likely tokens; 0 and -1: off"),                                  \
    NUM("min_p", 0, 1, ask.min_p, "at least this share of the most likely token's probability; 0: off"),               \
    NUM("typical_p", 0, 1, ask.typical_p, "locally typical sampling; 1: off"),                                         \
    NUM("typ_p", 0, 1, ask.typical_p, "llama-server's name of typical_p"),                                             \
    NUM("repeat_penalty", 0.01, 100, ask.repeat_penalty, "divides the logits of tokens seen; 1: off"),                 \
    NUM("repetition_penalty", 0.01, 100, ask.repeat_penalty, "vLLM's name of repeat_penalty"),                         \
    NUM("frequency_penalty", -2, 2, ask.frequency_penalty, "for each time a token was seen; 0: off"),                  \
    NUM("presence_penalty", -2, 2, ask.presence_penalty, "once for every token seen; 0: off"),                         \
    INT("no_repeat_ngram_size", 0, INT_MAX_, ask.no_repeat_ngram, "no sequence of so many tokens twice; 0: off"),      \
    { "seed", HY_F_INT, -I64, I64, AT(ask.seed), NULL,                                                                 \
      "the same seed gives the same text; answer i draws with seed + i; absent: random", AT(ask.has_seed) },           \
    OBJ("logit_bias", ask.logit_bias, "token id -> -100 to 100, added to the logit; -100 bans"),                       \
    INT("n", 1, 128, ask.n, "answers to each prompt; the prompt is computed once"),                                    \
    { "stop", HY_F_STRS, 0, 64, AT(ask.stop), NULL,                                                                    \
      "the text ends before the first of these; nothing of it is sent", 0 },                                           \
    { "stop_token_ids", HY_F_INTS, 0, 64, AT(ask.stop_ids), NULL,                                                      \
      "tokens that end the text like the model's own end", 0 },                                                        \
    INT("min_tokens", 0, INT_MAX_, ask.min_tokens, "the model's end tokens cannot come before so many tokens"),        \
    BOOL("ignore_eos", ask.ignore_eos, "the model's end tokens do not end the text"),                                  \
    BOOL("stream", ask.stream, "server-sent events"),                                                                  \
    OBJ("stream_options", stream_options, "with stream: include_usage, continuous_usage_stats"),                       \
    BOOL("skip_special_tokens", skip_special, "control tokens do not appear in the text; default true"),               \
    BOOL("return_token_ids", return_token_ids, "token_ids and prompt_token_ids beside the text"),                      \
    INT("prompt_logprobs", 0, HY_TOP_LOGPROBS_MAX, ask.prompt_logprobs,                                                \
        "log-probabilities of the prompt's tokens, with so many alternatives"),                                        \
    OBJ("response_format", ask.response_format,                                                                        \
        "type text, json_object, or json_schema with json_schema.schema: the text follows it"),                        \
    OBJ("structured_outputs", ask.structured_outputs, "vLLM's: one of json, json_object, regex, choice, grammar"),     \
    ANY("guided_json", ask.guided_json, "a JSON schema (object, or its text)", "the text follows the schema"),         \
    ANY("json_schema", ask.guided_json, "a JSON schema", "llama-server's name of guided_json"),                        \
    STR("guided_regex", ask.guided_regex, NULL, "the whole text matches the expression"),                              \
    STR("guided_grammar", ask.guided_grammar, NULL, "the text follows the grammar (GBNF)"),                            \
    STR("grammar", ask.guided_grammar, NULL, "llama-server's name of guided_grammar"),                                 \
    ARR("guided_choice", 10000, ask.guided_choice, "the text is one of these strings"),                                \
    INT("priority", -1000000, 1000000, ask.priority, "smaller is earlier; 0 is ordinary"),                             \
    NUM("deadline_ms", 1, 86400000, ask.deadline_ms, "the answer ends when so much time has passed"),                  \
    STR("cache_salt", ask.cache_salt, NULL, "cached prefixes are shared only with requests of the same salt"),         \
    BOOL("cache_prompt", cache_prompt, "false: neither uses nor leaves cached prefixes"),                              \
    HY_FIELD_SPECULATE(AT(ask.speculate)),                                                                             \
    IGNORE("user", "for the caller's records"), IGNORE("metadata", "for the caller's records"),                        \
    IGNORE("store", "answers are not stored"), IGNORE("service_tier", "there is one"),                                 \
    IGNORE("request_id", "the answer's id is the server's"),                                                           \
    IGNORE("safety_identifier", "for the caller's records"),                                                           \
    IGNORE("prompt_cache_key", "prefixes are found by their tokens"),                                                  \
    IGNORE("prompt_cache_retention", "prefixes stay while there is room"),                                             \
    IGNORE("prediction", "a hint for speed only"),                                                                     \
    IGNORE("guided_decoding_backend", "there is one"),                                                                 \
    IGNORE("mirostat_tau", "belongs to mirostat"), IGNORE("mirostat_eta", "belongs to mirostat"),                      \
    IGNORE("dynatemp_exponent", "belongs to dynatemp_range"), IGNORE("xtc_threshold", "belongs to xtc_probability"),   \
    IGNORE("dry_base", "belongs to dry_multiplier"), IGNORE("dry_allowed_length", "belongs to dry_multiplier"),        \
    IGNORE("dry_penalty_last_n", "belongs to dry_multiplier"),                                                         \
    IGNORE("dry_sequence_breakers", "belongs to dry_multiplier"), IGNORE("id_slot", "there are no slots"),             \
    REFUSE("use_beam_search", "false", "there is no beam search"),                                                     \
    REFUSE("length_penalty", "1", "it belongs to beam search"),                                                        \
    REFUSE("truncate_prompt_tokens", NULL, "a prompt that is too long is an error"),                                   \
    REFUSE("include_stop_str_in_output", "false", "the text ends before the stop string"),                             \
    REFUSE("spaces_between_special_tokens", "true", "tokens are joined as the model's tokenizer does"),                \
    REFUSE("allowed_token_ids", NULL, "use guided_choice or guided_regex"),                                            \
    REFUSE("bad_words", "[]", "use logit_bias"),                                                                       \
    REFUSE("logits_processors", "[]", "code cannot be sent"),                                                          \
    REFUSE("guided_whitespace_pattern", NULL, "JSON has its own white space"),                                         \
    REFUSE("structural_tag", NULL, "use tools or guided_grammar"),                                                     \
    REFUSE("kv_transfer_params", NULL, "there is no transfer of caches between servers"),                              \
    REFUSE("mirostat", "0", "there is no mirostat"),                                                                   \
    REFUSE("dynatemp_range", "0", "the temperature is constant"),                                                      \
    REFUSE("xtc_probability", "0", "there is no XTC sampler"),                                                         \
    REFUSE("dry_multiplier", "0", "there is no DRY sampler; use no_repeat_ngram_size"),                                \
    REFUSE("top_n_sigma", "-1|0", "there is no top-n-sigma sampler"),                                                  \
    REFUSE("tfs_z", "1", "there is no tail-free sampler"),                                                             \
    REFUSE("repeat_last_n", "-1", "penalties look at the whole text"),                                                 \
    REFUSE("penalty_last_n", "-1", "penalties look at the whole text"),                                                \
    REFUSE("samplers", NULL, "the order of the samplers is fixed"),                                                    \
    REFUSE("grammar_lazy", "false", "use tools"), REFUSE("grammar_triggers", "[]", "use tools"),                       \
    REFUSE("lora", "[]", "there are no adapters"),                                                                     \
    REFUSE("t_max_predict_ms", "0", "use deadline_ms"),                                                                \
    REFUSE("timings_per_token", "false", "timings come with the last chunk"),                                          \
    REFUSE("return_progress", "false", "progress of the prompt is not streamed"),                                      \
    REFUSE("post_sampling_probs", "false", "logprobs are of the model's own distribution"),                            \
    REFUSE("n_probs", "0", "use logprobs"),                                                                            \
    REFUSE("n_keep", "0", "the context does not slide: what does not fit is refused"),                                 \
    REFUSE("n_discard", "0", "the context does not slide: what does not fit is refused"),                              \
    REFUSE("n_indent", "0", "there is no sampler for indentation")

const hy_field hy_chat_fields[] = {
    STR("model", model, NULL,
        "the model's id; absent or another: the one that is served (with --strict-model another is a 404)"),
    ANY("messages", ask.messages, "array of messages",
        "roles system, developer, user, assistant, tool; content a string or text parts"),
    { "max_completion_tokens", HY_F_INT, -1, INT_MAX_, AT(max_completion_tokens), NULL,
      "most tokens of the answer; absent or -1: as far as the context goes", AT(has_max_completion) },
    { "max_tokens", HY_F_INT, -1, INT_MAX_, AT(ask.max_tokens), NULL, "older name of max_completion_tokens",
      AT(has_max_tokens) },
    { "n_predict", HY_F_INT, -1, INT_MAX_, AT(n_predict), NULL, "llama-server's name of max_completion_tokens",
      AT(has_n_predict) },
    BOOL("logprobs", logprobs, "log-probabilities of the answer's tokens"),
    { "top_logprobs", HY_F_INT, 0, HY_TOP_LOGPROBS_MAX, AT(top_logprobs), NULL,
      "with logprobs: so many alternatives for each token", AT(has_top_logprobs) },
    ARR("tools", 1024, ask.tools, "functions that the model may call"),
    ANY("tool_choice", tool_choice, "none, auto, required, or an object that names a function or allowed_tools",
        "auto when there are tools"),
    BOOL("parallel_tool_calls", ask.parallel, "more than one call in an answer; default true"),
    STR("reasoning_effort", ask.reasoning_effort, "none|minimal|low|medium|high|xhigh|max",
        "variable reasoning_effort of the template; none: enable_thinking = false"),
    { "enable_thinking", HY_F_BOOL, 0, 0, AT(enable_thinking), NULL, "variable enable_thinking of the template",
      AT(has_thinking) },
    STR("reasoning_format", reasoning_format, "none|auto|deepseek", "none: thoughts stay in content"),
    BOOL("include_reasoning", include_reasoning, "false: thoughts are left out of the answer"),
    { "add_generation_prompt", HY_F_BOOL, 0, 0, AT(add_generation_prompt), NULL,
      "the prompt ends with the opening of an answer; default true", AT(has_generation_prompt) },
    BOOL("continue_final_message", continue_final, "the answer continues the last message"),
    OBJ("chat_template_kwargs", ask.template_kwargs, "variables for the template"),
    STR("chat_template", ask.chat_template, NULL,
        "a template instead of the model's; refused without --allow-template"),
    ARR("documents", 10000, ask.documents, "variable documents of the template"),
    SAMPLING,
    REFUSE("echo", "false", "only /v1/completions can repeat the prompt"),
    REFUSE("best_of", "1", "use n"),
    REFUSE("add_special_tokens", "false", "the template writes them"),
    REFUSE("modalities", "[\"text\"]", "answers are text"),
    REFUSE("audio", NULL, "answers are text"),
    REFUSE("web_search_options", NULL, "there is no search"),
    REFUSE("verbosity", "\"medium\"", "say it in the messages"),
    REFUSE("functions", NULL, "use tools"),
    REFUSE("function_call", NULL, "use tool_choice"),
    REFUSE("mm_processor_kwargs", NULL, "there are only texts"),
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};

const hy_field hy_completion_fields[] = {
    STR("model", model, NULL,
        "the model's id; absent or another: the one that is served (with --strict-model another is a 404)"),
    ANY("prompt", ask.prompt, "string, array of strings, token ids, or arrays of them",
        "each prompt has its own choices: index = i_prompt * n + i"),
    { "max_tokens", HY_F_INT, -1, INT_MAX_, AT(ask.max_tokens), NULL,
      "most tokens of the answer; default 16; -1: as far as the context goes; 0: with echo, the prompt alone",
      AT(has_max_tokens) },
    { "n_predict", HY_F_INT, -1, INT_MAX_, AT(n_predict), NULL, "llama-server's name of max_tokens",
      AT(has_n_predict) },
    ANY("logprobs", legacy_logprobs, "integer, 0 to 20, or a bool", "log-probabilities, with so many alternatives"),
    BOOL("echo", echo, "the prompt stands before the answer"),
    { "best_of", HY_F_INT, 1, 128, AT(best_of), NULL, "so many are made, the n most likely are given",
      AT(has_best_of) },
    BOOL("add_special_tokens", add_special, "a text prompt gets BOS and the like; default true"),
    SAMPLING,
    REFUSE("suffix", "\"\"", "texts cannot be filled in the middle"),
    REFUSE("messages", NULL, "use /v1/chat/completions"),
    { NULL, 0, 0, 0, 0, NULL, NULL, 0 }
};
