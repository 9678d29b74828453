// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRoster(t *testing.T) {
	t.Parallel()
	got, err := parseRoster([]byte("\ufeffName,E-Mail\r\n# the first row\r\n" +
		"ada,ada@example.org\r\n\r\n  bob \r\n\"grace-h\", \"grace@example.org\"\r\nname2,\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Student{
		{Name: "ada", Email: "ada@example.org", Line: 3},
		{Name: "bob", Line: 5},
		{Name: "grace-h", Email: "grace@example.org", Line: 6},
		{Name: "name2", Line: 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseRosterReportsLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, roster, want string }{
		{"no students", "# soon\n\n", "it has no students: write a line NAME or NAME,EMAIL for each student"},
		{"capitals", "ada\nBob\n", `line 2: "Bob" is not a valid name on a cluster`},
		{"a dot, by which shared kinds are told apart", "ada.l", `line 1: "ada.l" is not a valid name`},
		{"a space", "# all\nada lovelace,a@example.org", `line 2: "ada lovelace" is not a valid name`},
		{"no name", ",a@example.org", `line 1: "" is not a valid name`},
		{"too long", strings.Repeat("a", 41), "has 41 letters: a name has at most 40"},
		{"another separator", "ada;ada@example.org", `line 1: "ada;ada@example.org" has no comma`},
		{"too many fields", "ada,a@example.org,1815", "line 1: there are 3 fields"},
		{"no address", "ada,ada", `line 1: "ada" is not an e-mail address`},
		{"an address with a name", "ada,Ada <ada@example.org>", `is not an e-mail address`},
		{"an open quotation mark", "ada,\"a@example.org\nbob", `line 1: ada,"a@example.org is not valid CSV`},
		{"twice", "ada\nbob\nada,a@example.org", "line 3: ada is already in line 1"},
		{"several at once", "Ada\nbob\nbob", "line 3: bob is already in line 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseRoster([]byte(test.roster))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("ReadRoster() error = %v, want %s", err, test.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "roster.csv")
	if err := os.WriteFile(file, []byte("Ada\nbob\nbob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadRoster(file)
	want := "the roster " + file + ` is invalid, and nothing was changed:
line 1: "Ada" is not a valid name on a cluster: use lower-case letters, digits and, between them, dashes, such as ada-l
line 3: bob is already in line 2: names must be unique`
	if err == nil || err.Error() != want {
		t.Errorf("ReadRoster() error =\n%v\nwant\n%s", err, want)
	}
}
