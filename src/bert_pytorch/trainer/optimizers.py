from typing import Any
from torch import nn
from torch.optim import AdamW, Optimizer


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Take over the moments of a saved optimiser; the settings (betas, weight decay, ...) stay those of this one."""
    settings = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, own in zip(optimizer.param_groups, settings, strict=True):
        group.update(own)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Part a model's parameters into those that decay and those that do not: norms, biases, position and segment tables.

    Source: the optimiser of the released BERT code, which exempts norms and biases.
    `Differs:` the small tables are exempt too; a row that few examples touch would only shrink.
    """
    decayed, exempt = [], []
    for name, parameter in model.named_parameters():
        is_table = name.endswith(("embedding.position.weight", "embedding.segment.weight"))
        (exempt if parameter.dim() < 2 or is_table else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": exempt, "weight_decay": 0.0}]


def make_optimizer(name, groups, *, lr, betas=None, eps=None, weight_decay=0.0, settings=None):
    return AdamW(groups, lr=lr, betas=betas, eps=eps, fused=True)
