/* Downloading a model over libcurl. The bytes go to OUT.part; OUT.part.tag holds what identifies the
 * server's version of the file (its validator and size), so that a later call can go on safely. */
#include "core.h"
#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUB "https://huggingface.co" /* unless HF_ENDPOINT names another */
#define CONNECT_S 30L
#define STALL_S 60L                  /* without a byte: give up */
#define TRIES_MAX 4
#define TAG_MAX 512

typedef struct pull {
    CURL *curl;
    char *url, *out, *part, *tag;
    const char *sha256;
    hy_progress_fn *progress;
    void *progress_ctx;
    int fd;
    uint64_t have;             /* bytes in the part */
    hy_sha256 hash;            /* of them, when sha256 is given */
    /* the running transfer */
    uint64_t asked_from;       /* Range sent; 0: none */
    bool started, cancelled, restart;
    int write_errno;
    char validator[TAG_MAX], modified[TAG_MAX];
    uint64_t range_from, range_total; /* Content-Range; total 0: not known */
    char message[CURL_ERROR_SIZE];
} pull;

/* ---- the address --------------------------------------------------------------------------------- */

static bool has_scheme(const char *s, const char *scheme)
{
    return strncasecmp(s, scheme, strlen(scheme)) == 0;
}

/* hf:owner/repo/path/to/file */
static hy_status hub_url(const char *name, hy_buf *url, hy_err *err)
{
    const char *base = getenv("HF_ENDPOINT");
    if (!base || !base[0]) base = HUB;
    if (!has_scheme(base, "http://") && !has_scheme(base, "https://"))
        return hy_fail(err, HY_E_ARG, "HF_ENDPOINT: '%s' is no http(s) address", base);
    size_t n_base = strlen(base);
    while (n_base && base[n_base - 1] == '/') n_base--;
    hy_buf_put(url, base, n_base);
    int part = 0;
    for (const char *p = name;; part++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || n > 255 || (n <= 2 && strncmp(p, "..", n) == 0))
            return hy_fail(err, HY_E_ARG, "'hf:%s' is not hf:owner/repo/file", name);
        if (part == 2) hy_buf_str(url, "/resolve/main");
        hy_buf_char(url, '/');
        char *safe = curl_easy_escape(NULL, p, (int)n);
        if (!safe) return hy_fail_memory(err, "address", n);
        hy_buf_str(url, safe);
        curl_free(safe);
        if (!p[n]) break;
        p += n + 1;
    }
    if (part < 2) return hy_fail(err, HY_E_ARG, "'hf:%s' is not hf:owner/repo/file", name);
    return url->failed ? hy_fail_memory(err, "address", url->len) : HY_OK;
}

static hy_status source_url(const char *source, char **out, hy_err *err)
{
    hy_buf b = { 0 };
    hy_status s = HY_OK;
    if (strncmp(source, "hf:", 3) == 0) s = hub_url(source + 3, &b, err);
    else if (has_scheme(source, "http://") || has_scheme(source, "https://")) hy_buf_str(&b, source);
    else s = hy_fail(err, HY_E_ARG, "'%s' is neither an http(s) address nor hf:owner/repo/file", source);
    if (s == HY_OK) s = hy_buf_take(&b, out, err);
    hy_buf_free(&b);
    return s;
}

/* The last part of the address's path, as a file name. */
static hy_status name_of(const char *url, char **out, hy_err *err)
{
    const char *p = strstr(url, "://") + 3;
    size_t n = strcspn(p, "?#"), from = n;
    while (from > 0 && p[from - 1] != '/') from--;
    int n_name = 0;
    char *name = from ? curl_easy_unescape(NULL, p + from, (int)HY_MIN(n - from, 4096), &n_name) : NULL;
    bool good = name && n_name > 0 && n_name < 256 && strcmp(name, ".") && strcmp(name, "..");
    for (int i = 0; good && i < n_name; i++) good = name[i] != '/' && (unsigned char)name[i] >= 32;
    *out = good ? hy_strdup(name) : NULL;
    curl_free(name);
    if (!good) return hy_fail(err, HY_E_ARG, "%s names no file; say where to write it", url);
    return *out ? HY_OK : hy_fail_memory(err, "name", (uint64_t)n_name);
}

static char *join(const char *a, const char *b, const char *c)
{
    hy_buf s = { 0 };
    hy_buf_str(&s, a);
    hy_buf_str(&s, b);
    hy_buf_str(&s, c);
    if (!s.failed) return s.data;
    hy_buf_free(&s);
    return NULL;
}

