/* The submit form: goes to the first error, adds file rows. Everything works without it. */
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
