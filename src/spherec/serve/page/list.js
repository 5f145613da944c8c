// A list of items with reasons. Entries that stay glide to their new place; new ones fade in.

import { count, link, make, movesGently, nameParts, picture, term, titleOf } from "./dom.js";

const GLIDE = 320; // milliseconds

export class EntryList {
  /**
   * options: point(entry or null) when the pointer or the focus is on an entry, place(id) what is known of an item,
   * most (users of the most popular item), score (what a score is; none without)
   */
  constructor(options) {
    this.options = options;
    this.rows = new Map(); // id as text -> element
    this.element = make("ol", { class: "entries" });
    this.heads = make("p", { class: "terms" },
      options.score ? term("score", options.score) : null,
      term("popularity", "How many users have the item. The bar grows with the logarithm of that number; it is full for the "
        + `most popular item of all, which ${count(options.most, "user")} have.`));
  }

  update(items) {
    const before = new Map([...this.rows].map(([id, row]) => [id, row.getBoundingClientRect().top]));
    const rows = new Map();
    items.forEach((item, place) => {
      const id = String(item.id);
      const row = this.rows.get(id) ?? make("li", { class: "entry" });
      this.fill(row, item, place + 1);
      rows.set(id, row);
    });
    this.rows = rows;
    if (items.length) this.place([...rows.values()]);
    else this.element.replaceChildren(make("li", { class: "empty" }, "Nothing is left to list here."));
    if (!movesGently()) return;
    for (const [id, row] of rows) {
      if (!before.has(id)) {
        if (before.size) row.animate([{ opacity: 0 }, { opacity: 1 }], { duration: GLIDE, easing: "ease-out" });
        continue;
      }
      const shift = before.get(id) - row.getBoundingClientRect().top;
      if (shift) {
        const frames = [{ transform: `translateY(${shift}px)` }, { transform: "none" }];
        row.animate(frames, { duration: GLIDE, easing: "cubic-bezier(.2,.7,.2,1)" });
      }
    }
  }

  /** Put the rows in order, moving none that has the focus out of the document. */
  place(rows) {
    for (const old of [...this.element.children]) if (!rows.includes(old)) old.remove();
    rows.forEach((row, place) => {
      if (this.element.children[place] !== row) this.element.insertBefore(row, this.element.children[place] ?? null);
    });
  }

  fill(row, item, rank) {
    const place = this.options.place(item.id);
    const users = place?.users;
    const content = JSON.stringify([rank, users, item.score, item.because]);
    row.onmouseenter = () => this.options.point(item);
    row.onmouseleave = () => this.options.point(null);
    row.onfocus = () => this.options.point(item);
    if (row.dataset.content === content) return;
    row.dataset.content = content;
    const reasons = (item.because ?? []).flatMap((reason, place) => [
      place ? ", " : "", make("a", { href: link("item", reason.id) }, titleOf(reason)),
    ]);
    const bar = make("span", { class: "bar-of-users", "aria-hidden": "true" });
    bar.style.setProperty("--share", String(Math.min(Math.log1p(users ?? 0) / Math.log1p(this.options.most), 1)));
    row.replaceChildren(
      make("span", { class: "rank" }, String(rank), picture(place, "cover") ?? ""),
      make("div", { class: "what" },
        make("a", { class: "name", href: link("item", item.id), focus: () => this.options.point(item), blur: () => this.options.point(null) },
          nameParts(item)),
        reasons.length ? make("p", { class: "because" }, "because you have ", ...reasons) : null),
      make("span", { class: "users" },
        this.options.score && item.score !== undefined ? make("span", { class: "score" }, item.score.toFixed(2)) : null,
        users === undefined ? "" : count(users, "user"), bar),
    );
  }
}
