// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package changes_test

import (
	"bytes"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"lva.io/operators/scripts/checkout/changes"
)

func TestCode(t *testing.T) {
	t.Parallel()
	const base = `package shop

// Sell sells.
func Sell(a int, b string) error {
	return sell(a, b) // at once
}
`
	for name, test := range map[string]struct {
		content string
		same    bool
	}{
		"the same": {base, true},
		"another comment": {
			"// A licence.\n\npackage shop\n\n/* Sell\nsells. */\n" +
				"func Sell(a int, b string) error {\n\n\treturn sell(a, b)\n}\n", true,
		},
		"other line breaks": {
			"package shop\n\nfunc Sell(\n\ta int,\n\tb string,\n) error {\n\treturn sell(\n\t\ta,\n\t\tb,\n\t)\n}\n", true,
		},
		"a semicolon":   {"package shop; func Sell(a int, b string) error { return sell(a, b); }", true},
		"another token": {"package shop\n\nfunc Sell(a int, b string) error {\n\treturn sell(a, a)\n}\n", false},
		"a directive": {
			"package shop\n\n//go:noinline\n" +
				"func Sell(a int, b string) error {\n\treturn sell(a, b)\n}\n", false,
		},
		"a marker": {
			"package shop\n\n// +kubebuilder:object:root=true\n" +
				"func Sell(a int, b string) error {\n\treturn sell(a, b)\n}\n", false,
		},
		"a marker without space": {
			"package shop\n\n//+kubebuilder:object:root=true\n" +
				"func Sell(a int, b string) error {\n\treturn sell(a, b)\n}\n", false,
		},
		"code of a skeleton": {
			"package shop\n\nfunc Sell(a int, b string) error {\n" +
				"//lab:begin sell\n\treturn sell(a, b)\n//lab:else\n// return nil\n//lab:end\n}\n", false,
		},
		"no Go": {"package shop\n\nfunc Sell(a int, b string) error {\n\treturn sell(a, b) + \"\n}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if same := bytes.Equal(changes.Code([]byte(base)), changes.Code([]byte(test.content))); same != test.same {
				t.Errorf("same code = %t, want %t\n%q\n%q",
					same, test.same, changes.Code([]byte(base)), changes.Code([]byte(test.content)))
			}
		})
	}
}

// Concatenated string literals are the same code as one literal, but only where they have the same meaning.
func TestConcatenatedLiterals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		divided, whole string
		same           bool
	}{
		"two literals":         {`f("a" + "b")`, `f("ab")`, true},
		"many literals":        {`f("a" + "b" + "" + "c", "d" + "e")`, `f("abc", "de")`, true},
		"two lines":            {"f(\"a \"+\n\t\"b\",\n)", `f("a b")`, true},
		"a comment in between": {"f(\"a\" + // why\n\t\"b\")", `f("ab")`, true},
		"the end of the file":  {"const c = \"a\" +\n\t\"b\"", `const c = "ab"`, true},
		"escapes":              {`f("\x41\"" + "1\n")`, `f("\x41\"1\n")`, true},
		"after a variable":     {`f(x + "a" + "b")`, `f(x + "ab")`, true},
		"before a variable":    {`f("a" + "b" + x)`, `f("ab" + x)`, true},
		"a comparison":         {`f(x == "a" + "b")`, `f(x == "ab")`, true},
		"an index of a map":    {`f(m["a" + "b"])`, `f(m["ab"])`, true},
		"the next element":     {`f([]string{"a" + "b", [1]string{"c"}[0]})`, `f([]string{"ab", [1]string{"c"}[0]})`, true},
		"a slice of a literal": {`f("a" + "bc"[1:])`, `f("abc"[1:])`, false},
		"a slice of the last":  {`f("a" + "b" + "cd"[1:])`, `f("ab" + "cd"[1:])`, true},
		"a slice of the first": {`f("ab"[1:] + "c" + "d")`, `f("ab"[1:] + "cd")`, true},
		"parentheses":          {`f(("a" + "b")[1:])`, `f(("ab")[1:])`, true},
		"raw literals":         {"f(`a\\`+\n\t`n\n`)", "f(`a\\n\n`)", true},
		"a raw and another":    {"f(`a` + \"\\n\")", "f(`a\\n`)", false},
		"another and a raw":    {"f(\"a\" + `\\n`)", `f("a\n")`, false},
		"numbers":              {`f(11 + 13)`, `f(13)`, false},
		"another value":        {`f("a" + "b")`, `f("ac")`, false},
		"another order":        {`f("a" + "b")`, `f("ba")`, false},
		"two arguments":        {`f("a", "b")`, `f("ab")`, false},
		"a directive":          {"f(\"a\" +\n//lab:begin b\n\"b\")", `f("ab")`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			divided, whole := changes.Code([]byte(test.divided)), changes.Code([]byte(test.whole))
			if same := bytes.Equal(divided, whole); same != test.same {
				t.Errorf("same code = %t, want %t\n%q\n%q", same, test.same, divided, whole)
			}
		})
	}
}

// The skeleton's alternative code, and the expected output of an example, are comments that count as code.
func TestSignificantComments(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"code of a skeleton": {
			"package shop\n\n//lab:begin sell\nvar a = 1\n//lab:else\n// var a = 2\n//lab:end\n",
			"package shop\n\n//lab:begin sell\nvar a = 1\n//lab:else\n// var a = 3\n//lab:end\n",
		},
		"the output of an example": {
			"package shop\n\nfunc ExampleSell() {\n\tSell()\n\t// Output:\n\t// sold\n}\n",
			"package shop\n\nfunc ExampleSell() {\n\tSell()\n\t// Output:\n\t// sold out\n}\n",
		},
	} {
		if bytes.Equal(changes.Code([]byte(pair[0])), changes.Code([]byte(pair[1]))) {
			t.Errorf("%s: two files have the same code %q", name, changes.Code([]byte(pair[0])))
		}
	}
	after := [2]string{
		"package a\n//lab:else\n// x\n//lab:end\n// one\n",
		"package a\n//lab:else\n// x\n//lab:end\n// two\n",
	}
	if !bytes.Equal(changes.Code([]byte(after[0])), changes.Code([]byte(after[1]))) {
		t.Error("a comment after a skeleton's code counts as code")
	}
}

// The files of this repository have the same code without their comments, and as the printer of Go lays them out.
func TestCommentsAreNotCode(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if directives.Match(content) {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution) // without comments
		if err != nil {
			t.Fatal(err)
		}
		var printed bytes.Buffer
		if err := (&printer.Config{Tabwidth: 8}).Fprint(&printed, set, file); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(changes.Code(content), changes.Code(printed.Bytes())) {
			t.Errorf("the code of %s differs without its comments", name)
		}
		compared++
	}
	if compared < 200 {
		t.Errorf("%d of %d files were compared", compared, len(files))
	}
}

// directives matches files that may have comments that count as code.
var directives = regexp.MustCompile(`//[a-z0-9]+:|//\s*\+|[oO]utput:`)
