/* hayate cpu: what this machine can do. */
#include "cli.h"
#include <stdio.h>

int cmd_cpu(cli_args *a)
{
    cli_end_on_interrupt();
    cli_bar bar = { .what = "measuring", .unit = "steps", .quiet = a->quiet };
    char *text;
    hy_err err;
    hy_status s = hy_tool_cpu(a->fresh, a->json, cli_bar_step, &bar, &text, &err);
    cli_bar_end(&bar);
    if (s != HY_OK) return cli_fail("cpu", &err);
    fputs(text, stdout);
    hy_memory_free(text);
    return 0;
}
