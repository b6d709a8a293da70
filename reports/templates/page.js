// SPDX-License-Identifier: Apache-2.0
// What the page does beyond being read: tables sort by a column, and a connection is shown wherever it appears.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  for (const [at, head] of [...table.tHead.rows[0].cells].entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[at];
        const text = cell.dataset.v ?? cell.textContent.trim();
        const number = Number(text);
        return text === "" || Number.isNaN(number) ? text : number;
      };
      const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
      rows.sort(([a], [b]) => {
        if (typeof a === typeof b) return (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1);
        return typeof a === "number" ? -1 : 1; // what is not known comes last
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  }
}
for (const item of document.querySelectorAll("[data-c]")) {
  const lit = (on) => {
    for (const other of item.closest(".report").querySelectorAll("[data-c]"))
      other.classList.toggle("dim", on && other.dataset.c !== item.dataset.c);
  };
  item.addEventListener("pointerenter", () => lit(true));
  item.addEventListener("pointerleave", () => lit(false));
}
