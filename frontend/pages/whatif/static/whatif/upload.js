/* A trace is sent before its form, so that it shows how much is sent and can be cancelled. The form works without. */
"use strict";

(() => {
  const MIB = 2 ** 20;
  const mib = (bytes) => Shell.number(bytes / MIB, bytes < 10 * MIB ? 1 : 0);

  const problemOf = (request) => {
    try {
      const body = JSON.parse(request.responseText);
      return body.errors?.map((entry) => entry.detail).join(" ") || body.detail;
    } catch {
      return "The upload broke off. Nothing is kept; try it again.";
    }
  };

  const bar = () => {
    const line = Object.assign(document.createElement("div"), { className: "upload" });
    const stop = Object.assign(document.createElement("button"), { type: "button", className: "btn small" });
    stop.append(Shell.icon("x"), "Cancel upload");
    const track = Object.assign(document.createElement("span"), { className: "bar wide tall" });
    track.setAttribute("role", "progressbar");
    track.setAttribute("aria-label", "Upload");
    track.setAttribute("aria-valuemin", "0");
    track.setAttribute("aria-valuemax", "100");
    track.append(document.createElement("i"));
    const words = Shell.span("");
    line.append(track, words, stop);
    const show = (sent, all) => {
      const frac = all ? sent / all : 0;
      track.setAttribute("aria-valuenow", String(Math.round(frac * 100)));
      track.firstElementChild.style.setProperty("--at", `${(frac * 100).toFixed(1)}%`);
      words.textContent = sent < all ? `${mib(sent)} of ${mib(all)} MiB` : `${mib(all)} MiB sent, being checked`;
    };
    return { line, stop, show };
  };

  for (const input of document.querySelectorAll("input[data-trace]")) {
    const form = input.form, field = input.parentElement;
    const note = document.getElementById(input.getAttribute("aria-describedby"));
    const help = note.textContent;
    const say = (text, isWrong = true) => {
      note.textContent = text;
      note.className = isWrong ? "error" : "help";
      input.setAttribute("aria-invalid", String(isWrong));
      if (isWrong) Shell.announce(text);
    };
    const kept = (file, submitter) => {
      input.required = false;
      input.value = "";
      if (!input.dataset.trace) return location.reload();
      const slot = form.elements.file || Object.assign(document.createElement("input"), { type: "hidden", name: "file" });
      if (slot.options) slot.add(new Option(file.name, file.id));
      else form.append(slot);
      slot.value = file.id;
      form.requestSubmit(submitter);
    };
    form.addEventListener("submit", (event) => {
      const file = input.files[0];
      if (!file || !input.checkVisibility()) return;
      event.preventDefault();
      if (file.size > input.dataset.mostMib * MIB) {
        say(`A trace may have at most ${input.dataset.mostMib} MiB; gzip makes it smaller.`);
        return;
      }
      const request = new XMLHttpRequest(), { line, stop, show } = bar();
      const buttons = [...form.querySelectorAll("button[type=submit]")];
      const over = () => { line.remove(); buttons.forEach((button) => { button.disabled = false; }); };
      stop.onclick = () => request.abort();
      request.upload.onprogress = (sent) => show(sent.loaded, sent.total);
      request.onload = () => { over(); if (request.status === 201) kept(JSON.parse(request.responseText), event.submitter); else say(problemOf(request)); };
      request.onerror = () => { over(); say(problemOf(request)); };
      request.onabort = () => { over(); say("The upload is cancelled. Nothing is kept."); };
      request.open("POST", `/api/v1/whatif/traces?name=${encodeURIComponent(file.name)}`);
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.setRequestHeader("X-CSRFToken", form.elements.csrfmiddlewaretoken.value);
      buttons.forEach((button) => { button.disabled = true; });
      say(help, false);
      show(0, file.size);
      field.append(line);
      request.send(file);
    });
  }
})();
