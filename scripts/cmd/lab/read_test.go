// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadLecture(t *testing.T) {
	t.Parallel()
	root := bare(t)
	for name, content := range map[string]string{
		"01-extending-kubernetes.md": "# One\n\n" +
			"[file](../../solutions/01-icecream/api/v1/icecream_types.go#IcecreamSpec) [next](02-reconcile.md)\n" +
			"[here](#one) [site](https://example.com/x.md)\n\n<details>\n<summary>Why?</summary>\n\nSince.\n</details>\n",
		"01a-more.md": "# Appendix\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "docs", "lectures", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const links = "# One\n\n" +
		"[file](solutions/01-icecream/api/v1/icecream_types.go#IcecreamSpec) [next](docs/lectures/02-reconcile.md)\n" +
		"[here](#one) [site](https://example.com/x.md)\n\n"
	for _, test := range []struct{ args, want string }{
		{"read 1", links + "▸ Why? (folded; --unfold shows it)\n"},
		{"read 1 --unfold", links + "<details>\n<summary>Why?</summary>\n\nSince.\n</details>\n"},
		{"read 1a", "# Appendix\n"},
		{"read 01a", "# Appendix\n"},
	} {
		if got := run(t, root, strings.Fields(test.args)...); got.code != 0 || got.stdout != test.want {
			t.Errorf("%s: exit code %d, output\n%s%s\nwant\n%s", test.args, got.code, got.stdout, got.stderr, test.want)
		}
	}
	if got := run(t, root, "read", "1b"); got.code != 1 ||
		!strings.Contains(got.stderr, `there is no lab "1b"; the labs are`) {
		t.Errorf("an appendix that does not exist: exit code %d, %s%s", got.code, got.stdout, got.stderr)
	}
}
