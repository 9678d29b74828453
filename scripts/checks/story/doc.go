// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package story draws stories of the icecream shop from a seed, plays them against an operator, and compares every
// icecream with a model of the rules of labs 02 and 03. If a story has an unexpected end, the package shrinks it and
// tells it as a customer would. It does not look at how an operator works, but only at the result in the API server and
// in the freezer's books.
package story
