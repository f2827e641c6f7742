/* hayate bench serve: load on a server, and what its users would have felt. */
#include "load.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_MAX 1000000

/* ---- the plan ---------------------------------------------------------------------------------- */

/* A draw from a log-normal distribution with this median, bounded. */
static uint32_t log_normal(uint64_t seed, uint64_t stream, uint32_t i, double median, double sigma, uint32_t most)
{
    double u = hy_rng_unit(hy_rng_at(seed, stream, 2ull * i)), v = hy_rng_unit(hy_rng_at(seed, stream, 2ull * i + 1));
    double z = sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v); /* Box and Muller */
    return (uint32_t)HY_MAX(1.0, HY_MIN((double)most, median * exp(sigma * z)));
}

static void fill_lengths(load_plan *p, const cli_args *a)
{
    double at = 0;
    for (uint32_t i = 0; i < p->n_job; i++) {
        load_job *j = &p->job[i];
        uint32_t n_prompt = (uint32_t)a->load_prompt, n_output = (uint32_t)a->load_output;
        if (a->load_mixture) { /* the spread of chats as people have them: many short, few long */
            n_prompt = log_normal(p->seed, 11, i, n_prompt, 1.0, 16 * n_prompt);
            n_output = log_normal(p->seed, 12, i, n_output, 0.8, 8 * n_output);
        }
        *j = (load_job){ .n_prompt = n_prompt, .n_output = n_output, .i_prefix = UINT32_MAX };
        if (p->n_prefix) {
            j->i_prefix = (uint32_t)(hy_rng_at(p->seed, 13, i) % a->load_prefixes);
            j->n_prompt += p->n_prefix;
        }
        if (a->load_rate > 0) { /* Poisson: exponential times between arrivals */
            at -= log(hy_rng_unit(hy_rng_at(p->seed, 14, i))) / a->load_rate;
            j->at_s = at;
        }
    }
}

/* A line {"at": s, "prompt": tokens, "output": tokens, "prefix": number or absent}. */
static bool trace_line(load_job *j, const char *line, size_t n, uint32_t number, const char *path)
{
    json_t *o = json_loadb(line, n, 0, NULL);
    json_t *at = json_object_get(o, "at"), *prompt = json_object_get(o, "prompt"), *output = json_object_get(o, "output");
    json_t *prefix = json_object_get(o, "prefix");
    bool good = json_is_number(at) && json_number_value(at) >= 0 && json_is_integer(prompt) && json_is_integer(output) &&
                json_integer_value(prompt) > 0 && json_integer_value(prompt) <= 16777216 && json_integer_value(output) > 0 &&
                json_integer_value(output) <= 16777216 && (!prefix || (json_is_integer(prefix) && json_integer_value(prefix) >= 0 &&
                json_integer_value(prefix) < 1000000));
    if (good)
        *j = (load_job){ .at_s = json_number_value(at), .n_prompt = (uint32_t)json_integer_value(prompt),
                         .n_output = (uint32_t)json_integer_value(output),
                         .i_prefix = prefix ? (uint32_t)json_integer_value(prefix) : UINT32_MAX };
    else cli_error("bench", "%s, line %u: not {\"at\": seconds, \"prompt\": tokens, \"output\": tokens}", path, number);
    json_decref(o);
    return good;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const load_job *)a)->at_s, y = ((const load_job *)b)->at_s;
    return (x > y) - (x < y);
}

static bool read_trace(load_plan *p, const char *path)
{
    char *data;
    size_t n;
    if (!cli_read("bench", path, &data, &n)) return false;
    uint32_t lines = 1, number = 0;
    for (size_t i = 0; i < n; i++) lines += data[i] == '\n';
    hy_free(p->job);
    p->job = HY_NEW_ARRAY(load_job, lines);
    p->n_job = 0;
    bool good = p->job != NULL && lines <= JOBS_MAX;
    if (!good) cli_error("bench", "%s: %u lines; at most %u", path, lines, JOBS_MAX);
    for (char *line = data; good && line < data + n;) {
        size_t k = strcspn(line, "\n");
        number++;
        if (strspn(line, " \t\r") < k) good = trace_line(&p->job[p->n_job++], line, k, number, path);
        line += k + 1;
    }
    hy_free(data);
    if (good && p->n_job == 0) {
        cli_error("bench", "%s holds no request", path);
        good = false;
    }
    if (good) qsort(p->job, p->n_job, sizeof *p->job, by_time);
    return good;
}

