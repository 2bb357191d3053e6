/* The wall lives: each frame of the cluster that brings something new fetches the page again; jobs that start fly from
   the line to their cells, preempted ones back; all else is swapped where it stands. */
"use strict";

(() => {
  const root = document.documentElement, roundS = Number(root.dataset.roundS) || 300;
  const EACH_MS = 2000, PAGE_MS = 20000, LATEST_MS = 60000, SILENT_MS = 40000, IN_MS = 1200, OUT_MS = 1600, AT_ONCE = 3, GAP_MS = 400, MOST_FLIGHTS = 12;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const byId = (id, from = document) => from.getElementById(id);
  let lastFrameAt = Date.now(), lastFetchAt = 0, seen = "", asked = 0, failures = 0;

  /* What stands where: cells of each job, and its row */
  const cellsOf = (page) => {
    const found = new Map();
    for (const cell of page.querySelectorAll(".cell[data-job]")) {
      const job = cell.dataset.job;
      if (job !== "0") found.set(job, [...(found.get(job) || []), cell]);
    }
    return found;
  };
  const rowsOf = (page) => new Map([...page.querySelectorAll("#line li")].map((row) => [row.dataset.job, row]));

  /* Moving: copies of cells go from one place to another, a few at a time */
  const waiting = [];
  let flying = 0;
  const next = () => {
    while (flying < AT_ONCE && waiting.length) {
      flying += 1;
      const flight = waiting.shift();
      flight().finally(() => { flying -= 1; setTimeout(next, GAP_MS); });
    }
  };
  const fly = ({ from, to, colour, ms }) => {
    const box = document.createElement("i");
    box.className = `flier ${colour}`;
    const start = from(), end = to();
    if (!start || !end) return Promise.resolve();
    Object.assign(box.style, { left: `${start.left}px`, top: `${start.top}px`, width: `${start.width}px`, height: `${start.height}px` });
    document.body.append(box);
    const moves = box.animate(
      [{ transform: "none", opacity: 0.9 }, { transform: `translate(${end.left - start.left}px, ${end.top - start.top}px)`, opacity: 0.9 }],
      { duration: ms, easing: "cubic-bezier(.2,0,0,1)" },
    );
    return moves.finished.catch(() => {}).then(() => box.remove());
  };
  const colourOf = (cell) => [...cell.classList].find((name) => /^q[0-8]$/.test(name)) || "q0";
  const small = (rect, cells) => rect && { left: rect.left, top: rect.top + rect.height / 3, width: cells[0].offsetWidth, height: cells[0].offsetHeight / 2 };

  const swapMap = (page) => {
    byId("map").replaceWith(document.adoptNode(byId("map", page)));
  };
  const swapLine = (page) => {
    byId("line").replaceWith(document.adoptNode(byId("line", page)));
  };

  const move = (page) => {
    const isTurned = byId("map").dataset.page !== byId("map", page).dataset.page; // other servers, and nothing moved
    const before = cellsOf(document), after = cellsOf(page), rowsBefore = rowsOf(document), rowsAfter = rowsOf(page);
    const started = [...after.keys()].filter((job) => !before.has(job));
    const stopped = [...before.keys()].filter((job) => !after.has(job));
    const many = started.length + stopped.length > MOST_FLIGHTS;
    root.dataset.moves = String(Number(root.dataset.moves || 0) + started.length + stopped.length);
    if (calm.matches || document.hidden || isTurned || many || !(started.length + stopped.length)) { swapMap(page); swapLine(page); return; }

    /* Where things stand before anything is swapped. */
    const places = new Map(started.map((job) => [job, rowsBefore.get(job)?.getBoundingClientRect()]));
    const left = new Map(stopped.map((job) => {
      const first = before.get(job)[0];
      return [job, { rect: first.getBoundingClientRect(), colour: colourOf(first) }];
    }));
    for (const job of started) {
      const row = rowsBefore.get(job);
      if (row) { row.classList.add("now"); row.querySelector(".why").textContent = "starts now"; }
    }
    swapMap(page);
    const cells = cellsOf(document);
    for (const job of started) {
      const targets = cells.get(job), colour = colourOf(targets[0]), row = places.get(job);
      targets.forEach((cell) => cell.classList.add("coming"));
      const edge = byId("line").getBoundingClientRect();
      waiting.push(() => Promise.all(targets.slice(0, 8).map((cell) => fly({
        from: () => small(row || { left: edge.left, top: edge.top, width: edge.width, height: 40 }, targets),
        to: () => cell.isConnected && cell.getBoundingClientRect(), colour, ms: IN_MS,
      }))).then(() => targets.forEach((cell) => cell.classList.remove("coming"))));
    }
    setTimeout(() => {
      swapLine(page);
      for (const job of stopped) {
        const row = rowsOf(document).get(job), was = left.get(job);
        if (!row || !rowsAfter.has(job)) continue; // completed: its cells are free, and that is all
        waiting.push(() => fly({ from: () => was.rect, to: () => row.isConnected && row.getBoundingClientRect(), colour: was.colour, ms: OUT_MS }));
      }
      next();
    }, started.some((job) => rowsBefore.has(job)) ? IN_MS : 0);
    next();
  };

  const swapParts = (page) => {
    for (const part of document.querySelectorAll("[data-part]")) {
      const fresh = byId(part.id, page);
      if (!fresh || fresh.isEqualNode(part)) continue;
      if (part.id === "news" && part.textContent !== fresh.textContent) fresh.querySelector("li")?.classList.add("fresh");
      part.replaceWith(document.adoptNode(fresh));
    }
  };
  const take = async () => {
    asked = 0;
    lastFetchAt = Date.now();
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected) { location.reload(); return; } // the link was revoked, or the session is over
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!byId("wall", page)) return;
    swapParts(page);
    move(page);
    tick();
  };
  const ask = () => { if (!asked) asked = setTimeout(() => take().catch(() => {}), Math.max(0, lastFetchAt + EACH_MS - Date.now())); };

  /* What of a frame says that the page would look different */
  const told = (frame) => JSON.stringify([
    frame.round, frame.allocated_gpus, frame.busy_gpus, frame.unknown_gpus, frame.waiting_jobs, frame.paused,
    frame.servers.map((server) => [server.state, server.gpus.map((gpu) => [gpu.healthy, gpu.allocated])]),
  ]);
  const open = () => {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live?groups=cluster`);
    socket.onopen = () => { failures = 0; root.dataset.live = "live"; lastFrameAt = Date.now(); ask(); };
    socket.onmessage = (event) => {
      lastFrameAt = Date.now();
      const frame = JSON.parse(event.data);
      if (frame.kind !== "cluster") return;
      const news = told(frame.data);
      if (news !== seen) { seen = news; ask(); }
    };
    socket.onclose = (event) => {
      root.dataset.live = "off";
      if (event.code === 4403) ask(); // tells a revoked link from a lost connection
      failures += 1;
      setTimeout(open, Math.min(30000, 500 * 2 ** failures) * (0.75 + Math.random() / 2));
    };
  };

  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hour12: false });
  const tick = () => {
    byId("clock").textContent = clock.format(new Date());
    const stale = Date.now() - lastFrameAt > SILENT_MS;
    root.classList.toggle("is-stale", stale);
    if (stale) {
      root.dataset.live = "stale";
      byId("headline").replaceChildren(Object.assign(document.createElement("b"), { textContent: `No update since ${clock.format(lastFrameAt)}.` }), " Jobs keep running.");
    }
    const round = byId("round"), due = Date.parse(round.dataset.due);
    if (Number.isNaN(due)) return;
    const leftS = Math.max(0, (due - Date.now()) / 1000), ticks = [...round.querySelectorAll(".ticks i")];
    const text = round.querySelector("[data-next]");
    if (text) text.textContent = `next in ${Math.floor(leftS / 60)}:${String(Math.floor(leftS % 60)).padStart(2, "0")}`;
    const gone = ticks.length * (1 - Math.min(1, leftS / roundS));
    ticks.forEach((cell, at) => { cell.className = at + 1 <= gone ? "" : at < gone ? "running" : "on"; });
  };

  let still = 0;
  const stir = () => { document.body.classList.remove("still"); clearTimeout(still); still = setTimeout(() => document.body.classList.add("still"), 3000); };
  document.addEventListener("pointermove", stir);
  stir();
  setInterval(tick, 1000);
  setInterval(() => { if (Date.now() - lastFetchAt > (byId("map").dataset.pages > 1 ? PAGE_MS : LATEST_MS)) ask(); }, 5000);
  let shift = 0; // against burn-in
  setInterval(() => { shift = (shift + 2) % 6; byId("wall").style.translate = `${shift - 2}px ${shift - 2}px`; }, 600000);
  document.cookie = `zone=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC")}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  tick();
  open();
})();
