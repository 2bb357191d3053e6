/* The slider and its number are one value; letting go of either asks the server what it would do. */
"use strict";

(() => {
  const form = document.querySelector(".quota-form");
  const slide = document.getElementById("quota-slide");
  const field = document.getElementById(slide.dataset.slide);
  let asked = null;

  // An answer says what is wrong at its fields, or that nothing is any more; what is typed since stays.
  const showErrors = (theirs) => {
    form.querySelector(".error-list")?.remove();
    const list = theirs.querySelector(".error-list");
    if (list) form.querySelector(".quota-large").before(document.adoptNode(list));
    for (const id of ["sums", "at-once"]) document.getElementById(id).replaceWith(document.adoptNode(theirs.querySelector(`#${id}`)));
    for (const mine of form.querySelectorAll(".field")) {
      const input = mine.querySelector("[name]");
      const twin = theirs.querySelector(`[name="${input.name}"]`);
      const place = twin?.closest(".field");
      if (!place) continue;
      mine.className = place.className;
      for (const old of mine.querySelectorAll(":scope > .error, :scope > .help")) old.remove();
      for (const now of place.querySelectorAll(":scope > .error, :scope > .help")) mine.append(document.adoptNode(now));
      for (const name of ["aria-invalid", "aria-describedby"]) {
        if (twin.hasAttribute(name)) input.setAttribute(name, twin.getAttribute(name));
        else input.removeAttribute(name);
      }
    }
  };

  // A refusal has no answer: the one before stays, and says that it is not of what stands in the form.
  const showCard = (next) => {
    const card = document.getElementById("consequences");
    const isKept = "refused" in next.dataset && card.querySelector("tbody tr");
    card.removeAttribute("aria-busy");
    if (!isKept) return card.replaceWith(document.adoptNode(next));
    if (card.querySelector("#earlier")) return;
    const said = document.createElement("p");
    said.id = "earlier";
    said.className = "band";
    said.textContent = "Of the last values that could be saved. Mend what is marked in the form for those in it.";
    card.querySelector(".card-head").after(said);
  };

  // What cannot be saved leaves the page as it is, with the preview; only its fields say why.
  const save = async (event) => {
    const button = event.submitter;
    if (button?.value !== "quota") return;
    event.preventDefault();
    asked?.abort();
    document.getElementById("consequences").removeAttribute("aria-busy");
    const body = new FormData(form);
    body.set("do", "quota");
    button.disabled = true;
    try {
      const response = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
      if (response.redirected) return location.assign(response.url);
      const theirs = new DOMParser().parseFromString(await response.text(), "text/html").querySelector(".quota-form");
      if (response.status !== 422 || !theirs) throw new Error("another page");
      showErrors(theirs);
      form.querySelector(".wrong input, .error-list")?.focus();
    } catch {
      form.querySelector("[name=do]").value = "quota"; // as without scripts: the answer is the page
      form.submit();
    } finally {
      button.disabled = false;
    }
  };

  const ask = async (doing) => {
    asked?.abort();
    const mine = new AbortController();
    asked = mine;
    const card = document.getElementById("consequences");
    card.setAttribute("aria-busy", "true");
    document.getElementById("at-once").textContent = ""; // of other values
    const body = new FormData(form);
    body.set("do", doing);
    try {
      const response = await fetch(form.action, { method: "POST", body, signal: mine.signal, headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const next = page.getElementById("consequences");
      const theirs = page.querySelector(".quota-form");
      if (next && theirs) {
        showCard(next);
        showErrors(theirs);
      } else card.removeAttribute("aria-busy");
    } catch (error) {
      if (error.name !== "AbortError") card.removeAttribute("aria-busy");
    }
  };

  document.querySelector(".error-list, .quota-form .wrong input, .asked-refuse .wrong input")?.focus();
  form.addEventListener("submit", save);
  slide.hidden = false;
  const tellDifference = () => {
    const difference = document.getElementById("quota-difference");
    const more = /^\d+$/.test(field.value) ? field.value - difference.dataset.now : 0;
    difference.textContent = more > 0 ? `+${more}` : more < 0 ? `\u2212${-more}` : "";
  };
  slide.addEventListener("input", () => { field.value = slide.value; tellDifference(); });
  field.addEventListener("input", () => { slide.value = field.value; tellDifference(); });
  for (const input of form.querySelectorAll("input[type=range], input[type=number], input[type=checkbox]")) input.addEventListener("change", () => ask("preview"));
  form.querySelector("[data-preview]").addEventListener("click", (event) => { event.preventDefault(); ask("preview"); });
  if ("askNow" in form.dataset) ask("preview");
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-farther]")) return;
    event.preventDefault();
    ask("farther");
  });
})();
