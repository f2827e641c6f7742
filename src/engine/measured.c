/* What was measured once, kept as small JSON files in the user's cache folder. A file that cannot be read,
 * is broken, or belongs to another key counts as absent. */
#include "measured.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX_BYTES (1 * HY_MIB)

bool hy_cache_folder(hy_buf *out)
{
    const char *own = getenv("HAYATE_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own) hy_buf_str(out, own);
    else if (xdg && *xdg) hy_buf_str(out, xdg);
    else if (home && *home) hy_buf_printf(out, "%s/.cache", home);
    else return false;
    hy_buf_str(out, "/hayate");
    return !out->failed;
}

bool hy_cache_path(const char *kind, const char *key, hy_buf *out)
{
    if (!hy_cache_folder(out)) return false;
    hy_buf_printf(out, "/%s-%016" PRIx64 ".json", kind, hy_hash64(key, strlen(key), 0));
    return !out->failed;
}

json_t *hy_cache_get(const char *kind, const char *key)
{
    hy_buf path = { 0 };
    json_t *all = NULL, *value = NULL;
    if (hy_cache_path(kind, key, &path) && hy_is_file(path.data) &&
        hy_json_load_file(path.data, FILE_MAX_BYTES, &all, NULL) == HY_OK) {
        const char *have = json_string_value(json_object_get(all, "key"));
        value = json_object_get(all, kind);
        if (!have || strcmp(have, key) != 0 || !json_is_object(value)) value = NULL;
        json_incref(value);
    }
    json_decref(all);
    hy_buf_free(&path);
    return value;
}

bool hy_cache_put(const char *kind, const char *key, json_t *value)
{
    hy_buf path = { 0 };
    json_t *all = json_pack("{s:s, s:O}", "key", key, kind, value);
    char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    bool good = text && hy_cache_path(kind, key, &path) && hy_make_folders(path.data) &&
                hy_write_file(path.data, text, strlen(text), NULL) == HY_OK;
    if (!good) hy_log(HY_LOG_DEBUG, "measured: not kept", "kind=%s path=%s", kind, path.data ? path.data : "-");
    free(text); /* jansson's */
    json_decref(all);
    hy_buf_free(&path);
    return good;
}

bool hy_cache_file(const char *name, hy_buf *out)
{
    if (!hy_cache_folder(out)) return false;
    hy_buf_printf(out, "/%s", name);
    return !out->failed && hy_make_folders(out->data);
}

void hy_cache_drop_kind(const char *kind)
{
    hy_buf folder = { 0 };
    DIR *d = hy_cache_folder(&folder) ? opendir(folder.data) : NULL;
    size_t n = strlen(kind);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        size_t len = strlen(e->d_name);
        if (strncmp(e->d_name, kind, n) != 0 || e->d_name[n] != '-' || len < 5 ||
            strcmp(e->d_name + len - 5, ".json") != 0)
            continue;
        (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
    hy_buf_free(&folder);
}

/* ---- the machine ------------------------------------------------------------------------------- */

char *hy_machine_text(const hy_topology *top)
{
    hy_buf b = { 0 };
    hy_buf_printf(&b, "%s; %u processors, %u allowed, %u cores; quota %.2f; features %" PRIx64 "; caches %" PRIu64
                  " %" PRIu64 " %" PRIu64, top->model, top->n_cpu_online, top->n_cpu_allowed, top->n_core_allowed,
                  top->quota_cpus, hy_cpu_features(), top->l1d_bytes, top->l2_bytes, top->l3_bytes);
    if (!b.failed) return b.data;
    hy_buf_free(&b);
    return NULL;
}

char *hy_machine_key(const hy_topology *top)
{
    char *text = hy_machine_text(top);
    hy_buf b = { 0 };
    if (text) hy_buf_printf(&b, "%s; hayate %s", text, HY_VERSION);
    hy_free(text);
    if (text && !b.failed) return b.data;
    hy_buf_free(&b);
    return NULL;
}

static const char *const place_names[HY_PROBE_PLACES] = { "l1", "l2", "l3", "memory" };

json_t *hy_probe_json(const hy_probe *p)
{
    json_t *points = json_array(), *levels = json_array();
    for (uint32_t i = 0; i < p->n_point; i++) {
        const hy_probe_point *t = &p->point[i];
        json_t *o = json_pack("{s:i, s:f, s:f}", "threads", (int)t->n_thread, "copy", t->copy, "barrier_ns",
                              t->barrier_ns);
        for (int k = 0; k < HY_PROBE_PLACES; k++)
            json_object_set_new(o, place_names[k], json_real(t->read[k]));
        json_array_append_new(points, o);
    }
    for (uint32_t i = 0; i < p->n_level; i++) {
        const hy_probe_level *l = &p->level[i];
        json_array_append_new(levels, json_pack("{s:s, s:f, s:f, s:f, s:f}", "isa", l->isa, "int8_one", l->int8_one,
                                                "int8_all", l->int8_all, "f32_one", l->f32_one, "f32_all", l->f32_all));
    }
    return json_pack("{s:f, s:f, s:o, s:o}", "seconds", p->seconds, "load", p->load, "read", points, "operations", levels);
}

/* A number within what a machine can be; false for anything else. */
static bool number(const json_t *o, const char *name, double *out)
{
    const json_t *v = json_object_get(o, name);
    *out = json_number_value(v);
    return json_is_number(v) && *out >= 0 && *out < 1e18;
}

static bool read_point(const json_t *o, uint32_t n_before, hy_probe_point *out)
{
    double n;
    bool good = number(o, "threads", &n) && n > n_before && n <= HY_THREADS_MAX &&
                number(o, "copy", &out->copy) && number(o, "barrier_ns", &out->barrier_ns);
    for (int k = 0; good && k < HY_PROBE_PLACES; k++) good = number(o, place_names[k], &out->read[k]);
    out->n_thread = good ? (uint32_t)n : 0;
    return good && out->read[HY_PROBE_MEM] > 0;
}

static bool read_probe(const json_t *o, hy_probe *out)
{
    *out = (hy_probe){ 0 };
    const json_t *points = json_object_get(o, "read"), *levels = json_object_get(o, "operations");
    out->n_point = (uint32_t)json_array_size(points);
    out->n_level = (uint32_t)json_array_size(levels);
    if (!out->n_point || out->n_point > HY_PROBE_POINTS_MAX || !out->n_level || out->n_level > HY_PROBE_LEVELS_MAX ||
        !number(o, "seconds", &out->seconds))
        return false;
    if (!number(o, "load", &out->load)) out->load = 0;
    for (uint32_t i = 0; i < out->n_point; i++)
        if (!read_point(json_array_get(points, i), i ? out->point[i - 1].n_thread : 0, &out->point[i])) return false;
    for (uint32_t i = 0; i < out->n_level; i++) {
        const json_t *l = json_array_get(levels, i);
        hy_probe_level *to = &out->level[i];
        const char *name = json_string_value(json_object_get(l, "isa"));
        if (!name || !*name || strlen(name) >= sizeof to->isa || !number(l, "int8_one", &to->int8_one) ||
            !number(l, "int8_all", &to->int8_all) || !number(l, "f32_one", &to->f32_one) ||
            !number(l, "f32_all", &to->f32_all))
            return false;
        snprintf(to->isa, sizeof to->isa, "%s", name);
    }
    return true;
}

/* Measured among busy neighbours, and they are gone. */
static bool better_now(const hy_probe *kept, const hy_topology *top)
{
    double load;
    return kept->load > top->n_cpu_online && getloadavg(&load, 1) == 1 && load < 0.25 * top->n_cpu_online;
}

bool hy_machine_kept(hy_probe *out)
{
    hy_topology top;
    hy_cpu_topology(&top);
    char *key = hy_machine_key(&top);
    json_t *kept = key ? hy_cache_get("machine", key) : NULL;
    bool got = kept && read_probe(kept, out);
    if (!got) *out = (hy_probe){ 0 };
    json_decref(kept);
    hy_free(key);
    return got;
}

hy_status hy_machine_probe(hy_probe *out, bool fresh, hy_progress_fn *progress, void *ctx, bool *cached, hy_err *err)
{
    hy_topology top;
    hy_cpu_topology(&top);
    char *key = hy_machine_key(&top);
    if (!key) return hy_fail_memory(err, "machine", 256);
    json_t *kept = fresh ? NULL : hy_cache_get("machine", key);
    bool got = kept && read_probe(kept, out) && !better_now(out, &top);
    json_decref(kept);
    hy_status s = HY_OK;
    if (!got) {
        hy_probe_opts o = { .progress = progress, .progress_ctx = ctx };
        s = hy_probe_run(out, &o, err);
        json_t *value = s == HY_OK ? hy_probe_json(out) : NULL;
        if (value) (void)hy_cache_put("machine", key, value);
        json_decref(value);
    }
    if (cached) *cached = got;
    hy_free(key);
    return s;
}
