/* Until the room gram is whole: no guide can be compiled. */
#include "gram/gram.h"
hy_status hy_gram_compile(hy_gram **o, const hy_gram_source *s, hy_err *e){(void)o;(void)s;return hy_fail(e,HY_E_UNSUPPORTED,"guides come with the room gram");}
void hy_gram_unref(hy_gram *g){(void)g;}
hy_status hy_gram_vocab_open(hy_gram_vocab **o, const hy_gram_vocab_source *s, hy_err *e){(void)o;(void)s;return hy_fail(e,HY_E_UNSUPPORTED,"guides come with the room gram");}
void hy_gram_vocab_close(hy_gram_vocab *v){(void)v;}
uint64_t hy_gram_vocab_bytes(const hy_gram_vocab *v){(void)v;return 0;}
hy_status hy_gram_run_open(hy_gram_run **o, hy_gram *g, const hy_gram_vocab *v, hy_err *e){(void)o;(void)g;(void)v;return hy_fail(e,HY_E_UNSUPPORTED,"guides come with the room gram");}
void hy_gram_run_close(hy_gram_run *r){(void)r;}
void hy_gram_mask(hy_gram_run *r, uint32_t *b){(void)r;(void)b;}
bool hy_gram_accept(hy_gram_run *r, int32_t id){(void)r;(void)id;return 0;}
bool hy_gram_done(const hy_gram_run *r){(void)r;return 0;}
uint64_t hy_gram_run_bytes(const hy_gram_run *r){(void)r;return 0;}
