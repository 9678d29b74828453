// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lva.io/operators/scripts/checkout/manifest"
)

// coreWords is how many words the core of a lecture may have, so that it can be taught in 90 minutes.
const coreWords = 2000

var (
	fencedCode   = regexp.MustCompile("(?ms)^```.*?^```$")
	hiddenAnswer = regexp.MustCompile(`(?s)</summary>.*?</details>`)
	notAWord     = regexp.MustCompile(`(?s)<!--.*?-->|\]\([^)]*\)`)
	pathMarker   = regexp.MustCompile(`^\*(core|lab|depth)\*\n`)
)

// countWords counts the words of a text that a reader sees. It leaves out code, hidden answers and the targets of
// links.
func countWords(text string) (n int) {
	text = notAWord.ReplaceAllString(hiddenAnswer.ReplaceAllString(text, ""), " ")
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return r != '|' && r != '-' && r != '*' && r != '#' }) {
			n++
		}
	}
	return n
}

func TestLecturesHaveAPath(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	course, err := manifest.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, lab := range course.Labs {
		t.Run(lab.Lecture, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile(filepath.Join(root, lab.Lecture))
			if err != nil {
				t.Fatal(err)
			}
			text := string(page)
			for _, part := range []string{
				"\n**Reading** ", " · **Teaching** 90 min\n", "\n**What you need:** ", "\n**After this lecture you can**\n",
				"```mermaid", "```go",
			} {
				if !strings.Contains(text, part) {
					t.Errorf("the lecture has no %q", strings.TrimSpace(part))
				}
			}
			sections := strings.Split("\n"+fencedCode.ReplaceAllString(text, ""), "\n## ")
			core := countWords(sections[0])
			var headings []string
			for _, section := range sections[1:] {
				heading, body, _ := strings.Cut(section, "\n")
				headings = append(headings, heading)
				switch mark := pathMarker.FindStringSubmatch(body); {
				case mark == nil:
					t.Errorf("the section %q has no *core*, *lab* or *depth*", heading)
				case mark[1] == "core":
					core += countWords(body)
				}
			}
			if core > coreWords {
				t.Errorf("the core has %d words, want at most %d", core, coreWords)
			}
			for _, last := range []string{"Questions", "If you are stuck", "Further reading"} {
				if !slices.Contains(headings, last) {
					t.Errorf("the lecture has no %q", last)
				}
			}
		})
	}
}
