/* The secrets pages work without this: it opens the dialog with its errors, and shows what is being typed. */
"use strict";

(() => {
  const dialog = document.getElementById("add");
  if (!dialog) return;
  if ("wrong" in dialog.dataset) { dialog.removeAttribute("open"); dialog.showModal(); }
  const value = dialog.querySelector("input[name=value]");
  const show = dialog.querySelector("[data-show-value]");
  show.hidden = false;
  show.onclick = () => {
    const shown = value.type === "text";
    value.type = shown ? "password" : "text";
    show.querySelector("span").textContent = shown ? "Show what I type" : "Hide what I type";
    show.setAttribute("aria-pressed", String(!shown));
  };
  dialog.addEventListener("cancel", (event) => {
    if (value.value && !window.confirm("Close without adding the secret?")) event.preventDefault();
  });
  dialog.addEventListener("close", () => { value.value = ""; value.type = "password"; });
})();
