/* API keys and their limits. */
#include "serve/auth.h"
#include "serve/serve.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define KEYS_MAX 65536
#define FILE_MAX (16 * HY_MIB)
#define SALT_BYTES 16
#define HEX_HASH 64

typedef struct key {
    char name[64];
    uint8_t salt[64];
    uint32_t n_salt;
    char hash[HEX_HASH + 1];
    uint32_t requests, tokens, parallel;
    int32_t priority;
    uint32_t i_limit;
    bool admin;
} key;

/* An allowance that fills up evenly: at most a minute's worth, used up by requests or tokens. Tokens are known
 * only afterwards, so that allowance may go below zero. */
typedef struct bucket { double level; uint64_t us; } bucket;

/* Counts outlive a reload; a name keeps its place for good. */
typedef struct limit {
    char name[64];
    uint32_t requests, tokens, parallel, n_running;
    bucket request, token;
} limit;

struct hy_auth {
    pthread_mutex_t lock;
    char *path;
    key *key;
    uint32_t n_key;
    limit *limit;
    uint32_t n_limit;
};

/* ---- reading the file -------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_hash(key *k, char *word)
{
    if (strncmp(word, "sha256:", 7) != 0) return false;
    char *salt = word + 7, *hash = strchr(salt, ':');
    if (!hash) return false;
    *hash++ = 0;
    size_t n = strlen(salt);
    if (n == 0 || n % 2 || n / 2 > sizeof k->salt || strlen(hash) != HEX_HASH) return false;
    for (size_t i = 0; i < n; i += 2) {
        int hi = hex_digit(salt[i]), lo = hex_digit(salt[i + 1]);
        if (hi < 0 || lo < 0) return false;
        k->salt[i / 2] = (uint8_t)(hi << 4 | lo);
    }
    k->n_salt = (uint32_t)(n / 2);
    for (int i = 0; i < HEX_HASH; i++) {
        int d = hex_digit(hash[i]);
        if (d < 0) return false;
        k->hash[i] = "0123456789abcdef"[d];
    }
    return true;
}

static hy_status read_limit(key *k, char *word, const char *where, hy_err *err)
{
    char *eq = strchr(word, '=');
    if (!eq) return hy_fail(err, HY_E_FORMAT, "%s: '%.40s' is not name=number", where, word);
    *eq++ = 0;
    uint64_t n = 0;
    char what[300];
    snprintf(what, sizeof what, "%s: %.40s", where, word);
    if (strcmp(word, "priority") == 0) {
        int64_t p;
        HY_TRY(hy_parse_i64(what, eq, -1000, 1000, &p, err));
        k->priority = (int32_t)p;
        return HY_OK;
    }
    HY_TRY(hy_parse_u64(what, eq, 0, 1000000000, &n, err));
    if (strcmp(word, "admin") == 0 && n > 1) return hy_fail(err, HY_E_FORMAT, "%s: admin is 0 or 1, not %llu", where, (unsigned long long)n);
    if (strcmp(word, "requests") == 0) k->requests = (uint32_t)n;
    else if (strcmp(word, "tokens") == 0) k->tokens = (uint32_t)n;
    else if (strcmp(word, "parallel") == 0) k->parallel = (uint32_t)n;
    else if (strcmp(word, "admin") == 0) k->admin = n != 0;
    else return hy_fail(err, HY_E_FORMAT, "%s: no limit called '%.40s' (requests, tokens, parallel, priority, admin)", where, word);
    return HY_OK;
}

static hy_status read_line(key *k, char *line, const char *where, hy_err *err)
{
    char *save = NULL, *name = strtok_r(line, " \t\r", &save), *hash = strtok_r(NULL, " \t\r", &save);
    if (strlen(name) >= sizeof k->name)
        return hy_fail(err, HY_E_FORMAT, "%s: the name has %zu characters, the limit is 63", where, strlen(name));
    snprintf(k->name, sizeof k->name, "%s", name);
    if (!hash || !read_hash(k, hash))
        return hy_fail(err, HY_E_FORMAT, "%s: after the name comes sha256:SALT:HASH in hex, as `hayate serve keygen` writes it",
                       where);
    for (char *w; (w = strtok_r(NULL, " \t\r", &save)) != NULL;) HY_TRY(read_limit(k, w, where, err));
    return HY_OK;
}

static hy_status read_keys(const char *path, char *text, key **out, uint32_t *n_out, hy_err *err)
{
    key *keys = NULL;
    uint32_t n = 0, cap = 0, number = 1;
    for (char *line = text; line; number++) {
        char *next = strchr(line, '\n');
        if (next) *next++ = 0;
        line[strcspn(line, "#")] = 0;
        if (line[strspn(line, " \t\r")]) {
            if (n == cap) {
                cap = cap ? cap * 2 : 16;
                key *more = n < KEYS_MAX ? hy_realloc_array(keys, cap, sizeof *keys) : NULL;
                if (!more) {
                    hy_free(keys);
                    return hy_fail(err, HY_E_LIMIT, "%s: more than %u keys", path, n);
                }
                keys = more;
            }
            char where[256];
            snprintf(where, sizeof where, "%s: line %u", path, number);
            memset(&keys[n], 0, sizeof keys[n]);
            hy_status st = read_line(&keys[n++], line, where, err);
            if (st != HY_OK) {
                hy_free(keys);
                return st;
            }
        }
        line = next;
    }
    *out = keys;
    *n_out = n;
    return HY_OK;
}

/* The place of a name's counts; new ones start full. With the lock. */
static bool place_limits(hy_auth *a, key *keys, uint32_t n)
{
    limit *all = hy_realloc_array(a->limit, (size_t)a->n_limit + n + 1, sizeof *all);
    if (!all) return false;
    a->limit = all;
    uint64_t now = hy_now_us();
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = 0;
        while (at < a->n_limit && strcmp(a->limit[at].name, keys[i].name) != 0) at++;
        limit *l = &a->limit[at];
        if (at == a->n_limit) {
            memset(l, 0, sizeof *l);
            memcpy(l->name, keys[i].name, sizeof l->name);
            l->request = (bucket){ keys[i].requests, now };
            l->token = (bucket){ keys[i].tokens, now };
            a->n_limit++;
        }
        l->requests = keys[i].requests;
        l->tokens = keys[i].tokens;
        l->parallel = keys[i].parallel;
        keys[i].i_limit = at + 1;
    }
    return true;
}

