// What the theme leaves out for those who use no mouse, or cannot see the page.
"use strict";

function name(selector, label) {
  for (const each of document.querySelectorAll(selector)) each.setAttribute("aria-label", label);
}

/** Code and tables that are wider than their place are scrolled by keys too. */
function reachable() {
  for (const each of document.querySelectorAll("pre, .table-wrapper")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}

name(".sidebar-drawer", "All pages");
name(".toc-drawer", "This page");
for (const each of document.querySelectorAll('.caption[role="heading"]')) each.setAttribute("aria-level", "2");
reachable();
addEventListener("resize", reachable);
addEventListener("load", reachable);
const results = document.querySelector("#search-results");
if (results) {
  const title = document.createElement("h1");
  title.textContent = "Search";
  results.before(title);
}
