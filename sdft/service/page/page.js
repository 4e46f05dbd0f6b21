// The page of the training service: what its addresses tell, and a few buttons. All text goes in by textContent.
"use strict";

const $ = (id) => document.getElementById(id);
const CURVES = { loss: "Loss", "steps/right": "Share of steps done as shown", "evaluation/agreement": "Agreement with recorded steps", "evaluation/perplexity": "Perplexity of general text", "recorded/loss": "Loss on recorded steps" };
const FINISHED = ["succeeded", "failed", "cancelled"];
const HELD_OUT = "evaluation/held_out"; // 1 where the agreement is measured on episodes that nothing is learned from
let shown = null; // the job whose curves are shown, and what stops following it

function make(tag, text, attributes = {}) {
  const node = document.createElement(tag);
  if (text !== "") node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function button(text, label, act) {
  const node = make("button", text, { type: "button", "aria-label": label });
  node.addEventListener("click", async () => {
    node.disabled = true;
    try { await act(); } catch (error) { tell(error.message); }
    node.disabled = false;
    refresh();
  });
  return node;
}

function tell(message) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
}

async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  const token = sessionStorage.getItem("token");
  if (token) headers.authorization = `Bearer ${token}`;
  if (options.method) headers["idempotency-key"] = Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) { $("sign-in").hidden = false; throw new Error("The server asks for its token."); }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.message || `The server answered ${answer.status}.`);
  }
  return answer;
}

const read = async (path) => (await ask(path)).json();

function jobRow(job) {
  const row = make("tr", "");
  row.append(make("th", job.adapter, { scope: "row" }), make("td", job.cancelling ? "being cancelled" : job.status));
  const step = make("td", "");
  if (job.steps) step.append(make("progress", "", { max: job.steps, value: job.step, "aria-label": `Steps of ${job.adapter}` }), ` ${job.step}/${job.steps}`);
  row.append(step, make("td", job.started ? new Date(job.started * 1000).toLocaleString() : "–"));
  const acts = make("td", "");
  acts.append(button("Show", `Show ${job.adapter}`, () => show(job.id)));
  if (!FINISHED.includes(job.status) && !job.cancelling) acts.append(" ", button("Cancel", `Cancel ${job.adapter}`, () => ask(`/jobs/${job.id}/cancel`, { method: "POST" })));
  if (["failed", "cancelled"].includes(job.status)) acts.append(" ", button("Resume", `Resume ${job.adapter}`, () => ask(`/jobs/${job.id}/resume`, { method: "POST" })));
  row.append(acts);
  return row;
}

function adapterItem(one) {
  const item = make("li", "");
  item.append(make("b", one.name));
  for (const [form, file] of Object.entries(one.files)) item.append(button(`${form.toUpperCase()}, ${(file.bytes / 2 ** 20).toFixed(1)} MiB`, `Download ${one.name} for ${form.toUpperCase()}`, () => save(one.name, form)));
  item.append(button("Delete", `Delete ${one.name}`, async () => {
    if (confirm(`Delete the adapter ${one.name}?`)) await ask(`/adapters/${one.name}`, { method: "DELETE" });
  }));
  return item;
}

