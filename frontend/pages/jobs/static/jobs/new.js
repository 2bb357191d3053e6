/* The submit form: goes to the first error, adds file rows, previews while it is filled. Everything works without it. */
"use strict";

(() => {
  document.querySelector(".error-list")?.focus();
  document.querySelector("[data-scroll-here]")?.focus();

  const files = document.getElementById("files");
  if (!files) return;
  const last = () => [...files.querySelectorAll("[data-file-row]")].at(-1);
  const filled = (row) => [...row.querySelectorAll("input, textarea")].some((control) => control.value);

  /* A new empty row follows as soon as the last one holds something. */
  files.addEventListener("input", () => {
    const row = last();
    if (!filled(row) || row.querySelector("[name$='-kept']")) return;
    const index = Number(row.dataset.fileRow);
    const next = row.cloneNode(true);
    next.dataset.fileRow = String(index + 1);
    next.querySelector("legend").textContent = "New file";
    for (const element of next.querySelectorAll("[id], [name], [for]")) {
      for (const name of ["id", "name", "for"]) {
        const value = element.getAttribute(name);
        if (value) element.setAttribute(name, value.replace(/^file-\d+-/, `file-${index + 1}-`));
      }
      if ("value" in element) element.value = "";
    }
    row.after(next);
  });
})();

(() => {
  const form = document.querySelector("[data-job-form]");
  if (!form) return;
  const part = document.getElementById("preview-part");
  const said = form.querySelector("[data-preview-said]");
  const hint = said.textContent;
  const empty = document.getElementById("preview-empty").content;
  const PAUSE_MS = 700; // of somebody who types
  let timer = 0;
  let asking = null;

  const holds = (name) => Boolean(form.elements[name]?.value.trim());
  /* A commit is fetched when Preview or Submit is pressed, not with each letter of its address. */
  const isReady = () => (form.elements.mode.value === "yaml" ? holds("spec") : ["name", "queue", "command"].every(holds) && !holds("git"));

  /* A field that is folded away is shown when a link of the errors leads to it. */
  const unfold = (field) => {
    const folded = field?.closest("details");
    if (folded) folded.open = true;
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".error-list a, .wrongs a");
    const field = link && document.getElementById(link.hash.slice(1));
    if (!field) return;
    event.preventDefault();
    unfold(field);
    field.scrollIntoView({ block: "center" });
    field.focus({ preventScroll: true });
  });

  /* What is mended is not red any more; what is wrong now and folded away is unfolded. */
  const settle = (card) => {
    const links = [...card.querySelectorAll(".wrongs a")];
    const wrong = new Set(links.map((link) => link.hash.slice(1)));
    const sentences = [...card.querySelectorAll(".wrongs li")].map((entry) => entry.textContent.trim());
    for (const id of wrong) unfold(document.getElementById(id));
    for (const field of form.querySelectorAll(".field.wrong")) {
      const control = document.getElementById(field.querySelector("label")?.htmlFor ?? "");
      const said = field.querySelector(".error");
      if (!control || wrong.has(control.id) || sentences.includes(said?.textContent.trim())) continue;
      field.classList.remove("wrong");
      said?.remove();
      for (const name of ["aria-invalid", "aria-describedby"]) control.removeAttribute(name);
    }
    const list = form.querySelector(".error-list");
    for (const entry of list?.querySelectorAll("li") ?? []) {
      const link = entry.querySelector("a");
      if (!(link ? wrong.has(link.hash.slice(1)) : sentences.includes(entry.textContent.trim()))) entry.remove();
    }
    if (list && !list.querySelector("li")) list.remove();
  };

  /* A line that a shell reads, in the place of one that looks so. */
  part.addEventListener("click", (event) => {
    const line = event.target.closest("[data-put-command]")?.dataset.putCommand;
    if (!line) return;
    form.elements.command.value = line;
    form.elements.command.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const showButtons = () => part.querySelectorAll("[data-put-command]").forEach((button) => { button.hidden = false; });
  showButtons();

  const tell = (sentence) => {
    said.textContent = sentence;
    said.dataset.live = "";
    part.removeAttribute("aria-busy");
  };

  const ask = async () => {
    asking?.abort();
    if (!isReady()) {
      part.replaceChildren(empty.cloneNode(true));
      tell(hint);
      delete said.dataset.live;
      return;
    }
    const mine = (asking = new AbortController());
    const body = new FormData(form);
    for (const name of ["upload", "archive"]) body.delete(name); // read when they are submitted
    body.set("action", "live");
    part.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(form.getAttribute("action"), { method: "POST", body, signal: mine.signal, headers: { Accept: "text/html" } });
      const card = response.ok && !response.redirected && new DOMParser().parseFromString(await response.text(), "text/html").getElementById("preview");
      if (response.redirected) tell("You are signed out. Press Submit to sign in; what you wrote is kept.");
      else if (!card) tell("No preview now. Press Preview.");
      else {
        part.replaceChildren(card);
        showButtons();
        settle(card);
        const why = card.querySelector(".wrongs span, .sub").textContent;
        tell(`${card.querySelector("h2").textContent}. ${why}`);
      }
    } catch (error) {
      if (error.name !== "AbortError") tell("No preview now: the server does not answer.");
    }
  };

  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  };
  form.addEventListener("input", later);
  form.addEventListener("change", later); // a folder that has arrived, a guess
  if (form.elements.mode.value === "form" && !document.querySelector(".error-list, [data-scroll-here]")) ask();
})();
