/* The settings that `hayate tune` found, in a file that is a config file of the program with a head of its own:
 *
 *   #! hayate-tuned 1
 *   #! version 0.1.0
 *   #! machine ...            as hy_machine_text says it
 *   #! model 0123456789abcdef name of the file
 *   #! goal ttft
 *   #! gain 1.084
 *   # why, in words
 *   threads = 2
 *
 * Every line is checked when it is read. */
#include "tune.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_PIECE 65536
#define FILE_MAX_BYTES (64 * HY_KIB)

/* ---- which model ----------------------------------------------------------------------------------------- */

/* Size, first and last bytes of a file. */
static hy_status add_file(const char *path, uint64_t *h, hy_err *err)
{
    hy_map m;
    HY_TRY(hy_map_open(&m, path, err));
    uint64_t n = HY_MIN(m.bytes, (uint64_t)ID_PIECE);
    *h = hy_hash64(&m.bytes, sizeof m.bytes, *h);
    if (n) *h = hy_hash64(m.data + m.bytes - n, n, hy_hash64(m.data, n, *h));
    hy_map_close(&m);
    return HY_OK;
}

static int weights_only(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return (n > 12 && strcmp(e->d_name + n - 12, ".safetensors") == 0) || strcmp(e->d_name, "config.json") == 0;
}

static hy_status add_folder(const char *path, uint64_t *h, hy_err *err)
{
    struct dirent **list = NULL;
    int n = scandir(path, &list, weights_only, alphasort);
    hy_status s = n > 0 ? HY_OK : hy_fail(err, HY_E_IO, "%s: neither config.json nor safetensors in this folder", path);
    for (int i = 0; i < n; i++) {
        hy_buf file = { 0 };
        hy_buf_printf(&file, "%s/%s", path, list[i]->d_name);
        if (s == HY_OK) s = file.failed ? hy_fail_memory(err, "path", file.len) : add_file(file.data, h, err);
        hy_buf_free(&file);
        free(list[i]); /* libc's */
    }
    free(list);
    return s;
}

hy_status hy_tool_model_id(const char *path, char id[17], hy_err *err)
{
    uint64_t h = 0;
    if (hy_is_dir(path)) HY_TRY(add_folder(path, &h, err));
    else HY_TRY(add_file(path, &h, err));
    snprintf(id, 17, "%016" PRIx64, h);
    return HY_OK;
}

hy_status hy_tool_machine(char **text, hy_err *err)
{
    hy_topology top;
    hy_cpu_topology(&top);
    *text = hy_machine_text(&top);
    return *text ? HY_OK : hy_fail_memory(err, "machine", 256);
}

bool hy_tuned_name(const char *model_id, const hy_topology *top, char name[80])
{
    char *machine = hy_machine_text(top);
    if (!machine) return false;
    snprintf(name, 80, "tuned-%.16s-%016" PRIx64 ".conf", model_id, hy_hash64(machine, strlen(machine), 0));
    hy_free(machine);
    return true;
}

/* A file for this model, of whatever machine. */
static bool is_any(const char *model_id)
{
    hy_buf folder = { 0 };
    char begin[32];
    snprintf(begin, sizeof begin, "tuned-%s-", model_id);
    DIR *d = hy_cache_folder(&folder) ? opendir(folder.data) : NULL;
    struct dirent *e;
    bool found = false;
    while (d && !found && (e = readdir(d))) found = strncmp(e->d_name, begin, strlen(begin)) == 0;
    if (d) closedir(d);
    hy_buf_free(&folder);
    return found;
}

/* Where it would be: reading makes no folder. Empty: nothing is kept for the model, which most starts find without
 * asking what machine this is. */
