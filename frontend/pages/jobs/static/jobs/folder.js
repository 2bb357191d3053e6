/* The folder of a new job: chosen or dropped, hashed here, and only what the server lacks is sent.

   Without scripts, or where the browser may not hash (plain http to another host), a zip or tar is sent with the form. */
"use strict";

(() => {
  const box = document.querySelector("[data-folder]");
  if (!box) return;
  const part = (name) => box.querySelector(`[data-folder-${name}]`);
  const fact = (name) => box.querySelector(`[data-fact="${name}"]`);
  const form = document.getElementById("job-form");
  const code = form.elements.code;
  const archive = form.elements.archive;
  const { sizeText } = globalThis.FolderReading;
  const BUNDLE_BYTES = 32 * 1024 * 1024;
  let sending = null; // AbortController of what is under way
  const guesses = {}; // what was last guessed, by field

  const counted = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

  const tell = (state, tone = "") => {
    part("state").textContent = state;
    part("state").className = `drop-state ${tone}`;
  };

  const refuse = (text) => {
    part("error").hidden = !text;
    part("error").querySelector("span").textContent = text;
    box.classList.toggle("wrong", Boolean(text));
  };

  const showSent = (done, total, since) => {
    part("bar").hidden = false;
    const frac = total ? done / total : 1;
    const bar = part("bar").querySelector(".bar");
    bar.setAttribute("aria-valuenow", String(Math.round(frac * 100)));
    bar.firstElementChild.style.setProperty("--at", `${frac * 100}%`);
    const seconds = (performance.now() - since) / 1000;
    const left = done && seconds > 1 ? `, ${Math.max(1, Math.round((seconds * (total - done)) / done))} s left` : "";
    part("sent").textContent = `${sizeText(done)} of ${sizeText(total)}${left}`;
  };

  /* A request that tells how much of it has gone. */
  const post = (path, body, type, { signal, onSent = () => {} }) =>
    new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", path);
      request.setRequestHeader("Content-Type", type);
      request.setRequestHeader("Accept", "application/json");
      request.setRequestHeader("X-CSRFToken", form.elements.csrfmiddlewaretoken.value);
      request.upload.addEventListener("progress", (event) => onSent(event.loaded));
      request.addEventListener("error", () => reject(new Error("The server does not answer. Choose the folder again: what has arrived is not sent again.")));
      request.addEventListener("abort", () => reject(new DOMException("cancelled", "AbortError")));
      request.addEventListener("load", () => {
        let answer = {};
        try {
          answer = JSON.parse(request.responseText);
        } catch {
          // the status says enough
        }
        if (request.status < 300) resolve(answer);
        else reject(new Error(answer.errors?.map((error) => error.detail).join(" ") || answer.detail || `The server answered ${request.status}.`));
      });
      signal.addEventListener("abort", () => request.abort());
      request.send(body);
    });

  const bundles = (rows) => {
    const found = [];
    let taken = Infinity;
    for (const row of rows) {
      if (taken + row.size > BUNDLE_BYTES) {
        found.push([]);
        taken = 0;
      }
      found.at(-1).push(row);
      taken += row.size;
    }
    return found;
  };

  const send = async (rows, signal) => {
    const manifest = { version: 1, files: rows.map(({ path, mode, size, sha256 }) => ({ path, mode, size, sha256 })) };
    let answer = await post("/api/v1/code", JSON.stringify(manifest), "application/json", { signal });
    const lacking = new Set(answer.missing);
    const missing = [...new Map(rows.filter(({ sha256 }) => lacking.has(sha256)).map((row) => [row.sha256, row])).values()];
    const total = answer.missing_bytes;
    const since = performance.now();
    let done = 0;
    for (const bundle of bundles(missing)) {
      const body = new Blob(bundle.flatMap(({ digest, file }) => [digest, file]));
      const size = bundle.reduce((sum, row) => sum + row.size, 0);
      const onSent = (bytes) => showSent(done + Math.min(bytes, size), total, since);
      answer = await post(`/api/v1/code/${answer.manifest}/blobs`, body, "application/octet-stream", { signal, onSent });
      done += size;
      showSent(done, total, since);
    }
    if (!answer.complete) throw new Error("The folder did not arrive whole. Choose it again: what has arrived is not sent again.");
    return { answer, sent: missing.length, sentBytes: total };
  };

  /* What was written by hand: neither as the page came, nor put there by a folder. */
  const ofSpec = {}; // by field: what the spec of a folder put there, and what stood there before
  const reading = (field) => (field.type === "checkbox" ? field.checked : field.value);
  const isTyped = (field) => {
    if (!field.name || ["hidden", "file", "submit", "button"].includes(field.type)) return false;
    if (field.value === guesses[field.name] || reading(field) === ofSpec[field.name]?.now) return false;
    if (field.type === "checkbox") return field.checked !== field.defaultChecked;
    if ("sent" in form.dataset && field.value) return true;
    const first = field.options ? [...field.options].find((option) => option.defaultSelected)?.value ?? field.options[0].value : field.defaultValue;
    return field.value !== first;
  };
  const put = (field, value) => {
    if (field.type === "checkbox") field.checked = value;
    else field.value = value;
    const folded = field.closest("details");
    if (folded && value) folded.open = true;
    if (field.name.startsWith("file-")) field.dispatchEvent(new Event("input", { bubbles: true })); // the next row follows
  };

  /* A job.yaml on top of the folder says what runs, as for clusterweb submit. Returns whether there is one. */
  const fillFromSpec = async (signal) => {
    const body = new FormData(form);
    for (const name of ["upload", "archive"]) body.delete(name);
    body.set("action", "folder");
    body.set("typed", [...form.elements].filter(isTyped).map(({ name }) => name).join(","));
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, signal, headers: { Accept: "text/html" } });
    if (response.redirected || ![200, 422].includes(response.status)) return false;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const said = page.querySelector("[data-from-folder]");
    if (!said) return false;
    if (said.dataset.fromFolder === "wrong") {
      refuse(said.textContent);
      return true;
    }
    for (const field of page.getElementById("job-form").elements) {
      const mine = form.elements[field.name];
      if (!mine || mine.name !== field.name || ["hidden", "file", "submit", "button"].includes(field.type) || reading(field) === reading(mine)) continue;
      ofSpec[field.name] = { before: ofSpec[field.name]?.before ?? reading(mine), now: reading(field) };
      put(mine, reading(field));
    }
    part("hint").textContent = said.textContent;
    return true;
  };

  /* What is typed is never overwritten: a guess goes into an empty field, or in the place of the last guess. */
  const fill = (name, value) => {
    const field = form.elements[name];
    if (!field.value.trim() || field.value === guesses[name]) field.value = guesses[name] = value;
  };

  const showFacts = async (rows, ignored, { answer, sent, sentBytes }, hasSpec) => {
    fact("sent").textContent = sent ? `${counted(sent, "file")} sent, ${sizeText(sentBytes)}` : "Nothing to send";
    fact("had").textContent = `${answer.files - sent} were already on the server`;
    fact("ignored").textContent = ignored.length ? `${ignored.length} ignored` : "Nothing ignored";
    fact("ignored-names").textContent = ignored.slice(0, 3).join(", ") + (ignored.length > 3 ? ", …" : "");
    fact("ignored-names").title = ignored.slice(0, 200).join("\n");
    const found = hasSpec ? null : await globalThis.FolderReading.guessed(rows);
    fact("guess").textContent = hasSpec ? "Its job file says what runs" : found ? `Starts with ${found.path}, guessed` : "No script to start was found";
    fact("guess-why").textContent = hasSpec ? "No guess is made." : found ? found.why : "Write the command above.";
    if (found) fill("command", `python ${found.path}`);
    const [packages, other] = globalThis.FolderReading.packagesOf(rows);
    fact("packages").textContent = packages ? `Packages of ${packages}, guessed` : "No requirements.txt or uv.lock";
    fact("packages-why").textContent = !packages ? "The job gets the Python of the server." : other ? `It is exact; ${other} is not read.` : "The environment is built once, for all jobs with this file.";
    if (!hasSpec) fill("python", packages || "");
    part("facts").hidden = false;
    code.dispatchEvent(new Event("change", { bubbles: true })); // what was filled in is previewed
  };

  const show = (name, answer, since) => {
    const seconds = (performance.now() - since) / 1000;
    code.value = answer.manifest;
    part("name").textContent = `${name}  ${counted(answer.files, "file")}, ${sizeText(answer.bytes)}`;
    part("hint").textContent = "Drop another folder here to replace it.";
    part("clear").hidden = false;
    fill("name", name.replace(/\.(zip|tar|tgz|tar\.\w+)$/i, "").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 80));
    const at = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    tell(`Received ${at}, in ${seconds.toFixed(1)} s`, "ok");
  };

  /* Runs one sending; the one before gives way. */
  const during = async (work) => {
    sending?.abort();
    const mine = new AbortController();
    sending = mine;
    refuse("");
    tell("Reading …"); // what was received before is not what is chosen now
    part("facts").hidden = true;
    box.setAttribute("aria-busy", "true");
    try {
      await work(mine.signal);
    } catch (error) {
      if (sending !== mine) return;
      tell("");
      if (error.name !== "AbortError") refuse(error.message);
    } finally {
      if (sending === mine) {
        sending = null;
        part("bar").hidden = true;
        box.removeAttribute("aria-busy");
      }
    }
  };

  const take = (folder) =>
    during(async (signal) => {
      const since = performance.now();
      const { name, files } = await folder;
      const { kept, ignored } = await globalThis.FolderReading.withoutIgnored(files);
      globalThis.FolderReading.refuseTooMuch(kept, { mostFiles: Number(box.dataset.mostFiles), mostBytes: Number(box.dataset.mostBytes) });
      tell(`Looking at ${counted(kept.length, "file")} …`);
      const rows = await globalThis.FolderReading.hashed(kept);
      signal.throwIfAborted();
      tell("Sending …");
      const found = await send(rows, signal);
      show(name, found.answer, since);
      await showFacts(rows, ignored, found, await fillFromSpec(signal));
    });

  const takeArchive = (file) =>
    during(async (signal) => {
      tell("Sending …");
      const since = performance.now();
      const onSent = (bytes) => {
        showSent(Math.min(bytes, file.size), file.size, since);
        if (bytes >= file.size) tell("Unpacking …");
      };
      const answer = await post("/api/v1/code/archive", file, "application/octet-stream", { signal, onSent });
      archive.value = "";
      show(file.name, answer, since);
      await fillFromSpec(signal);
      code.dispatchEvent(new Event("change", { bubbles: true }));
    });

  archive.addEventListener("change", () => {
    if (archive.files.length) takeArchive(archive.files[0]);
  });
  part("cancel").addEventListener("click", () => sending?.abort());
  part("clear").addEventListener("click", () => {
    sending?.abort();
    code.value = "";
    for (const name of Object.keys(guesses)) fill(name, "");
    for (const [name, { before, now }] of Object.entries(ofSpec)) {
      if (reading(form.elements[name]) === now) put(form.elements[name], before);
      delete ofSpec[name];
    }
    part("name").textContent = "No folder yet";
    part("hint").textContent = "Drop a folder anywhere on this page, or choose one.";
    part("facts").hidden = part("clear").hidden = true;
    tell("");
    refuse("");
    code.dispatchEvent(new Event("change", { bubbles: true }));
  });
  part("actions").hidden = false;
  if (!globalThis.crypto?.subtle) {
    part("choose").hidden = true;
    part("hint").textContent = "This page came by plain http, so the browser may not read folders. Choose a zip or tar below.";
  } else if (!code.value) {
    const command = document.createElement("code");
    command.textContent = "clusterweb submit .";
    part("hint").replaceChildren("Drop a folder anywhere on this page, or run ", command, " in it.");
  }
  part("choose").addEventListener("click", () => part("input").click());
  part("input").addEventListener("change", (event) => {
    if (event.target.files.length) take(Promise.resolve(globalThis.FolderReading.ofInput(event.target)));
    event.target.value = "";
  });

  /* The whole page takes a folder while one is dragged over it. */
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0;
  const over = (isOver) => document.body.classList.toggle("drops", isOver);
  document.addEventListener("dragenter", (event) => {
    if (hasFiles(event)) over((depth += 1) > 0);
  });
  document.addEventListener("dragleave", (event) => {
    if (hasFiles(event)) over((depth -= 1) > 0);
  });
  document.addEventListener("dragover", (event) => {
    if (hasFiles(event)) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    over(false);
    depth = 0;
    const entry = event.dataTransfer.items[0]?.webkitGetAsEntry?.();
    if (entry?.isDirectory && globalThis.crypto?.subtle) take(globalThis.FolderReading.ofEntry(entry));
    else if (entry?.isDirectory) refuse("This page came by plain http, so the browser may not read folders. Drop a zip or tar of it.");
    else if (/\.(zip|tar|tgz|gz|bz2|xz)$/i.test(event.dataTransfer.files[0]?.name ?? "")) takeArchive(event.dataTransfer.files[0]);
    else refuse("Drop a folder, a zip or a tar. Small text files go below.");
  });
})();
