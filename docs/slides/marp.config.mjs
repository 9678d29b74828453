// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Marp's settings for all decks. `make slides` gives it the folders and the browser.
export default {
  themeSet: ["theme.css"],
  html: true,
  options: {
    // Marp would replace emoji by pictures of another host, and set formulas.
    emoji: { shortcode: false, unicode: false },
    math: false,
  },
};
