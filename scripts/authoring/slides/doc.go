// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package slides builds the slides of the lectures: it installs Marp as docs/slides/package-lock.json pins it, and has
// it write the HTML and the PDF of each deck. It does not judge the decks: the tests of package browser do that.
package slides
