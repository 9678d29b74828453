// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"lva.io/operators/scripts/grading/limited"
)

// markersTimeout is the time limit for listing the markers that controller-gen knows, which takes some hundredths of a
// second.
const markersTimeout = 30 * time.Second

// markerNotices returns notices about comments that look like markers but are not: controller-gen ignores them
// silently.
func (b *Builder) markerNotices(ctx context.Context) ([]string, error) {
	suspects := b.suspects()
	if len(suspects) == 0 {
		return nil, nil
	}
	known, err := b.knownMarkers(ctx)
	if err != nil {
		return nil, err
	}
	var notices []string
	for _, s := range suspects {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if notice := known.judge(s.text); notice != "" {
			notices = append(notices, fmt.Sprintf("%s:%d: %s", s.file, s.line, notice))
		}
	}
	return notices, nil
}

// suspect is a comment that is a marker, or looks as if it was meant to be one.
type suspect struct {
	file string
	line int
	text string // after the slashes
}

// suspects returns the comments of the module's packages that may be markers. It ignores tests.
func (s *Submission) suspects() (all []suspect) {
	for _, folder := range s.sources.folders() {
		for _, file := range s.sources[folder] {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := s.ReadFile(file)
			if err != nil {
				continue // too large to be written by hand
			}
			number := 0
			for line := range bytes.Lines(content) {
				number++
				text, comment := bytes.CutPrefix(bytes.TrimSpace(line), []byte("//"))
				if trimmed := strings.TrimSpace(string(text)); comment && looksLikeMarker(trimmed) {
					all = append(all, suspect{file, number, trimmed})
				}
			}
		}
	}
	return all
}

// looksLikeMarker distinguishes a marker, or an attempt at one, from prose.
func looksLikeMarker(comment string) bool {
	if strings.HasPrefix(comment, "kubebuilder:") {
		return true
	}
	text, plus := strings.CutPrefix(comment, "+")
	return plus && text != ""
}

// knownMarkers has the names of all markers that controller-gen knows. The value is true if the marker's arguments have
// names, as in kubebuilder:resource:scope=Cluster.
type knownMarkers map[string]bool

func (b *Builder) knownMarkers(ctx context.Context) (knownMarkers, error) {
	content := limited.NewOutput(outputLimit)
	output, err := b.tool(ctx, tool{
		path: b.ControllerGen, args: []string{"rbac:roleName=" + defaultRole, "crd", "webhook", "object", "-wwww"},
		environment: offline(), timeout: markersTimeout, stdout: content,
	})
	if err != nil {
		return nil, fmt.Errorf("listing controller-gen's markers: %w: %s", err, firstLine(output))
	}
	var categories []struct {
		Markers []struct {
			Name   string `json:"name"`
			Fields []struct {
				Name string `json:"name"`
			} `json:"fields"`
		} `json:"markers"`
	}
	if err := json.Unmarshal(content.Bytes(), &categories); err != nil {
		return nil, fmt.Errorf("reading controller-gen's markers: %w", err)
	}
	known := knownMarkers{}
	for _, category := range categories {
		for _, marker := range category.Markers {
			known[marker.Name] = len(marker.Fields) > 0 && marker.Fields[0].Name != ""
		}
	}
	return known, nil
}

// ownFamily is the prefix of controller-gen's markers. Other markers belong to other tools, unless they nearly match
// one of controller-gen's.
const ownFamily = "kubebuilder"

// foreignMarkers lists prefixes of markers that begin with kubebuilder's name but belong to other tools.
var foreignMarkers = []string{"kubebuilder:scaffold", "kubebuilder:docs-gen", "kubebuilder:featuregate"}

// maxTypos is the maximum number of letters by which a misspelled marker of no known family may differ from the
// intended one.
const maxTypos = 2

// maxMarker is the maximum length of a name that may be a misspelled marker. Comparing names takes time that grows with
// the square of their length.
const maxMarker = 200

// judge describes what is wrong with a comment that looks like a marker, and what was probably meant. It returns an
// empty string if nothing is wrong.
func (k knownMarkers) judge(comment string) string {
	marker, plus := strings.CutPrefix(comment, "+")
	name, value, valued := strings.Cut(strings.TrimSpace(marker), "=")
	switch {
	case !plus:
		if k.knows(name) {
			return fmt.Sprintf("%q is not a marker, because it lacks the plus sign: write `// +%s`", comment, comment)
		}
		return ""
	case k.knows(name):
		if strings.HasPrefix(marker, " ") {
			return fmt.Sprintf("%q is not a marker, because there is a space after the plus sign: write `// +%s`",
				comment, strings.TrimSpace(marker))
		}
		return ""
	case strings.ContainsAny(strings.TrimSpace(name), " \t"), len(name) > maxMarker:
		return "" // prose
	case slices.ContainsFunc(foreignMarkers, func(other string) bool { return strings.HasPrefix(name, other) }):
		return ""
	}
	suggestion, distance := k.nearest(strings.TrimSpace(name))
	family, _, _ := strings.Cut(name, ":")
	if levenshtein.ComputeDistance(family, ownFamily) > maxTypos && (distance > maxTypos || distance >= len(name)/2) {
		return ""
	}
	text := fmt.Sprintf("controller-gen does not know the marker %q, and ignores it", strings.TrimSpace(name))
	// A colon where the equals sign belongs makes the value a part of the name.
	if before, after, found := cutLast(name, ":"); found && !valued && k.knows(before) {
		return fmt.Sprintf("%s: write `// +%s=%s`", text, before, after)
	}
	if k.knows(strings.TrimSpace(name)) {
		return fmt.Sprintf("%s: write `// +%s=%s`, without spaces around the equals sign",
			text, strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if distance > max(maxTypos, len(suggestion)/4) {
		return text
	}
	if valued {
		suggestion += "=" + value
	}
	return fmt.Sprintf("%s: did you mean `// +%s`?", text, suggestion)
}

// knows reports whether a marker is known by its whole name, or without its last part, which is then the name of an
// argument: kubebuilder:resource:scope.
func (k knownMarkers) knows(name string) bool {
	if _, known := k[name]; known {
		return true
	}
	before, _, _ := cutLast(name, ":")
	return k[before]
}

// nearest returns the known marker that differs from a name by the fewest letters, with the argument at the end of the
// name.
func (k knownMarkers) nearest(name string) (marker string, distance int) {
	distance = -1
	before, last, _ := cutLast(name, ":")
	for _, candidate := range slices.Sorted(maps.Keys(k)) {
		candidateDistance, suggestion := editDistance(name, candidate), candidate
		if argued := k[candidate]; argued && editDistance(before, candidate) < candidateDistance {
			candidateDistance, suggestion = editDistance(before, candidate), candidate+":"+last
		}
		if candidateDistance < distance || distance < 0 {
			marker, distance = suggestion, candidateDistance
		}
	}
	return marker, distance
}

// editDistance returns the number of letters by which two names differ. It ignores case.
func editDistance(a, b string) int {
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}
