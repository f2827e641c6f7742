/* StableLM 2: LayerNorm, gated FFN, partial rope. Without a norm of its own the FFN reads what
 * attention read, and both branches add to the same x. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_VEC_B(OUT_NORM, EMBD, NEEDED), HY_VEC_B(ATTN_NORM, EMBD, NEEDED),
    HY_VEC_B(FFN_NORM, EMBD, OPTIONAL), HY_TENSORS_ATTN, HY_TENSORS_GATED,
    { HY_W_Q_NORM, { HY_D_HEAD_K, HY_D_N_HEAD, HY_D_NONE }, HY_OPTIONAL, false },
    { HY_W_K_NORM, { HY_D_HEAD_K, HY_D_N_KV_HEAD, HY_D_NONE }, HY_OPTIONAL, false },
};

static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_HEAD_NORM,
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, HY_IF_W),
    HY_ROWS_GATED(A, H, 0),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

static const hy_name hf[] = {
    { HY_W_Q_NORM, "layers.%u.self_attn.q_layernorm.norms.%u", HY_PICK_ALL, HY_PER_HEAD },
    { HY_W_K_NORM, "layers.%u.self_attn.k_layernorm.norms.%u", HY_PICK_ALL, HY_PER_HEAD },
};

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_SILU,
    .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_stablelm = {
    .name = "stablelm", .gguf_arch = "stablelm", .hf_type = "stablelm", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(block), .tail = HY_TABLE(hy_tail_plain),
};
