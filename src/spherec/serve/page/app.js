// The page: what the address names is shown in the list and on the map.
//
// #item=ID, #user=ID, #reader=ID,ID…, each with &dial=0.3; nothing shows the beginning.

import { ask, coalesce, configure, Problem, send, sleep } from "./api.js";
import { choices } from "./choices.js";
import { colourItems, nameRegions } from "./colours.js";
import { dial } from "./dial.js";
import { count, link, make, nameOf, nameParts, picture, titleOf } from "./dom.js";
import { EntryList } from "./list.js";
import { MapView } from "./map.js";
import { searchField } from "./search.js";

const LENGTH = 20; // of lists
const NEIGHBOURS = 12; // of an item
const REASONS = 2;
const HISTORY = 200; // items of a user that are shown

const $ = (id) => document.getElementById(id);
const view = $("view");
const panel = $("panel");

let model = null; // the answer of /model
let known = new Map(); // id as text -> {index, id, name, users}
let reader = []; // ids of the reader that was built last
let visit = 0; // number of the view that was asked for last
let isFirstView = true;
let most = 1; // users of the most popular item

const SCORE = "How near the item is to the user in the space, and how popular it may be: from the highest to the lowest.";
const SIMILARITY = "How near the item is in the space: 1 is the same place, 0 unrelated.";

const map = new MapView($("map"), {
  tip: $("tip"),
  pick: async (index) => {
    const [item] = await fetchPlaces("index", [index]);
    location.hash = link("item", item.id);
  },
  fetchNames: (indices) => fetchPlaces("index", indices).catch(() => []),
});

// --- what the views share ---

/** Return index, id, name and users of items, by "index" or by "id". */
async function fetchPlaces(by, values) {
  const query = new URLSearchParams(values.map((value) => [by, value]));
  const answer = await ask(`map/items?${query}`);
  for (const item of answer.items) {
    known.set(String(item.id), item);
    map.learn(item);
  }
  return answer.items;
}

/** Return what is known of items by their ids; it is asked for if it is not known yet. */
async function placesOf(ids) {
  const missing = [...new Set(ids.map(String))].filter((id) => !known.has(id));
  for (let first = 0; first < missing.length; first += 100) await fetchPlaces("id", missing.slice(first, first + 100));
  return ids.map((id) => known.get(String(id))).filter(Boolean);
}

async function indicesOf(items) {
  return (await placesOf(items.map((item) => item.id))).map((item) => item.index);
}

function show(title, ...content) {
  document.title = title ? `${title} · spherec` : "spherec";
  $("subject").textContent = title;
  $("subject").hidden = !title;
  hideNotice();
  view.replaceChildren(...content.flat().filter(Boolean));
  panel.scrollTop = 0;
  if (!isFirstView) view.querySelector("h1")?.focus({ preventScroll: true });
  isFirstView = false;
}

function showNotice(message, retry) {
  $("notice").replaceChildren(
    make("p", {}, message),
    retry ? make("button", { type: "button", click: retry }, "Try again") : "",
  );
  $("notice").hidden = false;
}

function hideNotice() {
  $("notice").hidden = true;
}

function showLegend(...entries) {
  $("legend").replaceChildren(...entries.map(([kind, text]) => make("li", { class: kind }, text)));
  $("map-key").hidden = !map.n;
}

/** Colour the map by a column of the item table, "" for none, with a legend beside it; name its regions. */
async function colourBy(column) {
  const query = (name) => ask(`map/groups?${new URLSearchParams({ column: name })}`);
  const { groups } = await query(column);
  const { values, codes, isOrdered } = column ? colourItems(groups, map.n) : { values: [], isOrdered: false };
  const regions = nameRegions(map.places, isOrdered ? (await query("")).groups : groups);
  const name = (place) => `--${isOrdered ? "step" : "tint"}-${place + 1}`;
  const style = getComputedStyle(document.documentElement);
  map.setColours(regions, codes, values.map((_, place) => style.getPropertyValue(name(place)).trim()));
  const rows = values.map((value, place) => {
    const row = make("li", {}, value);
    row.style.setProperty("--colour", `var(${name(place)})`);
    return row;
  });
  $("tints").replaceChildren(...rows, rows.length && codes.includes(0) ? make("li", {}, "other") : "");
}

/** Offer the columns that group items, and colour by the one with the fewest values. */
async function offerColours() {
  const columns = Object.entries(model.columns).filter(([, values]) => values > 1 && values < model.items / 2)
    .sort((a, b) => a[1] - b[1]).map(([name]) => name);
  $("colour-by").replaceChildren(...["", ...columns].map((name) => make("option", { value: name }, name || "none")));
  $("colour-by").value = columns[0] ?? "";
  $("colour-label").hidden = !columns.length;
  await colourBy($("colour-by").value);
}

