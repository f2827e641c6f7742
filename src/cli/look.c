/* hayate explain, info, tokenize, completion: looking without running. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

static int print_text(char *text)
{
    fputs(text, stdout);
    hy_memory_free(text);
    return 0;
}

int cmd_explain(cli_args *a)
{
    hy_bias bias[CLI_LIST_MAX];
    if (!cli_finish_options("explain", a, bias)) return 2;
    cli_end_on_interrupt();
    cli_bar bar = { .what = "loading", .unit = "B", .quiet = a->quiet };
    a->engine.model = a->pos[0];
    a->engine.progress = cli_bar_step;
    a->engine.progress_ctx = &bar;
    char *text;
    hy_err err;
    hy_status s = hy_tool_explain(&a->engine, a->json, &text, &err);
    cli_bar_end(&bar);
    return s == HY_OK ? print_text(text) : cli_fail("explain", &err);
}

int cmd_info(cli_args *a)
{
    char *text;
    hy_err err;
    if (hy_tool_info(a->pos[0], (uint32_t)a->n_ctx, a->json, &text, &err) != HY_OK) return cli_fail("info", &err);
    return print_text(text);
}

/* ---- tokenize ---------------------------------------------------------------------------------- */

static void put_piece(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '\n') fputs("\\n", stdout);
        else if (c == '\t') fputs("\\t", stdout);
        else if (c < 32 || c == 127) printf("\\x%02x", c);
        else putchar(c);
    }
}

static int print_tokens(const hy_tokenizer *t, const cli_args *a, const int32_t *ids, size_t n)
{
    if (a->ids) {
        putchar('[');
        for (size_t i = 0; i < n; i++) printf("%s%d", i ? ", " : "", ids[i]);
        puts("]");
        return 0;
    }
    if (a->json) printf("{\"n\":%zu,\"tokens\":[", n);
    for (size_t i = 0; i < n; i++) {
        char *piece;
        size_t n_piece;
        hy_err err;
        if (hy_tokenizer_piece(t, ids[i], &piece, &n_piece, &err) != HY_OK) return cli_fail("tokenize", &err);
        if (a->json) {
            printf("%s{\"id\":%d,\"piece\":", i ? "," : "", ids[i]);
            /* a piece that cuts a character has no text of its own: its bytes are given as well */
            cli_put_json_string(piece, n_piece);
            fputs(",\"bytes\":[", stdout);
            for (size_t k = 0; k < n_piece; k++) printf("%s%u", k ? "," : "", (unsigned char)piece[k]);
            fputs("]}", stdout);
        } else {
            printf("%8d  '", ids[i]);
            put_piece(piece, n_piece);
            puts("'");
        }
        hy_memory_free(piece);
    }
    if (a->json) puts("]}");
    return 0;
}

int cmd_tokenize(cli_args *a)
{
    if (a->n_pos == 2 && a->text_file)
        return cli_error("tokenize", "give the text once: as an argument or with -f"), 2;
    char *text = NULL;
    size_t n;
    if (a->n_pos == 2) {
        text = hy_strdup(a->pos[1]);
        n = text ? strlen(text) : 0;
        if (!text) return cli_error("tokenize", "out of memory");
    } else if (!cli_read("tokenize", a->text_file ? a->text_file : "-", &text, &n)) {
        return 1;
    }
    hy_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t n_ids;
    hy_err err;
    int rc;
    if (hy_tokenizer_open(&t, a->pos[0], &err) != HY_OK ||
        hy_tokenizer_encode(t, text, n, !a->no_special, !a->no_parse_special, &ids, &n_ids, &err) != HY_OK)
        rc = cli_fail("tokenize", &err);
    else
        rc = print_tokens(t, a, ids, n_ids);
    hy_memory_free(ids);
    hy_tokenizer_close(t);
    hy_free(text);
    return rc;
}

/* ---- completion -------------------------------------------------------------------------------- */

static void words_of(const cli_command *c)
{
    for (const cli_option *o = cli_options; o->name; o++)
        if (o->groups & c->groups) printf(" --%s", o->name);
    printf(" --help");
}

static void bash(void)
{
    puts("_hayate() {\n    local cur=${COMP_WORDS[COMP_CWORD]} words\n    case ${COMP_WORDS[1]} in");
    for (const cli_command *c = cli_commands; c->name; c++) {
        printf("    %s) words=\"", c->name);
        words_of(c);
        puts("\" ;;");
    }
    printf("    *) words=\"");
    for (const cli_command *c = cli_commands; c->name; c++) printf("%s ", c->name);
    puts("\" ;;\n    esac\n    [ \"$COMP_CWORD\" = 1 ] && { COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return; }\n"
         "    case $cur in\n    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n    esac\n}\ncomplete -o filenames -F _hayate hayate");
}

static void zsh(void)
{
    puts("#compdef hayate\n_hayate() {\n    if (( CURRENT == 2 )); then\n        local -a commands=(");
    for (const cli_command *c = cli_commands; c->name; c++) printf("            '%s:%s'\n", c->name, c->summary);
    puts("        )\n        _describe command commands\n        return\n    fi\n    local -a flags\n    case $words[2] in");
    for (const cli_command *c = cli_commands; c->name; c++) {
        printf("    %s) flags=(", c->name);
        words_of(c);
        puts(") ;;");
    }
    puts("    esac\n    if [[ $words[CURRENT] == -* ]]; then compadd -- $flags; else _files; fi\n}\n"
         "compdef _hayate hayate");
}

int cmd_completion(cli_args *a)
{
    if (strcmp(a->pos[0], "bash") == 0) bash();
    else if (strcmp(a->pos[0], "zsh") == 0) zsh();
    else return cli_error("completion", "'%s' is neither bash nor zsh", a->pos[0]), 2;
    return 0;
}
