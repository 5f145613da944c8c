// The dial: a slider from the long tail to the mainstream, with the model's own place marked.

import { make } from "./dom.js";

const LOW = -0.5;
const HIGH = 1.25;
const STEP = 0.05;

/** Return {element, value()}; `turn` is called with the place of the dial while it moves. */
export function dial(model, at, turn) {
  if (!model.reach) {
    const sentence = "This model was trained without reach, so its lists have no dial. Models of the presets accurate and fast have one.";
    return { element: make("div", { class: "no-dial" }, make("p", { class: "hint" }, sentence)), value: () => null };
  }
  const given = Number.parseFloat(at);
  const begin = Number.isFinite(given) ? Math.min(Math.max(given, LOW), HIGH) : model.mainstream;
  const slider = make("input", { type: "range", id: "dial", min: LOW, max: HIGH, step: STEP, value: begin });
  const output = make("output", { for: "dial" });
  const reset = make("button", { type: "button", class: "quiet" }, `back to ${model.mainstream}`);
  const tick = make("span", { class: "tick", "aria-hidden": "true", title: "the model’s default" });
  const share = Math.min(Math.max((model.mainstream - LOW) / (HIGH - LOW), 0), 1);
  tick.style.left = `calc(${share} * (100% - var(--thumb)) + var(--thumb) / 2)`;

  function value() {
    const number = Number(slider.value);
    return Math.abs(number - model.mainstream) < STEP / 2 ? model.mainstream : Math.round(number * 100) / 100;
  }

  function label() {
    const isDefault = value() === model.mainstream;
    output.textContent = value().toFixed(2).replace("-", "−");
    slider.setAttribute("aria-valuetext", `${value().toFixed(2)}${isDefault ? ", the model’s default" : ""}`);
    reset.hidden = isDefault;
  }

  slider.addEventListener("input", () => {
    label();
    turn(value());
  });
  reset.addEventListener("click", () => {
    slider.value = model.mainstream;
    label();
    turn(value());
    slider.focus();
  });
  label();
  const element = make(
    "div", { class: "dial" },
    make("div", { class: "dial-top" }, make("label", { for: "dial" }, "How mainstream"), output, reset),
    make("div", { class: "track" }, slider, tick),
    make("div", { class: "ends", "aria-hidden": "true" }, make("span", {}, "long tail"), make("span", {}, "bestsellers")),
  );
  return { element, value };
}