async function save(name, form) {
  const blob = await (await ask(`/adapters/${name}/download?format=${form}`)).blob();
  const link = make("a", "", { href: URL.createObjectURL(blob), download: `${name}.${form}.tar.gz` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function episodeLabel(one, chosen) {
  const label = make("label", "", { class: "check" });
  const box = make("input", "", { type: "checkbox", value: one.id });
  box.checked = chosen;
  const about = `${one.steps} steps, ${one.solved ? "solved" : "not solved"}, ${new Date(one.created * 1000).toLocaleString()}`;
  label.append(box, make("span", `${one.goal || one.id}: ${about}`, { title: one.id }));
  return label;
}

// Replaces what a list shows only where it has changed, so that the keyboard's focus stays where it is.
function put(id, data, build) {
  const told = JSON.stringify(data);
  if ($(id).dataset.told === told) return;
  const focused = document.activeElement && $(id).contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  $(id).dataset.told = told;
  $(id).replaceChildren(...data.map(build));
  if (focused) $(id).querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
}

let busy = false;
async function refresh() {
  if (busy) return;
  busy = true;
  try {
    const health = await read("/health");
    const [jobs, episodes, adapters] = await Promise.all([read("/jobs"), read("/episodes?limit=100"), read("/adapters?limit=100")]);
    $("state").textContent = `selfsurf ${health.version}: ${health.trainer === "running" ? "training" : "idle"}`;
    $("sign-in").hidden = true;
    put("job-rows", jobs.data, jobRow);
    $("no-jobs").hidden = jobs.data.length > 0;
    put("adapters", adapters.data, adapterItem);
    $("no-adapters").hidden = adapters.data.length > 0;
    const chosen = new Set(Array.from($("episodes").querySelectorAll("input"), (box) => (box.checked ? "" : box.value)));
    put("episodes", episodes.data, (one) => episodeLabel(one, !chosen.has(one.id)));
    put("model", health.models, (name) => make("option", name));
    $("enrich-label").hidden = !health.enrich;
    if ($("problem").dataset.lost) { delete $("problem").dataset.lost; tell(""); }
  } catch (error) {
    $("state").textContent = "Not connected";
    $("problem").dataset.lost = "1";
    tell(error.message);
  } finally { busy = false; }
}

// Follows a job's events from where the last connection ended.
async function follow(job, stop) {
  let last = 0;
  while (!stop.aborted) {
    try {
      const answer = await ask(`/jobs/${job}/events`, { headers: { "last-event-id": String(last) }, signal: stop });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        rest += value;
        const lines = rest.split(/\r?\n/);
        rest = lines.pop();
        const events = lines.filter((line) => line.startsWith("data:")).map((line) => JSON.parse(line.slice(5)));
        for (const event of events) { last = event.number; take(event); }
        if (events.length) draw();
      }
      if (FINISHED.includes((await read(`/jobs/${job}`)).status)) return;
    } catch (error) { if (stop.aborted) return; }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

let series = {}, heldOut = false;
function take(event) {
  if (event.type === "progress") {
    for (const name of Object.keys(CURVES)) if (name in event.data) (series[name] ||= new Map()).set(event.data.step, event.data[name]);
    if (HELD_OUT in event.data) heldOut = event.data[HELD_OUT] > 0;
    return;
  }
  const text = event.type === "status" ? `${event.data.status}${event.data.error ? `: ${event.data.error.message}` : ""}` : event.data.text;
  $("log").append(make("li", `${new Date(event.time * 1000).toLocaleTimeString()} ${text}`));
  $("log").scrollTop = $("log").scrollHeight;
}

const figure = (number) => Number(number.toPrecision(3)).toString();

function curve(name, points) {
  const steps = [...points.keys()], values = [...points.values()], latest = steps.at(-1);
  const low = Math.min(...values), high = Math.max(...values), first = Math.min(...steps), end = Math.max(...steps);
  const title = CURVES[name] + (name === "evaluation/agreement" ? (heldOut ? ", held out" : ", of learned episodes") : "");
  const told = `${title}: ${figure(values.at(-1))} at step ${latest}` + (steps.length > 1 ? `, from ${figure(low)} to ${figure(high)}` : "");
  const x = (step) => (end > first ? (100 * (step - first)) / (end - first) : 50), y = (value) => (high > low ? 96 - (92 * (value - low)) / (high - low) : 50);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": told })) svg.setAttribute(key, value);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const corners = steps.map((step, i) => `${x(step)},${y(values[i])}`);
  line.setAttribute("points", (corners.length > 1 ? corners : [corners[0], corners[0]]).join(" "));
  if (corners.length === 1) line.setAttribute("class", "point");
  svg.append(line);
  const axes = [["high", figure(high)], ["low", high > low ? figure(low) : ""], ["first", `step ${first}`], ["end", end > first ? `step ${end}` : ""]];
  const plot = make("div", "", { class: "plot" });
  plot.append(svg, ...axes.map(([name, text]) => make("span", text, { class: name, "aria-hidden": "true" })));
  const node = make("figure", "");
  node.append(plot, make("figcaption", told));
  return node;
}

const draw = () => $("curves").replaceChildren(...Object.entries(series).map(([name, points]) => curve(name, points)));

async function show(id) {
  if (shown) shown.stop.abort();
  const job = await read(`/jobs/${id}`);
  shown = { id, stop: new AbortController() };
  series = {};
  heldOut = false;
  $("curves").replaceChildren();
  $("log").replaceChildren();
  $("job").hidden = false;
  $("job-title").textContent = `Job of ${job.adapter}`;
  $("job-about").textContent = `${job.id}, base model ${job.model}, ${job.request.episodes.length} episodes`;
  $("job").focus();
  follow(id, shown.stop.signal);
}

$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value);
  $("token").value = "";
  tell("");
  refresh();
});

$("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  const episodes = Array.from($("episodes").querySelectorAll("input:checked"), (box) => box.value);
  if (!episodes.length) { tell("Choose episodes to learn from."); return; }
  const asked = { episodes, adapter: $("adapter").value, model: $("model").value, settings: { steps: Number($("steps").value) }, enrich: $("enrich").checked };
  try {
    tell("");
    const job = await (await ask("/train", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(asked) })).json();
    await refresh();
    await show(job.id);
  } catch (error) { tell(error.message); }
});

refresh();
setInterval(refresh, 2000);
