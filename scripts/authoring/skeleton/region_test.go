// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSource(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content, solution, skeleton string
	}{
		{
			name: "a region with a replacement", file: "a.go",
			content:  "a\n\t//lab:begin x\n\tb\n\t//lab:else\n\t// // TODO(lab): b\n\t//c\n\t//\n\t//lab:end\nd\n",
			solution: "a\n\tb\nd\n", skeleton: "a\n\t// TODO(lab): b\n\tc\n\nd\n",
		},
		{
			name: "a region without a replacement", file: "a.go",
			content:  "a\n//lab:begin x\nb\n//lab:end\nc\n",
			solution: "a\nb\nc\n", skeleton: "a\nc\n",
		},
		{
			name: "no two empty lines in a row", file: "a.go",
			content:  "a\n\n//lab:begin x\n\n// B.\nfunc B() {}\n\n//lab:end\n\nc\n",
			solution: "a\n\n// B.\nfunc B() {}\n\nc\n", skeleton: "a\n\nc\n",
		},
		{
			name: "no empty line at the edge of a block", file: "a.go",
			content:  "{\n\n//lab:begin x\nb\n//lab:end\n\n}\n",
			solution: "{\n\nb\n}\n", skeleton: "{\n}\n",
		},
		{
			name: "at the end of a file", file: "a.yaml",
			content:  "a: 1\n\n#lab:begin x\nb: 2\n#lab:end\n",
			solution: "a: 1\n\nb: 2\n", skeleton: "a: 1\n",
		},
		{
			name: "a tab after the sign of a Makefile's replacement", file: "Makefile",
			content:  "#lab:begin x\nx:\n\ttrue\n#lab:else\n# x:\n# \tfalse\n#lab:end\n",
			solution: "x:\n\ttrue\n", skeleton: "x:\n\tfalse\n",
		},
		{
			name: "comments keep their indentation", file: "a.yaml",
			content:  "a:\n  #lab:begin x\n  b: 1\n  #lab:else\n  # # TODO(lab): b\n  #   deeper: 1\n  #lab:end\n",
			solution: "a:\n  b: 1\n", skeleton: "a:\n  # TODO(lab): b\n    deeper: 1\n",
		},
		{
			name: "prose has no markers", file: "TASK.md",
			content: "//lab:begin\n#lab:end\n", solution: "//lab:begin\n#lab:end\n", skeleton: "//lab:begin\n#lab:end\n",
		},
		{name: "an empty file", file: "a.go"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			source, err := Parse(test.file, []byte(test.content))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.solution, string(source.Solution())); diff != "" {
				t.Errorf("solution (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.skeleton, string(source.Skeleton(0))); diff != "" {
				t.Errorf("skeleton (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMarkerErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, content, want string
	}{
		{
			"not closed", "a.go", "\n//lab:begin x\n",
			`a.go:2: the region "x" is not closed: end it with //lab:end`,
		},
		{
			"nested", "a.go", "//lab:begin x\n//lab:begin y\n//lab:end\n",
			`a.go:2: the region "y" begins within the region "x" of line 1: regions can't be nested`,
		},
		{"end without begin", "a.yaml", "#lab:end\n", `a.yaml:1: lab:end without a lab:begin before it`},
		{"else outside", "a.go", "a\n//lab:else\n", `a.go:2: lab:else without a lab:begin before it`},
		{
			"two elses", "a.go", "//lab:begin x\n//lab:else\n//lab:else\n//lab:end\n",
			`a.go:3: the region "x" has a lab:else already, in line 2`,
		},
		{
			"code after else", "a.go", "//lab:begin x\n//lab:else\nreturn nil\n//lab:end\n",
			`a.go:3: a line between lab:else and lab:end must be a comment (//): the solution would contain it`,
		},
		{
			"no name", "Makefile", "#lab:begin\n#lab:end\n",
			`Makefile:1: lab:begin needs the name of the task, as in #lab:begin count-toppings`,
		},
		{
			"a name at the end", "a.go", "//lab:begin x\n//lab:end x\n",
			"a.go:2: nothing may follow lab:end\na.go:1: the region \"x\" is not closed: end it with //lab:end",
		},
		{
			"the comment sign of another language", "a.go", "#lab:begin x\n",
			`a.go:1: in this kind of file a marker begins with //lab:`,
		},
		{"a space", "a.go", "// lab:begin x\n", `a.go:1: a marker has no space after the comment sign: write //lab:`},
		{
			"an unknown word", "a.go", "//lab:start x\n",
			`a.go:1: lab:start is no marker: there are lab:begin, lab:else, lab:end, lab:differs and lab:alone`,
		},
		{
			"no reason", "a.go", "//lab:differs\n",
			`a.go:1: lab:differs needs the reason why this file is not that of the lab before`,
		},
		{
			"an alone marker without a reason", "a.sh", "#lab:alone\n",
			`a.sh:1: lab:alone needs the reason why no other lab has this file`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(test.file, []byte(test.content))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
