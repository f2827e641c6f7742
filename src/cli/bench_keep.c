/* Results of `hayate bench` kept as files, by machine, model, options and commit, and compared with later ones. A file
 * holds all repeats, not only medians, so that a comparison can say what is noise. */
#include "bench.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FORMAT "hayate-bench 1"
#define FILE_MAX_BYTES (4 * HY_MIB)
#define KEPT_MAX 64            /* the newest of a machine and model that are looked at */
#define HISTORY 8              /* runs that say how much this machine differs from day to day */
#define FLOOR 0.03
#define FLOOR_MOST 0.1

/* ---- what a result belongs to -------------------------------------------------------------------------------- */

static bool default_folder(hy_buf *b)
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (xdg && *xdg) hy_buf_str(b, xdg);
    else if (home && *home) hy_buf_printf(b, "%s/.local/share", home);
    else return false;
    hy_buf_str(b, "/hayate/bench");
    return true;
}

/* The options that a speed depends on, as the user or `tune` set them: results of others are not comparable. */
static char *flags_of(const cli_args *a)
{
    hy_buf b = { 0 };
    const hy_options *e = &a->engine;
    hy_buf_printf(&b,
                  "threads=%" PRIu64 "/%" PRIu64 " step=%" PRIu64
                  " kv=%s/%s weights=%s%s isa=%s activations=%s%s%s%s attention=%s",
                  a->n_threads, a->n_threads_decode, a->n_step, a->kv_mode ? a->kv_mode : "paged",
                  e->kv_type ? e->kv_type : "auto", e->weights ? e->weights : "file", e->weights_all ? "+" : "",
                  e->isa ? e->isa : "best", a->activations ? a->activations : "int8", e->no_fuse ? " no-fuse" : "",
                  e->pin ? " pin" : "", e->no_huge_pages ? " no-huge-pages" : "",
                  e->attention ? e->attention : "flash");
    if (!b.failed) return b.data;
    hy_buf_free(&b);
    return NULL;
}

static void prefix_of(const bench_keep *k, char out[64])
{
    snprintf(out, 64, "bench-%.16s-%016" PRIx64 "-", k->model, hy_hash64(k->machine, strlen(k->machine), 0));
}

/* ---- reading what is kept --------------------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
    return -strcmp(*(char *const *)a, *(char *const *)b); /* the names hold the time */
}

static bool numbers(const json_t *v)
{
    size_t n = json_array_size(v);
    for (size_t i = 0; i < n; i++) {
        double x = json_number_value(json_array_get(v, i));
        if (!(x > 0 && x < 1e12)) return false;
    }
    return n > 0 && n <= BENCH_REPEATS_MAX;
}

/* Everything that is read of a result later, checked once. */
static bool sound(const json_t *o)
{
    const json_t *shapes = json_object_get(o, "shapes"), *s;
    static const char *const texts[] = { "machine", "model", "flags", "commit", "at", "name" };
    const char *format = json_string_value(json_object_get(o, "format"));
    if (!format || strcmp(format, FORMAT) != 0 || json_array_size(shapes) == 0 ||
        json_array_size(shapes) > BENCH_SHAPES_MAX)
        return false;
    for (size_t i = 0; i < HY_COUNT(texts); i++)
        if (!json_is_string(json_object_get(o, texts[i]))) return false;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)shapes, i, s)
        if (!json_is_string(json_object_get(s, "test")) || !json_is_integer(json_object_get(s, "n")) ||
            !json_is_integer(json_object_get(s, "depth")) || !json_is_integer(json_object_get(s, "rows")) ||
            !numbers(json_object_get(s, "tps")))
            return false;
    return true;
}

static bool equal(const json_t *o, const char *name, const char *want)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s && strcmp(s, want) == 0;
}