/* ---- the report -------------------------------------------------------------------------------- */

typedef struct spread {
    uint32_t n;
    double p50, p95, p99, mean, max;
} spread;

static spread spread_of(double *v, uint32_t n)
{
    spread s = { .n = n };
    if (n == 0) return s;
    s.p50 = hy_quantile(v, n, 0.5), s.p95 = hy_quantile(v, n, 0.95), s.p99 = hy_quantile(v, n, 0.99); /* and sorts them */
    for (uint32_t i = 0; i < n; i++) s.mean += v[i] / n;
    s.max = v[n - 1];
    return s;
}

typedef struct report {
    spread ttft, itl, e2e;
    uint32_t n_good, n_bad;
    uint64_t n_prompt, n_output, n_cached;
    double took_s, output_tps, request_rps, goodput; /* share of all requests within both targets */
    uint32_t classes[4];       /* first tokens up to 200 ms, 500 ms, 1 s, above */
} report;

static bool make_report(const load_result *r, uint32_t n, double took, const cli_args *a, report *out)
{
    uint64_t n_gap = 0;
    for (uint32_t i = 0; i < n; i++) n_gap += r[i].n_gap;
    double *v = hy_alloc_array(HY_MAX(n_gap, n) + 1, sizeof *v);
    if (!v) return false;
    *out = (report){ .took_s = took };
    uint32_t k = 0, n_within = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!r[i].good) {
            out->n_bad++;
            continue;
        }
        out->n_good++;
        out->n_prompt += r[i].n_prompt, out->n_output += r[i].n_output, out->n_cached += r[i].n_cached;
        double per_token = r[i].n_output > 1 ? (r[i].e2e - r[i].ttft) / (r[i].n_output - 1) : 0;
        n_within += r[i].ttft * 1e3 <= a->load_ttft && per_token * 1e3 <= a->load_itl;
        out->classes[r[i].ttft <= 0.2 ? 0 : r[i].ttft <= 0.5 ? 1 : r[i].ttft <= 1 ? 2 : 3]++;
        v[k++] = r[i].ttft;
    }
    out->ttft = spread_of(v, k);
    k = 0;
    for (uint32_t i = 0; i < n; i++)
        if (r[i].good) v[k++] = r[i].e2e;
    out->e2e = spread_of(v, k);
    k = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t g = 0; r[i].good && g < r[i].n_gap; g++) v[k++] = r[i].gap[g];
    out->itl = spread_of(v, k);
    hy_free(v);
    out->output_tps = took > 0 ? (double)out->n_output / took : 0;
    out->request_rps = took > 0 ? out->n_good / took : 0;
    out->goodput = n ? (double)n_within / n : 0;
    return true;
}

static void print_spread(const char *name, const spread *s)
{
    printf("%-22s %9.1f %9.1f %9.1f %9.1f %9.1f\n", name, 1e3 * s->p50, 1e3 * s->p95, 1e3 * s->p99, 1e3 * s->mean, 1e3 * s->max);
}

static void print_report(const report *p, const load_plan *plan, const cli_args *a, const char *why)
{
    printf("%s, model %s: ", plan->url, plan->model);
    if (plan->streams) printf("%u streams in a closed loop", plan->streams);
    else if (a->load_trace) printf("trace %s", a->load_trace);
    else printf("Poisson arrivals, %.3g a second", a->load_rate);
    printf("\n%u requests in %.1f s, %u failed\n\n%-22s %9s %9s %9s %9s %9s\n", p->n_good + p->n_bad, p->took_s, p->n_bad, "ms",
           "p50", "p95", "p99", "mean", "max");
    print_spread("time to first token", &p->ttft);
    print_spread("between pieces", &p->itl);
    print_spread("whole answer", &p->e2e);
    printf("\noutput %.1f tokens/s, %.2f requests/s; prompt tokens %llu, from the cache %llu (%.0f %%)\n", p->output_tps,
           p->request_rps, (unsigned long long)p->n_prompt, (unsigned long long)p->n_cached,
           p->n_prompt ? 100.0 * (double)p->n_cached / (double)p->n_prompt : 0.0);
    printf("first token: %u up to 200 ms (excellent), %u up to 500 ms (acceptable), %u up to 1 s, %u above\n", p->classes[0],
           p->classes[1], p->classes[2], p->classes[3]);
    printf("goodput: %.1f %% of the requests within %.0f ms to the first token and %.0f ms a token\n", 100 * p->goodput, a->load_ttft,
           a->load_itl);
    if (why) printf("first failure: %s\n", why);
}

