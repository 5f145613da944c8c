// A field that finds items and users as one types: a combobox with a list below it.

import { ask, Problem } from "./api.js";
import { count, make, nameOf } from "./dom.js";

const PAUSE = 90; // milliseconds without a key before the server is asked
let numberOfFields = 0;

/**
 * Fill `place` with a search field.
 * options: label, placeholder, kind ("all" or "items"), choose(kind, entry), keeps (true: the field is emptied and keeps the focus)
 */
export function searchField(place, options) {
  numberOfFields += 1;
  const listId = `found-${numberOfFields}`;
  const input = make("input", {
    type: "search", role: "combobox", autocomplete: "off", spellcheck: "false", "aria-label": options.label,
    "aria-expanded": "false", "aria-controls": listId, "aria-autocomplete": "list", placeholder: options.placeholder,
  });
  const list = make("div", { class: "found", id: listId, role: "listbox", "aria-label": options.label, hidden: true });
  const status = make("p", { class: "visually-hidden", role: "status" });
  place.replaceChildren(input, list, status);

  let entries = [];
  let active = -1;
  let timer = 0;
  let latest = 0;

  function close() {
    latest += 1;
    clearTimeout(timer);
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  }

  function open() {
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  }

  function mark(next) {
    list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    active = entries.length ? (next + entries.length) % entries.length : -1;
    if (active < 0) return;
    const option = list.querySelector(`#${listId}-${active}`);
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  }

  function choose(place) {
    const entry = entries[place];
    if (!entry) return;
    input.value = "";
    close();
    if (!options.keeps) input.blur();
    options.choose(entry.kind, entry.found);
  }

  function show(answer, query) {
    entries = [
      ...(answer.items ?? []).map((found) => ({ kind: "item", found })),
      ...(answer.users ?? []).map((found) => ({ kind: "user", found })),
    ];
    const rows = entries.map(({ kind, found }, place) => make(
      "div",
      {
        role: "option", id: `${listId}-${place}`, "aria-selected": "false", class: `option ${kind}`,
        mousedown: (event) => event.preventDefault(), click: () => choose(place), mousemove: () => mark(place),
      },
      make("span", { class: "name" }, kind === "item" ? nameOf(found) : `User ${found.id}`),
      make("span", { class: "count" }, kind === "item" ? count(found.users, "user") : count(found.items, "item")),
    ));
    const nothing = `Nothing is called “${query}”, or nearly so. Try another word of the name.`;
    list.replaceChildren(...(rows.length ? rows : [make("p", { class: "empty" }, nothing)]));
    status.textContent = rows.length ? `${rows.length} found` : nothing;
    active = -1;
    open();
    if (rows.length) mark(0);
  }

  async function find() {
    const query = input.value.trim();
    latest += 1;
    const mine = latest;
    try {
      const answer = await ask(`search?${new URLSearchParams({ q: query, k: "8", kind: options.kind ?? "all" })}`);
      if (mine === latest && document.activeElement === input) show(answer, query);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (mine !== latest) return;
      entries = [];
      list.replaceChildren(make("p", { class: "empty" }, problem.message));
      open();
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    if (!input.value.trim()) close();
    else timer = setTimeout(find, PAUSE);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && list.hidden) find();
    else if (event.key === "ArrowDown") mark(active + 1);
    else if (event.key === "ArrowUp") mark(active - 1);
    else if (event.key === "Enter") choose(active);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  input.addEventListener("blur", close);
  return input;
}
