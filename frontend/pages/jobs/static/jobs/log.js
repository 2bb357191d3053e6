/* Follows a log: server-sent events, or polling where they fail. Keeps at most ``data-most`` lines on the page.
   Follow is on while the job runs, off once one scrolls up; search and level hide lines, they load none. */
"use strict";

class LogView {
  constructor(box) {
    this.box = box;
    this.list = box.querySelector("ol");
    this.tools = document.querySelector(`[data-log-tools="${box.id}"]`);
    this.most = Number(box.dataset.most || 1000);
    this.attempt = this.first = Number(box.dataset.attempt || 0);
    this.offset = Number(box.dataset.endOffset || 0);
    this.number = box.dataset.nextNumber ? Number(box.dataset.nextNumber) : null;
    this.style = new LogText.Style();
    this.decoderRest = ""; // a line that has not ended yet
    this.restOffset = this.offset;
    this.encoder = new TextEncoder();
    this.follow = box.dataset.live === "1";
    this.fresh = 0;
    this.controls();
    if (this.follow) { this.toEnd(); this.open(); }
  }

  part(name) { return this.tools?.querySelector(`[data-log-part="${name}"]`); }

  controls() {
    const shown = () => this.filter();
    for (const name of ["search", "level"]) this.part(name)?.addEventListener("input", shown);
    // A choice leads to another log; the words and the level only hide lines of this one.
    for (const choice of this.part("form")?.querySelectorAll("select[data-submit]") || []) choice.addEventListener("change", () => choice.form.submit());
    this.part("form")?.addEventListener("submit", (event) => { event.preventDefault(); shown(); });
    const wrap = this.part("wrap");
    if (wrap) {
      wrap.hidden = false;
      wrap.addEventListener("click", () => wrap.setAttribute("aria-pressed", String(this.box.classList.toggle("wrap"))));
    }
    this.part("follow")?.addEventListener("click", () => this.setFollow(!this.follow));
    this.pill = this.tools?.querySelector("[data-log-pill]") || document.querySelector(`[data-log-pill="${this.box.id}"]`);
    this.pill?.addEventListener("click", () => this.setFollow(true));
    this.box.addEventListener("scroll", () => {
      const atEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 24;
      if (atEnd !== this.follow && this.source !== undefined) this.setFollow(atEnd, { scroll: false });
    });
    this.showFollow();
    this.filter();
  }

  setFollow(value, { scroll = true } = {}) {
    this.follow = value;
    if (value) { this.fresh = 0; if (scroll) this.toEnd(); }
    this.showFollow();
  }

  showFollow() {
    const button = this.part("follow");
    if (button) {
      button.hidden = this.source === undefined;
      button.setAttribute("aria-pressed", String(this.follow));
    }
    const state = this.part("state");
    if (state) {
      state.hidden = this.source === undefined;
      const words = this.source === null ? "ended" : !this.attempt ? "waits for the first line" : this.follow ? "following" : "not following";
      state.querySelector("[data-log-part=words]").textContent = words;
      state.classList.toggle("on", this.source !== null && this.follow && this.attempt > 0);
    }
    if (this.pill) {
      this.pill.hidden = this.follow || !this.fresh;
      this.pill.textContent = `${Shell.number(this.fresh)} new ${this.fresh === 1 ? "line" : "lines"}`;
    }
  }

  toEnd() { this.box.scrollTop = this.box.scrollHeight; }

  /* Reading on */
  open() {
    const query = new URLSearchParams({ offset: String(this.offset) });
    if (this.box.dataset.rank) query.set("rank", this.box.dataset.rank);
    if (this.box.dataset.only) query.set("attempt", String(this.attempt)); // else it goes on in the next attempt
    this.source = new EventSource(`${this.box.dataset.url}/stream?${query}`);
    this.source.addEventListener("log", (event) => { this.failures = 0; this.take(JSON.parse(event.data)); });
    this.source.addEventListener("end", () => this.end());
    this.source.onerror = () => {
      // The browser reconnects by itself; one that was refused is closed and polls instead.
      if (this.source?.readyState === EventSource.CLOSED) this.poll();
    };
    this.showFollow();
  }

