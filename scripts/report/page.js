"use strict";
// Tables sort by a click on a column's head; failures show what fits the filters, some dozens at a time.
const STEP = 48;

function value(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.sort ?? cell.textContent.trim();
  const number = text === "" ? NaN : Number(text);
  return Number.isNaN(number) ? text.toLowerCase() : number;
}

function order(a, b) {
  if (a === "" || b === "") return (a === "") - (b === "") || 0;
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const body = table.tBodies[0];
    const first = head.classList.contains("num") ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const way = head.getAttribute("aria-sort") === first ? other : first;
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", way);
    const sign = way === "ascending" ? 1 : -1;
    const keyed = [...body.rows].map((row) => [value(row, column), row]);
    keyed.sort(([a], [b]) => (a === "" || b === "" ? order(a, b) : sign * order(a, b)));
    body.append(...keyed.map(([, row]) => row));
  }));
}

for (const input of document.querySelectorAll("input[data-filter]")) {
  const rows = [...document.getElementById(input.dataset.filter).tBodies[0].rows];
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}

const failures = document.getElementById("failures");
if (failures) {
  const cards = [...failures.querySelectorAll(".failure")];
  const [task, outcome, text, more, count] = ["task", "outcome", "text", "more", "count"].map((name) =>
    document.getElementById(`failures-${name}`));
  let most = STEP;
  const show = () => {
    const wanted = text.value.trim().toLowerCase();
    const fit = cards.filter((card) =>
      (!task.value || card.dataset.task === task.value) &&
      (!outcome.value || card.dataset.outcome === outcome.value) &&
      card.textContent.toLowerCase().includes(wanted));
    const seen = new Set(fit.slice(0, most));
    for (const card of cards) card.hidden = !seen.has(card);
    count.textContent = seen.size < fit.length
      ? `${seen.size} of ${fit.length} shown` : `${fit.length} of ${cards.length}`;
    more.hidden = seen.size === fit.length;
  };
  for (const control of [task, outcome, text]) control.addEventListener("input", () => { most = STEP; show(); });
  more.addEventListener("click", () => { most += STEP; show(); });
  failures.previousElementSibling.hidden = false;
  show();
}
