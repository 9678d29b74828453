// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package browser is a test: it opens the page of a run in a headless Chromium and clicks through it as a person would. It holds
// no code for others, and the page itself is in package report.
//
// Where no Chromium is installed the test is skipped, unless OPERATOR_LABS_BROWSER is `required`, as in CI. To look at the pages,
// `go test ./browser -screenshots DIR` writes pictures of all of them.
package browser
