/* hayate top: a server's live numbers in the terminal, as the page's monitor shows them. */
#include "cli.h"
#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- fetching ---------------------------------------------------------------------------------- */

static size_t collect(char *data, size_t size, size_t n, void *user)
{
    hy_buf *b = user;
    if (b->len + size * n > 16 * HY_MIB) return 0;
    hy_buf_put(b, data, size * n);
    return b->failed ? 0 : size * n;
}

/* The server's /stats, or NULL with a message. */
static json_t *fetch(CURL *c, const char *url, const char *key, char *why, size_t n_why)
{
    hy_buf body = { 0 }, at = { 0 };
    size_t n = strlen(url);
    hy_buf_put(&at, url, n && url[n - 1] == '/' ? n - 1 : n);
    hy_buf_str(&at, "/stats");
    struct curl_slist *headers = NULL;
    if (key) {
        hy_buf line = { 0 };
        hy_buf_printf(&line, "Authorization: Bearer %s", key);
        headers = line.data ? curl_slist_append(NULL, line.data) : NULL;
        hy_buf_free(&line);
    }
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, at.data ? at.data : "");
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, 5000L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &body);
    CURLcode rc = curl_easy_perform(c);
    long status = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    json_t *o = NULL;
    if (rc != CURLE_OK) {
        snprintf(why, n_why, "%s: %s", url, curl_easy_strerror(rc));
    } else if (status != 200) {
        snprintf(why, n_why, "%s answers %ld%s", url, status, status == 401 ? ": a key is needed (--key)" : "");
    } else {
        o = json_loadb(body.data ? body.data : "", body.len, 0, NULL);
        if (!json_is_object(o) || !json_is_object(json_object_get(o, "number"))) {
            snprintf(why, n_why, "%s/stats is no answer of a Hayate server", url);
            json_decref(o);
            o = NULL;
        }
    }
    curl_slist_free_all(headers);
    hy_buf_free(&body);
    hy_buf_free(&at);
    return o;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

static double number(const json_t *s, const char *name)
{
    return json_number_value(json_object_get(json_object_get(s, "number"), name));
}

/* A histogram's counts since `old` (NULL: since the start). */
typedef struct hist {
    uint32_t n;                /* counts: one more than bounds */
    double bound[HY_HIST_BUCKETS + 1], count[HY_HIST_BUCKETS + 1], all, sum;
} hist;

static hist hist_of(const json_t *s, const json_t *old, const char *name)
{
    hist h = { 0 };
    const json_t *now = json_object_get(json_object_get(s, "hist"), name);
    const json_t *was = json_object_get(json_object_get(old, "hist"), name);
    const json_t *bound = json_object_get(now, "bound"), *count = json_object_get(now, "count");
    h.n = (uint32_t)HY_MIN(json_array_size(count), HY_COUNT(h.count));
    for (uint32_t i = 0; i < h.n; i++) {
        h.bound[i] = json_number_value(json_array_get(bound, i));
        h.count[i] = json_number_value(json_array_get(count, i)) -
                     json_number_value(json_array_get(json_object_get(was, "count"), i));
        h.all += h.count[i];
    }
    h.sum = json_number_value(json_object_get(now, "sum")) - json_number_value(json_object_get(was, "sum"));
    return h;
}

/* Linear within a bucket, as Prometheus does; the last bound for what is beyond it. */
static double quantile(const hist *h, double q)
{
    double left = q * h->all;
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->count[i] > 0 && left <= h->count[i]) {
            if (i + 1 == h->n) return i ? h->bound[i - 1] : 0;
            double low = i ? h->bound[i - 1] : 0;
            return low + (h->bound[i] - low) * left / h->count[i];
        }
        left -= h->count[i];
    }
    return 0;
}

/* Share of the observations above low and up to high. */
static double between(const hist *h, double low, double high)
{
    double n = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        double upper = i + 1 < h->n ? h->bound[i] : 1e300;
        if (upper > low + 1e-9 && upper <= high + 1e-9) n += h->count[i];
    }
    return h->all > 0 ? n / h->all : 0;
}

/* ---- drawing ----------------------------------------------------------------------------------- */

typedef struct screen {
    hy_buf text;
    int width;
    bool colour;
} screen;

static void put_bar(screen *s, double share, int width, const char *colour)
{
    int n = (int)(share * width + 0.5);
    if (s->colour) hy_buf_str(&s->text, colour);
    for (int i = 0; i < width; i++) hy_buf_str(&s->text, i < n ? (s->colour ? "█" : "#") : (s->colour ? "\033[90m·" : "."));
    if (s->colour) hy_buf_str(&s->text, "\033[0m");
}

