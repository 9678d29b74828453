// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package browser is a test: it opens the page of a run, and the site that `make docs` builds, in a headless Chromium
// and clicks through them as a person would. It holds no code for others. The page of a run is in package report, and
// the site in docs/site.
//
// The site is tested where OPERATOR_LABS_SITE is `required`, as in CI. Where no Chromium is installed the test is
// skipped, unless OPERATOR_LABS_BROWSER is `required`, as in CI. To look at the pages,
// `go test ./proving/browser -screenshots DIR` writes pictures of all of them.
package browser
