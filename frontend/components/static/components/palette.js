/* The command palette: the answer of /search in a dialog, moved through by keys. Without it the field sends its form. */
"use strict";

(() => {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input"), list = document.getElementById("palette-hits");
  const count = document.getElementById("palette-count");
  const LATER_MS = 80, SLOW_MS = 300, LAST = `palette-last-${document.documentElement.dataset.user || ""}`, KEPT = 5;
  let asked = 0, turn = 0, chosen = -1;

  const options = () => [...list.querySelectorAll("a.hit")].filter((hit) => !hit.hidden && !hit.closest("[hidden]"));
  const choose = (index, scroll = true) => {
    const all = options();
    chosen = all.length ? (index + all.length) % all.length : -1;
    all.forEach((hit, at) => hit.setAttribute("aria-selected", String(at === chosen)));
    if (chosen < 0) { input.removeAttribute("aria-activedescendant"); return; }
    input.setAttribute("aria-activedescendant", all[chosen].id);
    if (scroll) all[chosen].scrollIntoView({ block: "nearest" });
  };
  const nextGroup = (step) => {
    const all = options();
    const groups = [...new Set(all.map((hit) => hit.closest(".hit-group")))];
    const at = groups.indexOf(all[chosen]?.closest(".hit-group"));
    if (groups.length) choose(all.findIndex((hit) => hit.closest(".hit-group") === groups[(at + step + groups.length) % groups.length]));
  };

  /* Names of jobs: kept for this tab and this user alone, and forgotten at the sign-out. */
  for (const form of document.querySelectorAll('form[action="/sign-out"]')) form.addEventListener("submit", () => { try { sessionStorage.removeItem(LAST); } catch { /* no store */ } });
  const lastOpened = () => { try { return JSON.parse(sessionStorage.getItem(LAST)) || []; } catch { return []; } };
  const remember = (hit) => {
    const one = { href: hit.getAttribute("href"), label: hit.querySelector(".label").textContent };
    try { sessionStorage.setItem(LAST, JSON.stringify([one, ...lastOpened().filter((other) => other.href !== one.href)].slice(0, KEPT))); } catch { /* no store: nothing is remembered */ }
  };
  const lastGroup = () => {
    const rows = lastOpened().filter((one) => typeof one.href === "string" && one.href.startsWith("/"));
    if (!rows.length) return null;
    const group = document.createElement("div"), title = document.createElement("h2"), lines = document.createElement("div");
    group.className = "hit-group"; title.textContent = "Last opened"; lines.className = "hit-list";
    for (const one of rows) {
      const hit = document.createElement("a");
      hit.className = "hit"; hit.href = one.href;
      hit.append(Shell.icon("history"), Shell.span(String(one.label), "label"), Shell.span("", "right"));
      lines.append(hit);
    }
    group.append(title, lines);
    return group;
  };

  /* A link is an option here; its group carries the name. */
  const take = (parts, words) => {
    list.replaceChildren(...parts);
    list.querySelectorAll(".hit-group").forEach((group, at) => {
      const title = group.querySelector("h2");
      title.id = `palette-group-${at}`;
      title.setAttribute("role", "presentation");
      group.setAttribute("role", "group");
      group.setAttribute("aria-labelledby", title.id);
      group.querySelector(".hit-list").setAttribute("role", "presentation");
    });
    list.querySelectorAll("a.hit").forEach((hit, at) => { hit.id = `palette-hit-${at}`; hit.tabIndex = -1; hit.setAttribute("role", "option"); });
    count.textContent = words;
    choose(0, false);
  };
  const show = (page) => {
    const hits = page.getElementById("hits");
    const parts = [...hits.children].map((part) => document.adoptNode(part));
    const last = input.value.trim() ? null : lastGroup();
    take(last ? [last, ...parts] : parts, hits.dataset.count);
  };
  /* Until the server answers, what is there already is narrowed to what still matches. */
  const narrow = () => {
    const text = input.value.replace(/^[>@#]/, "").trim().toLowerCase();
    for (const hit of list.querySelectorAll("a.hit")) hit.hidden = !hit.textContent.toLowerCase().includes(text);
    for (const group of list.querySelectorAll(".hit-group")) group.hidden = !group.querySelector("a.hit:not([hidden])");
    choose(0, false);
  };
  const ask = async () => {
    const mine = ++turn;
    const slow = setTimeout(() => { if (mine === turn) count.textContent = "searching"; }, SLOW_MS);
    try {
      const answer = await fetch(`/search?q=${encodeURIComponent(input.value)}`, { headers: { Accept: "text/html" } });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      const text = await answer.text();
      if (mine === turn) show(new DOMParser().parseFromString(text, "text/html"));
    } catch {
      if (mine === turn) count.textContent = "Search did not answer. Pages and actions still work.";
    } finally { clearTimeout(slow); }
  };

  const open = (text = "") => {
    if (dialog.open) return;
    input.value = text;
    dialog.showModal();
    input.focus();
    ask();
  };
  /* The browser gives the focus back to what had it. Where nothing had it, the hidden field would take the next keys until the page is drawn. */
  const close = () => {
    dialog.close();
    input.blur();
  };
  const go = (hit, inNewTab) => {
    remember(hit);
    if (inNewTab) window.open(hit.href, "_blank", "noopener");
    else location.href = hit.href;
  };

  input.addEventListener("input", () => { clearTimeout(asked); narrow(); asked = setTimeout(ask, LATER_MS); });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const moves = { ArrowDown: () => choose(chosen + 1), ArrowUp: () => choose(chosen - 1), Tab: () => nextGroup(event.shiftKey ? -1 : 1) };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); return; }
    const hit = options()[chosen];
    if (event.key === "Enter" && hit) { event.preventDefault(); go(hit, event.ctrlKey || event.metaKey); }
    if (event.key !== "Escape") return;
    event.preventDefault();
    if (input.value) { event.stopPropagation(); input.value = ""; ask(); } else close();
  });
  let pointer = "";
  list.addEventListener("pointermove", (event) => {
    const at = `${event.clientX} ${event.clientY}`, hit = event.target.closest("a.hit");
    if (hit && at !== pointer) choose(options().indexOf(hit), false); // not when the list moves under a still pointer
    pointer = at;
  });
  list.addEventListener("click", (event) => { const hit = event.target.closest("a.hit"); if (hit) remember(hit); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) close(); });
  dialog.addEventListener("close", () => { turn += 1; });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (dialog.open) close(); else open();
    }
  });
  for (const field of document.querySelectorAll("[data-palette]")) {
    field.addEventListener("click", (event) => { event.preventDefault(); open(field.value || ""); });
    field.addEventListener("input", () => open(field.value)); // typed into by keyboard
  }
  globalThis.Palette = { open };
})();
