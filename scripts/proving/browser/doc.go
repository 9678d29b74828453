// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package browser tests the page of a run and the site that `make docs` builds: it opens them in a headless Chromium
// and clicks through them as a person would. It has no code for other packages. The page of a run is in package report,
// and the site in docs/site.
//
// The site is tested if OPERATOR_LABS_SITE is `required`, as in CI. If Chromium is not installed, the tests are
// skipped, unless OPERATOR_LABS_BROWSER is `required`, as in CI. To look at the pages, run `go test ./proving/browser
// -screenshots DIR`, which writes screenshots of all of them.
package browser
