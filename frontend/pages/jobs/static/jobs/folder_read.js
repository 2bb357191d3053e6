/* Reads a folder that was chosen or dropped: its files, which of them are ignored, and their hashes. */
"use strict";

globalThis.FolderReading = (() => {
  const makeRules = globalThis.module.exports;
  const IGNORE_FILES = [".gitignore", ".clusterwebignore"];
  const NEVER = new Set([".git", "__pycache__"]);
  const MOST_HASHED_BYTES = 1024 * 1024 * 1024; // the browser hashes a file as a whole, in memory

  const sizeText = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"]; // as everywhere else
    const at = Math.min(units.length - 1, bytes ? Math.floor(Math.log2(bytes) / 10) : 0);
    const value = bytes / 1024 ** at;
    return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
  };

  const ofInput = (input) => {
    const files = [...input.files].map((file) => ({ path: file.webkitRelativePath.split("/").slice(1).join("/"), file }));
    return { name: input.files[0]?.webkitRelativePath.split("/")[0] ?? "", files };
  };

  const readAll = async (directory) => {
    const reader = directory.createReader();
    const entries = [];
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!some.length) return entries;
      entries.push(...some);
    }
  };

  const ofEntry = async (root) => {
    const files = [];
    const waiting = [[root, ""]];
    while (waiting.length) {
      const [directory, inside] = waiting.pop();
      for (const entry of await readAll(directory)) {
        const path = `${inside}${entry.name}`;
        if (entry.isDirectory) {
          if (NEVER.has(entry.name)) files.push({ path: `${path}/`, file: null });
          else waiting.push([entry, `${path}/`]);
        } else files.push({ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
      }
    }
    return { name: root.name, files };
  };

  /* As git does: rules of the nearest folder first, ignored folders are not looked into. */
  const withoutIgnored = async (files) => {
    const rules = new Map();
    for (const { path, file } of files) {
      const name = path.split("/").at(-1);
      if (!file || !IGNORE_FILES.includes(name)) continue;
      const inside = path.slice(0, path.length - name.length);
      const texts = rules.get(inside) ?? {};
      rules.set(inside, { ...texts, [name]: await file.text() });
    }
    for (const [inside, texts] of rules) {
      rules.set(inside, makeRules({ ignorecase: false }).add(IGNORE_FILES.map((name) => texts[name] ?? "").join("\n")));
    }
    const virtual = new Set(files.filter(({ path }) => path.endsWith("/pyvenv.cfg")).map(({ path }) => path.slice(0, -"pyvenv.cfg".length)));
    const known = new Map();
    const isIgnored = (path) => {
      if (known.has(path)) return known.get(path);
      const bare = path.replace(/\/$/, "");
      let answer = NEVER.has(bare.split("/").at(-1)) || virtual.has(path);
      for (let inside = bare.slice(0, bare.lastIndexOf("/") + 1); !answer; inside = inside.replace(/[^/]*\/$/, "")) {
        const said = rules.get(inside)?.test(path.slice(inside.length));
        if (said?.ignored || said?.unignored) {
          answer = said.ignored;
          break;
        }
        if (!inside) break;
      }
      known.set(path, answer);
      return answer;
    };
    const kept = [];
    const ignored = new Set();
    for (const entry of files) {
      const parts = entry.path.split("/");
      const above = parts.slice(0, -1).map((_, at) => `${parts.slice(0, at + 1).join("/")}/`);
      const by = [...above, ...(entry.file ? [entry.path] : [])].find(isIgnored);
      if (by) ignored.add(by);
      else if (entry.file) kept.push(entry);
    }
    return { kept, ignored: [...ignored].sort() };
  };

  const refuseTooMuch = (files, { mostFiles, mostBytes }) => {
    const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
    const advice = "Add it to .gitignore, or use a dataset.";
    if (!files.length) throw new Error("There is no file to send in this folder.");
    if (files.length > mostFiles) throw new Error(`The folder has ${files.length} files, the limit is ${mostFiles}. ${advice}`);
    const tops = new Map();
    for (const { path, file } of files) {
      const top = path.includes("/") ? `${path.split("/")[0]}/` : path;
      tops.set(top, (tops.get(top) ?? 0) + file.size);
    }
    const [largest, taken] = [...tops].sort((one, other) => other[1] - one[1])[0];
    if (bytes > mostBytes) {
      throw new Error(`${largest} is ${sizeText(taken)} of ${sizeText(bytes)}, the limit is ${sizeText(mostBytes)}. ${advice}`);
    }
    const huge = files.find(({ file }) => file.size > MOST_HASHED_BYTES);
    if (huge) throw new Error(`${huge.path} is ${sizeText(huge.file.size)}, too much for a browser. Run clusterweb submit . in the folder.`);
  };

  const hashed = async (files) => {
    const rows = [];
    for (const { path, file } of files) {
      let content;
      try {
        content = await file.arrayBuffer();
      } catch {
        throw new Error(`${path} cannot be read. It may have changed: choose the folder again.`);
      }
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
      const sha256 = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      // A browser does not tell which files may be run; a script says so in its first two bytes.
      const head = new Uint8Array(content, 0, Math.min(2, content.byteLength));
      const mode = head[0] === 0x23 && head[1] === 0x21 ? "755" : "644";
      rows.push({ path, mode, size: content.byteLength, sha256, digest, file });
    }
    return rows;
  };

  /* A guess what starts it: the one script on top that has a __main__. */
  const guessed = async (rows) => {
    const scripts = rows.filter(({ path }) => /^[^/]+\.py$/.test(path));
    const mains = [];
    for (const row of scripts) if (/__name__\s*==\s*["']__main__["']/.test(await row.file.text())) mains.push(row.path);
    if (mains.length === 1) return { path: mains[0], why: "It alone has a __main__." };
    if (scripts.length === 1) return { path: scripts[0].path, why: "It is the only script on top." };
    const known = ["train.py", "main.py"].find((name) => scripts.some(({ path }) => path === name));
    return known ? { path: known, why: "By its name." } : null;
  };

  /* The files on top that name its packages; a lock is exact, so it comes first, and is read with pyproject.toml alone. */
  const packagesOf = (rows) => {
    const has = (name) => rows.some(({ path }) => path === name);
    return ["uv.lock", "requirements.txt"].filter((name) => has(name) && (name !== "uv.lock" || has("pyproject.toml")));
  };

  return { ofInput, ofEntry, withoutIgnored, refuseTooMuch, hashed, guessed, packagesOf, sizeText };
})();
