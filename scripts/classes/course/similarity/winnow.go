// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package similarity

const (
	// rowTokens is k, the number of tokens in a hashed row. window is w: at least one of so many consecutive hashes is a
	// fingerprint. A common row of rowTokens+window-1 tokens, about three lines of Go, is always found.
	rowTokens = 16
	window    = 8
	// minTokens is the length of the shortest declaration that counts. One shorter than a row has a single fingerprint.
	minTokens = 10
	// base is the base of the polynomial over the tokens of a row, modulo 2^64.
	base = 0x9e3779b97f4a7c15
)

// mix spreads the bits of a hash (the finalizer of SplitMix64), so that the smallest of a window is a random one.
func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// rows returns the hashes of all rows of a declaration, in order.
func rows(tokens []uint64) []uint64 {
	if len(tokens) < minTokens {
		return nil
	}
	if len(tokens) < rowTokens {
		h := uint64(len(tokens)) // No row of the usual length has this hash.
		for _, t := range tokens {
			h = h*base + t
		}
		return []uint64{mix(h)}
	}
	all := make([]uint64, 0, len(tokens)-rowTokens+1)
	first := uint64(1) // base to the power of rowTokens-1
	for range rowTokens - 1 {
		first *= base
	}
	h := uint64(0)
	for i, t := range tokens {
		if i >= rowTokens {
			h -= tokens[i-rowTokens] * first
		}
		h = h*base + t
		if i >= rowTokens-1 {
			all = append(all, mix(h))
		}
	}
	return all
}

// winnow chooses the smallest hash of each window, the last of equal ones, and returns the positions. If there are
// fewer hashes than a window, it chooses one.
func winnow(hashes []uint64, w int) (chosen []int) {
	if len(hashes) == 0 {
		return nil
	}
	last := -1
	for end := min(w, len(hashes)); end <= len(hashes); end++ {
		begin := max(0, end-w)
		if last >= begin { // Only the newest hash can replace it.
			if hashes[end-1] <= hashes[last] && last != end-1 {
				last = end - 1
				chosen = append(chosen, last)
			}
			continue
		}
		last = begin
		for i := begin + 1; i < end; i++ {
			if hashes[i] <= hashes[last] {
				last = i
			}
		}
		chosen = append(chosen, last)
	}
	return chosen
}