function heading(kind, name, detail) {
  return make(
    "header", { class: "heading" },
    make("p", { class: "kind" }, kind), make("h1", { tabindex: "-1" }, name), make("p", { class: "detail" }, detail),
  );
}

function pointing(entry) {
  const place = entry && known.get(String(entry.id));
  if (!place) {
    map.pointAt(null);
    return;
  }
  const because = (entry.because ?? []).map((reason) => known.get(String(reason.id))?.index);
  map.pointAt(place.index, because.filter((index) => index !== undefined));
}

function newList(score) {
  return new EntryList({ point: pointing, place: (id) => known.get(String(id)), most, score });
}

/** A list with reasons and a dial, refreshed while the dial moves. `request` is what /recommend is asked. */
function dialledList(request, own, dialAt) {
  const list = newList(SCORE);
  const typical = make("p", { class: "typical", role: "status" });
  let isFirst = true;
  const refresh = coalesce(async (mainstream) => {
    try {
      const body = { ...request, ...chosen.value(), k: LENGTH, explain: REASONS, ...(mainstream === null ? {} : { mainstream }) };
      const [{ items }] = (await ask("recommend", { body })).lists;
      const places = await placesOf(items.map((item) => item.id));
      await placesOf(items.flatMap((item) => item.because ?? []).map((item) => item.id));
      if (!list.element.isConnected && !isFirst) return;
      list.update(items);
      const users = places.map((place) => place.users).sort((a, b) => a - b);
      const half = users[Math.floor(users.length / 2)];
      typical.textContent = users.length ? `Half of these have at least ${count(half, "user")}.` : "";
      map.setMarks({ list: places.map((place) => place.index), history: await indicesOf(own) }, { fly: isFirst });
      hideNotice();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      showNotice(problem.message, () => refresh(mainstream));
      if (isFirst) throw problem;
    } finally {
      isFirst = false;
    }
  });
  const control = dial(model, dialAt, (mainstream) => {
    const { dial: _, ...address } = parseAddress();
    replaceAddress(mainstream === model.mainstream ? address : { ...address, dial: mainstream });
    refresh(mainstream);
  });
  const chosen = choices(model, ask, () => refresh(control.value()));
  control.element.append(chosen.element);
  return { control, list, typical, first: () => refresh(control.value()) };
}

/** Change the address without a new view. */
function replaceAddress(address) {
  const parts = Object.entries(address).map(([name, value]) => `${name}=${[value].flat().map(encodeURIComponent).join(",")}`);
  history.replaceState(null, "", `#${parts.join("&")}`);
}

function openReader(ids) {
  location.hash = ids.length ? `#reader=${ids.map(encodeURIComponent).join(",")}` : "#reader=";
}

// --- views ---

async function showStart() {
  const start = await ask("map/start");
  const items = start.items.map((item) => make(
    "li", { mouseenter: () => pointing(item), mouseleave: () => pointing(null) },
    picture(item, "cover"), make("a", { class: "name", href: link("item", item.id) }, nameParts(item)),
    make("p", { class: "near" }, "near ", item.near.map(titleOf).join(" · ")),
  ));
  const users = start.users.map((user) => make(
    "li", {},
    make("a", { class: "name", href: link("user", user.id) }, `User ${user.id}`),
    make("p", { class: "near" }, `${count(user.items, "item")}: `, user.has.map(titleOf).join(" · ")),
  ));
  const field = make("div", { class: "search" });
  return () => {
    show(
      "",
      make("header", { class: "heading intro" },
        make("h1", { tabindex: "-1" }, "A space of what people like"),
        make("p", { class: "lead" },
          `${count(model.users, "user")} and ${count(model.items, "item")} share one space, learned from `
          + `${count(model.pairs, "choice")}. Items that the same people like lie close together, and a user’s nearest `
          + "items are their list. The map shows all of them, the well-known ones with their names.")),
      section("Begin with an item", "Well-known ones, far apart in the space, and what lies next to them.", "samples", items),
      section("Or with somebody", "Their history, their list, and the reasons for it.", "samples", users),
      make("section", { class: "block" },
        make("h2", {}, "Or as a new reader"),
        make("p", { class: "hint" }, "Name a few things that you like; the list follows."), field),
    );
    searchField(field, { label: "Something that you like", placeholder: "Something that you like", kind: "items",
      choose: (_, item) => openReader([item.id]) });
    for (const item of [...start.items, ...start.items.flatMap((one) => one.near)]) remember(item);
    showLegend(["list", "well-known, far apart"]);
    map.setMarks({ list: start.items.map((item) => item.index) }, { fly: false });
    map.showAll();
  };
}

