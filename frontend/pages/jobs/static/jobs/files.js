/* The files of a job: the table becomes a tree that keys move in, and links swap its parts instead of the page.
   Arrows move, open and close; Enter shows a file or turns a folder; D downloads. Without this file links do the same. */
"use strict";

(() => {
  const view = () => document.getElementById("files-view");
  const rows = () => [...view().querySelectorAll("tbody tr")];
  const link = (row) => row.querySelector("a");
  let at = 0;

  const dress = () => {
    const table = document.getElementById("files-table");
    if (!table) return;
    table.setAttribute("role", "treegrid");
    rows().forEach((row, index) => {
      row.setAttribute("aria-level", row.dataset.level);
      if (row.dataset.open) row.setAttribute("aria-expanded", row.dataset.open);
      row.tabIndex = index === at ? 0 : -1;
      row.querySelectorAll("a").forEach((inner) => { inner.tabIndex = -1; });
    });
  };

  const focus = (index) => {
    const all = rows();
    at = Math.max(0, Math.min(index, all.length - 1));
    all.forEach((row, number) => { row.tabIndex = number === at ? 0 : -1; });
    all[at]?.focus();
  };

  /* Newer clicks win over answers that come late. */
  let asked = 0;
  const go = async (href, { keep }) => {
    asked += 1;
    const mine = asked;
    const response = await fetch(href, { headers: { Accept: "text/html" } });
    if (mine !== asked) return;
    const page = response.ok ? new DOMParser().parseFromString(await response.text(), "text/html") : null;
    const fresh = page?.getElementById("files-view");
    if (!fresh) { location.href = href; return; }
    view().replaceWith(document.adoptNode(fresh));
    history.replaceState(null, "", href);
    dress();
    if (keep) focus(at);
  };

  document.addEventListener("click", (event) => {
    const target = event.target.closest?.("#files-view a[href^='?']");
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const row = target.closest("tbody tr");
    if (row) at = rows().indexOf(row);
    go(target.href, { keep: Boolean(row) });
  });

  document.addEventListener("keydown", (event) => {
    const row = event.target.closest?.("#files-table tbody tr");
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = rows(), index = all.indexOf(row), level = Number(row.dataset.level), open = row.dataset.open;
    const keys = {
      ArrowDown: () => focus(index + 1),
      ArrowUp: () => focus(index - 1),
      Home: () => focus(0),
      End: () => focus(all.length - 1),
      ArrowRight: () => { if (open === "false") link(row).click(); else if (open === "true") focus(index + 1); },
      ArrowLeft: () => {
        if (open === "true") link(row).click();
        else focus(all.findLastIndex((other, number) => number < index && Number(other.dataset.level) < level));
      },
      Enter: () => link(row)?.click(),
      " ": () => link(row)?.click(),
      d: () => row.querySelector("a[download]")?.click(),
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  dress();
  new MutationObserver(() => { if (!view()?.querySelector("[role=treegrid]")) dress(); })
    .observe(document.getElementById("main") || document.body, { childList: true, subtree: true });
})();
