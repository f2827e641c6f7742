/* kern: the kernel table, its fill functions, and the packed forms that kernels read. May include
 * base, cpu, quant.
 *
 * Numbers are part of the contract. Every entry is defined by its scalar version (kern/scalar), and
 * every ISA version gives the SAME BITS: outputs are lanes (a lane is one output element), each output
 * is summed over K in ascending order with one fma a term, and the few true reductions (norms, sums
 * of a softmax) use 16 virtual lanes, lane = index mod 16, folded as 8+8, 4+4, 2+2, 1+1. exp, tanh,
 * erf are ours: the same polynomial, operation by operation, with explicit fma. So a result never
 * depends on the batch, the tile, the thread or the ISA. Kernels cannot fail: sizes are checked at
 * load, at plan, or at the door. */
#ifndef HY_KERN_H
#define HY_KERN_H

#include "base/base.h"
#include "cpu/cpu.h"
#include "quant/quant.h"

/* ---- packed weights ("panels") --------------------------------------------------------------- */

/* A panel is P rows of a matrix, interleaved so that rows are SIMD lanes; P = hy_kernels.panel
 * (8, or 16 with AVX-512). The layout depends on (type, P) only and is described in pack.c:
 *   floats:  [k][P]
 *   blocks:  first the scales of all of k (K-quants: d, dmin per 256 and sub-scales as bytes), then
 *            code planes per 32 weights of k; a 32-bit lane holds 4 consecutive k of one row.
 * Rows past n_row in the last panel are zero. */
typedef struct hy_panels {
    hy_qtype type;
    uint32_t p;                /* rows a panel */
    uint64_t n_row, k;         /* real rows (outputs), row length; k % block == 0 */
    uint64_t n_panel, panel_bytes;
    const uint8_t *data;       /* HY_ALIGN-aligned, n_panel * panel_bytes */
} hy_panels;

/* Fills everything but data. False when k is no multiple of the block, or a size overflows. */
bool hy_panels_shape(hy_panels *w, hy_qtype type, uint32_t p, uint64_t n_row, uint64_t k);
/* Packs panel i from source rows in file format (row r at src + r * src_row_bytes). Any thread. */
void hy_panel_pack(const hy_panels *w, uint8_t *dst_panel, const void *const *src_row,
                   uint32_t n_src_row); /* src_row[i]: one row in file format; n_src_row <= p */
/* Dequantises one row out of its panel: [k] floats, bit for bit what quant's unpack gives. */
void hy_panel_row(const hy_panels *w, uint64_t i_row, float *dst);

/* ---- int8 activations ------------------------------------------------------------------------- */

#define HY_ACT_SHIFT_MAX 12    /* so that 16 products of bytes, shifted, and 16 more fit an int32 */

/* 32 values: x = q * 2^e[h] * d in half h (16 of them). The half with the larger max|x| has the step max / 127; the other's is
 * smaller by the largest power of two that its values allow, at most 2^12, and its e is 0. What products
 * need of the codes' sums is made once, here (docs/decisions/003). A line of the cache. */
typedef struct hy_act_group {
    int8_t q[32];
    float d;
    float s;                   /* (float)(sum_0 * 2^e[0] + sum_1 * 2^e[1]) * d, the sum of the values */
    int32_t e[2];              /* one of them 0 */
    int32_t m[2];              /* 2^e[h], in both 16-bit halves */
    int32_t b[2];              /* -128 * (sum_0 * 2^e[0] + sum_1 * 2^e[1]), and the second term alone */
} hy_act_group;
_Static_assert(sizeof(hy_act_group) == 64, "a cache line");

typedef struct hy_act8 {
    hy_act_group *g;           /* [n_tok, k / 32] */
    uint64_t k;
} hy_act8;
/* The same from row `row`, column `col` (a multiple of 32) on. */
HY_INLINE hy_act8 hy_act8_at(const hy_act8 *x, uint64_t row, uint64_t col)
{
    return (hy_act8){ x->g + (row * x->k + col) / 32, x->k };
}

