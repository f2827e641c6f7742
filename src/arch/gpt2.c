/* GPT-2: learned positions, LayerNorm, biases. Its safetensors store matrices as [in, out]. */
#include "arch/rows.h"

static const hy_tensor_spec tensors[] = {
    HY_TENSORS_EMBD, HY_MAT(POS_EMBD, EMBD, CTX, NEEDED), HY_TENSORS_NORMS_B, HY_TENSORS_ATTN_B,
    HY_TENSORS_PLAIN_FFN_B,
};

static const hy_recipe head[] = {
    HY_ROWS_EMBED,
    HY_ROW(POS_ADD, X, NONE, NONE, POS_EMBD, 0),
};

static const hy_recipe block[] = {
    HY_ROW(NORM, H, X, NONE, ATTN_NORM, 0),
    HY_ROWS_QKV(H),
    HY_ROWS_ATTEND(NONE),
    HY_ROW(ADD, X, X, A, NONE, 0),
    HY_ROW(NORM, H, X, NONE, FFN_NORM, 0),
    HY_ROWS_PLAIN_FFN(A, H),
    HY_ROW(ADD, X, X, A, NONE, 0),
};

static const hy_name gguf[] = { HY_NAMES_GGUF_QKV };

static const hy_name hf[] = {
    HY_NAME(TOK_EMBD, "wte"),
    HY_NAME(POS_EMBD, "wpe"),
    HY_NAME(OUT_NORM, "ln_f"),
    HY_NAME(OUTPUT, "/lm_head"),
    HY_NAME(ATTN_NORM, "h.%u.ln_1"),
    { HY_W_Q, "h.%u.attn.c_attn", HY_PICK_Q, HY_TRANSPOSED },
    { HY_W_K, "h.%u.attn.c_attn", HY_PICK_K, HY_TRANSPOSED },
    { HY_W_V, "h.%u.attn.c_attn", HY_PICK_V, HY_TRANSPOSED },
    { HY_W_O, "h.%u.attn.c_proj", HY_PICK_ALL, HY_TRANSPOSED },
    HY_NAME(FFN_NORM, "h.%u.ln_2"),
    { HY_W_UP, "h.%u.mlp.c_fc", HY_PICK_ALL, HY_TRANSPOSED },
    { HY_W_DOWN, "h.%u.mlp.c_proj", HY_PICK_ALL, HY_TRANSPOSED },
};

static const hy_refusal refuse[] = {
    { "scale_attn_by_inverse_layer_idx", true },
    { "scale_attn_weights", false },
    { "add_cross_attention", true },
};

static const hy_family_io io = {
    .norm = HY_NORM_LAYER, .act = HY_A_GELU_TANH, .no_rope = true,
    .gguf = HY_TABLE(gguf), .hf = HY_TABLE(hf), .hf_prefix = "transformer.,",
    .refuse = HY_TABLE(refuse),
};

const hy_family hy_family_gpt2 = {
    .name = "gpt2", .gguf_arch = "gpt2", .hf_type = "gpt2", .io = &io,
    .tensors = HY_TABLE(tensors), .head = HY_TABLE(head), .block = HY_TABLE(block),
    .tail = HY_TABLE(hy_tail_plain),
};
