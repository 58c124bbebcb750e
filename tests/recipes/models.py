"""Small random models, which transformers itself makes and saves."""

import numpy as np
import torch
import transformers

# All sizes are different, so that exchanged axes are noticed.
DECODER = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
TIED = {"tie_word_embeddings": True}
WINDOWED = {
    "head_dim": 12,
    "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
EXPERTS = {"num_experts_per_tok": 2, "sliding_window": None}
BERT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 20,
    "num_labels": 5,
}
T5 = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 12,
    "d_ff": 56,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
}
GPT2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 3, "n_head": 4}
VIT = {
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 4,
    "num_labels": 5,
}

# Name: (class, fields of its configuration).
MODELS = {
    "llama": ("LlamaForCausalLM", DECODER),
    "llama-tied": ("LlamaForCausalLM", DECODER | TIED),
    "llama-biased": ("LlamaForCausalLM", DECODER | {"attention_bias": True}),
    # A window that covers everything: Flax's windows are one longer than
    # torch's.
    "mistral": ("MistralForCausalLM", DECODER | {"sliding_window": 64}),
    "mixtral": (
        "MixtralForCausalLM",
        DECODER | EXPERTS | {"num_local_experts": 5},
    ),
    "qwen2": ("Qwen2ForCausalLM", DECODER),
    "qwen2-tied": ("Qwen2ForCausalLM", DECODER | TIED),
    "qwen3": ("Qwen3ForCausalLM", DECODER | {"head_dim": 12}),
    "qwen3-tied": ("Qwen3ForCausalLM", DECODER | TIED | {"head_dim": 12}),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        DECODER
        | EXPERTS
        | {"head_dim": 12, "num_experts": 5, "moe_intermediate_size": 20},
    ),
    "gemma": ("GemmaForCausalLM", DECODER | TIED | {"head_dim": 12}),
    "gemma2": (
        "Gemma2ForCausalLM",
        DECODER | TIED | WINDOWED | {"query_pre_attn_scalar": 7},
    ),
    "gemma3": (
        "Gemma3ForCausalLM",
        DECODER | TIED | WINDOWED | {"query_pre_attn_scalar": 7},
    ),
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2-untied": ("GPT2LMHeadModel", GPT2 | {"tie_word_embeddings": False}),
    "gpt2-bare": ("GPT2Model", GPT2),
    "t5": ("T5ForConditionalGeneration", T5),
    "t5-gated": (
        "T5ForConditionalGeneration",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "bert": ("BertForMaskedLM", BERT),
    "bert-untied": ("BertForMaskedLM", BERT | {"tie_word_embeddings": False}),
    "bert-pretraining": ("BertForPreTraining", BERT),
    "bert-classifier": ("BertForSequenceClassification", BERT),
    "bert-answers": ("BertForQuestionAnswering", BERT | {"num_labels": 2}),
    "bert-bare": ("BertModel", BERT),
    "roberta": ("RobertaForMaskedLM", BERT),
    "roberta-classifier": ("RobertaForSequenceClassification", BERT),
    "vit": ("ViTForImageClassification", VIT),
    "vit-bare": ("ViTModel", VIT),
}


def make(name):
    """Returns a torch model of MODELS in float32, with all elements changed
    from their initial values."""
    torch.manual_seed(sum(name.encode()))
    class_name, members = MODELS[name]
    cls = getattr(transformers, class_name)
    config = cls.config_class(**members)
    config._attn_implementation = "eager"
    model = cls(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def inputs(config):
    """Returns the arguments of a forward pass: {argument: numpy array}."""
    random = np.random.default_rng(7)
    if config.model_type == "vit":
        side = config.image_size
        pixels = random.standard_normal((2, 3, side, side), dtype=np.float32)
        return {"pixel_values": pixels}
    ids = random.integers(3, config.vocab_size, (2, 9))
    if config.model_type == "t5":
        return {
            "input_ids": ids,
            "decoder_input_ids": ids[:, ::-1][:, :6].copy(),
        }
    return {"input_ids": ids}


def outputs(model):
    """Returns the first output of a torch model as a numpy array."""
    arguments = {
        name: torch.from_numpy(array)
        for name, array in inputs(model.config).items()
    }
    with torch.no_grad():
        return model(**arguments)[0].numpy()
