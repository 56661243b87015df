"""Backward passes within the program, and what they do to leaves: `weight`, a global, and those that it makes."""

from __future__ import annotations

from .rows import row

STATEMENTS = [
    row("backward", "if torch.is_grad_enabled():\n    ($e.detach() * weight).$to.sum().backward()\n    LOG.append(weight.grad)", weight=2, to=["sin()", "tanh()", "exp()", "view(-1)"]),
    row("backward through what was there", "if ($t * weight).requires_grad: ($t * weight).cos().mean().backward(retain_graph=True)"),
    row("backward twice", "$new_l = ($t.detach() * weight).sin().sum()\nif $new_l.requires_grad:\n    $new_l.backward(retain_graph=$keep)\n    $brk\n    $new_l.backward()", keep=["True", "True", "False"]),
    row("backward of a part", "if torch.is_grad_enabled():\n    $new_h = weight.exp() * 2\n    $new_h.backward(torch.full((1,), 0.5))\n    $T = ($t.detach() + weight.grad).sin()"),
    row("gradient of a weight", "if torch.is_grad_enabled():\n    ($new_g,) = torch.autograd.grad(($e.detach() * weight).sin().sum(), [weight])\n    $T = ($t + $new_g).tanh()", weight=2),
    row("gradient of a tensor between", "$new_h = $e.detach().requires_grad_()\nif torch.is_grad_enabled():\n    $T = torch.autograd.grad($new_h.sin().sum(), $new_h$more)[0].cos()", more=["", ", allow_unused=True", ", retain_graph=True"]),
    row("leaf made", "$new_w = $t.detach().clone().requires_grad_()\nif torch.is_grad_enabled(): ($new_w * $k + weight).sin().sum().backward()\n$brk\ntable['leaf'] = $new_w\nLOG.append($new_w.grad)"),
    row("gradient cleared", "$how", weight=2, how=["weight.grad = None", "if weight.grad is not None: weight.grad.zero_()", "weight.grad = torch.ones(1)", "del weight.grad", "LOG.append(weight.grad is None)"]),
    row("gradient kept elsewhere", "table['grad'] = weight.grad\nif torch.is_grad_enabled(): (weight * $k).sum().backward()\nLOG.append(table['grad'] is weight.grad)"),
    row("step of a weight", "with torch.no_grad():\n    if weight.grad is not None: weight.$op", weight=2, op=["sub_(0.1 * weight.grad.clamp(-1, 1))", "mul_(0.5)", "copy_(weight.grad.clamp(-1, 1))"]),
    row("data of a weight", "weight.data = weight.data $op", op=["* 0.5", "+ 0.25"]),
    row("saved tensor changed", "$new_h = ($t.detach() * weight).exp()\n$new_l = ($new_h * $new_h).sum()\n$brk\nwith torch.no_grad(): $new_h.$op\ntry:\n    if $new_l.requires_grad: $new_l.backward()\nexcept RuntimeError:\n    LOG.append('changed')", op=["add_(1)", "mul(1)"]),
    row("detached and back", "$new_h = ($t * weight).detach()\n$new_h.requires_grad_()\nif torch.is_grad_enabled(): ($new_h * weight).sum().backward()\n$T = $new_h.detach().sin()\nLOG.append($new_h.grad)"),
    row("flag of a weight", "weight.requires_grad_($flag)\n$T = ($t * weight).sin()\nLOG.append($T.requires_grad)\nweight.requires_grad_()", flag=["False", "True"]),
    row("hook of a weight", "$new_h = weight.register_hook(lambda g: g * 2)\nif torch.is_grad_enabled(): (weight * $t.detach()).sum().backward()\n$new_h.remove()"),
    row("custom function", "$T = Twice.apply($e * weight)\nif $T.requires_grad: $T.sum().backward(retain_graph=True)"),
    row("clipped gradients", "if weight.grad is not None: torch.nn.utils.clip_grad_norm_([weight], 0.5)"),
]