async function showItem({ item: id }) {
  const [{ item }, { items }] = await Promise.all([
    ask(`items/${encodeURIComponent(id)}`), ask(`similar/${encodeURIComponent(id)}?k=${NEIGHBOURS}`),
  ]);
  const [place] = await placesOf([item.id]);
  const near = await indicesOf(items);
  return () => {
    const list = newList(SIMILARITY);
    const isIn = reader.includes(String(item.id));
    const add = make("button", { type: "button", class: "primary", click: () => openReader([...reader, String(item.id)]) },
      reader.length ? `Add to your reader of ${reader.length}` : "Be a reader who likes this");
    const columns = Object.entries(item.columns ?? {}).filter(([, value]) => value !== null)
      .map(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]);
    show(
      nameOf(item),
      picture(place, "portrait"),
      heading("Item", nameParts(item), count(item.users, "user") + (item.name === null ? "" : ` · ${item.id}`)),
      columns.length ? make("dl", { class: "columns" }, columns.flat()) : null,
      make("p", { class: "actions" }, isIn ? make("a", { href: `#reader=${reader.map(encodeURIComponent).join(",")}` },
        "It is in your reader: see the list") : add),
      make("h2", {}, "Nearest items"), list.heads, list.element,
    );
    list.update(items);
    showLegend(["list", "this item and its neighbours"]);
    map.setMarks({ selected: place.index, list: near, lines: near.map((other) => [place.index, other]) });
  };
}

async function showUser({ user: id, dial: dialAt }) {
  const { user, items } = await ask(`users/${encodeURIComponent(id)}?k=${HISTORY}`);
  await placesOf(items.slice(0, 100).map((item) => item.id));
  const { control, list, typical, first } = dialledList({ users: [id] }, items.slice(0, 100), dialAt);
  const rows = items.map((item) => make(
    "li", { mouseenter: () => pointing(item), mouseleave: () => pointing(null) },
    make("a", { href: link("item", item.id) }, nameParts(item)),
  ));
  const more = user.items > items.length ? make("p", { class: "hint" }, `and ${count(user.items - items.length, "more item")}`) : null;
  const taste = items.slice(0, 8).map((item) => String(item.id));
  return () => {
    show(
      `User ${user.id}`,
      heading("User", `User ${user.id}`, count(user.items, "item")),
      control.element,
      make("div", { class: "beside" },
        make("section", { class: "block" }, make("h2", {}, "List"), typical, list.heads, list.element),
        make("section", { class: "block history" }, make("h2", {}, "History"),
          rows.length ? make("ul", { class: "plain" }, rows) : make("p", { class: "empty" }, "This user has no items."), more,
          rows.length ? make("button", { type: "button", click: () => openReader(taste) }, "Try as a reader of your own") : null)),
    );
    showLegend(["list", "list"], ["history", "history"]);
    return first();
  };
}

async function showReader({ reader: ids, dial: dialAt }) {
  const items = await placesOf(ids);
  reader = items.map((item) => String(item.id));
  const lost = ids.length - items.length;
  const field = make("div", { class: "search" });
  const remove = (item) => openReader(reader.filter((id) => id !== String(item.id)));
  const rows = items.map((item) => make(
    "li", { mouseenter: () => pointing(item), mouseleave: () => pointing(null) },
    make("a", { href: link("item", item.id) }, nameParts(item)),
    make("button", { type: "button", class: "icon-button", "aria-label": `Remove ${nameOf(item)}`, click: () => remove(item) }, "×"),
  ));
  const { control, list, typical, first } = dialledList({ items: reader }, items, dialAt);
  return () => {
    const hadFocus = view.contains(document.activeElement) && document.activeElement.getAttribute("role") === "combobox";
    show(
      "A new reader",
      heading("New reader", "A reader of your own",
        items.length ? `has ${count(items.length, "item")}; the model has never seen this reader` : "has nothing yet"),
      lost ? make("p", { class: "hint" }, `${count(lost, "item")} of the address are not in this model and are left out.`) : null,
      control.element,
      make("div", { class: "beside" },
        make("section", { class: "block" }, make("h2", {}, items.length ? "List" : "Bestsellers"),
          items.length ? typical : make("p", { class: "hint" }, "What most have. Add something that you like, and the list is yours."),
          list.heads, list.element),
        make("section", { class: "block history" }, make("h2", {}, "You have"), make("ul", { class: "plain" }, rows), field)),
    );
    const input = searchField(field, { label: "Add something that you like", placeholder: "Add an item",
      kind: "items", keeps: true,
      choose: (_, item) => openReader([...reader.filter((id) => id !== String(item.id)), String(item.id)]) });
    if (hadFocus || !items.length) input.focus({ preventScroll: true });
    showLegend(["list", items.length ? "list" : "bestsellers"], ["history", "what you have"]);
    return first();
  };
}

