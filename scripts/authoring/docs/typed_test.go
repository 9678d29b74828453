// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// These are the reasons why a block of code has no source.
const (
	oneRequest = "the body of one request, which is no file's content"
	aFragment  = "a fragment: the coordinates of a key are left out"
	onPurpose  = "wrong on purpose: no tool checks a marker, so a file would prove nothing"
)

// mayBeTyped lists the blocks of code without a source, each by its page and its first line, with the reason.
var mayBeTyped = map[string]string{
	`docs/lectures/06-acme.md: {"identifiers": [{"type": "dns", "value": "a.lab.test"}, {"type": "dns", "value": "b.lab.test"}]}`: oneRequest,

	`docs/lectures/06-acme.md: {"crv":"P-256","kty":"EC","x":"…","y":"…"}`: aFragment,
	`docs/slides/06-acme.md: {"crv":"P-256","kty":"EC","x":"…","y":"…"}`:   aFragment,

	`docs/lectures/08-lolcow.md: // +kubebuilder:rbac:groups=my.domain,resources=deployments,verbs=get;list;watch;create;patch`: onPurpose,
	`docs/slides/08-lolcow.md: // +kubebuilder:rbac:groups=my.domain,resources=deployments,verbs=list;watch`:                    onPurpose,
}

// typed is a block of code that no marker names.
type typed struct {
	line  int // of its fence, from 1
	first string
}

// typedBlocks returns the blocks of a page whose language is Go, YAML or JSON.
func typedBlocks(page string) (blocks []typed) {
	var fenced openFence
	marked := false
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		before := fenced
		isFence := fenced.take(line)
		text := strings.TrimSpace(line)
		switch {
		case isFence && before == "" && !marked &&
			slices.Contains([]string{"go", "yaml", "json"}, strings.TrimLeft(text, "`~")):
			blocks = append(blocks, typed{line: i + 1, first: strings.TrimSpace(lines[min(i+1, len(lines)-1)])})
		case isFence, fenced != "":
		case opening.MatchString(text):
			marked = true
		case closing.MatchString(text):
			marked = false
		}
	}
	return blocks
}

func TestTypedBlocksAreFound(t *testing.T) {
	t.Parallel()
	const page = "```go\nfunc A()\n```\n<!-- code: a.go#B -->\n```go\nfunc B()\n```\n<!-- /code -->\n" +
		"```sh\n<!-- code: a.go -->\n```\n~~~yaml\na: 1\n~~~\n````markdown\n```go\nfunc C()\n```\n````\n```json\n{}\n```\n"
	got := fmt.Sprint(typedBlocks(page))
	if diff := cmp.Diff("[{1 func A()} {12 a: 1} {20 {}}]", got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Code that an author typed into a page by hand is known to compile only on the day of the change.
func TestCodeOfLecturesAndSlidesHasSource(t *testing.T) {
	t.Parallel()
	const repository = "../../.."
	pages, err := Pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	for _, page := range pages {
		if folder := path.Dir(page); folder != "docs/lectures" && folder != "docs/slides" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range typedBlocks(string(content)) {
			name := page + ": " + block.first
			if met[name] = true; mayBeTyped[name] == "" {
				t.Errorf("%s:%d: this code has no source: put it into a file, "+
					"such as one of scripts/authoring/examples or docs/lectures/examples, "+
					"and name the file with <!-- code: file#name -->", page, block.line)
			}
		}
	}
	for name := range mayBeTyped {
		if !met[name] {
			t.Errorf("the code no longer exists: remove the exception %q", name)
		}
	}
}

// Readers apply or copy the parts of these files that a page shows.
func TestExamplesOfLecturesAreObjects(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../docs/lectures/examples/*.*")
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents := bytes.Split(content, []byte("\n---\n"))
		switch filepath.Ext(file) {
		case ".json":
			if !json.Valid(content) {
				t.Errorf("%s is not JSON", file)
			}
		case ".yaml":
		default:
			continue
		}
		for _, document := range documents {
			var object struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal(document, &object); err != nil || object.APIVersion == "" || object.Kind == "" {
				t.Errorf("%s has a document without apiVersion or kind: %+v, %v", file, object, err)
			}
			var all map[string]any
			if err := yaml.UnmarshalStrict(document, &all); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			objects++
		}
	}
	if objects == 0 {
		t.Error("there are no examples: is the search wrong?")
	}
}
