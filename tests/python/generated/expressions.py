"""Expressions that are tensors of the programs' one shape. Their values stay bounded."""

from __future__ import annotations

from .rows import row

EXPRESSIONS = [
    row("clone", "$t.clone()", weight=3),
    row("operator", "($t $op $u).tanh()", weight=4, op=["+", "-", "*"]),
    row("operator with a number", "torch.cos($e * $k)", weight=3),
    row("where", "torch.where($t > $u, $e, $u)"),
    row("reduction", "($e - $t.$way()).sin()", way=["mean", "sum", "max"]),
    row("stack", "torch.stack([$t, $e]).mean(0)"),
    row("view and its base", "$t.$view.clone()", view=["flip(0)", "view(-1)", "roll(1)", "unsqueeze(0)[0]", "t()"]),
    row("sum of a list", "sum([$t, $u]).sin()"),
    row("call of a function", "helper($call).cos()", call=["$e", "$t, $k", "$e, 1, $u, $k", "*($t, $k)", "t=$t, **{'k': $k}"]),
    row("call that breaks", "$breaking", breaking=["breaking_helper($e, $k)", "branching_helper($e)"]),
    row("conditional expression", "($e if $c else $u)"),
    row("conditional expression on data", "($t if $d else $e)"),
    row("lambda", "(lambda p, q=$k: (p * q).sigmoid())($e)"),
    row("method with state", "holder.step($e)", weight=2),
    row("subscript of a dict", "table['t'].sin()"),
    row("dict get with a default", "table.get('missing', $t)"),
    row("attribute", "holder.v.cos()"),
    row("getattr with a default", "getattr(holder, $name, $t).tanh()", name=["'v'", "'other'"]),
    row("slice of a tuple", "($t, $e, $u)[$bounds][0]", bounds=["1:", ":2", "::-1", "-1:"]),
    row("walrus", "((new := $e) + new).sin()"),
    row("and, or", "($k and $t or $u).sin()"),
    row("dtype and back", "$t.$there.to($u.dtype)", there=["double()", "half()", "to(torch.float64)"]),
    row("indexing", "$t[$index].sum() + $u", index=["0", "-1", "1:", "None", "...", "[0, 1]", "torch.tensor([1, 0])"]),
    row("boolean mask", "($e * ($t > 0)).tanh()"),
    row("functional", "torch.nn.functional.$name($e)", name=["relu", "gelu", "silu", "softplus"]),
    row("softmax", "torch.softmax($e, -1)"),
    row("einsum", "torch.einsum('i,i->i', $t, $u).tanh()"),
    row("shape arithmetic", "($t * ($u.shape[0] - $u.dim()) / $u.numel())"),
    row("matmul", "(torch.outer($t, $u).tanh() @ $t / 9)"),
    row("random tensor", "($t + torch.$maker).sin()", maker=["rand($t.shape)", "randn_like($u.detach())", "randint(0, 3, (1,))"]),
    row("item in arithmetic", "($e * $t.sum().item()).tanh()"),
    row("number of a tensor", "($e * ($number)).tanh()", weight=2, number=["1 - $t.mean().item()", "$t.sum().item() ** 2", "3 / (1 + $t.abs().max().item())", "float($t.mean()) - $k", "math.sqrt($t.norm().item())", "-$t[0].item() * 0.5"]),
    row("number of a tensor as an argument", "$call.tanh()", call=["torch.add($e, $u, alpha=$t.mean().item())", "torch.lerp($e, $u, $t.mean().item())", "$e.clamp(max=$t.mean().item())", "$e.addcmul($t, $u, value=1 - $t[0].item())", "torch.nn.functional.leaky_relu($e, $t.mean().item())", "torch.full_like($t, $u.mean().item())"]),
]
