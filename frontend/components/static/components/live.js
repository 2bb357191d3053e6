/* Live updates: one socket a page, a REST snapshot at each connect, frames after it, reconnect with back-off.
   Live.connect(groups, handler): handler(kind, data) for each frame; Live.refresh(): swap the parts marked
   data-live-part for what the server renders now. */
"use strict";

const Live = (() => {
  const root = document.documentElement;
  const roundS = Number(root.dataset.roundS || 300);
  const groups = new Set();
  const handlers = [];
  const states = new Map(); // job id -> last known state, for announcements
  let socket = null, failures = 0, opened = 0, paused = false, timer = 0, retryAt = 0;
  let lastFrameAt = 0, roundFinishedAt = 0, cluster = null, refused = false, tooMany = "", asked = 0, lastRefresh = 0;

  const fresh = (name) => document.querySelectorAll(`[data-fresh="${name}"]`);
  const write = (name, text) => fresh(name).forEach((element) => { if (element.textContent !== text) element.textContent = text; });

  const dispatch = (kind, data) => {
    if (kind === "cluster" && cluster && data.at < cluster.at) return; // a snapshot that frames have overtaken
    lastFrameAt = Date.now();
    if (kind === "cluster") takeCluster(data);
    if (kind === "jobs") data.jobs?.forEach(speak);
    if (kind === "job") speak(data);
    for (const handler of handlers) handler(kind, data);
    show();
  };

  const takeCluster = (data) => {
    const newRound = cluster && data.round !== cluster.round;
    cluster = data;
    roundFinishedAt = data.round_finished_at ? Date.parse(data.round_finished_at) : 0;
    write("round", String(data.round));
    fresh("next").forEach((element) => {
      element.hidden = !data.next_round_at;
      if (data.next_round_at) element.querySelector("time").dateTime = data.next_round_at;
    });
    write("policy", [data.policy, data.locality, data.mechanism].join(" · "));
    fresh("round").forEach((link) => { link.href = `/rounds/${data.round}`; });
    if (newRound) refresh();
  };

  /* Only the reader's own jobs, only a change of state. */
  const speak = (row) => {
    const before = states.get(row.id);
    states.set(row.id, row.state);
    if (before && before !== row.state && row.owner === root.dataset.user) Shell.announce(`${row.name} is ${row.state}`);
  };

  const phase = () => {
    if (paused) return "paused";
    if (!socket || socket.readyState !== WebSocket.OPEN) return "retry";
    if (roundFinishedAt && Date.now() - roundFinishedAt > 3 * roundS * 1000 + 5000) return "stale";
    return "live";
  };

  const show = () => {
    if (!groups.size) return;
    const now = phase();
    root.dataset.live = now;
    const line = document.getElementById("fresh");
    line.dataset.liveState = now;
    line.dataset.liveUpdated = String(lastFrameAt);
    write("state", { live: "Live", paused: "Paused", retry: "Reconnecting", stale: "Stale" }[now]);
    const age = lastFrameAt ? `updated ${Shell.ago(lastFrameAt)}` : "connecting";
    write("age", age);
    write("short", lastFrameAt ? Shell.ago(lastFrameAt) : "");
    const banner = document.getElementById("stale");
    const words = document.getElementById("stale-words");
    const silentS = lastFrameAt ? (Date.now() - lastFrameAt) / 1000 : 0;
    let text = "";
    if (now === "retry" && (silentS > 10 || tooMany)) {
      text = `No update for ${Shell.duration(silentS)}. Jobs keep running. We retry in ${Shell.duration(Math.max(1, (retryAt - Date.now()) / 1000))}.`;
      if (refused) text = "You are signed out or your rights have changed. Reload the page.";
      if (tooMany) text = tooMany;
    } else if (now === "stale") {
      const at = new Date(roundFinishedAt).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
      text = `The scheduler has not finished a round since ${at}. Running jobs go on; nothing new starts.`;
    } else if (cluster?.paused) text = "An admin paused scheduling. Running jobs go on; nothing new starts.";
    if (cluster || now === "retry") {
      if (words.textContent !== text) words.textContent = text;
      banner.hidden = !text;
    }
  };

  const snapshot = async () => {
    const response = await fetch("/api/v1/overview", { headers: { Accept: "application/json" } });
    if (response.status === 401 || response.status === 403) { refused = true; return; }
    if (!response.ok) return;
    const data = await response.json();
    refused = false;
    const frame = data.cluster || data;
    if ("round" in frame) dispatch("cluster", frame);
  };

  const open = () => {
    clearTimeout(timer);
    if (paused || !groups.size) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const mine = new WebSocket(`${scheme}://${location.host}/ws/live?groups=${[...groups].join(",")}`);
    socket = mine;
    mine.onopen = () => {
      failures = 0;
      opened += 1;
      snapshot().catch(() => {});
      if (opened > 1) refresh();
      show();
    };
    mine.onmessage = (event) => {
      tooMany = "";
      const frame = JSON.parse(event.data);
      dispatch(frame.kind, frame.data);
    };
    mine.onclose = (event) => {
      if (socket !== mine) return;
      socket = null;
      if (event.code === 4403 || event.code === 4401) refused = true;
      if (event.code === 4429) tooMany = event.reason;
      if (paused) return;
      failures += 1;
      if (failures > 1) snapshot().catch(() => {}); // tells a lost sign-in from a lost connection
      const waitMs = (tooMany ? 60000 : Math.min(30000, 500 * 2 ** failures)) * (0.75 + Math.random() / 2);
      retryAt = Date.now() + waitMs;
      timer = setTimeout(open, waitMs);
      show();
    };
  };

  /* Swaps a part only when no user is in it: no pointer on its rows, no focus, nothing unfolded. */
  const busy = (part) =>
    part.matches(":hover") && part.querySelector("table") !== null
    || part.contains(document.activeElement)
    || part.querySelector("details[open], dialog[open]") !== null
    || part.matches("details[open]");

  const swap = (page) => {
    for (const chart of page.querySelectorAll("[data-chart]")) {
      const figure = page.getElementById(`${chart.id}-figure`);
      const mine = document.getElementById(`${chart.id}-figure`);
      if (figure && mine) {
        mine.textContent = figure.textContent;
        globalThis.Charts?.draw(chart.id);
      } else if (figure || mine) {
        const card = document.getElementById(chart.id)?.closest(".chart-card");
        if (!card) continue;
        card.replaceWith(document.adoptNode(chart.closest(".chart-card")));
        Shell.enhance(document.getElementById(chart.id).closest(".chart-card"));
        globalThis.Charts?.draw(chart.id);
      }
    }
    for (const part of document.querySelectorAll("[data-live-part]")) {
      const next = page.getElementById(part.id);
      if (!next || busy(part) || next.isEqualNode(part)) continue;
      const taken = document.adoptNode(next);
      part.replaceWith(taken);
      Shell.enhance(taken);
    }
    document.dispatchEvent(new CustomEvent("liverefresh"));
  };

  /* A job that prepares has other parts than one that waits: its page is loaded anew, unless a user writes, chooses or
     marks something in it. */
  const follows = document.querySelector("[data-job]") !== null;
  const parts = (page) => [...page.querySelectorAll("[data-live-part]")].map(({ id }) => id).join(" ");
  const firstParts = parts(document);
  const inUse = () =>
    document.querySelector("dialog[open], main details[open]") !== null
    || document.activeElement.matches("input, textarea, select")
    || [...document.querySelectorAll("main input, main textarea")].some((field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked)
    || String(getSelection()) !== "";

  const fetchPage = async () => {
    asked = 0;
    lastRefresh = Date.now();
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok || response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (follows && parts(page) !== firstParts && !inUse()) location.reload();
    else swap(page);
  };

  /* Spread over a second, so that all readers of one frame do not ask at once; never twice within three seconds. */
  const refresh = () => {
    if (asked || paused || document.hidden || !document.querySelector("[data-live-part], [data-chart]")) return;
    const waitMs = Math.max(150 + Math.random() * 850, lastRefresh + 3000 - Date.now());
    asked = setTimeout(() => fetchPage().catch(() => {}), waitMs);
  };

  const setPaused = (value) => {
    paused = value;
    const button = document.getElementById("live-pause");
    button.textContent = paused ? "Go on live" : "Pause live";
    button.setAttribute("aria-pressed", String(paused));
    if (paused) { clearTimeout(timer); socket?.close(); socket = null; } else { failures = 0; open(); }
    show();
  };

  let planned = false;
  const connect = (names, handler) => {
    names.filter(Boolean).forEach((name) => groups.add(name));
    if (handler) handlers.push(handler);
    const button = document.getElementById("live-pause");
    if (button) { button.hidden = false; button.onclick = () => setPaused(!paused); }
    if (planned) return;
    planned = true;
    for (const slot of document.querySelectorAll("[data-job] .badge")) states.set(slot.closest("[data-job]").dataset.job, slot.dataset.state);
    /* Deferred scripts run before this event: all of them have named their groups by then. */
    if (document.readyState === "complete") open();
    else document.addEventListener("DOMContentLoaded", open);
    setInterval(show, 1000);
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden && planned) refresh(); });

  return { connect, refresh, get cluster() { return cluster; } };
})();
globalThis.Live = Live;
globalThis.Shell = Shell;

/* Every page listens to the cluster for the freshness line; a page adds its own groups. */
if (document.getElementById("fresh")) Live.connect(["cluster"]);
