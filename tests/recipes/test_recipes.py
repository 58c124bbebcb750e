"""The shipped recipes: transformers models give equal outputs in JAX.

Each model is converted with its recipe for a forward pass in JAX (twins.py),
and back to transformers. Needs the packages of requirements.txt in this folder.
Runs with the reference implementation (reference.py), and with holdfast's own
engine if it is installed.
"""

import functools
import json
import shutil

import jax
import models
import numpy as np
import pytest
import reference
import safetensors.numpy
import transformers
import twins

try:
    import holdfast
except ImportError:
    holdfast = None

FLAX, NNX = twins.flax_outputs, twins.nnx_outputs
MAXTEXT = twins.maxtext_outputs
INTERLEAVED = functools.partial(MAXTEXT, interleaved=True)

# (recipe, forward pass, models in models.py).
CASES = [
    (recipe, twin, model)
    for recipe, twin, names in [
        ("llama-to-flax", FLAX, "llama llama-tied llama-biased mistral"),
        ("gemma-to-flax", FLAX, "gemma"),
        ("gpt2-to-flax", FLAX, "gpt2 gpt2-untied gpt2-bare"),
        ("t5-to-flax", FLAX, "t5 t5-gated"),
        (
            "bert-to-flax",
            FLAX,
            "bert bert-untied bert-pretraining bert-classifier bert-answers"
            " bert-bare roberta roberta-classifier",
        ),
        ("vit-to-flax", FLAX, "vit vit-bare"),
        ("llama-to-nnx", NNX, "llama llama-tied llama-biased mistral"),
        ("mixtral-to-nnx", NNX, "mixtral"),
        ("qwen2-to-nnx", NNX, "qwen2 qwen2-tied"),
        ("qwen3-to-nnx", NNX, "qwen3 qwen3-tied"),
        ("gemma2-to-nnx", NNX, "gemma2"),
        ("gemma3-to-nnx", NNX, "gemma3"),
        ("llama-to-maxtext", MAXTEXT, "llama llama-tied mistral"),
        ("llama3.1-to-maxtext", INTERLEAVED, "llama llama-tied"),
        ("mixtral-to-maxtext", MAXTEXT, "mixtral"),
        ("qwen2-to-maxtext", MAXTEXT, "qwen2 qwen2-tied"),
        ("qwen3-to-maxtext", MAXTEXT, "qwen3 qwen3-tied"),
        ("qwen3-moe-to-maxtext", MAXTEXT, "qwen3-moe"),
    ]
    for model in names.split()
]
IDS = [f"{recipe}-{model}" for recipe, _, model in CASES]

# Buffers that older model files contain in addition to the parameters.
BUFFERS = {
    "llama": "model.layers.0.self_attn.rotary_emb.inv_freq",
    "gpt2": "transformer.h.1.attn.bias",
    "gpt2-bare": "h.1.attn.masked_bias",
    "t5": "encoder.embed_tokens.weight",
    "bert": "bert.embeddings.position_ids",
}


def ways(*verbs):
    """Parametrizes a test with the way "reference" and with verbs of holdfast,
    which are skipped if holdfast is not installed."""
    there = hasattr(holdfast, "view")
    missing = pytest.mark.skipif(not there, reason="no holdfast with recipes")
    marked = [pytest.param(verb, marks=missing) for verb in verbs]
    return pytest.mark.parametrize("way", ["reference", *marked])


every_case = pytest.mark.parametrize(("recipe", "twin", "name"), CASES, ids=IDS)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Returns a function from a model's name to (torch model, directory)."""

    @functools.cache
    def save(name):
        path = tmp_path_factory.mktemp(name) / "model"
        model = models.make(name)
        model.save_pretrained(path)
        return model, path

    return save


def config_of(model_dir):
    return json.loads((model_dir / "config.json").read_text())


def tensors_of(model_dir):
    return safetensors.numpy.load_file(model_dir / "model.safetensors")


