/* Keeps what is typed in the submit form while this tab is open, by address and reader: a page that may not be stored
   comes back empty. Environment (it may hold secrets) and files are not kept, nor is YAML that has an environment. */
"use strict";

(() => {
  const form = document.querySelector("[data-job-form]");
  const note = document.querySelector("[data-draft-note]");
  if (!form) return;
  const key = ["draft", form.dataset.reader, location.pathname + location.search, form.elements.mode.value].join(" ");
  const isKept = ({ name, type, value }) => name && name !== "env" && !(name === "spec" && /\benv\b["']?\s*:/.test(value)) && !name.startsWith("file-") && !["hidden", "file", "submit", "button"].includes(type);
  const fields = () => [...form.elements].filter(isKept);
  const read = (field) => (field.type === "checkbox" ? field.checked : field.value);
  const save = () => {
    try {
      sessionStorage.setItem(key, JSON.stringify(Object.fromEntries(fields().map((field) => [field.name, read(field)]))));
    } catch { /* full, or refused: the form works without */ }
  };
  const restore = () => {
    const draft = JSON.parse(sessionStorage.getItem(key) ?? "{}");
    const changed = fields().filter((field) => field.name in draft && draft[field.name] !== read(field));
    for (const field of changed) {
      if (field.type === "checkbox") field.checked = draft[field.name];
      else field.value = draft[field.name];
      const folded = field.closest("details");
      if (folded) folded.open = true;
    }
    note.hidden = !changed.length;
    if (changed.length) form.dispatchEvent(new Event("input")); // the preview follows
  };

  note.querySelector("a").addEventListener("click", () => sessionStorage.removeItem(key));
  form.addEventListener("submit", (event) => {
    if (event.submitter?.value === "submit") sessionStorage.removeItem(key);
  });
  if ("sent" in form.dataset) save(); // it came back with what was typed
  else restore();
  form.addEventListener("input", save);
  form.addEventListener("change", save);
})();
