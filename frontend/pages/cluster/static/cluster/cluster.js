/* The map's numbers follow the cluster's frames; what a frame does not hold is fetched again after a round. */
"use strict";

(() => {
  const view = document.querySelector(".grid[data-view]")?.dataset.view;
  const step = (frac) => Math.min(6, Math.max(0, Math.floor(frac * 7)));

  const paint = (cell, gpu) => {
    const idle = gpu.allocated && gpu.utilization_frac !== null && gpu.utilization_frac < 0.05;
    const broken = cell.classList.contains("broken"), free = cell.classList.contains("free") || cell.classList.contains("drained");
    if (!gpu.healthy || broken || gpu.allocated === free) return gpu.healthy === !broken && (!gpu.healthy || gpu.allocated === !free);
    if (!gpu.allocated) return true;
    if (gpu.utilization_frac === null) {
      cell.className = "cell unknown";
      cell.textContent = "?";
      return true;
    }
    cell.className = `cell u${step(gpu.utilization_frac)}${idle ? " idle" : ""}`;
    cell.textContent = Shell.number(gpu.utilization_frac * 100);
    return true;
  };

  let seen = "";
  Live.connect(["cluster"], (kind, frame) => {
    if (kind !== "cluster") return;
    let same = true;
    if (view === "utilization") {
      for (const server of frame.servers) {
        const box = document.querySelector(`#map [data-server="${CSS.escape(server.id)}"]`);
        for (const gpu of server.gpus) {
          const cell = box?.querySelector(`[data-gpu="${gpu.index}"]`);
          same = (cell ? paint(cell, gpu) : false) && same;
        }
      }
    }
    // How old late reports are is written anew every ten seconds, for all of them together.
    const longest = Math.floor(Math.max(0, ...frame.servers.map((server) => server.silent_s ?? 0)) / 10);
    const states = longest + frame.servers.map((server) => server.id + server.state + (server.silent_s === null)).join();
    if (!same || (seen && seen !== states)) Live.refresh();
    seen = states;
  });
})();
