// Before the first paint: the theme that was chosen here, or else the system's.
const chosen = localStorage.getItem("spherec-theme");
const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = isDark ? "dark" : "light";
