/* The table of routes, and how a path finds its row. A new endpoint is a file and a row. */
#include "serve/impl.h"
#include "serve/openapi.h"
#include "serve/page.h"
#include "serve/rows.h"
#include <string.h>

const hy_route hy_routes[] = {
    { "GET", "/health", hy_route_health, 0, HY_ROUTE_INLINE | HY_ROUTE_OPEN | HY_ROUTE_LOADING, "alive" },
    { "GET", "/ready", hy_route_ready, 0, HY_ROUTE_INLINE | HY_ROUTE_OPEN | HY_ROUTE_LOADING,
      "200 when requests are taken; 503 while loading or draining" },
    { "GET", "/version", hy_route_version, 0, HY_ROUTE_INLINE | HY_ROUTE_OPEN | HY_ROUTE_LOADING, "the server's version" },
    { "GET", "/v1/models", hy_route_models, 0, HY_ROUTE_INLINE, "the model that is served" },
    { "GET", "/v1/models/{id}", hy_route_model, 0, HY_ROUTE_INLINE, "one model" },
    { "POST", "/v1/chat/completions", hy_route_chat, 32 * HY_MIB, HY_ROUTE_GENERATES, "an answer to chat messages" },
    { "POST", "/v1/completions", hy_route_completions, 32 * HY_MIB, HY_ROUTE_GENERATES, "text that continues a prompt" },
    { "POST", "/v1/embeddings", hy_route_embeddings, 32 * HY_MIB, HY_ROUTE_GENERATES, "texts as vectors of length 1" },
    { "POST", "/v1/responses", hy_route_responses, 32 * HY_MIB, HY_ROUTE_GENERATES, "an answer, in the shape of OpenAI's Responses" },
    { "POST", "/v1/messages", hy_route_messages, 32 * HY_MIB, HY_ROUTE_GENERATES | HY_ROUTE_ANTHROPIC,
      "an answer, in the shape of Anthropic's Messages" },
    { "POST", "/v1/messages/count_tokens", hy_route_count_tokens, 32 * HY_MIB, HY_ROUTE_ANTHROPIC, "tokens of such a prompt" },
    { "POST", "/tokenize", hy_route_tokenize, 32 * HY_MIB, 0, "text or messages to token ids" },
    { "POST", "/detokenize", hy_route_detokenize, 32 * HY_MIB, 0, "token ids to text" },
    { "POST", "/apply-template", hy_route_apply_template, 32 * HY_MIB, 0, "the prompt that messages make" },
    { "GET", "/v1/requests/{id}", hy_route_request, 0, 0, "where a request's time went; the last 1024 are kept" },
    { "DELETE", "/v1/requests/{id}", hy_route_request_cancel, 0, HY_ROUTE_INLINE, "cancel a running request" },
    { "GET", "/metrics", hy_route_metrics, 0, HY_ROUTE_INLINE, "what the server counts, as Prometheus text" },
    { "GET", "/stats", hy_route_stats, 0, HY_ROUTE_INLINE, "the same as JSON" },
    { "GET", "/debug/profile", hy_route_profile, 0, HY_ROUTE_ADMIN, "where the time of the running load goes, and what to try" },
    { "GET", "/openapi.json", hy_route_openapi, 0, HY_ROUTE_OPEN | HY_ROUTE_LOADING, "this description of the API" },
    { "GET", "/", hy_route_page, 0, HY_ROUTE_INLINE | HY_ROUTE_OPEN | HY_ROUTE_LOADING, "the page: chat and live monitor" },
    { "GET", "/assets/{name}", hy_route_asset, 0, HY_ROUTE_INLINE | HY_ROUTE_OPEN | HY_ROUTE_LOADING, "the page's files" },
    { NULL, NULL, NULL, 0, 0, NULL },
};

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool hy_url_decode(char *s, bool plus)
{
    char *to = s;
    for (; *s; s++) {
        if (*s == '%') {
            int hi = hex(s[1]), lo = hi < 0 ? -1 : hex(s[2]);
            if (lo < 0 || (hi == 0 && lo == 0)) return false;
            *to++ = (char)(hi << 4 | lo);
            s += 2;
        } else {
            *to++ = *s == '+' && plus ? ' ' : *s;
        }
    }
    *to = 0;
    return true;
}

/* {id} takes one or more characters: up to the next slash, or at the end of a pattern all that is left (the
 * names of models have slashes). */
static bool fits(const char *pattern, const char *path, const char **param, size_t *n_param)
{
    *param = NULL;
    for (;; pattern++, path++) {
        if (*pattern == '{') {
            pattern = strchr(pattern, '}') + 1;
            size_t n = *pattern ? strcspn(path, "/") : strlen(path);
            if (n == 0) return false;
            *param = path;
            *n_param = n;
            path += n;
        }
        if (*pattern != *path) return false;
        if (!*pattern) return true;
    }
}

void hy_route_find(const char *method, const char *path, hy_match *m)
{
    memset(m, 0, sizeof *m);
    size_t n = 0;
    bool head = strcmp(method, "HEAD") == 0;
    for (const hy_route *r = hy_routes; r->method; r++) {
        const char *param;
        size_t n_param = 0;
        if (!fits(r->path, path, &param, &n_param)) continue;
        n += (size_t)snprintf(m->allow + n, sizeof m->allow - n, "%s%s", r->method,
                              strcmp(r->method, "GET") == 0 ? ", HEAD, " : ", ");
        if (m->route || strcmp(r->method, head ? "GET" : method) != 0) continue;
        m->route = r;
        m->param = param;
        m->n_param = n_param;
    }
    if (n) snprintf(m->allow + n, sizeof m->allow - n, "OPTIONS");
}
