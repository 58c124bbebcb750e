"""The forward passes in JAX that use the recipes' parameters.

They are transformers' own if it had the model in Flax; otherwise a plain NNX
module, or MaxText's arithmetic on MaxText's tree of parameters.
"""

from unittest import mock

import jax
import jax.numpy as jnp
import transformers
from flax import nnx


def flax_outputs(config, params, inputs):
    """Returns (first output, the tree of shapes that the Flax class
    requires)."""
    cls = getattr(transformers, "Flax" + config.architectures[0])
    with mock.patch.object(jnp, "clip", _old_clip):
        model = cls(config, _do_init=False, **_image_shape(config))
        shapes = jax.tree.map(lambda leaf: leaf.shape, model.params_shape_tree)
        return model(**inputs, params=params)[0], shapes


def _old_clip(array, a_min=None, a_max=None):
    """Calls jax.numpy.clip by its old argument names."""
    array = array if a_min is None else jnp.maximum(array, a_min)
    return array if a_max is None else jnp.minimum(array, a_max)


def _image_shape(config):
    if config.model_type != "vit":
        return {}
    return {"input_shape": (1, config.image_size, config.image_size, 3)}


def nnx_outputs(config, params, inputs):
    """Returns (logits, the tree of shapes of the module's parameters)."""
    module = Decoder(config, nnx.Rngs(0))
    state = nnx.state(module, nnx.Param)
    shapes = _texts(
        jax.tree.map(lambda leaf: leaf.shape, nnx.to_pure_dict(state))
    )
    nnx.replace_by_pure_dict(state, _numbers(params))
    nnx.update(module, state)
    return module(jnp.asarray(inputs["input_ids"])), shapes


def _texts(tree):
    if not isinstance(tree, dict):
        return tree
    return {str(key): _texts(value) for key, value in tree.items()}


def _numbers(tree):
    if not isinstance(tree, dict):
        return jnp.asarray(tree)
    return {
        int(key) if key.isdigit() else key: _numbers(value)
        for key, value in tree.items()
    }


def head_dim(config):
    return (
        getattr(config, "head_dim", None)
        or config.hidden_size // config.num_attention_heads
    )


def rms_norm(x, scale, eps):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * scale


def rope(x, theta, interleaved=False):
    """Returns `x` [batch, time, heads, head_dim], rotated by its position.

    An element of the first half and an element of the second half are a pair,
    or, if `interleaved`, two neighbors are a pair.
    """
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] / theta ** (
        jnp.arange(half) / half
    )
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
    else:
        a, b = jnp.split(x, 2, -1)
    turned = a * cos - b * sin, b * cos + a * sin
    if interleaved:
        return jnp.stack(turned, -1).reshape(x.shape)
    return jnp.concatenate(turned, -1)


def attention(q, k, v, scale, window=None, softcap=None):
    """Returns causal attention. `q` is [batch, time, heads, d]; `k` and `v` may
    have fewer heads."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * scale
    if softcap:
        scores = jnp.tanh(scores / softcap) * softcap
    ages = jnp.arange(q.shape[1])[:, None] - jnp.arange(q.shape[1])
    seen = (ages >= 0) & (ages < (window or q.shape[1]))
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def mixture(x, gate, up_0, up_1, down, config):
    """Applies every expert to every token; all but the best have weight 0."""
    scores = jax.nn.softmax(x @ gate)
    best = jax.lax.top_k(scores, config.num_experts_per_tok)[0]
    scores = jnp.where(scores >= best[..., -1:], scores, 0)
    if getattr(config, "norm_topk_prob", True):
        scores /= scores.sum(-1, keepdims=True)
    inner = jax.nn.silu(jnp.einsum("bte,xei->btxi", x, up_0))
    inner *= jnp.einsum("bte,xei->btxi", x, up_1)
    return jnp.einsum("btx,btxi,xie->bte", scores, inner, down)


class Norm(nnx.Module):
    """RMSNorm. Gemma's variant adds one to the scale."""

    def __init__(self, size, config):
        self.scale = nnx.Param(jnp.zeros(size))
        self.eps = config.rms_norm_eps
        self.base = 1 if "gemma" in config.model_type else 0

    def __call__(self, x):
        return rms_norm(x, self.base + self.scale[...], self.eps)


