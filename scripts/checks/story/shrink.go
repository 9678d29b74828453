// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package story

// shrink leaves out as many items as possible while fails returns true for the rest: halves first, then quarters, and
// so on (ddmin). fails must be true for the given items, which shrink does not check.
func shrink[T any](items []T, fails func([]T) bool) []T {
	for parts := 2; len(items) > 1; {
		size := (len(items) + parts - 1) / parts
		smaller := false
		for from := 0; from < len(items); from += size {
			rest := append(append([]T{}, items[:from]...), items[min(from+size, len(items)):]...)
			if len(rest) > 0 && fails(rest) {
				items, smaller = rest, true
				break
			}
		}
		switch {
		case smaller:
			parts = max(2, parts-1)
		case size == 1:
			return items
		default:
			parts = min(2*parts, len(items))
		}
	}
	return items
}