static void kept_at(const char *model, hy_buf *path)
{
    hy_topology top;
    char id[17], name[80];
    hy_err none; /* a model that cannot be read is reported by whoever opens it */
    if (hy_tool_model_id(model, id, &none) != HY_OK || !is_any(id)) return;
    hy_cpu_topology(&top);
    if (hy_tuned_name(id, &top, name) && hy_cache_folder(path)) hy_buf_printf(path, "/%s", name);
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

typedef enum kind { NUMBER, WORD, SWITCH, TYPE, PATH } kind;
static const struct setting {
    const char *name;
    kind kind;
    uint64_t min, max;
    const char *words;         /* comma-separated */
} settings[] = {
    { "threads", NUMBER, 1, HY_THREADS_MAX, NULL },
    { "threads-decode", NUMBER, 1, HY_THREADS_MAX, NULL },
    { "step", NUMBER, 1, 16384, NULL },
    { "kv-type", WORD, 0, 0, "auto,f32,f16,bf16,q8,q4" },
    { "weights", TYPE, 0, 0, NULL },
    { "weights-all", SWITCH, 0, 0, "true,false" },
    { "speculate", WORD, 0, 0, "off,ngram,draft,self,auto" },
    { "draft", PATH, 0, 0, NULL },
    { "pin", SWITCH, 0, 0, "true,false" },
    { "no-huge-pages", SWITCH, 0, 0, "true,false" },
};

static bool in_list(const char *words, const char *s)
{
    size_t n = strlen(s);
    for (const char *w = words; w; w = strchr(w, ',') ? strchr(w, ',') + 1 : NULL)
        if (strncmp(w, s, n) == 0 && (w[n] == ',' || !w[n])) return n > 0;
    return false;
}

static hy_status check_value(const struct setting *k, const char *value, const char *where, hy_err *err)
{
    uint64_t n;
    hy_qtype q;
    char what[256];
    snprintf(what, sizeof what, "%.160s: %s", where, k->name);
    switch (k->kind) {
    case NUMBER:
        return hy_parse_u64(what, value, k->min, k->max, &n, err) == HY_OK ? HY_OK : HY_E_FORMAT;
    case TYPE:
        if (hy_quant_from_name(value, &q)) return HY_OK;
        return hy_fail(err, HY_E_FORMAT, "%s: weight type '%.40s' is not known", what, value);
    case PATH:
        return *value ? HY_OK : hy_fail(err, HY_E_FORMAT, "%s: no file is named", what);
    default:
        if (in_list(k->words, value)) return HY_OK;
        return hy_fail(err, HY_E_FORMAT, "%s: '%.40s' is not one of %s", what, value, k->words);
    }
}

static char *trim(char *s)
{
    s += strspn(s, " \t\r");
    for (size_t n = strlen(s); n && strchr(" \t\r", s[n - 1]); n--) s[n - 1] = 0;
    return s;
}

static hy_status take_setting(hy_tuned *t, char *line, const char *where, hy_err *err)
{
    char *eq = strchr(line, '=');
    if (!eq) return hy_fail(err, HY_E_FORMAT, "%s: '%.60s' is not 'name = value'", where, line);
    *eq = 0;
    char *name = trim(line), *value = trim(eq + 1);
    const struct setting *k = NULL;
    for (size_t i = 0; i < HY_COUNT(settings); i++)
        if (strcmp(settings[i].name, name) == 0) k = &settings[i];
    if (!k) return hy_fail(err, HY_E_FORMAT, "%s: '%.60s' is nothing that `hayate tune` sets", where, name);
    HY_TRY(check_value(k, value, where, err));
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->item[i].name, k->name) == 0)
            return hy_fail(err, HY_E_FORMAT, "%s: '%s' stands here twice", where, name);
    if (t->n == HY_TUNED_MAX) return hy_fail(err, HY_E_FORMAT, "%s: more than %d settings", where, HY_TUNED_MAX);
    t->item[t->n].name = k->name;
    t->item[t->n++].value = value;
    return HY_OK;
}

typedef struct head {
    const char *version, *machine, *model, *goal, *gain;
} head;

static void take_head(head *h, char *s)
{
    static const char *const names[] = { "version", "machine", "model", "goal", "gain" };
    const char **const to[] = { &h->version, &h->machine, &h->model, &h->goal, &h->gain };
    for (size_t i = 0; i < HY_COUNT(names); i++) {
        size_t n = strlen(names[i]);
        if (strncmp(s, names[i], n) == 0 && s[n] == ' ') *to[i] = trim(s + n);
    }
}

