// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package skeleton

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// twoSteps is a file of a solution. The second step has a region in it, and so have both steps together.
const twoSteps = `a
#lab:begin one
first
#lab:else
# # TODO(lab): 1. the first.
# none
#lab:end
b
#lab:begin two
second
#lab:else
# # TODO(lab): 2. the second.
#lab:end
#lab:begin both
third
#lab:else
# # TODO(lab): 1. a little,
# # TODO(lab): 2. and the rest.
#lab:end
#lab:begin unnumbered
fourth
#lab:end
`

func TestFirstStepsDone(t *testing.T) {
	t.Parallel()
	source, err := Parse("a.yaml", []byte(twoSteps))
	if err != nil {
		t.Fatal(err)
	}
	for done, want := range []string{
		"a\n# TODO(lab): 1. the first.\nnone\nb\n# TODO(lab): 2. the second.\n" +
			"# TODO(lab): 1. a little,\n# TODO(lab): 2. and the rest.\n",
		"a\nfirst\nb\n# TODO(lab): 2. the second.\nthird\n",
		"a\nfirst\nb\nsecond\nthird\n",
	} {
		if diff := cmp.Diff(want, string(source.Skeleton(done))); diff != "" {
			t.Errorf("with %d steps done (-want +got):\n%s", done, diff)
		}
	}
}

func TestStepsNotStarted(t *testing.T) {
	t.Parallel()
	source, err := Parse("config/a.yaml", []byte(twoSteps))
	if err != nil {
		t.Fatal(err)
	}
	skeleton := string(source.Skeleton(0))
	for _, test := range []struct {
		name, content string
		want          []int
	}{
		{"the unchanged lab", skeleton, []int{1, 2}},
		{"formatted otherwise", strings.ReplaceAll(skeleton, "\n", "\n\n\t"), []int{1, 2}},
		{"the second step is done", strings.Replace(skeleton, "# TODO(lab): 2. the second.\n", "x\n", 1), []int{1}},
		{"code below the remaining comment", strings.Replace(skeleton, "none\n", "none\nx\n", 1), []int{2}},
		{"code above the remaining comment", strings.Replace(skeleton, "a\n", "a\nx\n", 1), []int{2}},
		{"one region of the first step is done", strings.Replace(skeleton, "none\n", "x\n", 1), []int{2}},
		{"the task is done, but its comment remains", strings.Replace(skeleton, "none\n", "", 1), []int{2}},
		{"all steps are done", string(source.Skeleton(2)), nil},
		{"another layout", "", nil},
	} {
		root, dir := t.TempDir(), t.TempDir()
		files := map[string]string{filepath.Join(root, "solutions", "01-x", "config", "a.yaml"): twoSteps}
		if test.content != "" {
			files[filepath.Join(dir, "config", "a.yaml")] = test.content
		}
		for name, content := range files {
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
				os.WriteFile(name, []byte(content), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := NotStarted(root, "01-x", dir); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: NotStarted() = %v (%v), want %v", test.name, got, err, test.want)
		}
	}
}

// A named pipe and a link to a file outside of the folder are not read.
func TestStepsOnlyInRegularFiles(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	solution := filepath.Join(root, "solutions", "01-x")
	if err := errors.Join(os.MkdirAll(solution, 0o755),
		os.WriteFile(filepath.Join(solution, "a.yaml"), []byte(twoSteps), 0o600),
		os.Symlink("/dev/zero", filepath.Join(dir, "a.yaml"))); err != nil {
		t.Fatal(err)
	}
	if got, err := NotStarted(root, "01-x", dir); err != nil || len(got) > 0 {
		t.Errorf("NotStarted() = %v (%v)", got, err)
	}
}
