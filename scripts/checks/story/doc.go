// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package story draws stories of the icecream shop from a seed, plays them against an operator, and compares every
// icecream with a model of the rules of labs 02 and 03. A story that ends otherwise is made smaller, and told as a
// customer would tell it. The package does not know how an operator gets there: only what is in the API server and in
// the freezer's books counts.
package story
