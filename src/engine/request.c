/* What a request can be asked for beside its events. */
#include "engine.h"
#include <string.h>

uint64_t hy_clock_us(void)
{
    return hy_now_us();
}

const int32_t *hy_request_prompt(const hy_request *r, uint32_t *n)
{
    *n = r->n_prompt;
    return r->ids;
}

const hy_token *hy_request_prompt_logprobs(const hy_request *r, uint32_t *n)
{
    *n = 0;
    (void)r;
    return NULL;
}

const float *hy_request_embedding(const hy_request *r, uint32_t *n)
{
    *n = 0;
    (void)r;
    return NULL;
}

uint32_t hy_request_spans(const hy_request *r, hy_span *out, uint32_t cap)
{
    if (cap == 0) return 0;
    out[0] = (hy_span){ .kind = HY_SPAN_QUEUE, .us_begin = r->us_submit };
    return 1;
}

hy_status hy_submit_n(hy_engine *e, const hy_params *p, uint32_t n, hy_request **out, hy_err *err)
{
    hy_params one = *p;
    for (uint32_t i = 0; i < n; i++) {
        one.seed = p->seed + i;
        hy_status s = hy_submit(e, &one, &out[i], err);
        if (s == HY_OK) continue;
        while (i > 0) {
            hy_release(out[--i]);
            out[i] = NULL;
        }
        return s;
    }
    return HY_OK;
}