static void load_one(bench_keep *k, const char *name)
{
    hy_buf path = { 0 };
    char *text = NULL;
    size_t n;
    hy_err err = { 0 };
    hy_buf_printf(&path, "%s/%s", k->folder, name);
    json_error_t je;
    json_t *o = NULL;
    if (!path.failed && hy_read_file(path.data, FILE_MAX_BYTES, &text, &n, &err) == HY_OK)
        o = json_loadb(text, n, 0, &je);
    if (!sound(o))
        cli_error("bench", "%s: not used: %s", path.data ? path.data : name,
                  text ? "no result of hayate bench" : err.msg);
    else if (equal(o, "machine", k->machine) && equal(o, "model", k->model) && equal(o, "flags", k->flags))
        json_array_append(k->kept, o);
    json_decref(o);
    hy_free(text);
    hy_buf_free(&path);
}

static void load_all(bench_keep *k)
{
    char begin[64];
    char **names = NULL;
    size_t n = 0;
    prefix_of(k, begin);
    DIR *d = opendir(k->folder);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        size_t len = strlen(e->d_name);
        if (strncmp(e->d_name, begin, strlen(begin)) != 0 || len < 5 || strcmp(e->d_name + len - 5, ".json") != 0)
            continue;
        char **more = hy_realloc_array(names, n + 1, sizeof *names);
        if (!more) break;
        names = more;
        if ((names[n] = hy_strdup(e->d_name))) n++;
    }
    if (d) closedir(d);
    if (n) qsort(names, n, sizeof *names, newest_first);
    for (size_t i = 0; i < n; i++) {
        if (json_array_size(k->kept) < KEPT_MAX) load_one(k, names[i]);
        hy_free(names[i]);
    }
    hy_free(names);
}

static bool regressed(const json_t *o)
{
    return json_array_size(json_object_get(o, "regressed")) > 0;
}

/* By name or commit; else the last one that was not slower than its own base. */
static bool find_base(bench_keep *k)
{
    const char *want = k->a->compare, *commit;
    size_t i, n = strlen(want);
    json_t *o;
    json_array_foreach(k->kept, i, o) {
        commit = json_string_value(json_object_get(o, "commit"));
        if (n ? equal(o, "name", want) || (n >= 4 && strncmp(commit, want, n) == 0) : !regressed(o)) {
            k->base = o;
            return true;
        }
    }
    if (n)
        return cli_error("bench",
                         "--compare: no result is called '%s' or of such a commit, for this model, machine and "
                         "options, in %s",
                         want, k->folder),
               false;
    if (!k->a->quiet)
        fprintf(stderr, "bench: nothing is kept yet to compare with, for this model, machine and options\n");
    return true;
}

