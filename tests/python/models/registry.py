"""Names of the zoo's models and how each is built from a fixed seed."""

import importlib.util
from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch import nn

from .case import ModelCase
from .handwritten import GPT, MLP

SEED = 0
VOCAB = 1000
BATCH = 2
LENGTH = 128
LAYERS = 12
WIDTH = 256
HEADS = 8

# A builder takes (layers, image side) and gives the module, its arguments and its keywords.
Built = Tuple[nn.Module, Tuple[Any, ...], Dict[str, Any]]
Builder = Callable[[int, int], Built]


def _mlp(layers: int, side: int) -> Built:
    return MLP(), (torch.randn(128, 256),), {}


def _gpt(layers: int, side: int) -> Built:
    return GPT(layers, WIDTH, HEADS, VOCAB, LENGTH), (_tokens(),), {}


def _resnet50(layers: int, side: int) -> Built:
    import torchvision

    return torchvision.models.resnet50(weights=None), (torch.randn(BATCH, 3, side, side),), {}


def _mobilenet_v3(layers: int, side: int) -> Built:
    import torchvision

    return torchvision.models.mobilenet_v3_small(weights=None), (torch.randn(BATCH, 3, side, side),), {}


def _vit(layers: int, side: int) -> Built:
    import timm

    model = timm.create_model(
        "vit_tiny_patch16_224",
        pretrained=False,
        img_size=side,
        depth=layers,
        drop_rate=0.1,
        proj_drop_rate=0.1,
        attn_drop_rate=0.1,
        drop_path_rate=0.1,
    )
    return model, (torch.randn(BATCH, 3, side, side),), {}


def _bert(layers: int, side: int) -> Built:
    transformers = _transformers()
    config = transformers.BertConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH,
        pad_token_id=None,  # with one, older releases read the input tokens to warn about padding
    )
    return transformers.BertModel(config), (_tokens(),), {}


def _bert_mask(layers: int, side: int) -> Built:
    model, args, kwargs = _bert(layers, side)
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[0, LENGTH // 2 :] = 0
    return model, args, {"attention_mask": mask}


def _gpt2_cache(layers: int, side: int) -> Built:
    transformers = _transformers()
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=LENGTH, n_embd=WIDTH, n_layer=layers, n_head=HEADS
    )
    return transformers.GPT2LMHeadModel(config), (_tokens(),), {}


def _gpt2(layers: int, side: int) -> Built:
    model, args, _ = _gpt2_cache(layers, side)
    return model, args, {"use_cache": False}


def _llama_cache(layers: int, side: int) -> Built:
    transformers = _transformers()
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=688,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=LENGTH,
        attention_dropout=0.1,
    )
    return transformers.LlamaForCausalLM(config), (_tokens(),), {}


def _llama(layers: int, side: int) -> Built:
    model, args, _ = _llama_cache(layers, side)
    return model, args, {"use_cache": False}


_BUILDERS: Dict[str, Tuple[Builder, Optional[str]]] = {
    "mlp": (_mlp, None),
    "gpt": (_gpt, None),
    "resnet50": (_resnet50, "torchvision"),
    "mobilenet_v3": (_mobilenet_v3, "torchvision"),
    "vit": (_vit, "timm"),
    "bert": (_bert, "transformers"),
    "gpt2": (_gpt2, "transformers"),
    "llama": (_llama, "transformers"),
    "bert_mask": (_bert_mask, "transformers"),
    "gpt2_cache": (_gpt2_cache, "transformers"),
    "llama_cache": (_llama_cache, "transformers"),
}

MODELS = ("mlp", "gpt", "resnet50", "mobilenet_v3", "vit", "bert", "gpt2", "llama")
EXTRA = ("bert_mask", "gpt2_cache", "llama_cache")


def missing_package(name: str) -> Optional[str]:
    """The package that the model needs and that is not installed, or None."""
    package = _BUILDERS[name][1]
    if package is None or importlib.util.find_spec(package) is not None:
        return None
    return package


def available() -> Tuple[str, ...]:
    """The names in MODELS whose packages are installed."""
    return tuple(name for name in MODELS if missing_package(name) is None)


def build(name: str, mode: str = "infer", *, layers: int = LAYERS, side: int = 224) -> ModelCase:
    """Build one model of the zoo.

    name: a name in MODELS or EXTRA.
    mode: "infer" or "train"; in "train" all dropout is on.
    layers: depth of the transformers.
    side: height and width of the images; a multiple of 32.
    """
    if mode not in ("infer", "train"):
        raise ValueError(f"mode must be 'infer' or 'train', got {mode!r}")
    state = torch.random.get_rng_state()
    try:
        torch.manual_seed(SEED)
        model, args, kwargs = _BUILDERS[name][0](layers, side)
    finally:
        torch.random.set_rng_state(state)
    model.train(mode == "train")
    return ModelCase(name, mode, model, args, kwargs)


def _tokens() -> torch.Tensor:
    return torch.randint(0, VOCAB, (BATCH, LENGTH))


def _transformers():
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers
