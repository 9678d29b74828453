// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package docs keeps the code, tables and diagrams in Markdown pages equal to the files from which they are made, and
// finds dead links. It does not render pages, and does not check links to other sites.
//
// A page names the code that it shows:
//
//	<!-- code: scripts/checks/02-reconciler/places_test.go#perFlavour -->
//	<!-- /code -->
//
// Refresh writes the text between the two comments. After # comes the name of a declaration of a Go file (with
// Type.Method where Method alone is ambiguous) or of a region (see package skeleton). Without # the whole file is
// shown. Markers, and lines that only the lab has, are never shown. A lecture shows no solution, but links to it, and
// the same names are the anchors of such a link. Slides name code in the same way, and are built WithoutMarkers.
//
// A table of labs.yaml is named in the same way. There are checks (those of the lab whose page it is), labs and
// lectures:
//
//	<!-- table: checks -->
//	<!-- /table -->
//
// Other tables list recorded results, and how the repository is laid out: its wings, packages and sizes. A diagram
// (<!-- diagram: wings -->) is written in Mermaid. A slide shows the first diagram of a lecture's section:
//
//	<!-- diagram: docs/lectures/02-reconcile.md#the-cache -->
//	<!-- /diagram -->
package docs