bool bench_keep_open(bench_keep *k, const cli_args *a)
{
    *k = (bench_keep){ .a = a, .floor = FLOOR };
    if (!a->save && !a->compare) return true;
    hy_err err;
    hy_buf folder = { 0 };
    if (!cli_share("bench", "--noise-floor", a->noise_floor, 1, &k->floor)) return false;
    if (a->compare && a->repeats < 4)
        return cli_error("bench", "--compare: %" PRIu64 " repeats cannot tell a change from noise: -r 4 at least",
                         a->repeats),
               false;
    if (hy_tool_machine(&k->machine, &err) != HY_OK || hy_tool_model_id(a->pos[0], k->model, &err) != HY_OK)
        return cli_fail("bench", &err), false;
    if (a->results) hy_buf_str(&folder, a->results);
    else if (!default_folder(&folder))
        return cli_error("bench", "no folder for results: HOME is not set; --results DIR names one"), false;
    k->folder = folder.data;
    k->flags = flags_of(a);
    k->kept = json_array();
    struct timespec now = { 0 };
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    k->at_us = (uint32_t)(now.tv_nsec / 1000);
    if (gmtime_r(&now.tv_sec, &tm)) strftime(k->at, sizeof k->at, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (folder.failed || !k->flags || !k->kept) return cli_error("bench", "out of memory"), false;
    if (getloadavg(&k->load, 1) != 1) k->load = -1;
    if (a->compare) load_all(k);
    return !a->compare || find_base(k);
}

void bench_keep_close(bench_keep *k)
{
    hy_memory_free(k->machine);
    hy_free(k->folder);
    hy_free(k->flags);
    json_decref(k->kept);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static const char *test_of(const bench_shape *s)
{
    return s->n_prompt ? "pp" : "tg";
}

void bench_shape_name(const bench_shape *s, char out[64])
{
    snprintf(out, 64, "%s%u at depth %u, %u row%s", test_of(s), s->n_prompt ? s->n_prompt : s->n_gen, s->depth, s->rows,
             s->rows == 1 ? "" : "s");
}

/* The repeats of a shape in a result; their number, 0 when it lacks the shape. */
static uint32_t repeats_of(const json_t *o, const bench_shape *s, double out[BENCH_REPEATS_MAX])
{
    json_t *shapes = json_object_get(o, "shapes"), *t;
    size_t i, k;
    json_array_foreach(shapes, i, t) {
        if (!equal(t, "test", test_of(s)) ||
            json_integer_value(json_object_get(t, "n")) != (s->n_prompt ? s->n_prompt : s->n_gen) ||
            json_integer_value(json_object_get(t, "depth")) != s->depth ||
            json_integer_value(json_object_get(t, "rows")) != s->rows)
            continue;
        const json_t *tps = json_object_get(t, "tps");
        for (k = 0; k < json_array_size(tps); k++) out[k] = json_number_value(json_array_get(tps, k));
        return (uint32_t)k;
    }
    return 0;
}

/* Twice the change that is usual between one run here and the next: a virtual machine's neighbours come and go. */
static double usual_change(const bench_keep *k, const bench_shape *s, double *room)
{
    double before = 0, change[HISTORY];
    uint32_t n = 0;
    for (size_t i = 0; i < json_array_size(k->kept) && n < HISTORY; i++) {
        uint32_t m = repeats_of(json_array_get(k->kept, i), s, room);
        if (!m) continue;
        double now = hy_median(room, m);
        if (before > 0) change[n++] = fabs(log(now / before));
        before = now;
    }
    return n >= 3 ? 2 * hy_median(change, n) : 0;
}

void bench_keep_compare(const bench_keep *k, bench_shape *s, uint32_t n)
{
    static const bench_change none = { 0 };
    s->change = none;
    double *room = k->base ? HY_NEW_ARRAY(double, 2 * BENCH_REPEATS_MAX) : NULL;
    if (!room) return;
    bench_change *c = &s->change;
    c->floor = HY_MAX(k->floor, HY_MIN(usual_change(k, s, room), FLOOR_MOST));
    c->n_base = repeats_of(k->base, s, room);
    if (c->n_base) {
        double *now = room + BENCH_REPEATS_MAX;
        memcpy(now, s->tps, n * sizeof *now);
        c->change = hy_speed_change(room, c->n_base, now, n, c->floor, &c->ratio, &c->p);
        c->base = hy_median(room, c->n_base);
        c->known = true;
    }
    hy_free(room);
}

static const char *const change_names[] = { "same", "faster", "slower" };

static void print_change(const bench_shape *s, bool json)
{
    const bench_change *c = &s->change;
    char name[64];
    bench_shape_name(s, name);
    const char *verdict = !c->known ? "new" : change_names[c->change];
    if (!json) {
        printf("%-32s ", name);
        if (c->known)
            printf("%10.2f before, %+6.1f %% (p = %.3f, below %.0f %% counts as noise): %s%s\n", c->base,
                   100 * (c->ratio - 1), c->p, 100 * c->floor, verdict,
                   c->doubted ? " (slower once, not when measured again)" : "");
        else printf("%s: the base has not measured it\n", verdict);
        return;
    }
    printf("{\"compare\":\"%s\",\"verdict\":\"%s\"", name, verdict);
    if (c->known)
        printf(",\"base\":%.3f,\"ratio\":%.5f,\"p\":%.6f,\"floor\":%.4f,\"confirmed\":%s", c->base, c->ratio,
               isnan(c->p) ? 1 : c->p, c->floor, c->doubted ? "false" : "true");
    printf("}\n");
}

uint32_t bench_keep_report(const bench_keep *k, const bench_shape *list, uint32_t n_shape)
{
    uint32_t slower = 0;
    if (!k->base) return 0;
    const char *commit = json_string_value(json_object_get(k->base, "commit")),
               *at = json_string_value(json_object_get(k->base, "at"));
    const char *called = json_string_value(json_object_get(k->base, "name"));
    bool json = k->a->json;
    if (!json)
        printf("\nagainst %s%s%s of %s (now: %s)\n", commit, *called ? ", " : "", called, at, hy_commit);
    for (uint32_t i = 0; i < n_shape; i++) {
        print_change(&list[i], json);
        slower += list[i].change.change == HY_CHANGE_SLOWER;
    }
    if (!json && k->load > 0.75)
        printf("The machine was not quiet (load %.1f).\n", k->load);
    for (uint32_t i = 0; i < n_shape; i++) {
        if (list[i].change.change != HY_CHANGE_SLOWER) continue;
        char name[64];
        bench_shape_name(&list[i], name);
        fprintf(stderr, "hayate bench: slower: %s: %.1f %% less than %s\n", name, 100 * (1 - list[i].change.ratio),
                commit);
    }
    return slower;
}

/* ---- keeping --------------------------------------------------------------------------------------------- */

static json_t *shape_json(const bench_shape *s, uint32_t n, const hy_facts *f)
{
    json_t *tps = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(tps, json_real(s->tps[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:o}", "test", test_of(s), "n",
                     (int)(s->n_prompt ? s->n_prompt : s->n_gen), "depth", (int)s->depth, "rows", (int)s->rows,
                     "threads", (int)f->n_threads, "threads_decode", (int)f->n_threads_decode, "isa", f->isa,
                     "kv_type", f->kv_type, "tps", tps);
}

bool bench_keep_save(const bench_keep *k, const bench_shape *list, uint32_t n_shape, uint32_t n, const hy_facts *f)
{
    json_t *shapes = json_array(), *slower = json_array();
    for (uint32_t i = 0; i < n_shape; i++) {
        char name[64];
        bench_shape_name(&list[i], name);
        json_array_append_new(shapes, shape_json(&list[i], n, f));
        if (list[i].change.change == HY_CHANGE_SLOWER) json_array_append_new(slower, json_string(name));
    }
    const char *file = strrchr(k->a->pos[0], '/');
    json_t *file_name = json_string(file && file[1] ? file + 1 : k->a->pos[0]), *called = json_string(k->a->save);
    json_t *o = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:f, s:o, s:o}", "format", FORMAT,
                          "name", called ? called : json_string(""), "at", k->at, "commit", hy_commit, "version",
                          HY_VERSION, "machine", k->machine, "model", k->model, "file",
                          file_name ? file_name : json_string("?"), "family", f->family, "flags", k->flags, "load",
                          k->load, "shapes", shapes, "regressed", slower);
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL, begin[64];
    json_decref(o);
    hy_buf path = { 0 };
    hy_err err;
    prefix_of(k, begin);
    hy_buf_printf(&path, "%s/%s%s-%06u.json", k->folder, begin, k->at, k->at_us); /* names are in the order of time */
    bool good = text && !path.failed;
    if (!good) cli_error("bench", "out of memory");
    else if (!hy_make_folders(path.data))
        good = (cli_error("bench", "%s: cannot be made: %s", k->folder, strerror(errno)), false);
    else if (hy_write_file(path.data, text, strlen(text), &err) != HY_OK) good = (cli_fail("bench", &err), false);
    if (good && !k->a->quiet) fprintf(stderr, "bench: kept as %s\n", path.data);
    free(text); /* jansson's */
    hy_buf_free(&path);
    return good;
}