static json_t *spread_json(const spread *s)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:i}", "p50", 1e3 * s->p50, "p95", 1e3 * s->p95, "p99", 1e3 * s->p99, "mean",
                     1e3 * s->mean, "max", 1e3 * s->max, "n", (int)s->n);
}

static void print_json(const report *p, const load_plan *plan, const cli_args *a, const char *why)
{
    json_t *o = json_pack("{s:s,s:s,s:i,s:f,s:i,s:i,s:f,s:o,s:o,s:o,s:f,s:f,s:I,s:I,s:I,s:[i,i,i,i],s:f,s:f,s:f,s:s?}", "url",
                          plan->url, "model", plan->model, "streams", (int)plan->streams, "rate", a->load_rate, "requests",
                          (int)(p->n_good + p->n_bad), "failed", (int)p->n_bad, "seconds", p->took_s, "ttft_ms",
                          spread_json(&p->ttft), "itl_ms", spread_json(&p->itl), "e2e_ms", spread_json(&p->e2e), "output_tps",
                          p->output_tps, "request_rps", p->request_rps, "prompt_tokens", (json_int_t)p->n_prompt,
                          "cached_tokens", (json_int_t)p->n_cached, "output_tokens", (json_int_t)p->n_output, "ttft_classes",
                          (int)p->classes[0], (int)p->classes[1], (int)p->classes[2], (int)p->classes[3], "goodput", p->goodput,
                          "ttft_target_ms", a->load_ttft, "itl_target_ms", a->load_itl, "first_failure", why);
    if (o) json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(o);
}

/* ---- the command ------------------------------------------------------------------------------- */

static int run_plan(load_plan *p, cli_args *a)
{
    hy_err err;
    load_result *result = HY_NEW_ARRAY(load_result, p->n_job);
    if (!result) return cli_error("bench", "out of memory");
    cli_bar bar = { .what = "load", .unit = "requests", .quiet = a->quiet };
    double took;
    hy_status s = load_run(p, result, cli_bar_step, &bar, &took, &err);
    cli_bar_end(&bar);
    report r;
    int rc = 0;
    const char *why = NULL;
    for (uint32_t i = 0; i < p->n_job && !why; i++)
        if (!result[i].good && result[i].why[0]) why = result[i].why;
    if (s != HY_OK) rc = cli_fail("bench", &err);
    else if (!make_report(result, p->n_job, took, a, &r)) rc = cli_error("bench", "out of memory");
    else if (a->json) print_json(&r, p, a, why);
    else print_report(&r, p, a, why);
    if (rc == 0 && r.n_good == 0) rc = 1;
    load_results_free(result, p->n_job);
    return rc;
}

int cmd_bench_serve(cli_args *a)
{
    if (a->load_streams && (a->load_rate > 0 || a->load_trace))
        return cli_error("bench", "--streams is a closed loop; --rate and --trace are open ones: give one of them"), 2;
    if (a->load_rate > 0 && a->load_trace) return cli_error("bench", "--rate and --trace exclude each other"), 2;
    load_plan p = { .url = a->pos[1], .key = a->key, .model = a->load_model, .seed = a->has_seed ? a->seed : 1, .chat = a->chat,
                    .until_end = a->load_until_end, .n_prefix = (uint32_t)a->load_prefix, .n_job = (uint32_t)a->load_requests };
    if (!(a->load_rate > 0) && !a->load_trace) p.streams = a->load_streams ? (uint32_t)a->load_streams : 4;
    p.job = HY_NEW_ARRAY(load_job, p.n_job);
    if (!p.job) return cli_error("bench", "out of memory");
    if (a->load_trace) {
        if (!read_trace(&p, a->load_trace)) {
            hy_free(p.job);
            return 2;
        }
    } else {
        fill_lengths(&p, a);
    }
    cli_catch_interrupt();
    char *model = NULL;
    hy_err err;
    hy_status s = load_calibrate(&p, &model, &err);
    int rc = s == HY_OK ? run_plan(&p, a) : cli_fail("bench", &err);
    hy_free(model);
    hy_free(p.job);
    return rc;
}