static hy_status name_files(pull *p, const char *source, const char *out, hy_err *err)
{
    HY_TRY(source_url(source, &p->url, err));
    char *name = NULL;
    bool folder = out && hy_is_dir(out);
    if (!out || folder) HY_TRY(name_of(p->url, &name, err));
    p->out = folder ? join(out, "/", name) : join(out ? out : name, "", "");
    hy_free(name);
    struct stat st;
    if (p->out && stat(p->out, &st) == 0 && !S_ISREG(st.st_mode)) /* renaming would take a device's place */
        return hy_fail(err, HY_E_IO, "%s is there and no regular file", p->out);
    if (p->out) p->part = join(p->out, ".part", "");
    if (p->part) p->tag = join(p->part, ".tag", "");
    return p->tag ? HY_OK : hy_fail_memory(err, "names", strlen(p->url));
}

/* ---- the part already here ----------------------------------------------------------------------- */

static hy_status reset(pull *p, hy_err *err)
{
    if (ftruncate(p->fd, 0) != 0 || lseek(p->fd, 0, SEEK_SET) != 0)
        return hy_fail(err, HY_E_IO, "cannot empty %s: %s", p->part, strerror(errno));
    p->have = 0;
    hy_sha256_init(&p->hash);
    return HY_OK;
}

/* Counts, and hashes, what is there; the file's position is its end afterwards. */
static hy_status take_stock(pull *p, hy_err *err)
{
    hy_sha256_init(&p->hash);
    off_t end = lseek(p->fd, 0, SEEK_END);
    if (end < 0) return hy_fail(err, HY_E_IO, "cannot read %s: %s", p->part, strerror(errno));
    p->have = (uint64_t)end;
    if (!p->sha256 || end == 0) return HY_OK;
    char *piece = hy_alloc(HY_MIB);
    if (!piece) return hy_fail_memory(err, "buffer", HY_MIB);
    hy_status s = HY_OK;
    for (off_t at = 0; s == HY_OK && at < end;) {
        ssize_t n = pread(p->fd, piece, HY_MIB, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) s = hy_fail(err, HY_E_IO, "cannot read %s: %s", p->part, n ? strerror(errno) : "it became shorter");
        else hy_sha256_put(&p->hash, piece, (size_t)n);
        at += n;
    }
    hy_free(piece);
    return s;
}