function section(title_, hint, className, rows) {
  return make("section", { class: "block" }, make("h2", {}, title_), make("p", { class: "hint" }, hint),
    make("ul", { class: className }, rows));
}

function remember(item) {
  known.set(String(item.id), item);
  map.learn(item);
}

// --- routing ---

/** Return what the address names: texts, and for the reader the list of its ids. */
function parseAddress() {
  const parts = location.hash.slice(1).split("&").map((part) => part.split(/=(.*)/s));
  const address = Object.fromEntries(parts.map(([name, value = ""]) => [name, decode(value)]));
  const reader_ = parts.find(([name]) => name === "reader");
  if (reader_) address.reader = (reader_[1] ?? "").split(",").filter(Boolean).map(decode);
  return address;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a percent sign that encodes nothing
  }
}

async function route() {
  visit += 1;
  const mine = visit;
  const address = parseAddress();
  const open = "item" in address ? showItem : "user" in address ? showUser : "reader" in address ? showReader : showStart;
  panel.setAttribute("aria-busy", "true");
  try {
    const ready = await open(address);
    if (mine === visit) await ready();
  } catch (problem) {
    if (mine !== visit) return;
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 404) showUnknown(problem);
    else showNotice(problem.message, route);
  } finally {
    if (mine === visit) panel.removeAttribute("aria-busy");
  }
}

function showUnknown(problem) {
  show("Not found", heading("Not found", "This model does not know it", problem.message),
    make("p", { class: "actions" }, make("a", { href: "#" }, "Back to the beginning")));
  showLegend();
  map.setMarks({});
}

// --- the map, the model, keys ---

async function loadMap() {
  const status = $("drawing");
  const mine = model.model;
  try {
    for (;;) {
      const response = await send("map");
      if (response.status === 200) {
        map.setData(await response.arrayBuffer());
        status.hidden = true;
        $("map-key").hidden = false;
        await offerColours();
        return;
      }
      status.textContent = "The map is being drawn, which may take a minute. The list works meanwhile.";
      status.hidden = false;
      await sleep(700);
      if (mine !== model.model) return;
    }
  } catch (problem) {
    status.textContent = `There is no map: ${problem.message}`;
    status.hidden = false;
  }
}

async function begin() {
  try {
    model = await ask("model");
  } catch (problem) {
    showNotice(problem.message, begin);
    return;
  }
  hideNotice();
  known = new Map();
  most = Math.max((await ask("search?kind=items&k=1")).items[0]?.users ?? 1, 1);
  $("about").replaceChildren(
    make("span", {}, `${model.file} · ${model.dim} dimensions · ${model.model}`), " ", make("a", { href: "docs" }, "API"));
  const drawn = loadMap();
  await route();
  await drawn;
  if (map.n) await route();
}

let asking = null;

function askForKey(wasRefused) {
  asking ??= new Promise((resolve) => {
    const dialog = $("key");
    $("key-why").textContent = wasRefused ? "That key was not accepted. Please try another one."
      : "Whoever runs it can give you one. It is kept until this tab is closed.";
    $("key-field").value = "";
    dialog.addEventListener("close", () => {
      asking = null;
      resolve(dialog.returnValue === "open" && $("key-field").value ? $("key-field").value.trim() : null);
    }, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
  });
  return asking;
}

configure({
  askForKey,
  onModel: (checksum) => {
    if (model && checksum !== model.model) {
      model.model = checksum; // another version has taken its place
      begin();
    }
  },
});

searchField($("search"), {
  label: "Find an item or a user",
  placeholder: "Find an item or a user",
  choose: (kind, found) => { location.hash = link(kind, found.id); },
});

$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("spherec-theme", root.dataset.theme);
  map.readColours();
  recolour();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
  if (localStorage.getItem("spherec-theme")) return;
  document.documentElement.dataset.theme = event.matches ? "dark" : "light";
  map.readColours();
  recolour();
});

const recolour = () => colourBy($("colour-by").value).catch((problem) => showNotice(problem.message));
$("colour-by").addEventListener("change", recolour);

$("zoom-in").addEventListener("click", () => map.zoom(1.6));
$("zoom-out").addEventListener("click", () => map.zoom(1 / 1.6));
$("zoom-all").addEventListener("click", () => map.showAll());

/** Show the list or the map, where there is no room for both. */
function turnTo(shown) {
  document.body.dataset.shown = shown;
  for (const other of ["list", "map"]) $(`show-${other}`).setAttribute("aria-pressed", String(other === shown));
}

$("show-list").addEventListener("click", () => turnTo("list"));
$("show-map").addEventListener("click", () => turnTo("map"));
$("subject").addEventListener("click", () => turnTo("list"));

addEventListener("hashchange", route);
begin();
