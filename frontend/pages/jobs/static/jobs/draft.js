/* Keeps what is written in the form for a new job while this tab is open: an ended session, a reload or the way back
   would bring the form empty. Kept until the server says that it stored the job (cookie), by reader and address.
   Of a page that came filled, by a clone or a template, only what was changed: the rest comes with the page again.

   Never kept: values of the environment that may be secrets, files with something like a key in them, uploads. */
"use strict";

(() => {
  const form = document.querySelector("[data-job-form]");
  const note = document.querySelector("[data-draft-note]");
  if (!form) return;
  const { elements } = form;
  const query = new URLSearchParams(location.search);
  query.delete("mode");
  const key = ["draft", form.dataset.reader, `${location.pathname}?${query}`].join(" ");
  const SECRET_NAME = /(KEY|TOKEN|PAT|PASS|PASSWORD|PASSWD|PASSCODE|PASSPHRASE|PWD|AUTH|SECRET|CREDENTIALS?)$/i;
  const HARMLESS = /^(\{\s*secret\s*:[^{}]*\}|[+-]?[\d.,_:]*(e[+-]?\d+)?|true|false|yes|no|on|off|none|null|[~./][^@]*)$/i;
  const LOOKS_SECRET = /PRIVATE KEY-----|\b(AKIA|ASIA)[A-Z0-9]{16}|\b(gh[pousr]_|github_pat_|hf_|glpat-|sk-|xox[a-z]-|wandb_v1_)[\w-]{16,}|:\/\/[^/\s:@]*:[^/\s@{$<]+@|(KEY|TOKEN|PASS(WORD|WD|CODE|PHRASE)?|PWD|AUTH|SECRET|CREDENTIALS?)["']?\s*[:= ]\s*["']?[^"'\s${]{6,}/i;
  const ENV = /^env:[ \t]*\n(?:[ \t]+[\w.-]+:.*\n|[ \t]*\n)+(?=\w+:|$(?![^]))/m;
  const OF_PAGE = "\u0001"; // stands in a draft for what is not kept, but comes with the page
  const MOST_CHARS = 2_000_000; // of what browsers give a tab

  /* What stands in a field as the page came; of a form that was sent back it is what was typed, so nothing. */
  const asItCame = (field) => {
    if ("sent" in form.dataset || !field) return null;
    if (field.type === "checkbox") return field.defaultChecked;
    if (field.options) return ([...field.options].find((option) => option.defaultSelected) ?? field.options[0])?.value;
    return field.defaultValue;
  };

  /* The environment without what may be a secret, and the names that are left out. */
  const harmlessLines = (text, came) => {
    const left = [];
    const ofPage = came?.split("\n") ?? [];
    const lines = text.split("\n").flatMap((line) => {
      const [name, ...rest] = line.split("=");
      const value = rest.join("=").trim();
      const isRef = value.startsWith("{");
      if (HARMLESS.test(value) && (isRef || !SECRET_NAME.test(name.trim()))) return [line];
      if (ofPage.includes(line)) return [`${OF_PAGE}${ofPage.indexOf(line)}`];
      left.push(`the value of ${name.trim().slice(0, 40)}`);
      return [];
    });
    return [lines.join("\n"), left];
  };

  /* A spec without its environment where that is a plain block of names and values before another key. With any other
     kind of environment it is not kept at all: where such a one ends only a parser knows. */
  const harmlessSpec = (text, came) => {
    const env = text.match(ENV)?.[0];
    const isOfPage = Boolean(env) && env === came?.match(ENV)?.[0];
    const bare = text.replace(ENV, isOfPage ? `${OF_PAGE}\n` : "");
    if (LOOKS_SECRET.test(bare) || /\benv\b["']?\s*:/.test(bare)) return [null, ["the spec, which has an environment"]];
    return [bare, bare === text || isOfPage ? [] : ["env"]];
  };

  /* A kept text with what comes with the page in its place. */
  const whole = (name, text) => {
    const came = asItCame(elements[name]) ?? "";
    if (name === "spec") return text.replace(`${OF_PAGE}\n`, () => came.match(ENV)?.[0] ?? "");
    if (name !== "env") return text;
    return text.split("\n").flatMap((line) => (line.startsWith(OF_PAGE) ? (came.split("\n")[line.slice(1)] ?? []) : [line])).join("\n");
  };

  const kept = () => {
    const fields = {};
    const left = [];
    for (const field of elements) {
      const { name, type, value, checked, files } = field;
      const came = asItCame(field);
      if (!name || ["submit", "button"].includes(type)) continue;
      if (type !== "file" && name !== "code" && (type === "checkbox" ? checked : value) === came) continue;
      if (type === "file") left.push(...[...files].map((file) => file.name.slice(0, 60)));
      else if (type === "checkbox") fields[name] = checked;
      else if (name === "env" || name === "spec") {
        const [text, without] = (name === "env" ? harmlessLines : harmlessSpec)(value, came);
        if (text !== null) fields[name] = text;
        left.push(...without);
      } else if (LOOKS_SECRET.test(value)) {
        left.push((/^file-\d+-(text|kept)$/.test(name) && elements[name.replace(/\w+$/, "name")]?.value) || name);
      }
      else if (type !== "hidden" || name === "code") fields[name] = value;
    }
    return { fields, left };
  };

  const save = () => {
    try {
      const folder = elements.code?.value ? form.querySelector("[data-folder-name]").textContent : "";
      const text = JSON.stringify({ at: Date.now(), mode: elements.mode.value, once: elements.once.value, folder, ...kept() });
      if (text.length < MOST_CHARS) sessionStorage.setItem(key, text);
    } catch { /* full, or refused: the form works without */ }
  };

  const drafted = () => {
    const draft = JSON.parse(sessionStorage.getItem(key) ?? "null");
    const stored = document.cookie.match(/(?:^|; )job-forms-stored=([^;]*)/)?.[1].split(".") ?? [];
    if (!draft || !stored.includes(draft.once)) return draft;
    sessionStorage.removeItem(key);
    return null;
  };

  const put = (name, value) => {
    const field = elements[name];
    if (!field || field.name !== name || value === (field.type === "checkbox" ? field.checked : field.value)) return false;
    if (field.type === "checkbox") field.checked = value;
    else field.value = value;
    const folded = field.closest("details");
    if (folded) folded.open = true;
    if (name.startsWith("file-")) field.dispatchEvent(new Event("input", { bubbles: true })); // the next row follows
    return true;
  };

  const restore = (draft) => {
    const changed = Object.entries(draft.fields).filter(([name, value]) => put(name, typeof value === "string" ? whole(name, value) : value));
    if (!changed.length && !draft.left.length) return;
    elements.once.value = draft.once; // sent a second time, it is stored once
    if (draft.fields.code) {
      form.querySelector("[data-folder-name]").textContent = draft.folder;
      form.querySelector("[data-folder-hint]").textContent = "On the server. Choose another one to replace it.";
      form.querySelector("[data-folder-clear]").hidden = false;
    }
    const at = new Date(draft.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const left = draft.left.length ? ` Not kept, add again: ${draft.left.join(", ")}.` : "";
    note.querySelector("[data-draft-words]").textContent = `Your draft from ${at} was restored.${left}`;
    note.hidden = false;
    form.dispatchEvent(new Event("input")); // the preview follows
  };

  note.querySelector("a").addEventListener("click", () => sessionStorage.removeItem(key));
  const draft = drafted();
  if ("sent" in form.dataset) save(); // it came back with what was typed
  else if (draft?.mode === "yaml" && elements.mode.value === "form") {
    query.set("mode", "yaml");
    location.replace(`?${query}`);
  } else if (draft?.mode === elements.mode.value) restore(draft);
  form.addEventListener("input", save);
  form.addEventListener("change", save);
  form.addEventListener("submit", save);
})();
