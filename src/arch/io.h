/* arch/io: how files name and lay out a family's tensors, and what the files leave unsaid. May include
 * base, quant. Read by plan's loader only; a recipe never depends on the file it came from. */
#ifndef HY_ARCH_IO_H
#define HY_ARCH_IO_H

#include "arch/arch.h"

/* Which rows of a file's tensor are the role's. A bias follows its matrix. */
typedef enum hy_pick {
    HY_PICK_ALL,
    HY_PICK_Q, HY_PICK_K, HY_PICK_V,       /* Q, K, V one under another */
    HY_PICK_GROUP_Q, HY_PICK_GROUP_K, HY_PICK_GROUP_V, /* per KV head: its query heads, K, V */
    HY_PICK_FIRST, HY_PICK_SECOND,         /* upper and lower half */
    HY_PICK_EVEN, HY_PICK_ODD              /* alternating rows */
} hy_pick;

enum {
    HY_TRANSPOSED = 1,  /* stored [in, out]: the role's rows are columns */
    HY_PLUS_ONE = 2,    /* a norm stored as w where 1 + w is meant */
    HY_BARE = 4,        /* no ".weight"; its bias is NAME_bias */
    HY_PER_HEAD = 8     /* the second %u counts heads: one vector each */
};

/* One way a file may hold a role. First %u: the layer; second: the expert or head. Several rows of
 * one role are alternatives; the first whose tensor exists counts. */
typedef struct hy_name {
    hy_role role;
    const char *name;   /* without ".weight" and without the file's prefix */
    hy_pick pick;
    uint32_t flags;
} hy_name;

/* A config.json flag whose other value this family's recipe does not compute. */
typedef struct hy_refusal {
    const char *key;
    bool value;         /* refused when the flag has this value */
} hy_refusal;

/* A number that config.json may leave out because the reference's class has it. */
typedef struct hy_default {
    const char *key;
    double value;
} hy_default;

typedef struct hy_family_io {
    /* defaults where the file is silent */
    hy_norm_kind norm;
    hy_act_kind act;
    bool act_fixed;            /* config.json's activation says something else than is computed */
    hy_gating gating;
    bool norm_topk, parallel;
    double rope_base;          /* 0: 10000 */
    double rope_base_local;    /* of windowed layers; 0: the main base */
    bool gguf_exact_yarn;      /* GGUF cannot say so: the correction range is not rounded */
    bool plain_local_rope;     /* windowed layers rotate without the main rope's scaling */
    bool no_rope;              /* positions come from elsewhere */
    bool full_no_rope;         /* full layers have no rope when the model has a window */
    uint32_t no_rope_every;    /* each n-th layer has no rope; 0: none */
    uint32_t window_every;     /* each n-th layer is full, the others windowed; 0: all windowed */
    /* rotary pairs of the file's Q and K rows */
    bool gguf_interleaved, hf_interleaved;
    /* names: GGUF's canonical ones (hy_role_name) come after `gguf`; `hf` before `hf_base`, of which a
     * role named in `hf` is not taken */
    const hy_name *gguf; uint32_t n_gguf;
    const hy_name *hf; uint32_t n_hf;
    const hy_name *hf_base; uint32_t n_hf_base;
    const char *hf_prefix;     /* comma-separated: "model."; that with which TOK_EMBD exists is the
                                  file's. A name that starts with '/' has no prefix. */
    const hy_refusal *refuse; uint32_t n_refuse;
    const hy_default *defaults; uint32_t n_defaults;
} hy_family_io;

#endif
