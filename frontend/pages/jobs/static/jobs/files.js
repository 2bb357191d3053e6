/* The files of a job: the table becomes a tree that keys move in, links swap its parts instead of the page, and what is
   selected is downloaded together. Arrows move, open and close, and select with Shift; Space selects, with Shift a range, as
   a click on a box does; Enter shows a file or turns a folder; D downloads what is selected, else the row; / filters names. The first two selected files are the previews. On a narrow screen a
   preview is a page of its own, and boxes open none. Without this file links and boxes do the same, but nothing is counted. */
"use strict";

(() => {
  const view = () => document.getElementById("files-view");
  const rows = () => [...view().querySelectorAll("tbody tr")];
  const link = (row) => row.querySelector("a");
  const box = (row) => row.querySelector("input");
  const boxes = () => rows().map(box).filter(Boolean);
  const narrow = matchMedia("(max-width: 859.98px)");
  const chosen = new Map(); // by path, in the order of selection; also what is in closed folders
  let at = 0, key = "", anchor = "", compared = "", stretch = -1; // the row where arrows with Shift began

  const stand = (index) => {
    const all = rows();
    at = Math.max(0, Math.min(index, all.length - 1));
    key = all[at]?.dataset.key;
    all.forEach((row, number) => { row.tabIndex = number === at ? 0 : -1; });
    return all[at];
  };
  const focus = (index) => stand(index)?.focus();

  /* What is selected. A folder has all that is in it: of that nothing is selected by itself. */
  const isIn = (path, folder) => path.startsWith(`${folder}/`);
  const covered = (path) => [...chosen.keys()].some((folder) => isIn(path, folder));
  const about = ({ dataset }) => ({ files: Number(dataset.files), bytes: Number(dataset.bytes), isFolder: "folder" in dataset });
  const choose = (input, on) => {
    if (!on) chosen.delete(input.value);
    else if (!covered(input.value)) {
      for (const path of [...chosen.keys()]) if (isIn(path, input.value)) chosen.delete(path);
      chosen.set(input.value, about(input));
    }
  };

  /* What a running job has removed is selected no more; what it has written since has another size. */
  const renew = () => {
    if (document.getElementById("files-match").value) return; // not all is listed
    const listed = new Map(boxes().map((input) => [input.value, input]));
    const row = (name) => rows().find(({ dataset }) => dataset.key === name);
    for (const path of [...chosen.keys()]) {
      const folder = path.split("/").slice(0, -1).join("/");
      const isAllListed = (!folder || row(folder)?.dataset.open === "true") && !row(`${folder}/`);
      if (listed.has(path)) chosen.set(path, about(listed.get(path)));
      else if (isAllListed) chosen.delete(path);
    }
  };

  const address = (form, action = form.getAttribute("action")) => `${action}?${new URLSearchParams([...chosen.keys()].map((path) => ["path", path]))}`;
  const tell = () => {
    const form = document.getElementById("files-form"), foot = document.getElementById("files-foot");
    const all = [...chosen.values()], sum = (name) => all.reduce((total, one) => total + one[name], 0);
    const isTooMuch = all.length > form.dataset.mostPaths || address(form).length > form.dataset.mostAddress;
    const hasFolder = all.some(({ isFolder }) => isFolder), files = sum("files");
    const size = `${hasFolder && "least" in form.dataset ? "at least " : ""}${Shell.dataSize(sum("bytes"))}`;
    const count = Object.assign(document.createElement("b"), { textContent: `${Shell.number(all.length)} selected` });
    const words = isTooMuch
      ? "is too much for one download. Select a folder instead."
      : hasFolder ? `${Shell.number(files)} ${files === 1 ? "file" : "files"}, ${size}` : size;
    foot.querySelector("p").replaceChildren(...(all.length ? [count, ` ${words}`] : ["Space or a tick selects, Shift a range."]));
    foot.classList.toggle("none", !all.length);
    foot.querySelector("[type=reset]").hidden = !all.length;
    const button = foot.querySelector("[type=submit]");
    button.disabled = isTooMuch;
    const remove = foot.querySelector("[formaction]");
    if (remove) {
      remove.hidden = !all.length;
      remove.disabled = isTooMuch;
      remove.querySelector("span").textContent = `Delete ${Shell.number(all.length)}`;
    }
    button.querySelector("span").textContent = all.length ? "Download zip" : button.dataset.all;
  };
  const show = () => {
    for (const input of boxes()) {
      input.disabled = covered(input.value);
      input.checked = input.disabled || chosen.has(input.value);
      input.indeterminate = !input.checked && [...chosen.keys()].some((path) => isIn(path, input.value));
      input.closest("tr").setAttribute("aria-selected", String(input.checked));
    }
    tell();
  };

  const dress = () => {
    const table = document.getElementById("files-table");
    if (!table) return;
    table.setAttribute("role", "treegrid");
    table.setAttribute("aria-multiselectable", "true");
    for (const row of rows()) {
      row.setAttribute("aria-level", row.dataset.level);
      if (row.dataset.open) row.setAttribute("aria-expanded", row.dataset.open);
      row.querySelectorAll("a, input").forEach((inner) => { inner.tabIndex = -1; });
    }
    const same = rows().findIndex(({ dataset }) => dataset.key === key);
    stand(same < 0 ? at : same);
    renew();
    show();
  };

  /* Nothing is swapped between the two halves of a click, and newer clicks win over answers that come late. */
  let released = Promise.resolve(), asked = 0;
  document.addEventListener("pointerdown", () => {
    released = new Promise((resolve) => {
      for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => setTimeout(resolve), { once: true });
    });
  }, true);
  const go = async (href, { isBack = false } = {}) => {
    asked += 1;
    const mine = asked;
    const response = await fetch(href, { headers: { Accept: "text/html" } }).catch(() => null);
    const page = response?.ok ? new DOMParser().parseFromString(await response.text(), "text/html") : null;
    await released;
    if (mine !== asked) return;
    const fresh = page?.getElementById("files-view");
    if (!fresh) { location.href = href; return; }
    const before = document.activeElement, isInTree = before.closest("#files-table tbody") !== null;
    const label = before.closest(".previews") && before.getAttribute("aria-label");
    const typed = before.id === "files-match" && { value: before.value, at: before.selectionStart };
    const opens = narrow.matches && fresh.classList.contains("chosen") && !view().classList.contains("chosen");
    view().replaceWith(document.adoptNode(fresh));
    if (!isBack) history[opens ? "pushState" : "replaceState"](null, "", href);
    dress();
    if (typed) {
      const field = document.getElementById("files-match");
      field.value = typed.value;
      field.focus();
      field.setSelectionRange(typed.at, typed.at);
    } else if (opens) {
      scrollTo(0, 0);
      view().querySelector(".small-back").focus();
    } else if (isInTree || (narrow.matches && !view().classList.contains("chosen"))) focus(at);
    else if (label) view().querySelector(`.previews [aria-label="${CSS.escape(label)}"]`)?.focus();
  };
  addEventListener("popstate", () => { if (view()) go(location.href, { isBack: true }); });

  /* The first two selected files are shown, as long as they stay the same two. */
  const compare = () => {
    const two = [...chosen].filter(([, { isFolder }]) => !isFolder).slice(0, 2).map(([path]) => path);
    if (narrow.matches || two.join("\n") === compared) return;
    compared = two.join("\n");
    if (!two.length) return;
    const here = new URLSearchParams(view().dataset.here);
    here.delete("show");
    two.forEach((path) => here.append("show", path));
    go(`?${here}`);
  };

  /* From the row where it began to where it has come; a row that it leaves again is selected no more. */
  const extend = (index, step) => {
    const all = rows(), to = Math.max(0, Math.min(index + step, all.length - 1));
    if (stretch < 0) stretch = index;
    const isAway = Math.abs(to - stretch) > Math.abs(index - stretch);
    for (const one of isAway ? [index, to] : [index]) {
      const input = box(all[one]);
      if (input && !input.disabled) choose(input, isAway);
    }
    anchor = box(all[stretch])?.value ?? anchor;
    focus(to);
    show();
    compare();
  };

  const pick = (input, isRange) => {
    stretch = -1;
    const all = boxes(), on = input.checked, to = all.indexOf(input);
    const from = isRange ? all.findIndex(({ value }) => value === anchor) : -1;
    const picked = from < 0 ? [input] : all.slice(Math.min(from, to), Math.max(from, to) + 1);
    if (to < from) picked.reverse();
    picked.forEach((one) => choose(one, on));
    if (from < 0) anchor = input.value;
    stand(rows().indexOf(input.closest("tr")));
    show();
    compare();
  };

  document.addEventListener("mousedown", (event) => {
    if (event.shiftKey && event.target.closest?.("#files-table .pick")) event.preventDefault(); // it would mark text
  });
  document.addEventListener("click", (event) => {
    const input = event.target.closest?.("#files-table input");
    if (input) {
      input.focus(); // as it was not by the press, with Shift
      pick(input, event.shiftKey);
      return;
    }
    const target = event.target.closest?.("#files-view a[href^='?']");
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const row = target.closest("tbody tr");
    if (row) stand(rows().indexOf(row));
    go(target.href);
  });
  const download = (href) => Object.assign(document.createElement("a"), { href, download: "" }).click();
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "files-form") return;
    event.preventDefault();
    const removes = event.submitter?.getAttribute("formaction");
    if (removes) location.href = address(event.target, removes); // a page that asks
    else download(chosen.size ? address(event.target) : event.target.getAttribute("action"));
  });
  document.addEventListener("reset", (event) => {
    if (event.target.id !== "files-form") return;
    event.preventDefault();
    chosen.clear();
    compared = "";
    show();
    focus(at);
  });

  const filter = () => {
    const here = new URLSearchParams(view().dataset.here), match = document.getElementById("files-match").value.trim();
    here.delete("match");
    if (match) here.set("match", match);
    go(`?${here}`);
  };
  let typing = 0;
  document.addEventListener("input", ({ target }) => {
    if (target.id !== "files-match") return;
    clearTimeout(typing);
    typing = setTimeout(filter, 150);
  });
  /* Before the palette takes the key, which has Ctrl+K as well. */
  document.addEventListener("keydown", (event) => {
    const field = document.getElementById("files-match"), { target } = event;
    if (!field || event.ctrlKey || event.metaKey || event.altKey) return;
    const isHere = target === document.body || (target.closest?.("#files-view") && target !== field);
    if (event.key === "/" && isHere) {
      field.focus(); // not every browser does so by the next line
      field.select();
    } else if (event.key === "ArrowDown" && target === field) focus(0);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  document.addEventListener("keydown", (event) => {
    const row = event.target.closest?.("#files-table tbody tr");
    if (event.key !== "Shift" && !(event.shiftKey && event.key.startsWith("Arrow"))) stretch = -1;
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && event.target.matches("input")) return; // it turns by itself, and is clicked by that
    const all = rows(), index = all.indexOf(row), level = Number(row.dataset.level), open = row.dataset.open, input = box(row);
    const keys = {
      ArrowDown: () => (event.shiftKey ? extend(index, 1) : focus(index + 1)),
      ArrowUp: () => (event.shiftKey ? extend(index, -1) : focus(index - 1)),
      Home: () => focus(0),
      End: () => focus(all.length - 1),
      ArrowRight: () => { if (open === "false") link(row).click(); else if (open === "true") focus(index + 1); },
      ArrowLeft: () => {
        if (open === "true") link(row).click();
        else if (level > 1) focus(all.findLastIndex((other, number) => number < index && Number(other.dataset.level) < level));
      },
      Enter: () => link(row)?.click(),
      " ": () => {
        if (!input || input.disabled) return;
        input.checked = !input.checked;
        pick(input, event.shiftKey);
      },
      d: () => {
        const form = document.getElementById("files-form");
        if (!chosen.size) row.querySelector("a[download]")?.click();
        else if (!form.querySelector("[type=submit]").disabled) download(address(form));
      },
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  if (view()) boxes().filter(({ checked }) => checked).forEach((input) => choose(input, true)); // a browser that went back
  dress();
  new MutationObserver(() => { if (view() && !view().querySelector("[role=treegrid]")) dress(); })
    .observe(document.getElementById("main") || document.body, { childList: true, subtree: true });
})();