/* ---- matmul ----------------------------------------------------------------------------------- */

/* y[t][r] = sum_k w[r][k] * x[t][k] (+ bias[r]) (+ add[t][r]) for panels [first, last), t < n_tok.
 * With int8 activations, per group of 32 in ascending order, acc starting at 0, h the group's halves:
 *     t_h = 2^e_h * sum of code * q over 16, exact in int32
 *     acc = fmaf((float)(t_0 + t_1) * ws, xd, acc)   ws = weight scale in F32 (K-quants: d * sc)
 *     acc = fmaf(xs, wm, acc)                   types with a minimum: wm = m, or -(dmin * m)
 * Types with a scale for every 16 (Q2_K, Q3_K, Q6_K):
 *     u = fmaf((float)t_1, ws_1, (float)t_0 * ws_0)         ws_h = d * sc_h
 *     u = fmaf((float)isum_h, wm_h, u), h = 0 then 1        Q2_K: wm_h = -(dmin * m_h), isum_h = 2^e_h * sum of q
 *     acc = fmaf(u, xd, acc)
 * With F32 activations: acc = fmaf(w[r][k], x[k], acc), k ascending, w the dequantised weight. Bias,
 * then add, are plain additions at the end. */
typedef struct hy_mm {
    const hy_panels *w;
    uint64_t panel_first, panel_last;
    uint32_t n_tok;
    const uint32_t *x_row;     /* NULL: token t reads activation row t; else row x_row[t] */
    const uint32_t *y_row;     /* NULL: token t writes output row t; else row y_row[t] */
    hy_act8 x8;                /* int8 path */
    const float *x;            /* F32 path: [*, x_stride] */
    size_t x_stride;
    float *y;                  /* row * y_stride + r */
    size_t y_stride;
    const float *bias;         /* [n_row] or NULL */
    const float *add;          /* [*, add_stride], indexed like y, or NULL; may be y itself */
    size_t add_stride;
    const uint8_t *next;       /* what this thread will read after these panels, or NULL: few tokens ask
                                  for it in time */
} hy_mm;
typedef void hy_mm_fn(const hy_mm *m);

/* ---- attention over pages --------------------------------------------------------------------- */

#define HY_PAGE_TOK 16         /* tokens a page */
#define HY_ATT_TILE 64         /* tokens a tile: four pages, cut at absolute positions */

typedef enum hy_kv_type { HY_KV_F32, HY_KV_F16, HY_KV_BF16, HY_KV_Q8, HY_KV_Q4, HY_KV_TYPE_COUNT } hy_kv_type;

/* Layout of one page of one layer and KV head:
 *   K: codes [d_k][16] (tokens are lanes), Q8: then F32 scale[16]; Q4: nibbles, two d rows a byte
 *      ([d_k/2][16], low nibble = even d), scales F32 [d_k/32][16]
 *   V: codes [16][d_v] (d are lanes), Q8: then F32 scale[16]; Q4: nibbles [16][d_v/2] (low = first
 *      half d < d_v/2 of each 32: see kv_layout.c), scales F32 [16][d_v/32]
 * Q8: x ~ scale * q, q in -127..127, scale = max|x| / 127. Q4: x ~ scale * (q - 8), groups of 32
 * along d (d must be a multiple of 32 for Q4), scale = -x_e / 8 with x_e the element of largest
 * magnitude. F16 saturates at 65504. Each part is padded to HY_ALIGN. */
uint64_t hy_kv_k_bytes(hy_kv_type t, uint32_t d_k);
uint64_t hy_kv_v_bytes(hy_kv_type t, uint32_t d_v);
bool hy_kv_type_from_name(const char *name, hy_kv_type *out); /* f32 f16 bf16 q8 q4 (q8_0, q4_0) */
const char *hy_kv_type_name(hy_kv_type t);
/* A page's codes as floats: keys [d_k][16], values [16][d_v]. For the materialised form of attention. */
void hy_kv_page_keys(hy_kv_type t, const uint8_t *page_k, uint32_t d_k, float *out);
void hy_kv_page_values(hy_kv_type t, const uint8_t *page_v, uint32_t d_v, float *out);

