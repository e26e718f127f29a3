# SPDX-License-Identifier: Apache-2.0
"""The Llama shapes of the training benchmarks; configs/ holds the same for Litespark."""
SHAPES = {
    "5m": {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 6, "num_attention_heads": 8,
           "num_key_value_heads": 4, "vocab_size": 4096, "tie_word_embeddings": True},
    "124m": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12,
             "num_key_value_heads": 12, "vocab_size": 32000, "tie_word_embeddings": True},
    "160m": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12,
             "num_key_value_heads": 12, "vocab_size": 32000, "tie_word_embeddings": False},
    "1.6b": {"hidden_size": 1600, "intermediate_size": 4288, "num_hidden_layers": 48, "num_attention_heads": 25,
             "num_key_value_heads": 25, "vocab_size": 50304, "tie_word_embeddings": False},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True},
    "3b": {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24,
           "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True},
    "phi-3-mini": {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32,
                   "num_key_value_heads": 32, "vocab_size": 32064, "tie_word_embeddings": False},
}
# What bench/train_cpu.py runs: sequences a step and their length, as the configs say.
CPU_CASES = {"5m": {"shape": "5m", "batch": 16, "length": 256}, "124m": {"shape": "124m", "batch": 2, "length": 1024}}
CONFIGS = {"5m": "configs/5m.toml", "124m": "configs/124m.toml", "160m": "configs/llama-160m.toml", "1.6b": "configs/llama-1.6b.toml", "1b": "configs/llama-3.2-1b.toml",
           "3b": "configs/llama-3.2-3b.toml", "phi-3-mini": "configs/phi-3-mini.toml"}


def flops_per_token(name, length):
    """Litespark's MFU formula: 6 x matmul parameters with the head, without the input embedding, + 6 L H D T (causal half)."""
    s = SHAPES[name]
    hidden, ffn, layers = s["hidden_size"], s["intermediate_size"], s["num_hidden_layers"]
    head_dim = s.get("head_dim", hidden // s["num_attention_heads"])
    qkv = (s["num_attention_heads"] + 2 * s["num_key_value_heads"]) * head_dim
    matmul = layers * (hidden * qkv + hidden * s["num_attention_heads"] * head_dim + 3 * hidden * ffn)
    matmul += hidden * s["vocab_size"]
    return 6 * matmul + 6 * layers * s["num_attention_heads"] * head_dim * length