static void put_title(screen *s, const char *title)
{
    hy_buf_printf(&s->text, s->colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", title);
}

static void put_row(screen *s, const char *name, double share, const char *colour, const char *value)
{
    hy_buf_printf(&s->text, "  %-22.22s ", name);
    put_bar(s, share, HY_MAX(10, HY_MIN(40, s->width - 46)), colour);
    hy_buf_printf(&s->text, " %s\n", value);
}

static void put_ttft(screen *s, const json_t *now, const json_t *old)
{
    static const struct { const char *name; double low, high; const char *colour; } classes[] = {
        { "up to 200 ms", -1, 0.2, "\033[32m" }, { "up to 500 ms", 0.2, 0.5, "\033[36m" },
        { "up to 1 s", 0.5, 1, "\033[33m" },     { "above", 1, 1e301, "\033[31m" },
    };
    hist h = hist_of(now, old, "vllm:time_to_first_token_seconds");
    put_title(s, "Time to first token");
    for (size_t i = 0; i < HY_COUNT(classes); i++) {
        char value[48];
        double share = between(&h, classes[i].low, classes[i].high);
        snprintf(value, sizeof value, "%3.0f %%", 100 * share);
        put_row(s, classes[i].name, share, classes[i].colour, value);
    }
}

static void put_shares(screen *s, const char *title, const json_t *now, const json_t *old, const char *key, bool bytes)
{
    const json_t *list = json_object_get(now, key), *was = json_object_get(old, key);
    double all = 0, top = 0;
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)list, name, v) {
        double x = json_number_value(v) - (bytes ? 0 : json_number_value(json_object_get(was, name)));
        all += x;
        top = HY_MAX(top, x);
    }
    if (all <= 0) return;
    put_title(s, title);
    json_object_foreach((json_t *)list, name, v) {
        double x = json_number_value(v) - (bytes ? 0 : json_number_value(json_object_get(was, name)));
        if (x < 0.01 * all) continue;
        char value[48], clean[128];
        if (bytes) snprintf(value, sizeof value, "%.1f MiB", x / (double)HY_MIB);
        else snprintf(value, sizeof value, "%3.0f %%", 100 * x / all);
        put_row(s, cli_clean(name, clean), x / top, "\033[36m", value);
    }
}

/* By place in the draft; since `old`, or since the start where nothing was drafted in between. */
static void put_speculation(screen *s, const json_t *now, const json_t *old)
{
    const json_t *spec = json_object_get(now, "speculation"), *was = json_object_get(old, "speculation");
    const json_t *drafted = json_object_get(spec, "drafted"), *accepted = json_object_get(spec, "accepted");
    double all = number(now, "vllm:spec_decode_num_draft_tokens_total");
    if (all <= 0) return;
    bool fresh = all > number(old, "vllm:spec_decode_num_draft_tokens_total");
    put_title(s, "Speculation: drafted tokens that were right");
    for (size_t i = 0; i < json_array_size(drafted); i++) {
        double d = json_number_value(json_array_get(drafted, i)), a = json_number_value(json_array_get(accepted, i));
        if (fresh) {
            d -= json_number_value(json_array_get(json_object_get(was, "drafted"), i));
            a -= json_number_value(json_array_get(json_object_get(was, "accepted"), i));
        }
        if (d <= 0) continue;
        char name[32], value[64];
        snprintf(name, sizeof name, "place %zu", i + 1);
        snprintf(value, sizeof value, "%3.0f %% of %.0f", 100 * a / d, d);
        put_row(s, name, a / d, "\033[32m", value);
    }
    hy_buf_printf(&s->text, "  since the start %.0f of %.0f were right: about %.2f times the plain speed\n",
                  number(now, "vllm:spec_decode_num_accepted_tokens_total"), all, number(now, "hayate_speculation_speedup_ratio"));
}

