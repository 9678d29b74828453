// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Marp's settings for all decks. `make slides` gives it the folders and the browser.
import fs from "node:fs";
import { diagramsIn, draw } from "../mermaid.mjs";

const decks = fs.readdirSync(new URL(".", import.meta.url)).filter((name) => /^\d.*\.md$/.test(name));
const drawn = draw(
  "slides",
  import.meta.url,
  diagramsIn(decks.map((name) => fs.readFileSync(new URL(name, import.meta.url), "utf8"))),
  {
    // Close boxes and short arrows: letters must be legible from the last row.
    slide: {
      theme: "neutral",
      flowchart: { rankSpacing: 16, nodeSpacing: 24, padding: 8, wrappingWidth: 110 },
      sequence: { mirrorActors: false, messageMargin: 20, actorMargin: 30, noteMargin: 6, boxMargin: 4, height: 36 },
    },
  },
);

// A slide shows a diagram as a picture of the height that is left on it.
const diagrams = (md) => {
  const { fence } = md.renderer.rules;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const token = tokens[index];
    const picture = token.info.trim() === "mermaid" && drawn[token.content];
    return picture ? `<div class="diagram">${picture.slide}</div>\n` : fence(tokens, index, ...rest);
  };
};

export default {
  themeSet: ["theme.css"],
  html: true,
  engine: ({ marp }) => marp.use(diagrams),
  options: {
    // Marp would replace emoji by pictures of another host, and set formulas.
    emoji: { shortcode: false, unicode: false },
    math: false,
  },
};
