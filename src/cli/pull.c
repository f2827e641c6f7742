/* hayate pull: downloading a model. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

static const char *file_of(const char *source)
{
    const char *slash = strrchr(source, '/');
    return slash && slash[1] ? slash + 1 : source;
}

int cmd_pull(cli_args *a)
{
    cli_catch_interrupt();
    cli_bar bar = { .what = file_of(a->pos[0]), .unit = "B", .quiet = a->quiet };
    char *saved = NULL;
    hy_err err;
    hy_status s = hy_tool_pull(a->pos[0], a->out, a->sha256, cli_bar_step, &bar, &saved, &err);
    cli_bar_end(&bar);
    if (s != HY_OK) return cli_fail("pull", &err);
    if (a->json) {
        fputs("{\"file\":", stdout);
        cli_put_json_string(saved, strlen(saved));
        puts("}");
    } else {
        puts(saved);
    }
    hy_memory_free(saved);
    return 0;
}
