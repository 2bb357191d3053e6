"""A training script that knows nothing of Clusterweb: it saves each step to ./out and resumes from there."""

STEPS = 200


def weight_after(steps: int) -> float:
    """Return the weight that a run without interruption ends with."""
    weight = 1.0
    for step in range(steps):
        weight = weight * 0.9 + step
    return weight


PLAIN = f"""
import json, os, time
with open("begun") as file: begun = int(file.read()) + 1  # laid in once
with open("begun", "w") as file: file.write(str(begun))
os.makedirs("out", exist_ok=True)
try:
    with open("out/last.json") as file: step, weight, done = json.load(file)
except FileNotFoundError:
    step, weight, done = 0, 1.0, []
print("begins at", step, flush=True)
while step < {STEPS}:
    weight, done = weight * 0.9 + step, [*done, step]
    step += 1
    with open("out/last.json.new", "w") as file: json.dump([step, weight, done], file)
    os.replace("out/last.json.new", "out/last.json")
    time.sleep(0.01)
"""
