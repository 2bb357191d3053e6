/* The frame's behaviour: theme, ages, menus, keys, copying, dialogs, toasts. Pages work without it.
   Text from outside is only ever set as textContent. */
"use strict";

const Shell = (() => {
  const root = document.documentElement;
  const NBSP = "\u00a0", THIN = "\u202f", MINUS = "\u2212";
  const looks = JSON.parse(document.getElementById("state-looks")?.textContent || "{}");

  const cookie = (name, value) => {
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `${name}=${encodeURIComponent(value)}; path=/; max-age=31536000; samesite=lax${secure}`;
  };
  const zone = root.dataset.zone || "UTC";
  cookie("zone", Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");

  /* Writing numbers, as frontend/components/formats.py does */
  const number = (value, digits = 0) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "not measured";
    const [whole, part] = Math.abs(value).toFixed(digits).split(".");
    const text = whole.replace(/\B(?=(\d{3})+$)/g, THIN) + (part ? `.${part}` : "");
    return value < 0 && Number(text.replaceAll(THIN, "")) !== 0 ? MINUS + text : text;
  };
  const significant = (value) => {
    const size = Math.abs(value);
    return number(value, size >= 100 || !size ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4);
  };
  const percent = (frac) => (frac === null || frac === undefined ? "not measured" : `${number(frac * 100)}${NBSP}%`);
  const dataSize = (bytes) => {
    let value = bytes, unit = "B";
    for (const larger of ["KiB", "MiB", "GiB", "TiB", "PiB"]) { if (value < 1024) break; value /= 1024; unit = larger; }
    return `${number(value, unit === "B" || value >= 100 ? 0 : 1)}${NBSP}${unit}`;
  };
  const duration = (seconds) => {
    if (Math.round(seconds) < 60) return `${Math.round(seconds)}${NBSP}s`;
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const rounded = seconds < 600 ? Math.round(seconds) : Math.round(seconds / 60) * 60;
    const first = units.findIndex(([, size]) => rounded >= size);
    const [unit, size] = units[first];
    const text = `${Math.floor(rounded / size)}${NBSP}${unit}`;
    const next = units[first + 1];
    const rest = next ? Math.floor((rounded % size) / next[1]) : 0;
    return rest ? `${text} ${rest}${NBSP}${next[0]}` : text;
  };
  const device = (count) => `${number(count)}${NBSP}${count === 1 ? root.dataset.deviceOne : root.dataset.deviceMany}`;
  const said = (text) => text.replace(/(?<!\w)(?<![A-Za-z_]-)GPUs?(?!\w)(?!-(?!h\b|hours?\b|seconds?\b))/g, (word) => (word.endsWith("s") ? root.dataset.deviceMany : root.dataset.deviceOne));
  const ago = (at) => {
    const seconds = (Date.now() - at) / 1000;
    if (Math.abs(seconds) < 1) return "now";
    return seconds > 0 ? `${duration(Math.max(1, Math.floor(seconds)))} ago` : `in ${duration(Math.max(1, Math.floor(-seconds)))}`;
  };
  const wallFormat = new Intl.DateTimeFormat("sv-SE", {
    timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  });
  const wall = (at) => wallFormat.format(new Date(at)); // "2025-11-22 14:32:05" in the page's zone, for chart axes

  /* Building parts */
  const icon = (name) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "i");
    svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", `${root.dataset.sprite}#${name}`);
    svg.append(use);
    return svg;
  };
  const badge = (state) => {
    const look = looks[state] || { tone: "mute", icon: "info", word: state };
    const element = document.createElement("span");
    element.className = `badge t-${look.tone}`;
    element.dataset.state = state;
    element.append(icon(look.icon), look.word);
    return element;
  };
  const setBadge = (slot, state) => {
    const old = slot?.querySelector(".badge");
    if (!old || old.dataset.state === state) return false;
    const fresh = badge(state);
    fresh.classList.add("flash");
    old.replaceWith(fresh);
    return true;
  };
  const set = (element, text) => {
    if (!element || element.textContent === text) return;
    element.textContent = text;
    element.classList.remove("flash");
    void element.offsetWidth; // restarts the animation
    element.classList.add("flash");
  };
  const progress = (part, { step, total_steps: total, steps_per_s: rate }) => {
    const frac = step !== null && step !== undefined && total ? Math.min(1, step / total) : null;
    const nodes = [];
    if (frac !== null) {
      const bar = part.querySelector(".bar") || Object.assign(document.createElement("span"), { className: "bar" });
      if (!bar.firstChild) bar.append(document.createElement("i"));
      bar.setAttribute("role", "progressbar");
      bar.setAttribute("aria-label", "Progress");
      bar.setAttribute("aria-valuemin", "0");
      bar.setAttribute("aria-valuemax", "100");
      bar.setAttribute("aria-valuenow", String(Math.round(frac * 100)));
      bar.firstElementChild.style.setProperty("--at", `${(frac * 100).toFixed(2)}%`);
      nodes.push(bar, span(percent(frac)));
    } else {
      nodes.push(step !== null && step !== undefined ? span(`step ${number(step)}`) : span("Progress not reported", "muted"));
    }
    if (rate !== null && rate !== undefined) nodes.push(span(`${significant(rate)} steps/s`, "muted"));
    part.replaceChildren(...nodes);
  };
  const span = (text, className = "") => Object.assign(document.createElement("span"), { textContent: text, className });

  /* Speaking: one polite region, at most one message in 10 s */
  let spoken = 0;
  const announce = (text) => {
    const region = document.getElementById("announce");
    if (!region || Date.now() - spoken < 10000) return;
    spoken = Date.now();
    region.textContent = text;
  };

  /* Toasts */
  const watchToast = (element) => {
    const close = element.querySelector("[data-toast-close]");
    if (close) {
      close.hidden = false;
      close.addEventListener("click", () => element.remove());
    }
    if (element.dataset.toast === "error") return;
    let timer = setTimeout(() => element.remove(), 6000);
    const hold = () => clearTimeout(timer);
    const go = () => { hold(); timer = setTimeout(() => element.remove(), 6000); };
    ["pointerenter", "focusin"].forEach((name) => element.addEventListener(name, hold));
    ["pointerleave", "focusout"].forEach((name) => element.addEventListener(name, go));
  };
  const toast = (text, tone = "ok") => {
    const element = document.createElement("div");
    element.className = `toast t-${tone}`;
    element.dataset.toast = tone === "bad" ? "error" : "success";
    element.setAttribute("role", tone === "bad" ? "alert" : "status");
    const close = document.createElement("button");
    close.type = "button";
    close.dataset.toastClose = "";
    close.setAttribute("aria-label", "Close");
    close.append(icon("x"));
    element.append(icon(tone === "bad" ? "triangle-alert" : "check"), span(text, "words"), close);
    document.getElementById("toasts").append(element);
    watchToast(element);
  };

  /* Theme */
  const dark = () => root.dataset.theme === "dark" || (root.dataset.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  const setTheme = (theme) => {
    root.dataset.theme = theme;
    cookie("theme", theme);
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("themechange")));

  const copyText = async (button, text) => {
    await navigator.clipboard.writeText(text);
    button.replaceChildren(icon("check"));
    announce("Copied");
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  };

  /* A cell that a spreadsheet would take for a formula gets an apostrophe. */
  const csvCell = (text) => {
    const plain = text.trim().replaceAll(THIN, "").replaceAll(NBSP, " ").replaceAll(MINUS, "-");
    const safe = /^[=+@\t\r]/.test(plain) || (/^-/.test(plain) && Number.isNaN(Number(plain))) ? `'${plain}` : plain;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const csv = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => csvCell(cell.textContent)).join(",")).join("\n") + "\n";

  /* Makes the scripted parts inside ``scope`` work; runs again on parts that a refresh swaps in. */
  const enhance = (scope) => {
    for (const button of scope.querySelectorAll("[data-copy]")) {
      button.hidden = false;
      button.onclick = () => copyText(button, button.dataset.copy || button.parentElement.querySelector("pre").textContent);
    }
    for (const table of scope.querySelectorAll("table[data-csv]")) {
      const tools = table.closest("details");
      if (!tools || tools.querySelector("[data-csv-link]")) continue;
      const link = Object.assign(document.createElement("button"), { type: "button", className: "btn small quiet" });
      link.dataset.csvLink = "";
      link.append(icon("download"), "CSV");
      link.onclick = () => {
        const url = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
        Object.assign(document.createElement("a"), { href: url, download: `${table.dataset.csv}.csv` }).click();
        setTimeout(() => URL.revokeObjectURL(url), 1000);
      };
      tools.append(link);
    }
    for (const opener of scope.querySelectorAll("[data-dialog]")) {
      opener.onclick = (event) => {
        const dialog = document.getElementById(opener.dataset.dialog); // of now: a live page gets new ones
        if (!dialog) return;
        event.preventDefault();
        dialog.showModal();
      };
    }
    for (const close of scope.querySelectorAll("[data-dialog-close]")) close.onclick = () => close.closest("dialog").close();
    for (const form of scope.querySelectorAll("[data-theme-form]")) {
      form.onsubmit = (event) => { event.preventDefault(); setTheme(dark() ? "light" : "dark"); };
    }
    for (const control of scope.querySelectorAll("select[data-submit]")) control.onchange = () => control.form.requestSubmit();
    scope.querySelectorAll("[data-toast]").forEach(watchToast);
  };

  const tick = () => {
    for (const element of document.querySelectorAll('time[data-time="ago"]')) {
      const text = ago(Date.parse(element.dateTime));
      if (element.textContent !== text) element.textContent = text;
    }
    for (const element of document.querySelectorAll('time[data-time="countdown"]')) {
      const seconds = Math.max(0, Math.round((Date.parse(element.dateTime) - Date.now()) / 1000));
      const text = seconds >= 3600 ? duration(seconds) : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
      if (element.textContent !== text) element.textContent = text;
    }
    for (const element of document.querySelectorAll("[data-since]")) {
      const text = duration(Math.max(0, (Date.now() - Date.parse(element.dataset.since)) / 1000));
      if (element.textContent !== text) element.textContent = text;
    }
  };

  /* Keys: / search, g + letter to go, j and k rows, Enter open, Esc close */
  const places = { o: "/", j: "/jobs", q: "/queues", c: "/cluster", r: "/rounds", w: "/whatif", n: "/jobs/new" };
  let leader = -Infinity;
  const moveRow = (step) => {
    const links = [...document.querySelectorAll("main .table tbody .name")].filter((link) => link.offsetParent);
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step))].focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      document.querySelectorAll("details[data-menu][open]").forEach((menu) => { menu.open = false; menu.querySelector("summary").focus(); });
      if (location.hash === "#rail") location.hash = "#content";
    }
    const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog[open]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.timeStamp - leader < 1200 && places[event.key]) { leader = -Infinity; location.href = places[event.key]; return; }
    if (event.key === "g") leader = event.timeStamp; // when it was typed: a busy page handles it later
    else if (event.key === "/") {
      if (globalThis.Palette) { event.preventDefault(); Palette.open(); }
    } else if (event.key === "?") document.getElementById("keys")?.showModal();
    else if (event.key === "j") moveRow(1);
    else if (event.key === "k") moveRow(-1);
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details[data-menu][open]")) if (!menu.contains(event.target)) menu.open = false;
    /* The whole row of a table opens what its name links to. */
    const row = event.target.closest?.("tr[data-open]");
    if (row && !event.target.closest("a, button, input, select, summary, label") && !String(getSelection())) row.querySelector(".name")?.click();
  });

  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  enhance(document);
  setInterval(tick, 1000);
  return { ago, announce, badge, dataSize, device, duration, enhance, icon, number, percent, progress, said, set, setBadge, significant, span, toast, wall };
})();