  async poll() {
    this.source?.close();
    this.failures = (this.failures || 0) + 1;
    const query = new URLSearchParams({ offset: String(this.offset) });
    if (this.attempt) query.set("attempt", String(this.attempt));
    if (this.box.dataset.rank) query.set("rank", this.box.dataset.rank);
    const response = await fetch(`${this.box.dataset.url}?${query}`, { headers: { Accept: "application/json" } }).catch(() => null);
    if (response?.ok) { this.failures = 0; this.take(await response.json()); }
    if (this.source !== null) setTimeout(() => this.poll(), Math.min(30000, 2000 * 1.6 ** this.failures));
  }

  end() {
    this.source?.close();
    this.source = null;
    this.showFollow();
  }

  take({ attempt, start_offset: start, end_offset: end, text }) {
    if (!text) return;
    if (attempt && attempt !== this.attempt) this.turn(attempt, start);
    if (start > this.offset) { this.number = null; this.decoderRest = ""; this.restOffset = start; } // the log was cut in between
    else if (start < this.offset) return;
    this.offset = end;
    const rows = (this.decoderRest + text).split("\n");
    this.decoderRest = rows.pop();
    this.append(rows);
    if (this.decoderRest.length > 64000) { this.append([this.decoderRest]); this.decoderRest = ""; }
  }

  /* The job goes on in another attempt: its log begins anew. */
  turn(attempt, start) {
    this.attempt = attempt;
    this.offset = this.restOffset = start;
    this.decoderRest = "";
    this.number = start === 0 ? 1 : null;
    this.style = new LogText.Style();
    const item = Object.assign(document.createElement("li"), { className: "turn", textContent: `Attempt ${attempt}` });
    this.list.append(item);
  }

  append(rows) {
    const fragment = document.createDocumentFragment();
    for (const row of rows) {
      const offset = this.restOffset;
      this.restOffset += this.encoder.encode(row).length + 1;
      const label = this.number === null ? String(offset) : String(this.number);
      const item = LogText.element(LogText.parse(row, this.style), {
        id: this.attempt === this.first ? `B${offset}` : `B${this.attempt}-${offset}`,
        href: `${this.box.dataset.page}?attempt=${this.attempt}${this.box.dataset.rank ? `&rank=${this.box.dataset.rank}` : ""}&at=${offset}#B${offset}`,
        label,
        title: this.number === null ? `Byte ${offset}` : `Line ${label}`,
      });
      if (this.number !== null) this.number += 1;
      item.hidden = !this.matches(item);
      fragment.append(item);
    }
    this.list.append(fragment);
    this.box.querySelector("[data-log-empty]")?.remove();
    while (this.list.children.length > this.most) this.list.firstElementChild.remove();
    this.count();
    if (this.follow) this.toEnd(); else this.fresh += rows.length;
    this.showFollow();
  }

  /* Hiding */
  matches(item) {
    const level = this.part("level")?.value || "";
    const words = (this.part("search")?.value || "").toLowerCase();
    const levelFits = !level || item.dataset.level === "bad" || (level === "warn" && item.dataset.level === "warn");
    return levelFits && (!words || (item.lastElementChild?.textContent || item.textContent).toLowerCase().includes(words));
  }

  filter() {
    for (const item of this.list.children) item.hidden = !this.matches(item);
    this.count();
    if (this.follow) this.toEnd();
  }

  count() {
    const counter = this.part("count");
    if (!counter) return;
    const all = this.list.children.length;
    const narrowed = (this.part("search")?.value || this.part("level")?.value) && all;
    const shown = narrowed ? [...this.list.children].filter((item) => !item.hidden).length : all;
    counter.textContent = narrowed ? `${Shell.number(shown)} of ${Shell.number(all)} lines` : "";
  }
}

for (const box of document.querySelectorAll("[data-log]")) new LogView(box);