static hy_status check_head(hy_tuned *t, const head *h, hy_err *err)
{
    if (!h->version || !h->machine || !h->model || !h->goal || !h->gain)
        return hy_fail(err, HY_E_FORMAT, "%s: its head lacks '#! %s'", t->path,
                       !h->version   ? "version"
                       : !h->machine ? "machine"
                       : !h->model   ? "model"
                       : !h->goal    ? "goal"
                                     : "gain");
    if (strlen(h->goal) >= sizeof t->goal || !in_list("ttft,throughput,memory", h->goal))
        return hy_fail(err, HY_E_FORMAT, "%s: goal '%.40s' is not one of ttft, throughput, memory", t->path, h->goal);
    snprintf(t->goal, sizeof t->goal, "%s", h->goal);
    if (hy_parse_f64("gain", h->gain, 0.001, 1000, &t->gain, err) != HY_OK)
        return hy_err_prefix(err, HY_E_FORMAT, "%s", t->path);
    return HY_OK;
}

/* Does the file speak of this machine, this version and this model? */
static hy_status fit(hy_tuned *t, const head *h, const char *model, hy_err *err)
{
    char id[17];
    hy_topology top;
    hy_cpu_topology(&top);
    HY_TRY(hy_tool_model_id(model, id, err));
    char *machine = hy_machine_text(&top);
    if (!machine) return hy_fail_memory(err, "machine", 256);
    t->state = strncmp(h->model, id, 16) != 0 ? HY_TUNED_OTHER_MODEL
               : strcmp(h->machine, machine) != 0 ? HY_TUNED_OTHER_MACHINE
               : strcmp(h->version, HY_VERSION) != 0 ? HY_TUNED_OTHER_VERSION : HY_TUNED_FITS;
    hy_free(machine);
    return HY_OK;
}

static hy_status read_lines(hy_tuned *t, const char *model, hy_err *err)
{
    head h = { 0 };
    uint32_t line = 0;
    static const char first[] = "#! hayate-tuned 1";
    for (char *s = t->text, *next; s; s = next) {
        next = strchr(s, '\n');
        if (next) *next++ = 0;
        char *at = trim(s);
        if (++line == 1) {
            if (strcmp(at, first) != 0)
                return hy_fail(err, HY_E_FORMAT, "%s: not a file of `hayate tune`: its first line is not '%s'",
                               t->path, first);
        } else if (at[0] == '#' && at[1] == '!') {
            take_head(&h, trim(at + 2));
        } else if (*at && *at != '#') {
            char where[1100];
            snprintf(where, sizeof where, "%.1000s: line %u", t->path, line);
            HY_TRY(take_setting(t, at, where, err));
        }
    }
    HY_TRY(check_head(t, &h, err));
    return fit(t, &h, model, err);
}

hy_status hy_tool_tuned(const char *model, const char *file, hy_tuned *out, hy_err *err)
{
    *out = (hy_tuned){ .state = HY_TUNED_NONE };
    hy_buf path = { 0 };
    if (file) hy_buf_str(&path, file);
    else kept_at(model, &path);
    if (!file && (!path.data || !hy_is_file(path.data))) {
        if (path.data) out->state = HY_TUNED_OTHER_MACHINE;
        hy_buf_free(&path);
        return HY_OK;
    }
    hy_status s = hy_buf_take(&path, &out->path, err);
    size_t n;
    if (s == HY_OK) s = hy_read_file(out->path, FILE_MAX_BYTES, &out->text, &n, err);
    if (s == HY_OK && strlen(out->text) != n) s = hy_fail(err, HY_E_FORMAT, "%s: not a text", out->path);
    if (s == HY_OK) s = read_lines(out, model, err);
    if (s != HY_OK) hy_tuned_free(out);
    return s;
}

void hy_tuned_free(hy_tuned *t)
{
    hy_free(t->path);
    hy_free(t->text);
    *t = (hy_tuned){ .state = HY_TUNED_NONE };
}
