// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package service

import "strings"

// Shorten returns the part of a long id or token that distinguishes it from others.
func Shorten(id string) string {
	const enough = 12
	if len(id) <= enough {
		return id
	}
	return strings.TrimRight(id[:enough], "-._:") + "…"
}
