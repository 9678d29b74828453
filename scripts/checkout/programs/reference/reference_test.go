// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package reference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestReferences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Reference{
		"programs.tar":                        {Source: "programs.tar"},
		"/srv/programs.tar@sha256:" + sum:     {"/srv/programs.tar", sum},
		"https://example.test/a.tar":          {Source: "https://example.test/a.tar"},
		"http://127.0.0.1:80/a@sha256:" + sum: {"http://127.0.0.1:80/a", sum},
	} {
		got, err := Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("Parse(%s) = %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "@sha256:" + sum, "a@sha256:12", "a@sha256:" + strings.ToUpper(sum),
		"ftp://example.test/a", "https:///a", "oci://example.test/a",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", text, got)
		}
	}
}

func TestLockFile(t *testing.T) {
	for _, test := range []struct{ name, content, variable, want, reason string }{
		{"none", "", "", "", ""},
		{"only comments", "# linux/amd64 a.tar\n\n", "", "", ""},
		{"another system", "linux/riscv64 https://example.test/a@sha256:" + sum + "\n", "", "", ""},
		{
			"ours", "# Two.\nlinux/riscv64 /b\nlinux/amd64 https://example.test/a@sha256:" + sum + "\n",
			"", "https://example.test/a@sha256:" + sum, "",
		},
		{"a file of the checkout", "linux/amd64 a.tar@sha256:" + sum + "\n", "", "ROOT/a.tar@sha256:" + sum, ""},
		{"the variable wins", "linux/amd64 a.tar@sha256:" + sum + "\n", "b.tar", "b.tar", ""},
		{"the variable is none", "linux/amd64 a.tar@sha256:" + sum + "\n", "none", "", ""},
		{"without a sum", "linux/amd64 a.tar\n", "", "", "programs.lock:1: \"a.tar\" has no SHA-256"},
		{"three words", "\nlinux/amd64 a.tar b\n", "", "", "programs.lock:2: a line must be"},
		{"a wrong variable", "", "ftp://example.test/a", "", "must begin with http"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(Variable, test.variable)
			root := t.TempDir()
			if test.content != "" {
				if err := os.WriteFile(filepath.Join(root, LockFile), []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, ok, err := Locked(root, "linux/amd64")
			if test.reason != "" {
				if err == nil || !strings.Contains(err.Error(), test.reason) || ok {
					t.Errorf("error = %v, want %q", err, test.reason)
				}
				return
			}
			if want := strings.Replace(test.want, "ROOT", root, 1); err != nil || ok != (want != "") ||
				ok && got.String() != want {
				t.Errorf("Locked() = %q (%t), %v, want %q", got, ok, err, want)
			}
		})
	}
}
