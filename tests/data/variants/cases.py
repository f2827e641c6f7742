"""Variants of families that the shared golden models do not have. Made as those are:

    python make_golden.py models --cases cases.py --out variants --llama-cpp LLAMA_CPP_SOURCE
"""
from cases_given import C, MOE, theta

LN = dict(layer_norm_eps=1e-5)
ONCE = dict(gguf=[], lens=[7, 64], greedy=[])

CASES = [
    # a norm each for attention and FFN; KV heads in groups
    C("falcon_new", "falcon", "falcon", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=512,
        num_kv_heads=2, multi_query=False, parallel_attn=True, bias=False, alibi=False, new_decoder_architecture=True,
        rope_parameters=theta(10000), tie_word_embeddings=True), base={}, **ONCE),
    # norms of each head with their own weights
    C("cohere_qk", "cohere", "cohere", dict(LN, tie_word_embeddings=True, logit_scale=0.25, use_qk_norm=True,
        rope_parameters=theta(10000), pad_token_id=0, bos_token_id=2, eos_token_id=4), **ONCE),
    # the same, and FFN beside attention
    C("stablelm_par", "stablelm", "gpt2", dict(LN, num_key_value_heads=2, use_qkv_bias=False, hidden_act="silu",
        qk_layernorm=True, use_parallel_residual=True, tie_word_embeddings=False,
        rope_parameters=theta(10000, partial_rotary_factor=0.25)), **ONCE),
    # FFN after attention
    C("neox_seq", "gpt_neox", "gpt2", dict(LN, num_key_value_heads=4, hidden_act="gelu", use_parallel_residual=False,
        tie_word_embeddings=False, rope_parameters=theta(10000, partial_rotary_factor=0.25)), **ONCE),
    # dynamic NTK, a prompt past the original context
    C("llama_dynamic", "llama", "spm_llama", dict(max_position_embeddings=32, tie_word_embeddings=False,
        rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=10000.0)), **ONCE),
    # layers with and without experts
    C("qwen2_moe_mix", "qwen2_moe", "qwen2", dict(MOE, num_hidden_layers=4, shared_expert_intermediate_size=48,
        norm_topk_prob=True, decoder_sparse_step=2, mlp_only_layers=[3], tie_word_embeddings=False,
        rope_parameters=theta(1000000)), **ONCE),
]