/* One tile for a stack of query rows that share a KV head. For query i the keys at absolute positions
 * j of the tile with j <= q_pos[i] and (window == 0 or j > q_pos[i] - window) count:
 *     s_j = (q . k_j) * scale; softcap c: s = tanh(s / c) * c
 *     m = max_j s_j; p_j = exp(s_j - m); l = sum p_j (16 lanes, lane = j mod 16);
 *     o = sum_j p_j * v_j, j ascending.   No key: m = -inf, l = 0, o = 0.
 * The products, every sum starting at 0, d and j ascending:
 *     floats  q.k: s = fma(q[d], k[d], s)               o[d] = fma(p_j, v[d], o[d])
 *     Q8      s = fma(q[d], code, s), then s * ks[j]     o[d] = fma(p_j * vs[j], code, o[d])
 *     Q4      per group g of 32: a = fma(q[d], code - 8, a); s = fma(a, ks[g][j], s)
 *                                                        o[d] = fma(p_j * vs[j][g], code - 8, o[d])
 * Keys that do not count are never read into a sum, so their slots may hold anything. */
typedef struct hy_att {
    hy_kv_type type;
    uint32_t d_k, d_v;
    uint32_t n_q;
    const float *q;            /* row i at q + i * q_stride */
    size_t q_stride;
    const int32_t *q_pos;      /* [n_q] */
    int32_t pos0;              /* absolute position of the tile's first token: multiple of the tile */
    uint32_t n_key;            /* tokens of the tile that exist (1..HY_ATT_TILE) */
    const uint8_t *k_page[HY_ATT_TILE / HY_PAGE_TOK]; /* pages wholly outside every window may be NULL */
    const uint8_t *v_page[HY_ATT_TILE / HY_PAGE_TOK];
    const uint8_t *next[HY_ATT_TILE / HY_PAGE_TOK]; /* what this thread reads after the tile, or NULL: few queries */
    uint32_t next_bytes;       /* ask for these from each in time */
    float scale, softcap;      /* softcap 0: none */
    uint32_t window;           /* 0: none */
    float *m, *l;              /* [n_q] */
    float *o;                  /* [n_q, d_v] */
    float *work;               /* [n_q * HY_ATT_TILE] scratch */
    float *wide;               /* [HY_ATT_TILE * (d_k + d_v)] scratch: many queries are faster with it; or NULL */
} hy_att;
typedef void hy_att_fn(const hy_att *a);

/* ---- the table -------------------------------------------------------------------------------- */

typedef enum hy_act_fn_id { HY_ACT_SILU, HY_ACT_GELU, HY_ACT_GELU_TANH, HY_ACT_RELU, HY_ACT_RELU2,
    HY_ACT_SIGMOID, HY_ACT_SWIGLU_OAI, HY_ACT_COUNT } hy_act_fn_id;

