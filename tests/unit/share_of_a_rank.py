"""What one of several processes holds after a step: `torchrun ... -m tests.unit.share_of_a_rank full|grad|ddp`."""

import json
import sys

import torch
from torch.distributed.tensor import DTensor

from bert_pytorch.model import BERT, BERTLM
from bert_pytorch.trainer.distributed import start, stop
from bert_pytorch.trainer.objective import PretrainingObjective
from bert_pytorch.trainer.parallel import replicate, shard

V, HIDDEN, LAYERS = 101, 60, 3


def held(tensors):
    """Bytes of this process."""
    own = [value.to_local() if isinstance(value, DTensor) else value for value in tensors]
    return sum(value.numel() * value.element_size() for value in own)


def main():
    """Train a step and tell what is held, by kind and process."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    world, way = start(False, 60), sys.argv[1]
    model = BERTLM(BERT(V, hidden=HIDDEN, n_layers=LAYERS, attn_heads=4, max_len=16), V)
    objective = PretrainingObjective(model)
    if way == "ddp":
        objective = replicate(objective, torch.device("cpu"), uses_all=True)
    else:
        shard(objective, model, world, torch.device("cpu"), way)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    ids = torch.randint(5, V, (2, 16))
    objective(ids, torch.ones_like(ids), ids, torch.ones(2, dtype=torch.int64))[0, [0, 3]].sum().backward()
    optimizer.step()
    weights = list(model.parameters())
    moments = [value for state in optimizer.state.values() for value in state.values() if value.dim()]
    own = {"weights": held(weights), "gradients": held([each.grad for each in weights]), "moments": held(moments)}
    shares = world.gather(own)
    if world.is_main:
        print(json.dumps({"parameters": sum(each.numel() for each in weights), "shares": shares}))
    stop()


if __name__ == "__main__":
    main()