def parameters_of(model_dir, recipe, way, out):
    """Returns the tree of parameters that `recipe` makes from a model's
    directory."""
    if way == "reference":
        leaves = reference.apply(
            reference.load(recipe),
            tensors_of(model_dir),
            config=config_of(model_dir),
        )
        return reference.nested(leaves)
    import orbax.checkpoint as ocp

    make = getattr(holdfast, way)
    make(model_dir, out, format="orbax", recipe=recipe)
    tree = ocp.PyTreeCheckpointer().restore(out)
    return jax.tree.map(np.asarray, tree)


def state_of(parameters, recipe, way, model_dir, out):
    """Returns the tensors {name: array} that the reversed recipe makes."""
    if way == "reference":
        leaves = reference.apply(
            reference.load(recipe),
            reference.flat(parameters),
            config=config_of(model_dir),
            reverse=True,
        )
        return {".".join(keys): array for keys, array in leaves.items()}
    import orbax.checkpoint as ocp

    ocp.PyTreeCheckpointer().save(out / "orbax", parameters)
    target = out / "model.safetensors"
    holdfast.convert(
        out / "orbax", target, format="safetensors", recipe=recipe, reverse=True
    )
    return safetensors.numpy.load_file(target)


def check_loads_whole(name, model_dir, model):
    """Checks that transformers finds every tensor in the directory, and that
    the outputs are the same."""
    cls = getattr(transformers, models.MODELS[name][0])
    again, info = cls.from_pretrained(
        model_dir, output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    np.testing.assert_array_equal(models.outputs(again), models.outputs(model))


@every_case
@ways("view", "convert")
def test_outputs_are_equal(recipe, twin, name, way, saved, tmp_path):
    model, model_dir = saved(name)
    parameters = parameters_of(model_dir, recipe, way, tmp_path / "out")
    inputs = models.inputs(model.config)
    outputs, shapes = twin(model.config, parameters, inputs)
    if shapes is not None:
        made = jax.tree.map(np.shape, parameters)
        assert reference.flat(made) == reference.flat(shapes)
    np.testing.assert_allclose(
        outputs, models.outputs(model), rtol=0, atol=1e-4
    )


@every_case
@ways("convert")
def test_back_again(recipe, twin, name, way, saved, tmp_path):
    model, model_dir = saved(name)
    parameters = parameters_of(
        model_dir, recipe, "reference", tmp_path / "there"
    )
    state = state_of(parameters, recipe, way, model_dir, tmp_path)
    expected = tensors_of(model_dir)
    if recipe == "llama-to-flax":  # its target never ties the head
        embedding = expected["model.embed_tokens.weight"]
        expected.setdefault("lm_head.weight", embedding)
    assert state.keys() == expected.keys()
    for tensor, array in expected.items():
        assert state[tensor].dtype == array.dtype, tensor
        assert state[tensor].shape == array.shape, tensor
        assert state[tensor].tobytes() == array.tobytes(), tensor

    again_dir = tmp_path / "again"
    again_dir.mkdir()
    shutil.copy(model_dir / "config.json", again_dir)
    safetensors.numpy.save_file(
        {key: np.ascontiguousarray(array) for key, array in state.items()},
        again_dir / "model.safetensors",
        metadata={"format": "pt"},
    )
    check_loads_whole(name, again_dir, model)


@every_case
@pytest.mark.parametrize("face", ["view", "both", "view of both"])
def test_transformers_read_the_other_face(
    recipe, twin, name, face, saved, tmp_path
):
    if not hasattr(holdfast, "view"):
        pytest.skip("no holdfast with recipes")
    model, model_dir = saved(name)
    path = tmp_path / "out"
    if face == "view":
        holdfast.view(model_dir, path, recipe=recipe)
    else:
        holdfast.convert(model_dir, path, format="orbax", also="safetensors")
        shutil.copy(model_dir / "config.json", path)
    if face == "view of both":
        holdfast.view(path, tmp_path / "model", format="safetensors")
        path = tmp_path / "model"
    check_loads_whole(name, path, model)


@pytest.mark.parametrize(("name", "buffer"), BUFFERS.items())
def test_buffers_of_older_files_change_nothing(name, buffer, saved):
    _, model_dir = saved(name)
    recipes = [recipe for recipe, _, model in CASES if model == name]
    for recipe in map(reference.load, recipes):
        plain = tensors_of(model_dir)
        config = config_of(model_dir)
        without = reference.apply(recipe, plain, config=config)
        more = plain | {buffer: np.zeros(3, np.float32)}
        made = reference.apply(recipe, more, config=config)
        assert made.keys() == without.keys()


@every_case
def test_a_stray_tensor_is_an_error(recipe, twin, name, saved):
    _, model_dir = saved(name)
    tensors = tensors_of(model_dir) | {"stray.weight": np.zeros(3)}
    with pytest.raises(ValueError, match="no rule.*stray"):
        reference.apply(
            reference.load(recipe), tensors, config=config_of(model_dir)
        )


def test_every_shipped_recipe_has_a_case():
    shipped = {path.stem for path in reference.SHIPPED.glob("*.json")}
    assert shipped == {recipe for recipe, _, _ in CASES}


A = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    ("rule", "source", "expected"),
    [
        (
            {
                "from": "qkv",
                "to": "{part}.kernel",
                "names": {"part": ["q", "k"]},
                "axes": "(part o) i -> i o",
            },
            {"qkv": A},
            {"q.kernel": A[:2].T, "k.kernel": A[2:].T},
        ),
        (
            {"from": "l{n}.{e}", "to": "all", "axes": "o i -> e (n o) i"},
            {f"l{n}.{e}": A + n + 100 * e for n in (0, 1) for e in (0, 1, 2)},
            {
                "all": np.stack(
                    [np.concatenate([A, A + 1]) + 100 * e for e in (0, 1, 2)]
                )
            },
        ),
        (
            {"from": "a", "to": ["b", "c"], "cast": "float16"},
            {"a": A},
            {"b": A.astype(np.float16), "c": A.astype(np.float16)},
        ),
        (
            {"match": r"x\.(\w+)", "to": r"y.\1", "axes": "... a -> a ..."},
            {"x.z": A},
            {"y.z": A.T},
        ),
        (
            {
                "from": "w{n}",
                "to": "w.{n}",
                "dequantize": {"scale": "s{n}", "block": [2, 2]},
            },
            {"w0": A, "s0": np.float32([[1, 2], [3, 4]])},
            {
                "w.0": A
                * np.float32([[1, 1, 2], [1, 1, 2], [3, 3, 4], [3, 3, 4]])
            },
        ),
    ],
)
def test_reference(rule, source, expected):
    made = reference.apply({"rules": [rule]}, source)
    made = {".".join(keys): array for keys, array in made.items()}
    assert made.keys() == expected.keys()
    for name, array in expected.items():
        assert made[name].dtype == array.dtype
        np.testing.assert_array_equal(made[name], array)


def test_older_names_of_bert(saved):
    _, model_dir = saved("bert-pretraining")
    recipe, tensors = reference.load("bert-to-flax"), tensors_of(model_dir)
    older = {
        name.replace("Norm.weight", "Norm.gamma").replace(
            "Norm.bias", "Norm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    assert older.keys() != tensors.keys()
    made, expected = (reference.apply(recipe, x) for x in (older, tensors))
    assert made.keys() == expected.keys()
    for keys, array in expected.items():
        np.testing.assert_array_equal(made[keys], array)


def test_a_missing_layer_is_an_error(saved):
    _, model_dir = saved("llama")
    tensors = tensors_of(model_dir)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    recipe = reference.load("llama-to-nnx")
    with pytest.raises(ValueError, match="missing"):
        reference.apply(recipe, tensors, config=config_of(model_dir))
