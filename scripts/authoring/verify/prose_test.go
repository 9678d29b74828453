// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package verify

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnclearSentences(t *testing.T) {
	t.Parallel()
	const subject = "name the subject, such as another user, a controller or you"
	const noOne = "name the subject, such as no user or anyone, or write the account `nobody` as code"
	const subjectFirst = "begin the sentence with its subject, such as you or anyone who"
	const what = "begin the sentence with the thing itself, and not with what"
	tests := []struct {
		name    string
		content string
		want    []string
	}{
		{"a word", "# Labs\n\nThen Somebody deletes it.\n", []string{`page.md:3: has "Somebody": ` + subject}},
		{"a word in a heading", "# Somebody deletes it\n", []string{`page.md:1: has "Somebody": ` + subject}},
		{
			"no subject", "# Deleted, and nobody saw how\n\nDoes anybody read it? Nobody's fault.\n",
			[]string{
				`page.md:1: has "nobody": ` + noOne,
				`page.md:3: has "anybody": ` + noOne,
				`page.md:3: has "Nobody": ` + noOne,
			},
		},
		{"an account", "sshd asks as `nobody` (65534): `User \"nobody\" cannot list`.\n\n```sh\nid nobody\n```\n", nil},
		{"a part of a word", "It is amended. The renewal is mine.\n", nil},
		{
			"one paragraph, three lines", "It is deleted.\nThen somebody\nmends it.\n",
			[]string{`page.md:2: has "somebody": ` + subject, `page.md:3: has "mends": write fix or correct`},
		},
		{
			"a sentence over two lines", "You read it. What you\nread is old.\nLook again.\n",
			[]string{`page.md:1: has "What you read is old.": ` + what},
		},
		{
			"a sentence after the end of a line", "You read it.\nWho reads it knows.\n",
			[]string{`page.md:2: has "Who reads it knows.": ` + subjectFirst},
		},
		{
			"any verb", "1. Who survives both\nis repeatable. Who (or what) did it?\n",
			[]string{`page.md:1: has "Who survives both is repeatable.": ` + subjectFirst},
		},
		{
			"two sentences in a row", "What you read is old. What was new is old.\n",
			[]string{`page.md:1: has "What you read is old.": ` + what, `page.md:1: has "What was new is old.": ` + what},
		},
		{
			"after a semicolon", "It is there; who can see it\nis another matter; Who may see it is you.\n",
			[]string{`page.md:2: has "Who may see it is you.": ` + subjectFirst},
		},
		{
			"an item of a list, indented", "- Read.\n\n  1. Write.\n     What you\n     wrote is there.\n",
			[]string{`page.md:4: has "What you wrote is there.": ` + what},
		},
		{
			"text below a heading", "# What is a Pod\nIt is a group.\n", nil,
		},
		{
			"a key of YAML", "    hints:\n    - >-\n      It is\n      there anew.\n  - id: next\n",
			[]string{`page.md:4: has "anew": write again`},
		},
		{
			"a text of YAML", "    hints:\n    - >-\n      Who writes it\n      knows.\n",
			[]string{`page.md:2: has "Who writes it knows.": ` + subjectFirst},
		},
		{
			"a row of a table", "| a | b |\n|---|---|\n| whoever reads | `whoever` |\n",
			[]string{`page.md:3: has "whoever": name the subject, such as anyone who or the client that`},
		},
		{"a question", "Who has it? What is it? What does it do, and why is it there?\n", nil},
		{"an introduction", "What you need is this: Go. **What was tried.** All of it was.\n", nil},
		{"not the subject", "Look at what is there, and at who has it.\n", nil},
		{"code", "Type `somebody`, or `what\nsomebody types`, or [it](somebody.md). <!-- somebody -->\n", nil},
		{"a fence", "Type:\n\n```sh\nsomebody\n\nwhoever\n```\n", nil},
		{
			"after a fence", "  ```sh\n  somebody\n  ```\n  Somebody.\n",
			[]string{`page.md:4: has "Somebody": ` + subject},
		},
		{
			"code in a sentence", "What `kubectl get` prints. Is `a. b`\nwhat it is. What `kubectl` prints is old.\n",
			[]string{`page.md:2: has "What xxxxxxxxx prints is old.": ` + what},
		},
		{
			"a long sentence", "What was " + strings.Repeat("é", 100) + " is old.\n",
			[]string{
				`page.md:1: has "What was ` + strings.Repeat("é", 31) + " … " + strings.Repeat("é", 18) + ` is old.": ` + what,
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range unclearIn("page.md", test.content) {
				if !f.ByHand {
					t.Errorf("the finding %q is not ByHand", f.Message)
				}
				got = append(got, f.Location+": "+f.Message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestHandwrittenPagesAreChecked(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"README.md":                               true,
		"docs/lectures/02-reconcile.md":           true,
		"solutions/02-reconciler/TASK.md":         true,
		"labs/labs.yaml":                          true,
		"labs/02-reconciler/README.md":            false, // generated
		"docs/decisions/0001-one.md":              false, // never edited
		"docs/runs/README.md":                     false, // quotes mutants
		"scripts/authoring/docs/testdata/page.md": false,
		"scripts/authoring/verify/prose.go":       false,
		"clusters/config/audit-policy.yml":        false,
	} {
		if got := isProse(name); got != want {
			t.Errorf("isProse(%q) = %v, want %v", name, got, want)
		}
	}
}