static void draw(screen *s, const char *url, const json_t *now, const json_t *last, const json_t *old)
{
    const json_t *m = json_object_get(now, "model");
    double dt = json_number_value(json_object_get(now, "time")) - json_number_value(json_object_get(last, "time"));
    char id[128], where[128];
    const char *name = json_string_value(json_object_get(m, "id"));
    hy_buf_printf(&s->text, "%s  %s  %s\n", s->colour ? "\033[1mhayate\033[0m" : "hayate", cli_clean(name ? name : "", id),
                  cli_clean(url, where));
    put_title(s, "Now");
    double rate_out = 0, rate_in = 0;
    if (last && dt > 0) {
        rate_out = (number(now, "vllm:generation_tokens_total") - number(last, "vllm:generation_tokens_total")) / dt;
        rate_in = (number(now, "vllm:prompt_tokens_total") - number(last, "vllm:prompt_tokens_total")) / dt;
    }
    hy_buf_printf(&s->text, "  output %.0f tokens/s   prompts %.0f tokens/s   running %.0f   waiting %.0f   paused %.0f\n", rate_out,
                  rate_in, number(now, "vllm:num_requests_running"), number(now, "vllm:num_requests_waiting"),
                  number(now, "hayate_requests_paused"));
    hist itl = hist_of(now, old, "vllm:inter_token_latency_seconds");
    hist step = hist_of(now, old, "vllm:iteration_tokens_total");
    hy_buf_printf(&s->text, "  between tokens: median %.1f ms, p95 %.1f ms (target %.0f)   tokens a step %.1f\n",
                  1e3 * quantile(&itl, 0.5), 1e3 * quantile(&itl, 0.95), 1e3 * number(now, "hayate_itl_target_seconds"),
                  step.all > 0 ? step.sum / step.all : 0);
    put_ttft(s, now, old);
    put_title(s, "KV cache");
    double pages = number(now, "hayate_kv_pages"), cached = number(now, "hayate_kv_pages_cached"), value = 0;
    char text[64];
    value = pages > 0 ? (number(now, "hayate_kv_pages_used") - cached) / pages : 0;
    snprintf(text, sizeof text, "%3.0f %% of %.0f pages", 100 * value, pages);
    put_row(s, "by requests", value, "\033[36m", text);
    value = pages > 0 ? cached / pages : 0;
    snprintf(text, sizeof text, "%3.0f %%", 100 * value);
    put_row(s, "by the prefix cache", value, "\033[34m", text);
    double asked = number(now, "vllm:prefix_cache_queries_total");
    value = asked > 0 ? number(now, "vllm:prefix_cache_hits_total") / asked : 0;
    snprintf(text, sizeof text, "%3.0f %% of prompt tokens", 100 * value);
    put_row(s, "prefix hits", value, "\033[32m", text);
    put_speculation(s, now, old);
    put_shares(s, "Where a step's time goes", now, old, "operator", false);
    put_shares(s, "Memory", now, NULL, "memory", true);
}

/* ---- the command ------------------------------------------------------------------------------- */

#define KEPT 60                /* seconds that the shares look back */

static int show(const char *url, const json_t *now, const json_t *last, const json_t *old, bool live)
{
    struct winsize w = { 0 };
    bool terminal = isatty(1);
    screen s = { .width = ioctl(1, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80, .colour = terminal };
    if (live && terminal) hy_buf_str(&s.text, "\033[H\033[J");
    draw(&s, url, now, last, old);
    if (live && terminal) hy_buf_str(&s.text, "\nCtrl-C ends\n");
    fwrite(s.text.data ? s.text.data : "", 1, s.text.len, stdout);
    hy_buf_free(&s.text);
    return cli_flush() ? 0 : 1;
}

int cmd_top(cli_args *a)
{
    const char *url = a->n_pos ? a->pos[0] : "http://127.0.0.1:8080";
    CURL *c = curl_easy_init();
    if (!c) return cli_error("top", "libcurl cannot start");
    json_t *kept[KEPT] = { NULL };
    uint32_t n = 0;
    int rc = 0;
    char why[512];
    cli_end_on_interrupt();
    for (;;) {
        json_t *now = fetch(c, url, a->key, why, sizeof why);
        if (!now) {
            rc = cli_error("top", "%s", why);
            break;
        }
        if (a->json) {
            json_dumpf(now, stdout, JSON_COMPACT);
            putchar('\n');
            rc = cli_flush() ? 0 : 1;
        } else {
            rc = show(url, now, n ? kept[(n - 1) % KEPT] : NULL, n ? kept[n < KEPT ? 0 : n % KEPT] : NULL, !a->once);
        }
        json_decref(kept[n % KEPT]);
        kept[n++ % KEPT] = now;
        if (a->once || a->json || rc) break;
        usleep(1000000);
    }
    for (uint32_t i = 0; i < KEPT; i++) json_decref(kept[i]);
    curl_easy_cleanup(c);
    return rc;
}