typedef struct hy_kernels {
    const char *isa;           /* "scalar", "avx2", "avx512", "neon", "dotprod", "i8mm" */
    uint32_t panel;            /* P */
    hy_mm_fn *mm_q8[HY_Q_COUNT];   /* int8 activations; NULL for float types */
    hy_mm_fn *mm_f32[HY_Q_COUNT];  /* F32 activations; all types */
    /* quantise k floats (k % 32 == 0) to where `to` points; round to nearest even; 32 zeros: d = 0; not finite: d = NaN */
    void (*act8)(const float *x, uint64_t k, hy_act8 to);
    /* y = x / sqrt(mean(x^2) + eps) * w; w may be NULL (ones); y may be x */
    void (*rmsnorm)(const float *x, const float *w, float *y, uint64_t n, float eps);
    /* y = (x - mean) / sqrt(var + eps) * w + b; b may be NULL */
    void (*layernorm)(const float *x, const float *w, const float *b, float *y, uint64_t n, float eps);
    void (*add)(const float *a, const float *b, float scale, float *y, uint64_t n); /* y = fma(b,scale,a) */
    void (*scale)(float *x, float s, uint64_t n);
    void (*softcap)(float *x, float cap, uint64_t n);          /* x = cap * tanh(x / cap) */
    void (*act)(hy_act_fn_id f, float *x, uint64_t n);
    /* y = f(g) * u; SWIGLU_OAI (gpt-oss): g = min(g, 7), u = clamp(u, -7, 7);
     * y = (u + 1) * g * sigmoid(1.702 g) */
    void (*act_mul)(hy_act_fn_id f, const float *g, const float *u, float *y, uint64_t n);
    /* one head, in place. c, s: [n_rot / 2]. Half-split: pairs (i, i + n_rot/2); interleaved: pairs
     * (2i, 2i+1). a' = a*c - b*s as fma(-b, s, a*c); b' = fma(a, s, b*c) */
    void (*rope)(float *x, uint32_t n_rot, bool interleaved, const float *c, const float *s);
    /* exp of every element minus `max`, in place; returns the 16-lane sum */
    float (*exp_sum)(float *x, float max, uint64_t n);
    float (*max)(const float *x, uint64_t n);                  /* n > 0 */
    uint64_t (*argmax)(const float *x, uint64_t n);            /* the first of equal maxima */
    /* write token `slot` (0..15) of a page */
    void (*kv_put_k)(hy_kv_type t, uint8_t *page_k, uint32_t d_k, uint32_t slot, const float *k);
    void (*kv_put_v)(hy_kv_type t, uint8_t *page_v, uint32_t d_v, uint32_t slot, const float *v);
    hy_att_fn *att[HY_KV_TYPE_COUNT];
    /* fold a tile's (m, l, o) into the running ones (which start as -inf, 0, zeros) for n queries, o: [n, d_v]:
     * M = max(m_acc, m), x_acc = fma(x, exp(m - M), x_acc * exp(m_acc - M)). Where the tile is empty (l = 0) nothing
     * changes. */
    void (*att_fold)(uint32_t n, float *m_acc, float *l_acc, float *o_acc, const float *m, const float *l,
                     const float *o, uint32_t d_v);
} hy_kernels;

/* Fills the table for the features in `cpu`: scalar first, then each ISA that fits overwrites what it
 * does better. isa: NULL or "auto" for the best, or a name; a name this machine cannot run gives
 * HY_E_UNSUPPORTED listing those it can. "auto" takes an ISA that no hardware has proven yet
 * (docs/isa.md) only when it passes hy_kern_selftest. HAYATE_ISA is read by the caller (engine). */
hy_status hy_kern_fill(hy_kernels *k, uint64_t cpu, const char *isa, hy_err *err);
/* Names this machine can run, best last; returns the count. */
uint32_t hy_kern_isas(uint64_t cpu, const char *out[8]);
/* Names it can run that are only taken when they are named, and why; NULL: no such name, or not one of these. */
uint32_t hy_kern_isas_off(uint64_t cpu, const char *out[8]);
const char *hy_kern_isa_off(const char *name);

/* Runs every entry of the table against the scalar one on a few vectors and compares bits. False, with
 * the first entry that differs in msg, for a table that must not be used. Thread: any; tens of ms. */
bool hy_kern_selftest(const hy_kernels *k, char *msg, size_t n);

/* A hy_logit_block_fn, the same bits on every ISA; ctx: the hy_kernels. */
void hy_kern_logit_block(const void *kernels, const float *x, uint32_t n, float temperature, float *max, float *sum);

/* Filled by one file each; every one checks its own feature bits. */
void hy_kern_fill_scalar(hy_kernels *k, uint32_t panel);
void hy_kern_fill_avx2(hy_kernels *k, uint64_t cpu);
void hy_kern_fill_avx512(hy_kernels *k, uint64_t cpu);
void hy_kern_fill_neon(hy_kernels *k, uint64_t cpu);
void hy_kern_fill_dotprod(hy_kernels *k, uint64_t cpu);
void hy_kern_fill_i8mm(hy_kernels *k, uint64_t cpu);

#endif
