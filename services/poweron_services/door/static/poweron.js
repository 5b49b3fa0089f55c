// The script of all pages: local times, shortcuts, selection of rows, and live updates through one stream for all tabs.
"use strict";
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);

  // Times: the server writes UTC; the button in the footer switches to the time of this machine.
  const local = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const clock = one("#clock");
  const isLocal = () => localStorage.getItem("poweron-clock") === "local";

  const showTimes = () => {
    for (const time of all("time[data-utc]")) {
      const here = local.format(new Date(time.dateTime));
      const short = time.dataset.utc.length < 10;
      time.textContent = isLocal() ? (short ? here.slice(-8) : here) : time.dataset.utc;
      time.title = isLocal() ? `${time.dateTime.slice(0, 19).replace("T", " ")} UTC` : `${here} in your time zone`;
    }
    const zone = isLocal() ? "local" : "UTC";
    for (const element of all("[data-zone]")) element.textContent = zone;
    for (const { dataset } of all("[data-label$=')']")) {
      dataset.label = dataset.label.replace(/\((UTC|local)\)$/, `(${zone})`);
    }
    if (clock) clock.textContent = isLocal() ? "Show times in UTC" : "Show local times";
  };
  if (clock) {
    clock.hidden = false;
    clock.addEventListener("click", () => {
      localStorage.setItem("poweron-clock", isLocal() ? "utc" : "local");
      showTimes();
    });
  }

  // Shortcuts: j and k move through the rows, [ and ] to the page before and after, / to the search, ? to the help.
  const move = (by) => {
    const items = all("[data-item]").filter((item) => item.offsetParent !== null);
    const next = items[items.indexOf(document.activeElement) + by] ?? (by > 0 ? items[0] : undefined);
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  const follow = (rel) => one(`a[rel="${rel}"]`)?.click();
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    "[": () => follow("prev"),
    "]": () => follow("next"),
    "/": () => one("[data-search]")?.focus(),
    "?": () => one("#help")?.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=checkbox], [type=range]), textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || typing || one("dialog[open]")) return;
    if (Object.hasOwn(keys, event.key)) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  one("#help-open")?.addEventListener("click", () => one("#help").showModal());

  // Selection: one box selects all rows of its table; the number of selected rows is shown. Buttons that need a row
  // are disabled while none is selected.
  const count = () => {
    for (const output of all("[data-count]")) {
      const selected = all(`input[name="${output.dataset.count}"]:checked`).length;
      output.textContent = selected ? `${selected} selected` : "None selected";
    }
    for (const button of all("button[data-needs]")) {
      button.disabled = !one(`input[name="${button.dataset.needs}"]:checked`);
    }
  };
  document.addEventListener("change", (event) => {
    const { target } = event;
    if (target.dataset?.all) {
      for (const box of all(`input[name="${target.dataset.all}"]`)) box.checked = target.checked;
    }
    if (target.dataset?.together) objectToFiles(target);
    if (target.dataset?.goto) location.assign(`${target.dataset.goto}${target.value}#${target.id}`);
    count();
  });
  document.addEventListener("input", ({ target }) => {
    if (target.dataset?.longest) objectToLength(target);
    const output = target.dataset?.goto && one(`output[for="${target.id}"]`);
    if (output) output.textContent = target.value;
  });

  // A text that is too long is not cut: nothing is sent before it is shorter.
  const objectToLength = (field) => {
    const length = [...field.value.trim()].length;
    const [count, most] = [length, Number(field.dataset.longest)].map((number) => number.toLocaleString("en"));
    field.setCustomValidity(length > field.dataset.longest ? `This has ${count} characters; ${most} are allowed.` : "");
    field.reportValidity();
  };

  // Files that the server would refuse are named before anything is sent.
  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`;
  const objectToFiles = (field) => {
    const files = [...field.files];
    const { most, largest, together } = field.dataset;
    const large = files.find((file) => file.size > largest);
    const sum = files.reduce((size, file) => size + file.size, 0);
    let objection = "";
    if (files.length > most) objection = `These are ${files.length} documents; choose at most ${most}.`;
    else if (large) objection = `“${large.name}” has ${megabytes(large.size)}; a document may have ${megabytes(largest)}.`;
    else if (sum > together) objection = `Together they have ${megabytes(sum)}; ${megabytes(together)} are allowed.`;
    field.setCustomValidity(objection);
    field.setAttribute("aria-invalid", String(objection !== ""));
    one(`#${field.id}-objection`).textContent = objection;
  };

  // A form is sent once, and its button shows that it works; the page that the browser keeps can send it again.
  document.addEventListener("submit", (event) => {
    const { target, submitter } = event;
    if (target.method !== "post") return;
    if (target.dataset.sent) event.preventDefault();
    target.dataset.sent = "true";
    submitter?.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => {
    for (const form of all("form[data-sent]")) delete form.dataset.sent;
    for (const button of all("button[aria-busy]")) button.removeAttribute("aria-busy");
  });

  const enhance = () => {
    showTimes();
    count();
    for (const element of all("[data-script]")) element.hidden = false;
  };

  // Live updates. An element with data-live has the id of the workflow that it shows, or "*", and asks htmx for its
  // new self when it gets the event `refresh`. One tab holds the stream and tells the others.
  const shown = () => all("[data-live]");
  const concerns = ({ dataset }, ids) => dataset.live === "*" || ids.has("*") || ids.has(dataset.live);
  const waiting = new Set();
  let timer = 0;
  const refresh = () => {
    timer = 0;
    if (document.hidden || !waiting.size) return;
    const ids = new Set(waiting);
    waiting.clear();
    const before = one("[data-status]")?.dataset.status;
    for (const element of shown()) {
      if (concerns(element, ids)) htmx.trigger(element, "refresh");
    }
    document.addEventListener("htmx:after:swap", () => {
      enhance();
      const status = one("[data-status]")?.dataset.status;
      if (status && status !== before) one("#announce").textContent = status;
    }, { once: true });
  };
  const changed = (ids) => {
    if (!shown().some((element) => concerns(element, new Set(ids)))) return;
    for (const id of ids) waiting.add(id);
    timer ||= setTimeout(refresh, 800);
  };
  document.addEventListener("visibilitychange", refresh);

  const interrupted = (text) => { one("#live-state").textContent = text; };
  const stream = (tell) => {
    const seen = new Set();
    let missed = false;
    const open = () => {
      const source = new EventSource("/api/v1/stream?show=event");
      source.addEventListener("open", () => {
        interrupted("");
        if (missed) tell(["*"]);
        missed = false;
      });
      source.addEventListener("event", ({ data }) => {
        if (!seen.size) setTimeout(() => { tell([...seen]); seen.clear(); }, 250);
        seen.add(JSON.parse(data).workflowId ?? "*");
      });
      source.addEventListener("error", () => {
        missed = true;
        interrupted("Live updates are interrupted. PowerOn tries again; the page may be out of date.");
        if (source.readyState === EventSource.CLOSED) setTimeout(open, 5000);
      });
    };
    open();
  };
  const live = () => {
    if (!shown().length) return;
    const channel = new BroadcastChannel("poweron");
    channel.onmessage = ({ data }) => changed(data);
    const tell = (ids) => { channel.postMessage(ids); changed(ids); };
    if (navigator.locks) {
      navigator.locks.request("poweron-stream", () => new Promise(() => stream(tell)));
    } else {
      stream(tell);
    }
  };

  const retry = one("[data-retry]");
  if (retry) setTimeout(() => location.reload(), 1000 * Number(retry.dataset.retry));
  const current = one(".nav [aria-current]");
  const row = current?.closest(".nav");
  if (row) row.scrollLeft = current.offsetLeft - row.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;
  enhance();
  live();
})();
