// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package mutate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// marker matches a line that controller-gen reads.
var marker = regexp.MustCompile(`(?m)^[ \t]*// ?(\+[a-zA-Z][^\n]*)\n`)

// scaffolded are markers that every project has and a scaffold writes.
var scaffolded = []string{
	"+kubebuilder:scaffold", "+groupName", "+kubebuilder:object:generate", "+kubebuilder:object:root",
}

var (
	rightsOf = regexp.MustCompile(`\b(groups|resources|verbs)=([^,\s]+)`)
	numberOf = regexp.MustCompile(`(\w+=)(\d+)\b`)
)

// swapped lists words of markers that authors confuse.
var swapped = [][2]string{
	{"=set", "=atomic"},
	{"=map", "=atomic"},
	{"scope=Cluster", "scope=Namespaced"},
	{"mutating=true", "mutating=false"},
	{"failurePolicy=fail", "failurePolicy=ignore"},
	{"sideEffects=None", "sideEffects=Some"},
}

// markers generates the mutants of the file's markers.
func (s *source) markers() {
	for _, found := range marker.FindAllSubmatchIndex(s.content, -1) {
		text := string(s.content[found[2]:found[3]])
		if ignored(text) || s.region(found[0]) == "else" {
			continue
		}
		s.replaceOffsets(RemoveMarker, found[0], found[1], "")
		s.widen(found[2], text)
	}
}

func ignored(marker string) bool {
	for _, prefix := range scaffolded {
		if strings.HasPrefix(marker, prefix) {
			return true
		}
	}
	return false
}

// widen makes a marker request or allow more.
func (s *source) widen(offset int, text string) {
	change := func(from, to int, with string) { s.replaceOffsets(WidenMarker, offset+from, offset+to, with) }
	for _, found := range rightsOf.FindAllStringSubmatchIndex(text, -1) {
		from, to := found[0], found[1]
		key, listed := text[found[2]:found[3]]+"=", strings.Split(text[found[4]:found[5]], ";")
		change(from, to, key+"*")
		for i := range listed {
			if len(listed) > 1 {
				change(from, to, key+strings.Join(slices.Delete(slices.Clone(listed), i, i+1), ";"))
			}
		}
	}
	for _, found := range numberOf.FindAllStringSubmatchIndex(text, -1) {
		key := text[found[2]:found[3]]
		if value, err := strconv.Atoi(text[found[4]:found[5]]); err == nil {
			change(found[0], found[1], fmt.Sprint(key, value+1))
			if value > 0 {
				change(found[0], found[1], fmt.Sprint(key, value-1))
			}
		}
	}
	for _, words := range swapped {
		if i := strings.Index(text, words[0]); i >= 0 {
			change(i, i+len(words[0]), words[1])
		}
	}
}
