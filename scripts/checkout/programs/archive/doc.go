// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package archive writes and reads archives of programs that were built elsewhere, so that a class need not compile
// Kubernetes two hundred times. It knows nothing about what the programs do. Package programs lists them.
//
// An archive is a tar file of one platform. Its first file is the manifest, which has the SHA-256 of all others. The
// others are layers, each a compressed tar archive. A reader fetches only the layers that it needs, from a file or by
// HTTP. A program is used only if it was built from exactly the sources of the checkout, by the same version of Go. All
// other programs are built as if there were no archive.
package archive
