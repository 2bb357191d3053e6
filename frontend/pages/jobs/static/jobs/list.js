/* The job list: rows follow live frames in place; rows that come or go wait for the server's next rendering, which is not
   swapped in while the pointer is on the table. Chosen rows stay chosen. */
"use strict";

(() => {
  const chosen = new Set();
  const part = () => document.getElementById("jobs-part");
  const rowOf = (id) => part()?.querySelector(`tr[data-job="${CSS.escape(id)}"]`);

  /* Sentences of the scheduler say GPU; here a device may be a CPU slot. */
  const { deviceOne: one, deviceMany: many } = document.documentElement.dataset;
  const inWords = (text) => (many === "GPUs" ? text : text.replace(/(?<![\w-])GPU(s?)(?![\w-])/g, (_, plural) => (plural ? many : one)));

  const update = (row) => {
    const line = rowOf(row.id);
    if (!line) return false;
    const cell = (name) => line.querySelector(`[data-cell="${name}"]`);
    const moved = Shell.setBadge(cell("state"), row.phase);
    const detail = cell("detail");
    const slot = detail?.querySelector("[data-part=progress]");
    if (["running", "preempting", "suspending"].includes(row.state)) {
      if (slot) Shell.progress(slot, row);
      else {
        const fresh = Shell.span("", "progress");
        fresh.dataset.part = "progress";
        Shell.progress(fresh, row);
        detail?.replaceChildren(fresh);
      }
    } else if (row.state === "queued" && row.wait_sentence) {
      const words = detail?.querySelector(".why") || Shell.span("", "why");
      if (!words.isConnected) detail?.replaceChildren(words);
      Shell.set(words, inWords(row.wait_sentence));
      words.title = inWords(row.wait_sentence);
    }
    return !moved;
  };

  const groups = (document.querySelector("[data-list-groups]")?.dataset.listGroups || "").split(",");
  Live.connect(groups, (kind, data) => {
    if (kind !== "jobs") return;
    // A row that is new here or has changed its state may belong elsewhere: the server says where.
    const settled = data.jobs.map(update).every(Boolean);
    if (!settled) Live.refresh();
  });

  /* Choosing rows */
  const boxes = () => [...document.querySelectorAll("input[data-pick]")];
  const show = () => {
    for (const box of boxes()) box.checked = chosen.has(box.value);
    const picked = boxes().filter((box) => box.checked);
    const gpus = picked.reduce((sum, box) => sum + Number(box.dataset.held), 0);
    const jobs = `${Shell.number(picked.length)} ${picked.length === 1 ? "job" : "jobs"}`;
    const bar = document.getElementById("bulk");
    if (bar) {
      bar.classList.toggle("on", picked.length > 0);
      bar.querySelector("[data-bulk=count]").textContent = picked.length ? `${jobs} chosen` : "";
      for (const button of bar.querySelectorAll("button[type=submit]")) {
        button.disabled = !picked.length;
        button.querySelector("span").textContent = `${button.dataset.verb} ${picked.length ? jobs : "chosen jobs"}`;
      }
    }
    const all = document.querySelector("input[data-pick-all]");
    if (all) {
      all.hidden = false;
      all.checked = picked.length > 0 && picked.length === boxes().length;
      all.indeterminate = picked.length > 0 && !all.checked;
    }
    return { jobs, gpus };
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("input[data-pick-all]")) {
      for (const box of boxes()) { if (event.target.checked) chosen.add(box.value); else chosen.delete(box.value); }
    } else if (event.target.matches("input[data-pick]")) {
      if (event.target.checked) chosen.add(event.target.value); else chosen.delete(event.target.value);
    } else return;
    show();
  });
  document.addEventListener("liverefresh", show);

  const form = document.getElementById("bulk-form");
  const dialog = document.getElementById("bulk-dialog");
  let asked = null;
  form?.addEventListener("submit", (event) => {
    if (form.elements.confirmed.value === "yes" || "atOnce" in event.submitter.dataset) return;
    event.preventDefault();
    asked = event.submitter;
    const { jobs, gpus } = show();
    const { verb, holding, idle } = asked.dataset;
    dialog.querySelector("h2").textContent = `${verb} ${jobs}?`;
    dialog.querySelector("p").textContent = gpus ? holding.replace("{}", Shell.device(gpus)) : idle;
    const yes = dialog.querySelector("button[type=submit]");
    yes.textContent = `${verb} ${jobs}`;
    yes.classList.toggle("danger", "danger" in asked.dataset);
    dialog.showModal();
  });
  dialog?.querySelector("button[type=submit]").addEventListener("click", (event) => {
    event.preventDefault();
    form.elements.confirmed.value = "yes";
    form.requestSubmit(asked);
  });
  show();
})();
