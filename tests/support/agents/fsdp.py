"""A script for torchrun whose model is split over its ranks; slow while there is a file ``slow``."""

STEPS = 120

FSDP = f"""
import os, time
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from clusterweb_runtime import Run
from clusterweb_runtime.own_group import own_group
from clusterweb_runtime.sharded import Sharded
from clusterweb_runtime.torch_state import Batches

dist.init_process_group("gloo")
mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(3)
inputs, targets = torch.randn(64, 6), torch.randn(64, 1)
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
fully_shard(model, mesh=mesh)
assert isinstance(model[0].weight, DTensor)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
batches = Batches(num_rows=64, batch_size=8, seed=5)
gang = own_group()
run = Run(total_steps={STEPS}, checkpoint_every_steps=10, gang=gang)
sharded = Sharded(run, model, optimizer, batches=batches)
run.on_checkpoint(sharded.capture, every_rank=True)
sharded.restore(run.resume())
for step, rows in zip(run.steps(), batches):
    mine = gang.part(rows)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs[mine]), targets[mine])
    loss.backward()
    optimizer.step()
    run.report(loss=loss)
    with open(f"record-{{gang.rank}}", "a") as file:
        file.write(f"{{step + 1}} {{loss.item()!r}}\\n")
    if os.path.exists("slow"):
        time.sleep(0.05)
dist.destroy_process_group()
"""
