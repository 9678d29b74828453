// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// What the scripts of the page share. All text goes through textContent: what a submission has written is never HTML.
"use strict";

const byID = (id) => document.getElementById(id);

// data is what the page was made from, or null if nothing ran.
const data = byID("data") && JSON.parse(byID("data").textContent);

function element(name, attributes, ...children) {
  const svg = ["svg", "g", "rect", "path", "line", "text", "title", "clipPath"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