hy_status hy_auth_reload(hy_auth *a, const char *path, hy_err *err)
{
    key *keys = NULL;
    uint32_t n = 0;
    char *text = NULL, *copy = NULL;
    size_t bytes;
    if (path) {
        HY_TRY(hy_read_file(path, FILE_MAX, &text, &bytes, err));
        hy_status st = read_keys(path, text, &keys, &n, err);
        hy_free(text);
        HY_TRY(st);
        if (n == 0) return hy_fail(err, HY_E_FORMAT, "%s: no key in it; nobody could get in", path);
        copy = hy_strdup(path);
    }
    pthread_mutex_lock(&a->lock);
    bool good = (!path || copy) && place_limits(a, keys, n);
    key *old = good ? a->key : keys;
    char *old_path = good ? a->path : copy;
    if (good) {
        a->key = keys;
        a->n_key = n;
        a->path = copy;
    }
    pthread_mutex_unlock(&a->lock);
    hy_free(old);
    hy_free(old_path);
    return good ? HY_OK : hy_fail_memory(err, "API keys", n * sizeof *keys);
}

hy_status hy_auth_open(hy_auth **out, const char *path, hy_err *err)
{
    hy_auth *a = HY_NEW(hy_auth);
    if (!a) return hy_fail_memory(err, "API keys", sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    hy_status st = hy_auth_reload(a, path, err);
    if (st == HY_OK) *out = a;
    else hy_auth_close(a);
    return st;
}

void hy_auth_close(hy_auth *a)
{
    if (!a) return;
    pthread_mutex_destroy(&a->lock);
    hy_free(a->key);
    hy_free(a->limit);
    hy_free(a->path);
    hy_free(a);
}

/* ---- asking ------------------------------------------------------------------------------------ */

bool hy_auth_needed(hy_auth *a)
{
    pthread_mutex_lock(&a->lock);
    bool needed = a->path != NULL;
    pthread_mutex_unlock(&a->lock);
    return needed;
}

/* No early way out: the time does not tell how much was right, nor of which key. */
static bool same(const char *a, const char *b, size_t n)
{
    volatile uint8_t differs = 0;
    for (size_t i = 0; i < n; i++) differs |= (uint8_t)(a[i] ^ b[i]);
    return differs == 0;
}

static void salted(const uint8_t *salt, size_t n_salt, const char *k, char out[HEX_HASH + 1])
{
    hy_sha256 h;
    hy_sha256_init(&h);
    hy_sha256_put(&h, salt, n_salt);
    hy_sha256_put(&h, k, strlen(k));
    hy_sha256_hex(&h, out);
}

bool hy_auth_check(hy_auth *a, const char *k, hy_tenant *out)
{
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&a->lock);
    const key *found = NULL;
    bool open = a->path == NULL;
    for (uint32_t i = 0; i < a->n_key && k; i++) {
        char hash[HEX_HASH + 1];
        salted(a->key[i].salt, a->key[i].n_salt, k, hash);
        if (same(hash, a->key[i].hash, HEX_HASH)) found = &a->key[i];
    }
    if (found) {
        memcpy(out->name, found->name, sizeof out->name);
        out->priority = found->priority;
        out->i_limit = found->i_limit;
        out->admin = found->admin;
    }
    pthread_mutex_unlock(&a->lock);
    return open || found;
}

