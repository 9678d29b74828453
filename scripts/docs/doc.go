// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package docs keeps the code in Markdown pages equal to the files it is taken from, and finds dead links. It neither
// renders pages nor looks at links to other sites.
//
// A page names the code that it shows:
//
//	<!-- code: solutions/02-reconciler/internal/controller/icecream_controller.go#Reconcile -->
//	<!-- /code -->
//
// What stands between the two comments is written by Refresh. After # comes the name of a declaration of a Go file (with
// Type.Method where Method alone could be several) or of a region (see package skeleton); without # the whole file is
// shown. Markers, and what only the lab has, never show.
package docs