class Attention(nnx.Module):
    def __init__(self, config, layer, rngs):
        kind = config.model_type
        self.size = head_dim(config)
        heads = config.num_attention_heads * self.size
        kv = config.num_key_value_heads * self.size
        biased = kind == "qwen2" or getattr(config, "attention_bias", False)
        e = config.hidden_size
        self.q_proj = nnx.Linear(e, heads, use_bias=biased, rngs=rngs)
        self.k_proj = nnx.Linear(e, kv, use_bias=biased, rngs=rngs)
        self.v_proj = nnx.Linear(e, kv, use_bias=biased, rngs=rngs)
        biased = biased and kind != "qwen2"
        self.o_proj = nnx.Linear(heads, e, use_bias=biased, rngs=rngs)
        if kind in ("qwen3", "gemma3_text"):
            self.q_norm = Norm(self.size, config)
            self.k_norm = Norm(self.size, config)
        local = kind in ("mistral", "mixtral") or (
            getattr(config, "layer_types", ["full_attention"] * 9)[layer]
            == "sliding_attention"
        )
        self.window = config.sliding_window if local else None
        self.theta = config.rope_theta
        if kind == "gemma3_text" and local:
            self.theta = config.rope_local_base_freq
        self.scale = getattr(config, "query_pre_attn_scalar", self.size) ** -0.5
        self.softcap = getattr(config, "attn_logit_softcapping", None)

    def __call__(self, x):
        q, k, v = (
            projection(x).reshape(*x.shape[:2], -1, self.size)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if hasattr(self, "q_norm"):
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rope(q, self.theta), rope(k, self.theta)
        x = attention(q, k, v, self.scale, self.window, self.softcap)
        return self.o_proj(x.reshape(*x.shape[:2], -1))


class Mlp(nnx.Module):
    def __init__(self, config, rngs):
        e, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nnx.Linear(e, inner, use_bias=False, rngs=rngs)
        self.up_proj = nnx.Linear(e, inner, use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(inner, e, use_bias=False, rngs=rngs)
        self.activation = (
            jax.nn.gelu if "gemma" in config.model_type else jax.nn.silu
        )

    def __call__(self, x):
        inner = self.activation(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(inner)


class Expert(nnx.Module):
    def __init__(self, config, rngs):
        e, inner = config.hidden_size, config.intermediate_size
        self.w1 = nnx.Linear(e, inner, use_bias=False, rngs=rngs)
        self.w2 = nnx.Linear(inner, e, use_bias=False, rngs=rngs)
        self.w3 = nnx.Linear(e, inner, use_bias=False, rngs=rngs)


class Mixture(nnx.Module):
    def __init__(self, config, rngs):
        count = config.num_local_experts
        self.gate = nnx.Linear(
            config.hidden_size, count, use_bias=False, rngs=rngs
        )
        split = nnx.split_rngs(splits=count)
        make = nnx.vmap(lambda rngs: Expert(config, rngs))
        self.experts = split(make)(rngs)
        self.config = nnx.static(config)

    def __call__(self, x):
        kernels = (
            getattr(self.experts, name).kernel[...]
            for name in ("w1", "w3", "w2")
        )
        return mixture(x, self.gate.kernel[...], *kernels, self.config)


class Layer(nnx.Module):
    def __init__(self, config, layer, rngs):
        norm = lambda: Norm(config.hidden_size, config)  # noqa: E731
        self.input_layernorm = norm()
        self.self_attn = Attention(config, layer, rngs)
        self.post_attention_layernorm = norm()
        self.around = config.model_type in ("gemma2", "gemma3_text")
        if self.around:
            self.pre_feedforward_layernorm = norm()
            self.post_feedforward_layernorm = norm()
        if config.model_type == "mixtral":
            self.block_sparse_moe = Mixture(config, rngs)
        else:
            self.mlp = Mlp(config, rngs)

    def __call__(self, x):
        mlp = self.mlp if hasattr(self, "mlp") else self.block_sparse_moe
        attended = self.self_attn(self.input_layernorm(x))
        if not self.around:
            x = x + attended
            return x + mlp(self.post_attention_layernorm(x))
        x = x + self.post_attention_layernorm(attended)
        inner = mlp(self.pre_feedforward_layernorm(x))
        return x + self.post_feedforward_layernorm(inner)


class Decoder(nnx.Module):
    """A transformers decoder, as one would write it in NNX."""

    def __init__(self, config, rngs):
        e = config.hidden_size
        self.embed_tokens = nnx.Embed(config.vocab_size, e, rngs=rngs)
        self.layers = nnx.List(
            Layer(config, i, rngs) for i in range(config.num_hidden_layers)
        )
        self.norm = Norm(e, config)
        if not config.tie_word_embeddings:
            self.lm_head = nnx.Linear(
                e, config.vocab_size, use_bias=False, rngs=rngs
            )
        self.input_scale = e**0.5 if "gemma" in config.model_type else 1
        self.softcap = getattr(config, "final_logit_softcapping", None)

    def __call__(self, ids):
        x = self.embed_tokens(ids) * self.input_scale
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        tied = not hasattr(self, "lm_head")
        logits = self.embed_tokens.attend(x) if tied else self.lm_head(x)
        if self.softcap:
            logits = jnp.tanh(logits / self.softcap) * self.softcap
        return logits


def maxtext_outputs(config, params, inputs, interleaved=False):
    """Returns (logits of MaxText's scanned decoder, None).

    The kernels of queries are [embed, layers, heads, head_dim], those of
    attention's output [heads, layers, head_dim, embed]. MaxText folds the scale
    of attention into the query's kernel, or multiplies by it, which is the
    same.
    """
    tree = params["params"]["params"]
    decoder = tree["decoder"]
    embedding = jnp.asarray(tree["token_embedder"]["embedding"])
    eps, theta = config.rms_norm_eps, config.rope_theta
    window = getattr(config, "sliding_window", None)

    def block(x, layer):
        attn = layer["self_attention"]
        y = rms_norm(x, layer["pre_self_attention_layer_norm"]["scale"], eps)
        heads = {}
        for name in ("query", "key", "value"):
            heads[name] = jnp.einsum("bte,ehd->bthd", y, attn[name]["kernel"])
            heads[name] += attn[name].get("bias", 0)
            if f"{name}_norm" in attn:
                scale = attn[f"{name}_norm"]["scale"]
                heads[name] = rms_norm(heads[name], scale, eps)
        q, k = (rope(heads[n], theta, interleaved) for n in ("query", "key"))
        y = attention(q, k, heads["value"], head_dim(config) ** -0.5, window)
        x = x + jnp.einsum("bthd,hde->bte", y, attn["out"]["kernel"])
        y = rms_norm(x, layer["post_self_attention_layer_norm"]["scale"], eps)
        return x + feed_forward(y, layer), None

    def feed_forward(x, layer):
        moe = layer.get("MoeBlock_0", layer.get("moe_block"))
        if moe:
            kernels = (moe[name] for name in ("wi_0", "wi_1", "wo"))
            return mixture(x, moe["gate"]["kernel"], *kernels, config)
        wi_0, wi_1, wo = (
            layer["mlp"][name]["kernel"] for name in ("wi_0", "wi_1", "wo")
        )
        return (jax.nn.silu(x @ wi_0) * (x @ wi_1)) @ wo

    layers = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), decoder["layers"])
    x = embedding[jnp.asarray(inputs["input_ids"])]
    x = jax.lax.scan(block, x, layers)[0]
    x = rms_norm(x, decoder["decoder_norm"]["scale"], eps)
    if "logits_dense" in decoder:
        return x @ decoder["logits_dense"]["kernel"], None
    return x @ embedding.T, None