static void fill(bucket *b, uint32_t per_minute, uint64_t now)
{
    double more = now > b->us ? (double)(now - b->us) / 60e6 * per_minute : 0;
    b->level = HY_MIN(b->level + more, (double)per_minute);
    b->us = HY_MAX(b->us, now);
}

static double until(const bucket *b, uint32_t per_minute, double level)
{
    return b->level >= level ? 0 : (level - b->level) * 60 / per_minute;
}

bool hy_auth_enter(hy_auth *a, hy_tenant *t, uint64_t now, double *retry_s, const char **why)
{
    if (!t->i_limit) return true;
    pthread_mutex_lock(&a->lock);
    limit *l = &a->limit[t->i_limit - 1];
    fill(&l->request, l->requests, now);
    fill(&l->token, l->tokens, now);
    *why = NULL;
    *retry_s = 1;
    if (l->parallel && l->n_running >= l->parallel) {
        *why = "requests at once";
    } else if (l->requests && l->request.level < 1) {
        *why = "requests per minute";
        *retry_s = until(&l->request, l->requests, 1);
    } else if (l->tokens && l->token.level < 1) {
        *why = "tokens per minute";
        *retry_s = until(&l->token, l->tokens, 1);
    } else {
        if (l->requests) l->request.level -= 1;
        l->n_running++;
        t->entered = true;
    }
    pthread_mutex_unlock(&a->lock);
    return *why == NULL;
}

void hy_auth_leave(hy_auth *a, hy_tenant *t, uint64_t n_token)
{
    if (!t->entered) return;
    t->entered = false;
    pthread_mutex_lock(&a->lock);
    limit *l = &a->limit[t->i_limit - 1];
    l->n_running--;
    if (l->tokens) l->token.level -= (double)n_token;
    pthread_mutex_unlock(&a->lock);
}

bool hy_auth_rate(hy_auth *a, const hy_tenant *t, uint64_t now, hy_rate *out)
{
    if (!t->i_limit) return false;
    pthread_mutex_lock(&a->lock);
    limit *l = &a->limit[t->i_limit - 1];
    fill(&l->request, l->requests, now);
    fill(&l->token, l->tokens, now);
    *out = (hy_rate){ .limit_requests = l->requests, .limit_tokens = l->tokens,
                      .left_requests = (int64_t)HY_MAX(l->request.level, 0.0),
                      .left_tokens = (int64_t)HY_MAX(l->token.level, 0.0),
                      .reset_requests_s = l->requests ? until(&l->request, l->requests, l->requests) : 0,
                      .reset_tokens_s = l->tokens ? until(&l->token, l->tokens, l->tokens) : 0 };
    pthread_mutex_unlock(&a->lock);
    return out->limit_requests || out->limit_tokens;
}

/* ---- making a key ------------------------------------------------------------------------------ */

hy_status hy_serve_keygen(const char *name, char **key_out, char **line_out, hy_err *err)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t bits[43], salt[SALT_BYTES];
    if (!name[0] || strlen(name) > 63 || name[strcspn(name, " \t\r\n#")])
        return hy_fail(err, HY_E_ARG, "key name '%.80s': 1 to 63 characters without spaces or #", name);
    if (getrandom(bits, sizeof bits, 0) != sizeof bits || getrandom(salt, sizeof salt, 0) != sizeof salt)
        return hy_fail(err, HY_E_IO, "no random numbers: %s", strerror(errno));
    hy_buf k = { 0 }, line = { 0 };
    hy_buf_str(&k, "sk-hayate-");
    for (size_t i = 0; i < sizeof bits; i++) hy_buf_char(&k, letters[bits[i] & 63]); /* 43 * 6 = 258 bits */
    hy_buf_printf(&line, "%s sha256:", name);
    for (size_t i = 0; i < sizeof salt; i++) hy_buf_printf(&line, "%02x", salt[i]);
    char hash[HEX_HASH + 1];
    if (!k.failed) salted(salt, sizeof salt, k.data, hash);
    hy_buf_printf(&line, ":%s", hash);
    if (k.failed || line.failed) {
        hy_buf_free(&k);
        hy_buf_free(&line);
        return hy_fail_memory(err, "key", 256);
    }
    *key_out = k.data;
    *line_out = line.data;
    return HY_OK;
}