static hy_status open_part(pull *p, hy_err *err)
{
    p->fd = open(p->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (p->fd < 0) return hy_fail(err, HY_E_IO, "cannot open %s: %s", p->part, strerror(errno));
    if (flock(p->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return hy_fail(err, HY_E_IO, "%s is being written by another download", p->part);
    return take_stock(p, err);
}

/* What the tag says: the validator ("" when none) and the size (0: not known). */
static void read_tag(const pull *p, char validator[TAG_MAX], uint64_t *total)
{
    validator[0] = 0;
    *total = 0;
    char *text;
    size_t n;
    if (hy_read_file(p->tag, 4096, &text, &n, NULL) != HY_OK) return;
    char *line = strchr(text, '\n');
    if (line) {
        *line++ = 0;
        if (strlen(text) < TAG_MAX) strcpy(validator, text);
        line[strcspn(line, "\n")] = 0;
        if (hy_parse_u64("size", line, 0, UINT64_MAX, total, NULL) != HY_OK) *total = 0;
    }
    hy_free(text);
}

/* Losing the tag only costs the check on resuming, so failures are let pass. */
static void write_tag(const pull *p, uint64_t total)
{
    FILE *f = fopen(p->tag, "w");
    if (!f) return;
    fprintf(f, "%s\n%llu\n", p->validator[0] ? p->validator : p->modified, (unsigned long long)total);
    if (fclose(f) != 0) (void)unlink(p->tag);
}

/* ---- callbacks ----------------------------------------------------------------------------------- */

static void take_value(const char *s, size_t n, char out[TAG_MAX])
{
    while (n && isspace((unsigned char)*s)) s++, n--;
    while (n && isspace((unsigned char)s[n - 1])) n--;
    if (n >= TAG_MAX) n = 0;
    memcpy(out, s, n);
    out[n] = 0;
}

/* "bytes 5-9/10", "bytes *" "/10" */
static void take_range(pull *p, const char *value)
{
    if (strncasecmp(value, "bytes", 5) != 0) return;
    value += 5;
    while (*value == ' ' || *value == '=') value++;
    if (isdigit((unsigned char)*value)) p->range_from = strtoull(value, NULL, 10);
    const char *slash = strchr(value, '/');
    if (slash && isdigit((unsigned char)slash[1])) p->range_total = strtoull(slash + 1, NULL, 10);
}

static size_t on_header(char *s, size_t size, size_t n, void *ctx)
{
    pull *p = ctx;
    n *= size;
    char value[TAG_MAX];
    const char *colon = memchr(s, ':', n);
    if (n > 5 && memcmp(s, "HTTP/", 5) == 0) { /* of each answer on a chain of redirects */
        p->validator[0] = p->modified[0] = 0;
        p->range_from = p->range_total = 0;
    } else if (colon) {
        size_t k = (size_t)(colon - s);
        take_value(colon + 1, n - k - 1, value);
        if (k == 4 && strncasecmp(s, "etag", k) == 0 && value[0] == '"') strcpy(p->validator, value);
        else if (k == 13 && strncasecmp(s, "last-modified", k) == 0) strcpy(p->modified, value);
        else if (k == 13 && strncasecmp(s, "content-range", k) == 0) take_range(p, value);
    }
    return n;
}

/* The first bytes of the answer: do they continue what is here? */
static bool begin(pull *p)
{
    long code = 0;
    curl_off_t length = -1;
    curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(p->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    p->started = true;
    if (code == 206) {
        char old[TAG_MAX];
        uint64_t total;
        read_tag(p, old, &total);
        /* another version of the file, or other bytes than were asked for: begin again */
        if (p->range_from != p->have || (total && p->range_total && total != p->range_total)) {
            p->restart = true;
            return false;
        }
        write_tag(p, p->range_total ? p->range_total : total);
        return true;
    }
    if (p->have && reset(p, NULL) != HY_OK) {
        p->write_errno = EIO;
        return false;
    }
    write_tag(p, length > 0 ? (uint64_t)length : 0);
    return true;
}

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
    pull *p = ctx;
    n *= size;
    if (!p->started && !begin(p)) return n == 0 ? 1 : 0;
    for (size_t done = 0; done < n;) {
        ssize_t k = write(p->fd, data + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) {
            p->write_errno = k ? errno : ENOSPC;
            return done;
        }
        if (p->sha256) hy_sha256_put(&p->hash, data + done, (size_t)k);
        done += (size_t)k;
        p->have += (uint64_t)k;
    }
    return n;
}

static int on_progress(void *ctx, curl_off_t all, curl_off_t now, curl_off_t up_all, curl_off_t up_now)
{
    pull *p = ctx;
    uint64_t from = p->have - HY_MIN(p->have, (uint64_t)now); /* of a resumed file */
    uint64_t total = all > 0 && p->started ? from + (uint64_t)all : 0;
    if (p->progress && p->progress(p->progress_ctx, p->have, total)) p->cancelled = true;
    return p->cancelled;
}

/* ---- one transfer -------------------------------------------------------------------------------- */

static void set_up(pull *p)
{
    CURL *c = p->curl;
    bool https = has_scheme(p->url, "https://");
    curl_easy_setopt(c, CURLOPT_URL, p->url);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "hayate/" HY_VERSION);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, https ? "https" : "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALL_S);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, p->message);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, p);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, p);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, p);
}

static hy_status transfer(pull *p, CURLcode *rc, hy_err *err)
{
    char range[64], line[TAG_MAX + 16], validator[TAG_MAX];
    uint64_t total;
    struct curl_slist *headers = NULL;
    read_tag(p, validator, &total);
    p->asked_from = p->have;
    p->started = p->restart = false;
    p->write_errno = 0;
    p->message[0] = 0;
    snprintf(range, sizeof range, "%llu-", (unsigned long long)p->have);
    if (p->have && validator[0]) {
        snprintf(line, sizeof line, "If-Range: %s", validator);
        headers = curl_slist_append(NULL, line);
        if (!headers) return hy_fail_memory(err, "headers", strlen(line));
    }
    curl_easy_setopt(p->curl, CURLOPT_RANGE, p->have ? range : NULL);
    curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, headers);
    *rc = curl_easy_perform(p->curl);
    curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    return HY_OK;
}

static bool may_resume(CURLcode rc)
{
    return rc == CURLE_PARTIAL_FILE || rc == CURLE_RECV_ERROR || rc == CURLE_GOT_NOTHING || rc == CURLE_HTTP2_STREAM ||
           rc == CURLE_HTTP2 || rc == CURLE_OPERATION_TIMEDOUT;
}

static hy_status explain(const pull *p, CURLcode rc, long code, hy_err *err)
{
    const char *kept = p->have ? "; what came is kept, call again to go on" : "";
    if (p->write_errno)
        return hy_fail(err, HY_E_IO, "cannot write %s after %llu bytes: %s%s", p->part,
                       (unsigned long long)p->have, strerror(p->write_errno), kept);
    if (p->cancelled)
        return hy_fail(err, HY_E_CANCELLED, "cancelled after %llu bytes%s", (unsigned long long)p->have, kept);
    if (rc == CURLE_HTTP_RETURNED_ERROR)
        return hy_fail(err, HY_E_IO, "%s: the server answered %ld%s", p->url, code,
                       code == 404 ? " (there is no such file)" : code == 401 || code == 403 ? " (access refused)" : "");
    return hy_fail(err, HY_E_IO, "%s: %s after %llu bytes%s", p->url, p->message[0] ? p->message : curl_easy_strerror(rc),
                   (unsigned long long)p->have, kept);
}

/* Until the part is whole. Broken transfers that brought something are taken up again. */
static hy_status fetch(pull *p, hy_err *err)
{
    bool restarted = false;
    for (int i = 0;; i++) {
        CURLcode rc = CURLE_OK;
        HY_TRY(transfer(p, &rc, err));
        long code = 0;
        curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &code);
        if (rc == CURLE_OK && !p->started && code == 200 && p->have) { /* empty now */
            HY_TRY(reset(p, err));
        }
        if (rc == CURLE_OK) return HY_OK;
        bool beyond = rc == CURLE_HTTP_RETURNED_ERROR && code == 416 && p->asked_from;
        if (beyond && p->range_total == p->have) return HY_OK; /* it was whole already */
        if ((beyond || p->restart) && !restarted) {
            restarted = true;
            HY_TRY(reset(p, err));
            (void)unlink(p->tag);
            continue;
        }
        bool more = may_resume(rc) && p->have > p->asked_from && !p->write_errno && !p->cancelled;
        if (!more || i >= TRIES_MAX) return explain(p, rc, code, err);
        hy_log(HY_LOG_WARN, "pull_retry", "bytes=%llu error=\"%s\"", (unsigned long long)p->have, curl_easy_strerror(rc));
    }
}

