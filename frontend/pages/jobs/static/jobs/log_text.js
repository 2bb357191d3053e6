/* Lines of a job's log as styled spans: the rules of frontend/pages/jobs/logs/log_text.py, for lines that arrive live.
   Colours by allow-list, every other control sequence dropped, unseen characters spelled out. Text is only ever set as
   textContent. */
"use strict";

const LogText = (() => {
  const MOST_CHARS = 4000, LEVEL_CHARS = 300;
  const CONTROL = new RegExp(
    "\\x1b\\[(?<sgr>[0-9;:]{0,64})m"
    + "|(?:\\x1b\\[|\\x9b)[0-?]*[ -/]*[@-~]"
    + "|(?:\\x1b[\\]PX^_]|[\\x90\\x98\\x9d-\\x9f])[^\\x07\\x1b\\x9c]{0,2000}(?:\\x07|\\x1b\\\\|\\x9c)"
    + "|\\x1b[ -/]*[0-~]"
    + "|(?<unseen>[\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u2064\\u2066-\\u2069\\ufeff])"
    + "|[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]", "gu");
  const COLORS = { 1: "c-bad", 2: "c-ok", 3: "c-warn", 4: "c-info", 5: "c-violet", 6: "c-teal" };
  const LEVEL = /^(?<lead>[\d\s:.,TZ/[\]()+-]{0,40})(?<word>(?:(?<bad>error|critical|fatal|traceback)|(?<warn>warn(?:ing)?))\b)/i;
  const LEVEL_LATER = /(?:^|[\s[(|])(?<word>(?<bad>ERROR|CRITICAL|FATAL|[\w.]{0,60}(?:Error|Exception)(?=:|$))|(?<warn>WARN(?:ING)?|[\w.]{0,60}Warning(?=:|$)))(?=\W|$)/;

  const named = (digit) => COLORS[digit] || (digit === 0 ? "dim" : "");

  /* What colour sequences have asked for so far; it holds over line ends. */
  class Style {
    constructor() { this.color = ""; this.weight = ""; }
    get css() { return [this.color, this.weight].filter(Boolean).join(" "); }
    apply(parameters) {
      const codes = parameters.split(/[;:]/).map((part) => (part ? Number(part.slice(0, 4)) : 0));
      while (codes.length) {
        const code = codes.shift();
        if (code === 0) this.color = this.weight = "";
        else if (code === 1 || code === 2) this.weight = code === 1 ? "bold" : "dim";
        else if (code === 22) this.weight = "";
        else if (code === 39) this.color = "";
        else if ([3, 9].includes(Math.floor(code / 10)) && code % 10 < 8) this.color = named(code % 10);
        else if (code === 38 || code === 48) {
          const kind = codes.shift() || 0;
          let color = "";
          if (kind === 2) codes.splice(0, 3);
          else if (kind === 5) { const value = codes.shift() ?? 16; color = value < 16 ? named(value % 8) : ""; }
          if (code === 38) this.color = color;
        }
      }
    }
  }

  const add = (spans, text, css) => {
    if (!text) return;
    const last = spans.at(-1);
    if (last && last.css === css) last.text += text;
    else spans.push({ text, css });
  };

  const spansOf = (raw, style) => {
    const row = raw.replace(/\r+$/, "").split("\r").at(-1);
    const letters = [...row]; // code points, as the server counts
    const shown = letters.length > MOST_CHARS ? letters.slice(0, MOST_CHARS).join("") : row;
    const spans = [];
    let at = 0;
    for (const match of shown.matchAll(CONTROL)) {
      add(spans, shown.slice(at, match.index), style.css);
      at = match.index + match[0].length;
      if (match.groups.sgr !== undefined) style.apply(match.groups.sgr);
      else if (match.groups.unseen) spans.push({ text: `U+${match.groups.unseen.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`, css: "ctl" });
    }
    add(spans, shown.slice(at), style.css);
    if (letters.length > MOST_CHARS) spans.push({ text: ` … ${letters.length - MOST_CHARS} more character${letters.length - MOST_CHARS === 1 ? "" : "s"}`, css: "dim" });
    return spans;
  };

  const leveled = (spans) => {
    const head = spans.map((span) => span.text).join("").slice(0, LEVEL_CHARS);
    const match = LEVEL.exec(head) || LEVEL_LATER.exec(head);
    if (!match) return { level: "", spans };
    const level = match.groups.bad ? "bad" : "warn";
    if (spans.length !== 1 || spans[0].css) return { level, spans };
    const start = match.index + match[0].indexOf(match.groups.word, (match.groups.lead || "").length);
    const end = start + match.groups.word.length;
    const text = spans[0].text;
    const pieces = [{ text: text.slice(0, start), css: "" }, { text: text.slice(start, end), css: `c-${level}` }, { text: text.slice(end), css: "" }];
    return { level, spans: pieces.filter((piece) => piece.text) };
  };

  const parse = (raw, style) => leveled(spansOf(raw, style));

  /* A line of the log as an element, like the template jobs/_log.html. */
  const element = ({ level, spans }, { id, label, href, title }) => {
    const item = document.createElement("li");
    item.id = id;
    if (level) item.dataset.level = level;
    const link = Object.assign(document.createElement("a"), { href, textContent: label, title, tabIndex: -1 });
    link.setAttribute("aria-label", title);
    const words = document.createElement("span");
    for (const { text, css } of spans) {
      if (!css) words.append(text);
      else words.append(Object.assign(document.createElement("span"), { textContent: text, className: css }));
    }
    item.append(link, words);
    return item;
  };

  return { Style, element, parse };
})();
globalThis.LogText = LogText;
