"""Scripts with the trainers of others: tiny random models, one line a step; slow while there is a file ``slow``."""

from tests.support.suite.page_scripts import page_files

STEPS = 60

HUGGING_FACE = f"""
import os, time
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from clusterweb_runtime.adapters.huggingface import ClusterwebCallback

torch.manual_seed(3)
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2))
rows = [{{"input_ids": (ids := torch.randint(32, (12,))), "labels": ids}} for _ in range(64)]


class Record(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            with open("record", "a") as file:
                file.write(f"{{state.global_step}} {{logs['loss']!r}}\\n")
        if os.path.exists("slow"):
            time.sleep(0.05)


args = TrainingArguments(
    "out", max_steps={STEPS}, per_device_train_batch_size=4, learning_rate=0.01, logging_steps=1, save_strategy="no",
    eval_strategy="steps", eval_steps=20, save_total_limit=2, report_to="none", use_cpu=True, seed=5,
)
callback = ClusterwebCallback()
trainer = Trainer(model=model, args=args, train_dataset=rows, eval_dataset=rows[:8], callbacks=[Record(), callback])
trainer.train(resume_from_checkpoint=callback.newest)
"""

LIGHTNING = f"""
import os, time
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from clusterweb_runtime.adapters.lightning import ClusterwebCallback
from clusterweb_runtime.torch_state import Batches

torch.manual_seed(3)
INPUTS, TARGETS = torch.randn(64, 5), torch.randn(64, 1)


class Loader(Batches):
    def __len__(self):
        return 16

    def __iter__(self):
        first = self.state_dict()["offset"] // 4 % 16
        for _ in range(first, 16):
            rows = next(self)
            yield INPUTS[rows], TARGETS[rows]


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        layers = torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1)
        self.net = torch.nn.Sequential(*layers)

    def training_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Record(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        with open("record", "a") as file:
            file.write(f"{{trainer.global_step}} {{outputs['loss'].item()!r}}\\n")
        if os.path.exists("slow"):
            time.sleep(0.05)


callback = ClusterwebCallback()
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = Trainer(max_steps={STEPS}, accelerator="cpu", callbacks=[Record(), callback], num_sanity_val_steps=1, **quiet)
loaders = [Loader(num_rows=64, batch_size=4, seed=seed) for seed in (5, 6)]
trainer.fit(Net(), *loaders, ckpt_path=callback.newest)
"""

# A loop of its own, as it stands on the page, with one line more a step.
ACCELERATE = (
    page_files("Hugging Face or Lightning")["with_accelerate.py"]
    + """\
    with open("record", "a") as file:
        file.write(f"{run.step + 1} {loss.item()!r}\\n")
    if os.path.exists("slow"):
        time.sleep(0.05)
"""
)
ACCELERATE = f"import time\n{ACCELERATE}"
