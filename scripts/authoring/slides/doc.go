// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package slides builds the slides of the lectures: it installs Marp at the version that docs/slides/package-lock.json
// pins, and runs it to write the HTML and the PDF of each deck. It does not check the decks. The tests of package
// browser do that.
package slides
