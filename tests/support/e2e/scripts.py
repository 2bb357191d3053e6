"""Training scripts that the end-to-end tests submit. They are small; the workloads are tested on their own."""

# Counts steps with the runtime and writes each one down, so that a test can see none twice and none missing.
COUNTING = """
import os, sys, time
from agents.runtime import Run

total, step_s, record = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
run = Run(total_steps=total, checkpoint_every_s=1.0)
state = run.resume() or {"sum": 0}
run.on_checkpoint(lambda: state)
for step in run.steps():
    time.sleep(step_s)
    state["sum"] += step
    with open(record, "a") as file:
        file.write(f"{step} {os.getpid()} {time.time()}\\n")
    run.report(loss=1.0 / (1 + step))
print("sum", state["sum"])
"""

# A gang that takes its time until there is a file ``hurry`` beside its record.
GANG = """
import os, sys, time
import torch
from agents.runtime import Run
from agents.runtime.gang import join_gang
from agents.runtime.torch_state import Batches, capture, restore

steps, record = int(sys.argv[1]), sys.argv[2]
gang = join_gang()
run = Run(total_steps=steps, checkpoint_every_s=1.0, gang=gang)
torch.manual_seed(3)
inputs, targets = torch.randn(48, 5), torch.randn(48, 1)
model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
batches = Batches(num_rows=48, batch_size=12, seed=5)
run.on_checkpoint(lambda: capture(model, optimizer=optimizer, batches=batches))
restore(run.resume(), model, optimizer=optimizer, batches=batches)
print("rank", gang.rank, flush=True)
for step, rows in zip(run.steps(), batches):
    optimizer.zero_grad()
    mine = gang.part(rows)
    loss = torch.nn.functional.mse_loss(model(inputs[mine]), targets[mine]) if len(mine) else None
    if loss is not None:
        loss.backward()
    loss = gang.average(model, loss, rows=len(mine), of=len(rows))
    optimizer.step()
    if not os.path.exists(os.path.join(os.path.dirname(record), "hurry")):
        time.sleep(0.02)
    with open(record, "a") as file:
        file.write(f"{step} {float(loss).hex()} {os.getpid()}\\n")
    run.report(loss=loss)
"""

# A script for torchrun, which starts its ranks: rank 0 reports and saves, the others train what it broadcasts. It takes
# its time until there is a file ``hurry`` beside its record.
TORCHRUN = """
import os, sys, time
import torch
import torch.distributed as dist
from agents.runtime import Run
from agents.runtime.torch_state import capture, restore

steps, record = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)
inputs, targets = torch.randn(size * 8, 5), torch.randn(size * 8, 1)
model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
run = Run(total_steps=steps, checkpoint_every_s=1.0, quiet=True) if rank == 0 else None
if run is not None:
    run.on_checkpoint(lambda: capture(model, optimizer=optimizer))
    restore(run.resume(), model, optimizer=optimizer)
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0)
if os.environ["LOCAL_RANK"] == "0":
    ranks = " and ".join(str(rank + place) for place in range(int(os.environ["LOCAL_WORLD_SIZE"])))
    print(f"server {os.environ['GROUP_RANK']} of {os.environ['GROUP_WORLD_SIZE']}, ranks {ranks} of {size}", flush=True)


def numbers():
    \"\"\"Yield the steps that rank 0 comes to, in every rank.\"\"\"
    own = iter(run.steps()) if run is not None else None
    while True:
        number = torch.tensor([next(own, -1) if own is not None else 0])
        dist.broadcast(number, src=0)
        if number.item() < 0:
            return
        yield int(number)


for step in numbers():
    mine = slice(rank * 8, rank * 8 + 8)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs[mine]), targets[mine])
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= size
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    mean /= size
    if not os.path.exists(os.path.join(os.path.dirname(record), "hurry")):
        time.sleep(0.05)
    with open(record, "a") as file:
        file.write(f"{step} {rank} {size} {float(mean).hex()}\\n")
    if run is not None:
        run.report(loss=float(mean))
dist.barrier()  # torch asks for it: the first rank to leave may break one that still reads
dist.destroy_process_group()
"""

# Listens on the port of its gang, says so in one file, and goes on until another job has said so in another.
LISTENS = """
import os, pathlib, socket, sys, time

own, other = map(pathlib.Path, sys.argv[1:])
with socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))):
    own.write_text(os.environ["MASTER_PORT"])
    while not other.exists():
        time.sleep(0.05)
"""

# Knows nothing of the runtime, and ends by itself.
PLAIN = """
import time
for step in range(int(2 / 0.1)):
    print("plain step", step, flush=True)
    time.sleep(0.1)
"""

IGNORES_TERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("not leaving", flush=True)
while True:
    time.sleep(1)
"""

HUNGRY = """
blocks = []
while True:
    blocks.append(bytearray(16 * 1024 * 1024))
    print(len(blocks) * 16, "MiB", flush=True)
"""

FLOOD = """
import os
line = b"x" * 1023 + b"\\n"
block = line * 1024
for _ in range(1024):
    os.write(1, block)
"""

DELETES_ITS_DIRECTORY = """
import os, shutil, time
shutil.rmtree(os.getcwd(), ignore_errors=True)
time.sleep(1)
print("directory is gone", os.path.exists(os.environ["HOME"]), flush=True)
"""

CRASHES = """
print("about to fail", flush=True)
raise ValueError("label 11 is out of range")
"""

WRITES_TIME = 'import time; open("started", "w").write(repr(time.time()))'
