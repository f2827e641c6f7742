/* gpt-oss: experts with biases and a clamped gate, sinks, each second layer windowed, YaRN. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_TENSORS_ATTN_B,
    HY_VEC(OUT_NORM, EMBD, NEEDED), HY_VEC(ATTN_NORM, EMBD, NEEDED),
    HY_VEC(ATTN_POST_NORM, EMBD, NEEDED), HY_VEC(SINKS, N_HEAD, NEEDED),
    HY_MAT_B(ROUTER, EMBD, EXPERT, NEEDED),
    { HY_W_E_GATE, { HY_D_EMBD, HY_D_FF_EXPERT, HY_D_EXPERT }, HY_NEEDED, true },
    { HY_W_E_UP, { HY_D_EMBD, HY_D_FF_EXPERT, HY_D_EXPERT }, HY_NEEDED, true },
    { HY_W_E_DOWN, { HY_D_FF_EXPERT, HY_D_EMBD, HY_D_EXPERT }, HY_NEEDED, true },
};

/* post_attention_norm stands before the experts here */
static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_ROPE,
    HY_ROWS_ATTEND(SINKS),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, ATTN_POST_NORM, 0),
    HY_ROWS_MOE(A, H),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

static const hy_name hf[] = {
    { HY_W_SINKS, "layers.%u.self_attn.sinks", HY_PICK_ALL, HY_BARE },
    HY_NAME(ATTN_POST_NORM, "layers.%u.post_attention_layernorm"),
    HY_NAME(ROUTER, "layers.%u.mlp.router"),
    { HY_W_E_GATE, "layers.%u.mlp.experts.gate_up_proj", HY_PICK_EVEN, HY_BARE | HY_TRANSPOSED },
    { HY_W_E_UP, "layers.%u.mlp.experts.gate_up_proj", HY_PICK_ODD, HY_BARE | HY_TRANSPOSED },
    { HY_W_E_DOWN, "layers.%u.mlp.experts.down_proj", HY_PICK_ALL, HY_BARE | HY_TRANSPOSED },
};

static const hy_family_io io = {
    .norm = HY_NORM_RMS, .act = HY_A_SWIGLU_OAI, .act_fixed = true, .gating = HY_GATE_TOPK_SOFTMAX,
    .rope_base = 150000, .gguf_exact_yarn = true, .window_every = 2, .hf = HY_TABLE(hf),
    .hf_base = HY_TABLE(hy_hf_llama), .hf_prefix = "model.",
};

const hy_family hy_family_gpt_oss = {
    .name = "gpt_oss", .gguf_arch = "gpt-oss", .hf_type = "gpt_oss", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(hy_head_plain),
    .block = HY_TABLE(block), .tail = HY_TABLE(hy_tail_plain),
};
