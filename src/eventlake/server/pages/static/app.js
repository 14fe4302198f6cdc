// The only script of the pages. Everything can be read, and every form sent, without it.

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const root = document.documentElement;
const cookie = (name, value) => {
  document.cookie = `${name}=${encodeURIComponent(value)}; path=/; max-age=31536000; samesite=lax`;
};

// Times: in the reader's zone, with UTC beside them. The server does the same from the second page on.
const parts = (date, timeZone) => {
  const options = { timeZone, day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", year: "numeric" };
  const found = {};
  for (const one of new Intl.DateTimeFormat("en-GB", options).formatToParts(date)) found[one.type] = one.value;
  return found;
};
function showTimes(within) {
  if (root.dataset.zone === zone) return;
  for (const time of within.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    const here = parts(date, zone);
    const utc = parts(date, "UTC");
    const beside = document.createElement("small");
    const otherDay = utc.day === here.day ? "" : `${utc.day} ${utc.month} `;
    if (zone !== "UTC") beside.textContent = `${otherDay}${utc.hour}:${utc.minute} UTC`;
    const suffix = zone === "UTC" ? " UTC" : "";
    const year = here.year === String(new Date().getFullYear()) ? "" : ` ${here.year}`;
    time.replaceChildren(`${here.day} ${here.month}${year} ${here.hour}:${here.minute}:${here.second}${suffix} `, beside);
  }
}
if (root.dataset.zone !== zone) cookie("zone", zone);
showTimes(document);
for (const one of document.querySelectorAll("[data-zone-name]")) one.textContent = zone;

// The switch between light and dark.
document.querySelector("form.theme")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  cookie("theme", root.dataset.theme);
});

// Live parts: an element with an id and data-live is fetched again every so many seconds, or when
// the server says so by events at data-events. It ends when the new element is not live any more.
async function refresh(id) {
  const old = document.getElementById(id);
  if (!old || document.hidden) return Boolean(old);
  const reply = await fetch(location.href, { headers: { "x-live": id } });
  if (reply.redirected) location.reload(); // to the form to log in: the session has ended
  if (!reply.ok || reply.redirected) return true;
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  const next = page.getElementById(id);
  if (!next || old.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return Boolean(next);
  const open = [...old.querySelectorAll("details")].map((one) => one.open);
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  if (next.outerHTML !== old.outerHTML) {
    old.replaceWith(next);
    [...next.querySelectorAll("details")].forEach((one, at) => { one.open = open[at] ?? one.open; });
    if (focused) document.getElementById(focused)?.focus();
    showTimes(next);
    wire(next);
  }
  return next.dataset.live !== undefined;
}
for (const live of document.querySelectorAll("[data-live]")) {
  const id = live.id;
  let last = 0;
  let isEnded = false;
  const again = async () => {
    if (isEnded || Date.now() - last < 900) return;
    last = Date.now();
    isEnded = !(await refresh(id).catch(() => true));
    if (!isEnded) return;
    source?.close();
    // What is around it has changed too, such as buttons, and "The run is queued." is not true any more.
    const here = new URL(location.href);
    here.searchParams.delete("done");
    here.hash = "";
    if (!document.activeElement?.matches("input, textarea, select")) location.replace(here);
  };
  let source = null;
  if (live.dataset.events) {
    source = new EventSource(live.dataset.events);
    source.onmessage = again;
    for (const name of ["progress", "state", "end"]) source.addEventListener(name, again);
  }
  const every = 1000 * Number(live.dataset.live);
  const timer = setInterval(() => (isEnded ? clearInterval(timer) : again()), every);
}

// Copy buttons, names to insert, and the answer to "really?".
function wire(within) {
  for (const button of within.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
  for (const button of within.querySelectorAll("button[data-insert]")) {
    button.addEventListener("click", () => {
      const field = document.getElementById("sql");
      field.setRangeText(button.textContent, field.selectionStart, field.selectionEnd, "end");
      field.focus();
    });
  }
  for (const form of within.querySelectorAll("form")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.confirm && !confirm(form.dataset.confirm)) {
        event.preventDefault();
        return;
      }
      if (event.defaultPrevented || form.target) return;
      const button = event.submitter;
      if (button && form.method === "post" && button.dataset.download === undefined) button.setAttribute("aria-busy", "true");
    });
  }
}
wire(document);
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button[aria-busy]")) button.removeAttribute("aria-busy");
});

// Ctrl-Enter sends the form of a text with several lines.
for (const field of document.querySelectorAll("textarea[data-send]")) {
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) field.form.requestSubmit();
  });
}

// A field that filters the items of a list.
for (const field of document.querySelectorAll("input[data-filter]")) {
  field.parentElement.hidden = false;
  field.addEventListener("input", () => {
    const part = field.value.trim().toLowerCase();
    for (const item of document.getElementById(field.dataset.filter).children) item.hidden = !item.textContent.toLowerCase().includes(part);
  });
}

// A file is read into a text field.
for (const file of document.querySelectorAll("input[type=file][data-into]")) {
  file.addEventListener("change", async () => {
    if (file.files[0]) document.getElementById(file.dataset.into).value = await file.files[0].text();
  });
}

// The live check of a lake: one line for each operation as it is tried.
async function showChecks(url, body, list, status) {
  list.replaceChildren();
  status.textContent = "Checking…";
  let failed = 0;
  const reply = await fetch(url, { method: "POST", body, headers: { accept: "application/x-ndjson", "content-type": "application/json" } });
  if (!reply.ok) {
    status.textContent = (await reply.json()).detail;
    return;
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    text += value ?? "";
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const check = JSON.parse(line);
      const row = document.getElementById("check-row").content.cloneNode(true);
      const badge = row.querySelector(".state");
      badge.classList.add(check.ok ? "good" : "bad");
      badge.querySelector("i").textContent = check.ok ? "✓" : "✕";
      badge.querySelector("b").textContent = check.ok ? "OK" : "Failed";
      row.querySelector("[data-name]").textContent = check.name;
      row.querySelector("[data-detail]").textContent = check.detail;
      const grant = row.querySelector("[data-grant]");
      if (check.grant) {
        grant.firstElementChild.textContent = check.grant;
        grant.firstElementChild.id = grant.lastElementChild.dataset.copy = `grant-${list.children.length + 1}`;
      } else grant.remove();
      wire(row);
      list.append(row);
      if (!check.ok) failed += 1;
    }
    if (done) break;
  }
  status.textContent = failed ? `${failed} of ${list.children.length} failed` : `All ${list.children.length} passed`;
}
for (const button of document.querySelectorAll("button[data-check]")) {
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    const form = button.form;
    let body = "{}";
    if (form?.dataset.kind) {
      const settings = {};
      for (const [name, value] of new FormData(form)) {
        if (name.startsWith("set.") && value !== "") settings[name.slice(4)] = value;
      }
      body = JSON.stringify({ kind: form.dataset.kind, settings });
    }
    button.setAttribute("aria-busy", "true");
    const status = document.getElementById("check-status");
    try {
      await showChecks(button.dataset.check, body, document.getElementById("checks"), status);
    } catch {
      status.textContent = "The server does not answer: try again";
    }
    button.removeAttribute("aria-busy");
  });
}
