/* The slider and its number are one value; letting go of either asks the server what it would do. */
"use strict";

(() => {
  const form = document.querySelector(".quota-form");
  const slide = document.getElementById("quota-slide");
  const field = document.getElementById(slide.dataset.slide);
  let asked = null;

  const ask = async (doing) => {
    asked?.abort();
    const mine = new AbortController();
    asked = mine;
    const card = document.getElementById("consequences");
    card.setAttribute("aria-busy", "true");
    const body = new FormData(form);
    body.set("do", doing);
    try {
      const response = await fetch(form.action, { method: "POST", body, signal: mine.signal, headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const next = page.getElementById("consequences");
      if (next && response.ok) document.getElementById("consequences").replaceWith(document.adoptNode(next));
      else card.removeAttribute("aria-busy");
    } catch (error) {
      if (error.name !== "AbortError") card.removeAttribute("aria-busy");
    }
  };

  slide.hidden = false;
  slide.addEventListener("input", () => { field.value = slide.value; });
  field.addEventListener("input", () => { slide.value = field.value; });
  for (const input of form.querySelectorAll("input[type=range], input[type=number], input[type=checkbox]")) input.addEventListener("change", () => ask("preview"));
  form.querySelector("[data-preview]").addEventListener("click", (event) => { event.preventDefault(); ask("preview"); });
  if ("askNow" in form.dataset) ask("preview");
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-farther]")) return;
    event.preventDefault();
    ask("farther");
  });
})();
