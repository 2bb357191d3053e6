/* The overview's live parts: utilization from the cluster's frames, progress of own jobs from those of the queues. What
   counts is fetched again (live.js) after a round and when a frame has another count. */
"use strict";

(() => {
  const grid = document.querySelector(".overview");
  const rangeS = Number(grid.dataset.rangeS);
  const shownSince = Date.parse(grid.dataset.shownSince);
  const part = (tile, name) => document.querySelector(`#${tile} [data-part="${name}"]`);

  const counts = (frame) =>
    [frame.allocated_gpus, frame.free_gpus, frame.drained_gpus, frame.broken_gpus, frame.unknown_gpus, frame.running_jobs, frame.waiting_jobs].join();

  /* A count stands in several parts: where a frame has another one, all parts are fetched anew, so that no two of them are
     of different moments. Only what is measured all the time is written from frames. */
  const tiles = (frame) => {
    if (document.getElementById("tiles").dataset.counts !== counts(frame)) { Live.refresh(); return; }
    const used = part("tile-utilization", "delta"), idle = Math.max(0, frame.allocated_gpus - frame.busy_gpus - frame.unknown_gpus);
    Shell.set(used, used.textContent.replace(/^.*? busy, .*? idle/, `${Shell.number(frame.busy_gpus)} busy, ${Shell.number(idle)} idle`));
    if (frame.mean_utilization_frac !== null) Shell.set(part("tile-utilization", "value"), Shell.number(frame.mean_utilization_frac * 100));
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
    const busy = Math.min(frame.busy_gpus, frame.allocated_gpus), unknown = frame.unknown_gpus;
    Charts.extend("utilization", [Shell.wall(now)],
      { 0: [busy], 1: [Math.max(0, frame.allocated_gpus - busy - unknown)], 2: [unknown], 3: [frame.free_gpus], 4: [frame.drained_gpus], 5: [frame.broken_gpus] },
      Shell.wall(from), { replaceLast });
  };

  const queue = (row) => {
    const held = document.querySelector(`#shares [data-queue="${row.id}"] [data-part="held"]`);
    if (held && held.textContent !== Shell.number(row.held_gpus)) Live.refresh();
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
    if (kind === "cluster") { tiles(data); chart(data); }
    if (kind === "queue") queue(data);
    if (kind === "jobs") jobs(data.jobs);
    if (kind === "event") Live.refresh();
  });
})();
