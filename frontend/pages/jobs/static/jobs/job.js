/* A job's page between two renderings of the server: badge, progress, tiles and the ends of the charts follow the job's
   frames. A change of state, of the reason or of the attempt asks the server for the parts again. */
"use strict";

(() => {
  const head = document.querySelector("[data-job]");
  const id = head.dataset.job;
  const at = (name) => document.querySelector(`[data-progress="${name}"]`);
  let sentence = null, attempt = null, checkpoint = null, drawnAt = 0;

  const tile = (name, value, unit) => {
    const box = document.querySelector(`[data-tile="${name}"]`);
    if (!box) return;
    const slot = box.querySelector("[data-part=value]");
    slot.classList.remove("none");
    Shell.set(slot, value);
    if (unit !== undefined) box.querySelector("[data-part=unit]").textContent = unit;
  };

  const progress = (row) => {
    if (row.step === null) return;
    // A job of which nothing was known begins to report: the page has other parts then.
    if (document.querySelector("[data-plain]")) { Live.refresh(); return; }
    const total = row.total_steps;
    if (at("step")) at("step").textContent = `step ${Shell.number(row.step)}${total ? ` of ${Shell.number(total)}` : ""}`;
    if (row.loss !== null && at("loss")) at("loss").textContent = `loss ${Shell.significant(row.loss)}`;
    const bar = document.querySelector("#job-progress .bar");
    if (!total) return;
    if (!bar) { Live.refresh(); return; }
    const frac = Math.min(1, row.step / total);
    bar.setAttribute("aria-valuenow", String(Math.round(frac * 100)));
    bar.firstElementChild.style.setProperty("--at", `${(frac * 100).toFixed(2)}%`);
    if (at("percent")) at("percent").textContent = Shell.percent(frac);
  };

  const tiles = (row) => {
    if (!document.querySelector('[data-tile="rate"]')) return;
    if (row.steps_per_s !== null) tile("rate", Shell.significant(row.steps_per_s), "steps/s");
    const label = document.querySelector('[data-tile="use"] .label').textContent;
    const use = label === "GPU use" ? row.gpu_frac : row.cpu_frac;
    if (use !== null && use !== undefined) tile("use", Shell.number(use * 100), "%");
    if (row.memory_bytes) {
      const [value, unit] = Shell.dataSize(row.memory_bytes).split("\u00a0");
      const old = document.querySelector('[data-tile="memory"] [data-part=unit]')?.textContent || "";
      const of = / of .*/.exec(old);
      tile("memory", value, `${unit}${of ? of[0] : ""}`);
    }
    if (row.checkpoint_at) {
      const slot = document.querySelector('[data-tile="checkpoint"] [data-part=value]');
      if (slot) {
        slot.dataset.since = row.checkpoint_at;
        slot.classList.remove("none");
        slot.nextElementSibling.textContent = "ago";
      }
    }
  };

  /* Grows a figure by one point and draws it; the server's next rendering replaces it. */
  const grow = (chart, change) => {
    const script = document.getElementById(`${chart}-figure`);
    if (!script || !document.getElementById(chart)?.dataset.drawn) return false;
    const figure = JSON.parse(script.textContent);
    if (change(figure) === false) return false;
    script.textContent = JSON.stringify(figure).replaceAll("<", "\\u003C");
    if (!document.hidden) Charts.draw(chart);
    return true;
  };

  const loss = (row) => grow("loss", ({ data: [raw, smooth], layout }) => {
    const last = raw.x.at(-1);
    if (row.loss === null || row.step === null || row.step === last) return false;
    if (row.step < last) for (const trace of [raw, smooth]) { trace.x.push(null); trace.y.push(null); }
    const before = smooth.y.findLast((value) => value !== null);
    const gap = Math.max(1, (row.step - last) / layout.meta.stride);
    const now = before + (1 - (1 - layout.meta.weight) ** gap) * (row.loss - before);
    raw.x.push(row.step); raw.y.push(row.loss);
    smooth.x.push(row.step); smooth.y.push(now);
    layout.xaxis.range[1] = Math.max(layout.xaxis.range[1], row.step * 1.005);
    const note = layout.annotations.at(-1);
    note.x = row.step;
    note.y = layout.yaxis.type === "log" ? Math.log10(now) : now;
    note.text = Shell.significant(row.loss);
    return true;
  });

  const over = (chart, value) => {
    if (value === null || value === undefined) return;
    grow(chart, ({ data: [trace], layout }) => {
      const now = Shell.wall(Date.now());
      if (now <= trace.x.at(-1)) return false;
      // A stretch without values is a hole, not a slope; times of one zone compare as texts.
      if (Date.parse(now) - Date.parse(trace.x.at(-1)) > 10000) { trace.x.push(trace.x.at(-1)); trace.y.push(null); }
      trace.x.push(now);
      trace.y.push(value / layout.meta.scale);
      layout.xaxis.range[1] = now;
      return true;
    });
  };

  const charts = (row) => {
    if (!globalThis.Charts || Date.now() - drawnAt < 950) return;
    drawnAt = Date.now();
    loss(row);
    over("rate", row.steps_per_s);
    over("cpu", row.cpu_frac);
    over("gpu", row.gpu_frac);
    over("memory", row.memory_bytes);
    // The first values: the server draws the charts that are not there yet.
    for (const [chart, value] of [["loss", row.loss], ["rate", row.steps_per_s]]) {
      if (value !== null && document.getElementById(chart) && !document.getElementById(`${chart}-figure`)) Live.refresh();
    }
  };

  /* What the server said of the state before is hidden until it says what is true now. */
  const onlyOneWord = ({ phase }) => {
    if (!["queued", "parked", "preparing"].includes(phase)) document.querySelector("#job-reason .reason")?.remove();
    document.querySelector(".job-head [data-moment]")?.replaceChildren();
  };

  const take = (row) => {
    const moved = Shell.setBadge(document.querySelector(".job-head [data-cell=state]"), row.phase);
    const said = sentence !== null && row.wait_sentence !== sentence;
    const turned = attempt !== null && row.attempt_number !== attempt;
    const saved = checkpoint !== null && row.checkpoint_at !== checkpoint;
    sentence = row.wait_sentence;
    attempt = row.attempt_number;
    checkpoint = row.checkpoint_at;
    progress(row);
    tiles(row);
    if (row.state === "running") charts(row);
    if (moved) onlyOneWord(row);
    if (moved || said || turned || saved) Live.refresh();
  };

  Live.connect([`job.${id}`], (kind, data) => {
    if (kind === "job" && data.id === id) take(data);
    if (kind === "event" && data.job_id === id) Live.refresh();
  });
  // Times, shares and estimates that no frame carries.
  setInterval(() => { if (document.querySelector('.job-head [data-state="running"]')) Live.refresh(); }, 30000);
})();

/* Changes that take seconds to try are asked for when the page is there, and again after each refresh. */
(() => {
  const ask = async () => {
    const part = document.querySelector("#why-unblock[data-ask]");
    if (!part) return;
    part.setAttribute("aria-busy", "true");
    const response = await fetch(part.dataset.ask, { headers: { Accept: "text/html" } }).catch(() => null);
    if (!response?.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const found = page.getElementById("why-unblock") || page.getElementById("why-no-offer");
    if (found && document.contains(part)) part.replaceWith(document.adoptNode(found));
  };
  document.addEventListener("liverefresh", ask);
  ask();
})();
