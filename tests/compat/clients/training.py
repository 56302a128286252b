"""The trainer and training loops of a user's own, as written for 0.0.1a4: B = 5, L = 17, N = 3 heads of H = 2, V = 23."""

import copy
import os

import torch
import training_faults
from corpus import write_pairs
from observe import finish
from torch.utils.data import DataLoader

from bert_pytorch import BERT
from bert_pytorch.dataset import BERTDataset, WordVocab
from bert_pytorch.trainer import BERTTrainer
from bert_pytorch.trainer.optim_schedule import ScheduledOptim

FIXED_BATCH = {
    "bert_input": torch.tensor([[3, 4, 11, 2, 7, 2, 0]] * 3 + [[3, 9, 2, 4, 2, 0, 0]] * 2),
    "bert_label": torch.tensor([[0, 5, 0, 0, 0, 0, 0]] * 3 + [[0, 0, 0, 22, 0, 0, 0]] * 2),
    "segment_label": torch.tensor([[1, 1, 1, 1, 2, 2, 0]] * 3 + [[1, 1, 1, 2, 2, 0, 0]] * 2),
    "is_next": torch.tensor([1, 0, 1, 1, 0]),
}


class OwnLoader:
    """A loader of the user's own: a length, and dicts with the four keys."""

    def __len__(self):
        return 3

    def __iter__(self):
        return iter([FIXED_BATCH] * 3)


def new_bert():
    return BERT(23, hidden=6, n_layers=2, attn_heads=3)


def corpus_loader():
    path = write_pairs("corpus.txt")
    with open(path, encoding="utf-8") as file:
        vocab = WordVocab(file)
    return DataLoader(BERTDataset(path, vocab, seq_len=17), batch_size=5)


def constructed(loader):
    bert = new_bert()
    trainer = BERTTrainer(
        bert=bert,
        vocab_size=23,
        train_dataloader=loader,
        test_dataloader=loader,
        lr=1e-3,
        betas=(0.8, 0.99),
        weight_decay=0.05,
        warmup_steps=11,
        with_cuda=False,
        cuda_devices=[0],
        log_freq=3,
    )
    n_parameters = len(list(trainer.model.parameters()))
    by_position = BERTTrainer(bert, 23, loader, None, 1e-3, (0.8, 0.99), 0.05, 11, True, None, 7)
    return {
        "bert": [trainer.bert is bert, trainer.model.bert is bert],
        "data": [trainer.train_data is loader, trainer.test_data is loader, by_position.test_data is None],
        "device": str(trainer.device),
        "log_freq": [trainer.log_freq, by_position.log_freq],
        "optimizer": [isinstance(trainer.optim, torch.optim.Adam), list(trainer.optim.param_groups[0]["betas"])],
        "weight_decay": [trainer.optim.param_groups[0]["weight_decay"], by_position.optim.param_groups[0]["weight_decay"]],
        "schedule": [type(trainer.optim_schedule) is ScheduledOptim, trainer.optim_schedule.n_warmup_steps],
        "criterion": callable(trainer.criterion),
        "all parameters": sum(len(group["params"]) for group in trainer.optim.param_groups) == n_parameters,
    }


def passes(loader):
    """Two epochs by the trainer, with files, as `bert` runs them."""
    trainer = BERTTrainer(new_bert(), 23, loader, loader, warmup_steps=2, with_cuda=False)
    before = copy.deepcopy(trainer.bert.state_dict())
    paths, untouched = [], []
    for epoch in range(2):
        trainer.train(epoch)
        paths.append(trainer.save(epoch, "bert.model"))
        trained = copy.deepcopy(trainer.model.state_dict())
        trainer.test(epoch)
        untouched.append(all(torch.equal(value, trained[name]) for name, value in trainer.model.state_dict().items()))
    os.makedirs("output")
    return {
        "paths": paths,
        "files": [os.path.getsize(path) > 1000 for path in paths],
        "default path": [trainer.save(2), os.path.isfile("output/bert_trained.model.ep2")],
        "steps": trainer.optim_schedule.n_current_steps,
        "bert learned": any(not torch.equal(value, before[name]) for name, value in trainer.bert.state_dict().items()),
        "test changes nothing": untouched,
        "goes on after save": list(trainer.model(FIXED_BATCH["bert_input"], FIXED_BATCH["segment_label"])[1].shape),
        "loads": bool(torch.load(paths[1], weights_only=False)),
    }


def own_loader():
    trainer = BERTTrainer(new_bert(), 23, OwnLoader(), [FIXED_BATCH], with_cuda=False, warmup_steps=2)
    trainer.train(0)
    trainer.test(0)
    trainer.iteration(1, OwnLoader(), train=True)
    trainer.iteration(1, [FIXED_BATCH], train=False)
    return trainer.optim_schedule.n_current_steps