static hy_status finish(pull *p, hy_err *err)
{
    char hex[65];
    hy_sha256_hex(&p->hash, hex);
    if (p->sha256 && strcasecmp(hex, p->sha256) != 0) {
        (void)unlink(p->part);
        (void)unlink(p->tag);
        return hy_fail(err, HY_E_FORMAT, "%s: sha256 is %s, expected %s; the download was thrown away", p->url, hex,
                       p->sha256);
    }
    if (fsync(p->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        return hy_fail(err, HY_E_IO, "cannot write %s: %s", p->part, strerror(errno));
    if (rename(p->part, p->out) != 0)
        return hy_fail(err, HY_E_IO, "cannot rename %s to %s: %s", p->part, p->out, strerror(errno));
    (void)unlink(p->tag);
    return HY_OK;
}

static hy_status check_digest(const char *s, hy_err *err)
{
    if (!s) return HY_OK;
    size_t n = 0;
    while (isxdigit((unsigned char)s[n])) n++;
    if (n == 64 && !s[n]) return HY_OK;
    return hy_fail(err, HY_E_ARG, "sha256: '%.80s' is not 64 hex digits", s);
}

static hy_status pull_all(pull *p, const char *source, const char *out, hy_err *err)
{
    HY_TRY(check_digest(p->sha256, err));
    HY_TRY(name_files(p, source, out, err));
    p->curl = curl_easy_init();
    if (!p->curl) return hy_fail(err, HY_E_MEMORY, "libcurl could not be started");
    set_up(p);
    HY_TRY(open_part(p, err));
    hy_status s = fetch(p, err);
    if (s == HY_OK) return finish(p, err);
    if (p->have == 0) { /* nothing to go on from */
        (void)unlink(p->part);
        (void)unlink(p->tag);
    }
    return s;
}

hy_status hy_tool_pull(const char *source, const char *out, const char *sha256, hy_progress_fn *progress, void *ctx,
                       char **saved, hy_err *err)
{
    pull p = { .sha256 = sha256, .progress = progress, .progress_ctx = ctx, .fd = -1 };
    hy_status s = pull_all(&p, source, out, err);
    if (s == HY_OK && saved) {
        *saved = p.out;
        p.out = NULL;
    }
    if (p.curl) curl_easy_cleanup(p.curl);
    if (p.fd >= 0) close(p.fd);
    hy_free(p.url);
    hy_free(p.out);
    hy_free(p.part);
    hy_free(p.tag);
    return s;
}
