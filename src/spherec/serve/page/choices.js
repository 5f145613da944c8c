// What a list is narrowed to: a column of the item table has a value; and how different its items are to be.

import { make } from "./dom.js";

const PAUSE = 350; // milliseconds without a key before the list is asked for

/** Return {element, value()}: the part of a request that the visitor has chosen; `change` is called when it changes. */
export function choices(model, ask, change) {
  const column = make("select", { id: "only-column" }, make("option", { value: "" }, "all items"),
    Object.keys(model.columns).map((name) => make("option", { value: name }, name)));
  const wanted = make("input", { "aria-label": "Value of the column", list: "only-values", autocomplete: "off", hidden: true });
  const known = make("datalist", { id: "only-values" });
  const differ = make("input", { type: "checkbox", id: "differ" });
  let timer = 0;
  column.addEventListener("change", async () => {
    wanted.hidden = !column.value;
    wanted.value = "";
    if (!column.value) change();
    else wanted.focus();
    const { groups } = column.value ? await ask(`map/groups?${new URLSearchParams({ column: column.value })}`) : { groups: [] };
    const common = groups.sort((a, b) => b[1].length - a[1].length).slice(0, 200);
    known.replaceChildren(...common.map(([value]) => make("option", { value })));
  });
  wanted.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(change, PAUSE);
  });
  differ.addEventListener("change", change);
  const value = () => ({
    ...(column.value && wanted.value.trim() ? { filter: { [column.value]: wanted.value.trim() } } : {}),
    ...(differ.checked ? { diversity: 0.5 } : {}),
  });
  const only = Object.keys(model.columns).length ? [make("label", { for: "only-column" }, "Only "), column, wanted, known] : [];
  const element = make("div", { class: "choices" }, make("span", {}, only),
    make("label", { for: "differ", title: "Trades nearness for items that are unlike each other." }, differ, " more varied"));
  return { element, value };
}
