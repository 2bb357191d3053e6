/* Progress of one scenario: frames as they come, and a look at the API where none has come for most of a second. */
"use strict";

(() => {
  const card = document.getElementById("progress");
  const id = card.dataset.scenario;
  const part = (name) => document.querySelector(`[data-whatif="${name}"]`);
  const bar = (element, frac) => {
    element.setAttribute("aria-valuenow", String(Math.round(frac * 100)));
    element.firstElementChild.style.setProperty("--at", `${(frac * 100).toFixed(2)}%`);
  };
  let heardAt = 0, isOver = false;

  const take = (data) => {
    heardAt = Date.now();
    part("done").textContent = String(data.runs_done);
    part("percent").textContent = Shell.percent(data.frac);
    part("elapsed").textContent = Shell.duration(data.elapsed_s);
    part("silent").hidden = !data.silent;
    bar(part("all"), data.frac);
    for (const run of data.runs) {
      const row = document.querySelector(`[data-run="${run.variant}-${run.seed}"]`);
      if (!row) continue;
      Shell.setBadge(row.querySelector("[data-run-state]"), run.state);
      bar(row.querySelector(".bar"), run.frac);
      row.querySelector("[data-run-percent]").textContent = Shell.percent(run.frac);
      const jobs = run.num_jobs ? `${Shell.number(run.done_jobs)} of ${Shell.number(run.num_jobs)}` : run.state === "running" ? "being read" : "";
      row.querySelector("[data-run-jobs]").textContent = jobs;
      if (run.early) {
        const { wait_s: waitS, passed_s: passedS, baseline_wait_s: baselineS } = run.early;
        const beside = document.createElement("span");
        beside.className = "soft";
        beside.textContent = `in the first ${Shell.duration(passedS)}${baselineS === null ? "" : `, baseline ${Shell.duration(baselineS)}`}`;
        row.querySelector("[data-run-early]").replaceChildren(`${Shell.duration(waitS)} `, beside);
        part("early").hidden = false;
      }
    }
    // A variant whose first run has ended is shown beside those before it.
    const known = data.runs.filter((run) => run.variant < 1000 && run.state === "completed" && String(run.seed) === card.dataset.seed);
    const isNew = known.some((run) => run.variant === 0) && known.length > Number(card.dataset.shown);
    if (!isOver && isNew) {
      isOver = true;
      location.reload();
    }
    if (!isOver && data.state !== "queued" && data.state !== "running") {
      isOver = true;
      location.reload();
    }
  };

  Live.connect([`scenario.${id}`], (kind, data) => { if (kind === "scenario" && data.id === id) take(data); });
  setInterval(async () => {
    if (isOver || document.hidden || Date.now() - heardAt < 700) return;
    heardAt = Date.now(); // or about to hear
    const response = await fetch(`/api/v1/whatif/${id}`, { headers: { Accept: "application/json" } }).catch(() => null);
    if (response?.ok) take((await response.json()).progress);
  }, 200);
})();
