"""Small models of the kinds that users capture, run forward and backward."""

import torch
from torch import nn


def train(model, *inputs, loss=None, channels_last=False):
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        inputs = [i.to(memory_format=torch.channels_last) if i.dim() == 4 else i for i in inputs]
    for training in (True, False):
        model.train(training)
        out = model(*inputs)
        out = loss(out) if loss else out
        if training:
            out.float().mean().backward()
            with torch.no_grad():
                for p in model.parameters():
                    if p.grad is not None:
                        p.sub_(p.grad, alpha=0.01)


class Block(nn.Module):
    """A pre-norm transformer block with hand-written attention."""

    def __init__(self, dim, heads, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(0.1))

    def attend(self, q, k, v):
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).tril()
        return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(d, dim=2)
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in (q, k, v))
        x = x + self.proj(self.attend(q, k, v).transpose(1, 2).contiguous().view(b, t, d))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, fused, dim=64, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(100, dim), nn.Embedding(32, dim)
        self.blocks = nn.ModuleList(Block(dim, 4, fused) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 100, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return nn.functional.cross_entropy(logits.view(-1, 100), ids.view(-1))


def gpt(fused):
    return lambda: train(Gpt(fused), torch.randint(0, 100, (2, 16)))


def mlp():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 4), nn.Tanh())
    train(model, torch.randn(5, 8))


def vision(name, size=64, channels_last=False):
    def run():
        import torchvision

        train(torchvision.models.get_model(name), torch.randn(2, 3, size, size), channels_last=channels_last)

    return run


def timm_model(name, size, **kwargs):
    def run():
        import timm

        train(timm.create_model(name, **kwargs), torch.randn(2, 3, size, size))

    return run


def hugging(kind, **config):
    def run():
        import transformers

        settings = getattr(transformers, kind + "Config")(**config)
        head = {"Bert": "BertForMaskedLM", "GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM"}.get(kind)
        model = getattr(transformers, head or kind + "Model")(settings)
        ids = torch.randint(0, 90, (2, 16))
        train(model, ids, loss=lambda out: out[0])

    return run


SMALL = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
MODELS = {
    "mlp": mlp,
    "gpt": gpt(True),
    "gpt_manual": gpt(False),
    "resnet50": vision("resnet50"),
    "resnet18_channels_last": vision("resnet18", channels_last=True),
    "mobilenet_v3": vision("mobilenet_v3_small"),
    "mobilenet_v3_channels_last": vision("mobilenet_v3_small", channels_last=True),
    "efficientnet": vision("efficientnet_b0"),
    "densenet": vision("densenet121"),
    "convnext": vision("convnext_tiny"),
    "swin": vision("swin_t"),
    "shufflenet": vision("shufflenet_v2_x0_5"),
    "googlenet": vision("squeezenet1_0"),
    "vit": timm_model("vit_tiny_patch16_224", 32, img_size=32),
    "mixer": timm_model("mixer_s16_224", 32, img_size=32),
    "regnet": timm_model("regnetx_002", 64),
    "bert": hugging("Bert", intermediate_size=128, **SMALL),
    "gpt2": hugging("GPT2", vocab_size=100, n_embd=64, n_layer=2, n_head=4, n_positions=32),
    "llama": hugging("Llama", intermediate_size=128, max_position_embeddings=64, **SMALL),
}
