/* The overview's live parts: numbers, strip and utilization from the cluster's frames, quota bars and own jobs from
   those of the queues. What needs more than a frame holds is fetched again after a round (live.js). */
"use strict";

(() => {
  const grid = document.querySelector(".overview");
  const rangeS = Number(grid.dataset.rangeS);
  const shownSince = Date.parse(grid.dataset.shownSince);
  const part = (tile, name) => document.querySelector(`#${tile} [data-part="${name}"]`);
  const text = (id, value) => Shell.set(document.getElementById(id), value);

  const tiles = (frame) => {
    const usable = frame.allocated_gpus + frame.free_gpus;
    const devices = frame.servers.flatMap((server) => server.gpus).filter((gpu) => gpu.healthy && (gpu.allocated || gpu.utilization_frac !== null));
    const idle = Math.max(0, frame.allocated_gpus - frame.busy_gpus);
    Shell.set(part("tile-allocated", "value"), Shell.number(frame.allocated_gpus));
    Shell.set(part("tile-allocated", "unit"), `of ${Shell.device(usable)}`);
    Shell.set(part("tile-waiting", "value"), Shell.number(frame.waiting_jobs));
    Shell.set(part("tile-waiting", "unit"), frame.waiting_jobs === 1 ? "job" : "jobs");
    Shell.set(part("tile-idle", "value"), Shell.number(idle));
    Shell.set(part("tile-idle", "unit"), `of ${Shell.number(frame.allocated_gpus)} allocated`);
    if (devices.length) {
      const mean = devices.reduce((sum, gpu) => sum + (gpu.utilization_frac || 0), 0) / devices.length;
      Shell.set(part("tile-utilization", "value"), Shell.number(mean * 100));
    }
    if (usable) text("finding-main", `${Shell.number(frame.allocated_gpus)} of ${Shell.device(usable)} ${usable === 1 ? "is" : "are"} allocated`);
    const waits = frame.waiting_jobs;
    text("finding-soft", waits ? `and ${Shell.number(waits)}\u00a0${waits === 1 ? "job waits" : "jobs wait"}` : "and no job waits");
    text("strip-free", Shell.device(frame.free_gpus));
  };

  /* A frame names no queue: a device that has just been given away is grey until the next refresh. */
  const strip = (frame) => {
    let known = true;
    for (const server of frame.servers) {
      const box = document.querySelector(`#strip [data-server="${CSS.escape(server.id)}"]`);
      if (!box) { known = false; continue; }
      for (const gpu of server.gpus) {
        const cell = box.querySelector(`[data-gpu="${gpu.index}"]`);
        if (!cell) { known = false; continue; }
        const rest = server.state === "draining" ? "drained" : "free";
        const now = !gpu.healthy ? "broken" : gpu.allocated ? "held" : rest;
        const was = ["broken", "free", "drained"].find((name) => cell.classList.contains(name)) || "held";
        if (now === was) continue;
        cell.className = `cell ${now === "held" ? "q0" : now}`;
        cell.replaceChildren(...(now === "broken" ? [Shell.icon("x")] : []));
        known = known && now !== "held";
      }
    }
    if (!known) Live.refresh();
  };

  /* The right end always shows now. A point stays behind only every 1/500 of the range, so that the chart of a day does
     not grow without end. */
  let keptAt = 0, drawnAt = 0;
  document.addEventListener("liverefresh", () => { keptAt = 0; });
  const chart = (frame) => {
    const now = Date.now();
    if (now - drawnAt < 900) return;
    drawnAt = now;
    const from = Math.max(shownSince, now - rangeS * 1000);
    const replaceLast = now - keptAt < (now - from) / 500;
    if (!replaceLast) keptAt = now;
    const busy = Math.min(frame.busy_gpus, frame.allocated_gpus);
    Charts.extend("utilization", [Shell.wall(now)],
      { 0: [busy], 1: [frame.allocated_gpus - busy], 2: [frame.free_gpus], 3: [frame.drained_gpus], 4: [frame.broken_gpus] },
      Shell.wall(from), { replaceLast });
  };

  const queue = (row) => {
    const box = document.querySelector(`#shares [data-queue="${row.id}"]`);
    if (!box) return;
    const held = row.held_gpus, quota = Number(box.dataset.quota), scale = Number(box.dataset.scale);
    const borrowed = Math.max(0, held - quota), unused = Math.max(0, quota - held);
    const own = (100 * (held - borrowed)) / scale;
    Shell.set(box.querySelector('[data-part="held"]'), Shell.number(held));
    box.querySelector('[data-part="rest"]').textContent = borrowed ? ` · ${Shell.number(borrowed)} borrowed` : unused ? ` · ${Shell.number(unused)} unused` : "";
    box.querySelector('[data-part="own"]').style.setProperty("--at", `${own}%`);
    const hatched = box.querySelector('[data-part="borrowed"]');
    hatched.hidden = !borrowed;
    hatched.style.setProperty("--from", `${own}%`);
    hatched.style.setProperty("--at", `${(100 * borrowed) / scale}%`);
    if (quota !== row.quota_gpus || held > scale) Live.refresh();
  };

  const jobs = (rows) => {
    for (const row of rows) {
      const line = document.querySelector(`#own-jobs [data-job="${CSS.escape(row.id)}"]`);
      if (!line) { if (row.owner === document.documentElement.dataset.user) Live.refresh(); continue; }
      if (Shell.setBadge(line, row.state)) { Live.refresh(); continue; }
      const progress = line.querySelector('[data-part="progress"]');
      if (progress) Shell.progress(progress, row);
    }
  };

  Live.connect(JSON.parse(document.getElementById("live-groups").textContent), (kind, data) => {
    if (kind === "cluster") { tiles(data); strip(data); chart(data); }
    if (kind === "queue") queue(data);
    if (kind === "jobs") jobs(data.jobs);
    if (kind === "event") Live.refresh();
  });
})();
