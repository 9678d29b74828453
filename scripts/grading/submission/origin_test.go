// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package submission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestManifestsAreRegeneratedWhenOriginChanges(t *testing.T) {
	const (
		module = "module example.com/shop\n\ngo 1.26\n"
		code   = `package main

// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=list

// Cone is large.
type Cone struct{ Scoops int }

func main() {
	println("open")
	// +kubebuilder:rbac:groups=demo.lva.io,resources=icecreams,verbs=watch
	func() { println("closed") }()
}

var after = func() int { return 1 }()
`
	)
	origin := func(t *testing.T, files map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		for name, content := range files {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		opened, err := Open(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		origin, err := opened.Origin()
		if err != nil {
			t.Fatal(err)
		}
		return origin
	}
	before := origin(t, map[string]string{"go.mod": module, "main.go": code})
	for _, test := range []struct {
		name, old, new string
		changes        bool
	}{
		{"nothing", "open", "open", false},
		{"the body of a function", `println("open")`, "for range 3 {\n\t\tprintln(1)\n\t}", false},
		{"a function in a function", "closed", "away", false},
		{"prose in a function", "\tfunc() {", "\t// It is late.\n\tfunc() {", false},
		{"a marker", "verbs=list", "verbs=get", true},
		{"a marker in a function", "verbs=watch", "verbs=get", true},
		{"a type", "Scoops int", "Scoops *int", true},
		{"prose at a type", "is large", "is small", true},
		{"a parameter", "func main() {", "func other(int) {}\n\nfunc main() {", true},
		{"the value of a variable", "return 1", "return 2", true},
		{"a file that can't be parsed", `println("open")`, "println(", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			after := origin(t, map[string]string{"go.mod": module, "main.go": strings.Replace(code, test.old, test.new, 1)})
			if (after != before) != test.changes {
				t.Errorf("the origin changes: %t, want %t", after != before, test.changes)
			}
		})
	}
	t.Run("what it requires", func(t *testing.T) {
		if after := origin(t, map[string]string{
			"go.mod": module, "main.go": code, "go.sum": "example.com/x v1.0.0 h1:x\n",
		}); after == before || after == "" {
			t.Errorf("got the same origin %q as before, or none", after)
		}
	})
	for name, files := range map[string]map[string]string{
		"a folder elsewhere": {"go.mod": module + "\nreplace example.com/cups => ../cups\n", "main.go": code},
		"a folder vendor":    {"go.mod": module, "main.go": code, "vendor/modules.txt": ""},
	} {
		t.Run(name, func(t *testing.T) {
			if after := origin(t, files); after != "" {
				t.Errorf("got origin %s, want none, because files outside the folder count", after)
			}
		})
	}
}