def own_loop():
    """The inner loop of 0.0.1a4's trainer, in a user's hands."""
    trainer = BERTTrainer(new_bert(), 23, OwnLoader(), with_cuda=False, warmup_steps=2)
    losses = []
    for data in trainer.train_data:
        data = {key: value.to(trainer.device) for key, value in data.items()}
        next_sent_output, mask_lm_output = trainer.model.forward(data["bert_input"], data["segment_label"])
        next_loss = trainer.criterion(next_sent_output, data["is_next"])
        mask_loss = trainer.criterion(mask_lm_output.transpose(1, 2), data["bert_label"])
        loss = next_loss + mask_loss
        trainer.optim_schedule.zero_grad()
        loss.backward()
        trainer.optim_schedule.step_and_update_lr()
        losses.append(loss.item())
    correct = next_sent_output.argmax(dim=-1).eq(data["is_next"]).sum().item()
    return {
        "shapes": [list(next_sent_output.shape), list(mask_lm_output.shape), list(loss.shape)],
        "finite": all(0 < value < 100 for value in losses),
        "steps": trainer.optim_schedule.n_current_steps,
        "correct": 0 <= correct <= 5,
        "moved": losses[0] != losses[2],
    }


class OwnTrainer(BERTTrainer):
    """A user's trainer with a loop of its own inside."""

    def iteration(self, epoch, data_loader, train=True):
        for data in data_loader:
            next_sent_output, _ = self.model.forward(data["bert_input"], data["segment_label"])
            loss = self.criterion(next_sent_output, data["is_next"])
            if train:
                self.optim_schedule.zero_grad()
                loss.backward()
                self.optim_schedule.step_and_update_lr()


def own_trainer():
    trainer = OwnTrainer(new_bert(), 23, OwnLoader(), [FIXED_BATCH], with_cuda=False, warmup_steps=2)
    trainer.train(0)
    trainer.test(0)
    return [trainer.optim_schedule.n_current_steps, os.path.isfile(trainer.save(7, "own.model"))]


def criterion():
    """The loss of known probabilities, where all answers and a masked word are there."""
    trainer = BERTTrainer(new_bert(), 23, OwnLoader(), with_cuda=False)
    answers = torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.875, 0.125]]).log()
    words = torch.full((3, 7, 23), 0.02).log()
    words[1, 2, 11] = words[2, 6, 5] = torch.tensor(0.5).log()
    label = torch.zeros(3, 7, dtype=torch.int64)
    label[1, 2], label[2, 6], label[0, 0] = 11, 5, 22
    return {
        "all are next": float(trainer.criterion(answers, torch.tensor([1, 1, 1]))),
        "masked words": float(trainer.criterion(words.transpose(1, 2), label)),
    }


def own_criterion():
    trainer = BERTTrainer(new_bert(), 23, OwnLoader(), with_cuda=False, warmup_steps=2)
    trainer.criterion = torch.nn.NLLLoss(ignore_index=0)
    trainer.train(0)
    return trainer.optim_schedule.n_current_steps


def schedule():
    """A schedule around a user's own optimiser."""
    weight = torch.nn.Parameter(torch.ones(5))
    optimizer = torch.optim.Adam([weight], lr=0.01)
    scheduled = ScheduledOptim(optimizer, 6, n_warmup_steps=11)
    by_position = ScheduledOptim(optimizer, 6, 7)
    rates = []
    for _ in range(3):
        scheduled.zero_grad()
        weight.sum().backward()
        scheduled.step_and_update_lr()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    return {
        "warm-up": [scheduled.n_warmup_steps, by_position.n_warmup_steps],
        "steps": [scheduled.n_current_steps, by_position.n_current_steps],
        "rises evenly": abs((rates[2] - rates[1]) / (rates[1] - rates[0]) - 1) < 1e-6 and rates[1] > rates[0],
        "weights move": bool((weight < 1).all()),
        "gradients are cleared": [scheduled.zero_grad(), weight.grad is None or not weight.grad.any()][1],
        "init_lr": bool(scheduled.init_lr > 0),
    }


def main():
    torch.manual_seed(13)
    loader = corpus_loader()
    finish(
        {
            "constructed": constructed(loader),
            "passes": passes(loader),
            "own loader": own_loader(),
            "own loop": own_loop(),
            "own trainer": own_trainer(),
            "criterion": criterion(),
            "own criterion": own_criterion(),
            "schedule": schedule(),
            "faults": training_faults.see(),
        }
    )


if __name__ == "__main__":
    main()
