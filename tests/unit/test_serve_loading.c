/* A server whose model does not come: it answers meanwhile, and can be stopped. The loader waits in its progress
 * callback until the test lets it go on. */
#include "serve/serve.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct run {
    hy_options engine;
    hy_serve_options o;
    sem_t listening, loading;  /* posted by the server's threads */
    _Atomic bool go;
    char url[128];
    pthread_t thread;
    hy_status status;
    hy_err err;
} run;

static bool hold(void *ctx, uint64_t done, uint64_t all)
{
    run *r = ctx;
    sem_post(&r->loading);
    while (!atomic_load(&r->go)) usleep(1000);
    return false;
}

static void ready(void *ctx, const char *url)
{
    run *r = ctx;
    snprintf(r->url, sizeof r->url, "%s", url);
    sem_post(&r->listening);
}

static void *serve(void *ctx)
{
    run *r = ctx;
    r->status = hy_serve_run(&r->engine, &r->o, ready, r, &r->err);
    return NULL;
}

static void begin(run *r)
{
    memset(r, 0, sizeof *r);
    hy_options_init(&r->engine);
    hy_serve_options_init(&r->o);
    r->engine.model = HY_DATA "/models/llama3/model-bf16.gguf";
    r->engine.n_threads = 1;
    r->engine.progress = hold;
    r->engine.progress_ctx = r;
    r->o.port = 0;
    sem_init(&r->listening, 0, 0);
    sem_init(&r->loading, 0, 0);
    assert_int_equal(pthread_create(&r->thread, NULL, serve, r), 0);
    sem_wait(&r->listening);
    sem_wait(&r->loading);
}

static void end(run *r)
{
    pthread_join(r->thread, NULL);
    sem_destroy(&r->listening);
    sem_destroy(&r->loading);
}

/* The whole answer to a GET on a connection of its own. */
static void get(const run *r, const char *path, char *out, size_t n_out)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    a.sin_port = htons((uint16_t)atoi(strrchr(r->url, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    dprintf(fd, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    size_t n = 0;
    ssize_t k;
    while (n < n_out - 1 && (k = read(fd, out + n, n_out - 1 - n)) > 0) n += (size_t)k;
    out[n] = 0;
    close(fd);
}

static void assert_answer(const run *r, const char *path, const char *status, const char *text)
{
    char out[8192];
    get(r, path, out, sizeof out);
    assert_memory_equal(out, status, strlen(status));
    if (!strstr(out, text)) fail_msg("%s: no '%s' in %s", path, text, out);
}

static void test_answers_while_loading(void **state)
{
    run r;
    char out[8192];
    begin(&r);
    assert_answer(&r, "/health", "HTTP/1.1 200", "\"ok\"");
    assert_answer(&r, "/ready", "HTTP/1.1 503", "\"loading\"");
    assert_answer(&r, "/version", "HTTP/1.1 200", HY_VERSION);
    assert_answer(&r, "/v1/models", "HTTP/1.1 503", "Retry-After: ");
    assert_answer(&r, "/v1/models", "HTTP/1.1 503", "\"code\":\"loading\"");
    assert_answer(&r, "/metrics", "HTTP/1.1 503", "loading");
    assert_answer(&r, "/nothing", "HTTP/1.1 404", "/nothing");
    atomic_store(&r.go, true);
    do get(&r, "/ready", out, sizeof out);
    while (memcmp(out, "HTTP/1.1 503", 12) == 0);
    assert_memory_equal(out, "HTTP/1.1 200", 12);
    assert_answer(&r, "/v1/models", "HTTP/1.1 200", "\"model-bf16\"");
    kill(getpid(), SIGTERM);
    end(&r);
    if (r.status != HY_OK) fail_msg("%s", r.err.msg);
}

static void test_stopped_while_loading(void **state)
{
    run r;
    begin(&r);
    kill(getpid(), SIGTERM);
    char out[8192];
    do get(&r, "/ready", out, sizeof out); /* the signal has been seen: the first one only */
    while (!strstr(out, "draining"));
    atomic_store(&r.go, true);
    end(&r);
    assert_int_equal(r.status, HY_E_CANCELLED);
}

static void test_no_model(void **state)
{
    run r;
    memset(&r, 0, sizeof r);
    hy_options_init(&r.engine);
    hy_serve_options_init(&r.o);
    r.engine.model = HY_DATA "/no-such-model.gguf";
    r.o.port = 0;
    sem_init(&r.listening, 0, 0);
    serve(&r);
    assert_int_not_equal(r.status, HY_OK);
    assert_non_null(strstr(r.err.msg, "no-such-model.gguf"));
    sem_destroy(&r.listening);
}

int main(void)
{
    sigset_t all; /* the server's thread takes them, none may end the test */
    sigemptyset(&all);
    sigaddset(&all, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_while_loading),
        cmocka_unit_test(test_stopped_while_loading),
        cmocka_unit_test(test_no_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
