// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Package store keeps llamas in a folder, so that they survive the end of the program, also by kill -9. It knows
// nothing of HTTP, and decides nothing about a llama but its resourceVersion.
//
// Two files are enough. The log has a line for each change, and a change is answered only when its line is on the disk.
// The snapshot has the changes of the log up to its last truncation. A new snapshot is written beside the old one and
// replaces it by a rename, so there is a complete snapshot at any time.
package store
