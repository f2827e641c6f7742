/* Trace files: "Trace Event Format" (the JSON object form, complete events "X" and metadata "M"), which
 * ui.perfetto.dev opens. Times are in microseconds there. */
#include "probe/probe.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static void put_head(hy_trace *t)
{
    fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", t->f);
}

hy_status hy_trace_open(hy_trace *t, const char *path, hy_err *err)
{
    *t = (hy_trace){ .f = fopen(path, "we") };
    if (!t->f) return hy_fail(err, HY_E_IO, "%s: cannot write: %s", path, strerror(errno));
    put_head(t);
    return HY_OK;
}

hy_status hy_trace_open_text(hy_trace *t, char **text, size_t *n_text, hy_err *err)
{
    *text = NULL;
    *t = (hy_trace){ .f = open_memstream(text, n_text) };
    if (!t->f) return hy_fail_memory(err, "trace", 0);
    put_head(t);
    return HY_OK;
}

/* Names are ours but for models' names: quotes, backslashes and control characters are escaped. */
static void put_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') fprintf(f, "\\%c", c);
        else if (c < 32) fprintf(f, "\\u%04x", c);
        else fputc(c, f);
    }
    fputc('"', f);
}

static void begin(hy_trace *t)
{
    fputs(t->n++ ? ",\n" : "\n", t->f);
}

void hy_trace_thread(hy_trace *t, uint32_t tid, const char *name)
{
    begin(t);
    fprintf(t->f, "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, \"tid\": %u, \"args\": {\"name\": ", tid);
    put_string(t->f, name);
    fputs("}}", t->f);
}

void hy_trace_span(hy_trace *t, uint32_t tid, const char *name, const char *category, uint64_t ns_first,
                   uint64_t ns_last, const char *detail)
{
    begin(t);
    fputs("{\"ph\": \"X\", \"name\": ", t->f);
    put_string(t->f, name);
    fputs(", \"cat\": ", t->f);
    put_string(t->f, category);
    uint64_t dur = ns_last - ns_first;
    fprintf(t->f, ", \"pid\": 1, \"tid\": %u, \"ts\": %" PRIu64 ".%03u, \"dur\": %" PRIu64 ".%03u", tid,
            ns_first / 1000, (unsigned)(ns_first % 1000), dur / 1000, (unsigned)(dur % 1000));
    if (detail) fprintf(t->f, ", \"args\": %s", detail);
    fputc('}', t->f);
}

hy_status hy_trace_close(hy_trace *t, const char *path, hy_err *err)
{
    fputs("\n]}\n", t->f);
    bool bad = ferror(t->f) != 0;
    int e = errno;
    if (fclose(t->f) != 0) {
        bad = true;
        e = errno;
    }
    t->f = NULL;
    if (bad) return hy_fail(err, HY_E_IO, "%s: cannot write: %s", path, strerror(e));
    return HY_OK;
}
