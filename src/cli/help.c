#include "cli.h"
#include <stdio.h>
#include <string.h>

void cli_print_usage(void)
{
    printf("hayate %s: run large language models, fast, and show how fast\n\n"
           "usage: hayate COMMAND [OPTIONS] ...\n\n", HY_VERSION);
    for (const cli_command *c = cli_commands; c->name; c++) printf("  %-11s %s\n", c->name, c->summary);
    printf("\n`hayate help COMMAND` shows options and examples. Options may also stand in the environment\n"
           "(HAYATE_THREADS=2) or in ~/.config/hayate/config (threads = 2); a flag wins over both.\n");
}

void cli_print_help(const cli_command *c)
{
    printf("hayate %s: %s\n\nusage: hayate %s %s%s\n\n%s", c->name, c->summary, c->name,
           c->groups ? "[OPTIONS] " : "", c->pos, c->about);
    bool any = false;
    for (const cli_option *o = cli_options; o->name; o++) {
        if (!(o->groups & c->groups)) continue;
        if (!any) printf("\noptions:\n");
        any = true;
        char left[64], letter[5] = "    ";
        if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, o->kind == CLI_MAYBE ? "%s--%s[=%s]" : "%s--%s %s", letter, o->name, o->arg ? o->arg : "");
        printf("  %-32s %s\n", left, o->help);
    }
}

int cmd_help(cli_args *a)
{
    if (a->n_pos == 0) {
        cli_print_usage();
        return 0;
    }
    const cli_command *c = cli_find(a->pos[0]);
    if (!c) return cli_error("help", "no command '%s'; `hayate help` lists them", a->pos[0]);
    cli_print_help(c);
    return 0;
}

int cmd_version(cli_args *a)
{
    printf("hayate %s\n", HY_VERSION);
    return 0;
}
