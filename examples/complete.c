/* complete MODEL PROMPT: the smallest program over libhayate.
 *   cc complete.c $(pkg-config --cflags --libs hayate) */
#include <hayate/hayate.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    hy_err err;
    hy_options o;
    hy_params p;
    hy_engine *engine;
    hy_request *request;
    hy_event ev;

    if (argc != 3) return fprintf(stderr, "usage: complete MODEL PROMPT\n"), 2;
    hy_options_init(&o);
    o.model = argv[1];
    if (hy_open(&engine, &o, &err) != HY_OK) return fprintf(stderr, "%s\n", err.msg), 1;

    hy_params_init(&p);
    p.prompt = argv[2];
    p.max_tokens = 32;
    p.temperature = 0;
    if (hy_submit(engine, &p, &request, &err) != HY_OK) {
        fprintf(stderr, "%s\n", err.msg);
        hy_close(engine);
        return 1;
    }
    do {
        if (hy_poll(request, -1, &ev, &err) != HY_OK) {
            fprintf(stderr, "%s\n", err.msg);
            break;
        }
        fwrite(ev.text, 1, ev.n_text, stdout);
    } while (ev.kind != HY_EV_DONE);
    putchar('\n');
    hy_release(request);
    hy_close(engine);
    return 0;
}
