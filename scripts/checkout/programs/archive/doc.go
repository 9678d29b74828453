// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package archive writes and reads archives of programs that were built elsewhere, so that a class need not compile
// Kubernetes two hundred times. It knows nothing of what the programs do. Which programs there are is package programs'
// to say.
//
// An archive is a tar file of one platform. Its first file is the manifest, which has the SHA-256 of all others. They
// are layers, each a compressed tar archive: a reader fetches only the layers that it needs, from a file or by HTTP. A
// program is used only if it was made from exactly the sources that are here, by the same version of Go. Everything
// else is built as without an archive.
package archive
