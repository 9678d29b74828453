// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package informer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSpecialFileIsNamed covers what an operator may leave in place of the file. The checks do not block on it, do not
// read it endlessly, and report what is wrong with it.
func TestSpecialFileIsNamed(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const must = ": it must be a regular file of at most 8 MB"
	link := func(to string) func(string) error {
		return func(file string) error { return os.Symlink(to, file) }
	}
	for name, test := range map[string]struct {
		make func(file string) error
		want string
	}{
		"a pipe": {
			func(file string) error { return syscall.Mkfifo(file, 0o600) }, "authorized_keys is a named pipe" + must,
		},
		"a folder": {
			func(file string) error { return os.Mkdir(file, 0o755) }, "authorized_keys is a folder" + must,
		},
		"too large": {
			func(file string) error { return os.WriteFile(file, make([]byte, fileLimit+1), 0o644) },
			"authorized_keys is larger" + must,
		},
		"a link to zero":    {link("/dev/zero"), "authorized_keys is a link to /dev/zero" + must},
		"a link outside":    {link(outside), "authorized_keys is a link to " + outside + must},
		"a link to nothing": {link("nothing"), "there is no such file"},
		"a link inside":     {link("draft"), ""},
		"nothing":           {func(string) error { return nil }, "there is no such file"},
		"right": {
			func(file string) error { return os.Rename(filepath.Join(filepath.Dir(file), "draft"), file) }, "",
		},
	} {
		n := &node{folder: t.TempDir()}
		draft := []byte("ssh-ed25519 AAAA " + mark + "ada\n# mine\n")
		if err := errors.Join(os.WriteFile(filepath.Join(n.folder, "draft"), draft, 0o644), test.make(n.path())); err != nil {
			t.Fatal(err)
		}
		if got := n.wrong(map[string]string{"ada": "ssh-ed25519 AAAA"}, "# mine\n"); got != test.want {
			t.Errorf("%s: it says %q, want %q", name, got, test.want)
		}
	}
}

// TestWrongLimitsShownLines checks that a file with many wrong lines does not fill the report.
func TestWrongLimitsShownLines(t *testing.T) {
	n := &node{folder: t.TempDir()}
	var content []byte
	for range 1000 {
		content = append(content, "AAAA "+mark+"ada\n"...)
	}
	if err := os.WriteFile(n.path(), content, 0o644); err != nil {
		t.Fatal(err)
	}
	got := n.wrong(nil, "")
	if want := `it has the line "AAAA authorizedkey:ada"; it has 995 lines more`; !strings.HasSuffix(got, want) {
		t.Errorf("it says %q", got)
	}
}

// TestDrawnKeysCanBeParsed checks that all drawn keys are valid, and they cover each type that x/crypto/ssh can parse
// and that a hardware token or ssh-keygen creates.
func TestDrawnKeysCanBeParsed(t *testing.T) {
	for _, algorithm := range slices.Concat(ordinaryTypes, tokenTypes) {
		key, err := newKey(algorithm)
		if err != nil {
			t.Errorf("%s: %v", algorithm, err)
			continue
		}
		parsed, _, _, _, err := ssh.ParseAuthorizedKey(ssh.MarshalAuthorizedKey(key))
		if err != nil || parsed.Type() != algorithm {
			t.Errorf("%s: it is parsed as %v, %v", algorithm, parsed, err)
		}
	}
}

// TestRulesOf checks that an account has the rules of each role that is bound to its name or to a group of all
// accounts.
func TestRulesOf(t *testing.T) {
	object := func(kind, name string, fields map[string]any) unstructured.Unstructured {
		fields["kind"], fields["metadata"] = kind, map[string]any{"name": name}
		return unstructured.Unstructured{Object: fields}
	}
	role := func(name, verb string) unstructured.Unstructured {
		return object("ClusterRole", name, map[string]any{"rules": []any{map[string]any{"verbs": []any{verb}}}})
	}
	bound := func(role, kind, name string) unstructured.Unstructured {
		return object("ClusterRoleBinding", role, map[string]any{
			"roleRef":  map[string]any{"kind": "ClusterRole", "name": role},
			"subjects": []any{map[string]any{"kind": kind, "name": name}},
		})
	}
	objects := []unstructured.Unstructured{
		role("reads", "list"), role("writes", "update"), role("others", "delete"),
		bound("reads", "ServiceAccount", "node"), bound("writes", "Group", "system:serviceaccounts"),
		bound("others", "ServiceAccount", "manager"), bound("edit", "User", "system:serviceaccount:system:node"),
	}
	rules, elsewhere := rulesOf(objects, "node")
	var verbs []string
	for _, rule := range rules {
		verbs = append(verbs, rule.Verbs...)
	}
	if !slices.Equal(verbs, []string{"list", "update"}) || !slices.Equal(elsewhere, []string{"the ClusterRole edit"}) {
		t.Errorf("it may %v, and has roles that are elsewhere: %v", verbs, elsewhere)
	}
}
