// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"context"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"lva.io/operators/scripts/checkout/manifest"
)

var prose = Check{
	Name:     "prose",
	Sentence: "pages and the list of labs are in plain English",
	Find:     findProse,
}

// unclear are patterns of sentences that are hard to read, and what to write instead. The list is short on purpose:
// each of its patterns was common here, and none matches a good sentence.
var unclear = []struct {
	pattern *regexp.Regexp
	advice  string
}{
	{regexp.MustCompile(`(?i)\bsomebody\b`), "name the subject, such as another user, a controller or you"},
	{
		regexp.MustCompile(`(?i)\b(nobody|anybody)\b`),
		"name the subject, such as no user or anyone, or write the account `nobody` as code",
	},
	{regexp.MustCompile(`(?i)\bwhoever\b`), "name the subject, such as anyone who or the client that"},
	{regexp.MustCompile(`(?i)\banew\b`), "write again"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "write fix or correct"},
	{regexp.MustCompile(`(?i)\bsome (hundred|thousand|million)\b`), "write hundreds of, or a number"},
	{
		regexp.MustCompile(start + `Who .*` + end),
		"begin the sentence with its subject, such as you or anyone who",
	},
	{
		regexp.MustCompile(start + `What .* (?:is|are|was|has|does|stays|goes) .*` + end),
		"begin the sentence with the thing itself, and not with what",
	},
}

const (
	// start matches the beginning of a sentence or of one of its parts. Bold text there is a title, which need not be a
	// sentence.
	start = `(?:^(?:[-*>]+ )*\(?|; )`
	// end matches the end of a statement, but not of a question.
	end = `\.["')*_]*$`
)

// sentenceEnds matches the ends of sentences within a paragraph.
var sentenceEnds = regexp.MustCompile(`[.?!:]["')*_]* `)

// quoted matches parts of a page that are not prose: code, addresses of links, comments.
var quoted = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)|<!--.*?-->|https?://\\S+")

func findProse(ctx context.Context, r *Repository) ([]Finding, error) {
	names, err := r.files(ctx)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, name := range names {
		if !isProse(name) {
			continue
		}
		content, err := os.ReadFile(r.path(name))
		if err != nil {
			return nil, err
		}
		findings = append(findings, unclearIn(name, string(content))...)
	}
	return findings, nil
}

// isProse reports whether people read a file. It leaves out pages of labs, which are generated from those of solutions,
// decisions, which are never edited, and the page of recorded runs, which quotes mutants.
func isProse(name string) bool {
	return name == manifest.File || path.Ext(name) == ".md" && !isTestdata(name) && !strings.HasPrefix(name, "labs/") &&
		!strings.HasPrefix(name, "docs/decisions/") && !strings.HasPrefix(name, "docs/runs/")
}

// unclearIn checks the sentences of each paragraph. A sentence may span several lines.
func unclearIn(name, content string) (findings []Finding) {
	var text strings.Builder // the paragraph, in one line
	var lines []int          // the offset in text at which each of its lines ends
	first, fenced := 0, false
	checkSentence := func() {
		// Letters replace code, so that sentences keep their structure and lines their length.
		paragraph := quoted.ReplaceAllStringFunc(text.String(), func(s string) string { return strings.Repeat("x", len(s)) })
		for begin := 0; begin < len(paragraph); {
			sentence := paragraph[begin:]
			if match := sentenceEnds.FindStringIndex(sentence); match != nil {
				sentence = sentence[:match[1]]
			}
			for _, u := range unclear {
				for _, at := range u.pattern.FindAllStringIndex(strings.TrimRight(sentence, " "), -1) {
					line, _ := slices.BinarySearch(lines, begin+at[0]+1)
					findings = append(findings, Finding{
						Location: fmt.Sprintf("%s:%d", name, first+line), ByHand: true,
						Message: fmt.Sprintf("has %q: %s", excerpt(strings.TrimLeft(sentence[at[0]:at[1]], "-*>(; ")), u.advice),
					})
				}
			}
			begin += len(sentence)
		}
		text.Reset()
		lines = nil
	}
	for i, line := range strings.Split(content, "\n") {
		line = strings.TrimSpace(line)
		fence := strings.HasPrefix(line, "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced || line == "" {
			checkSentence()
			continue
		}
		if alone.MatchString(line) || opening.MatchString(line) {
			checkSentence()
		}
		if len(lines) == 0 {
			first = i + 1
		}
		text.WriteString(line + " ")
		lines = append(lines, text.Len())
		if alone.MatchString(line) {
			checkSentence()
		}
	}
	checkSentence()
	return findings
}

// alone matches a line that is a block of its own: a heading or a row of a table.
var alone = regexp.MustCompile(`^(?:#|\|)`)

// opening matches the beginning of a list item, or a YAML key.
var opening = regexp.MustCompile(`^(?:[-*] |\d+\. |[A-Za-z]+: )`)

// excerpt returns a sentence, or its beginning and its end.
func excerpt(sentence string) string {
	const most = 80
	runes := []rune(sentence)
	if len(runes) <= most {
		return sentence
	}
	return string(runes[:most/2]) + " … " + string(runes[len(runes)-most/3:])
}
