// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package freezer_test

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lva.io/operators/scripts/services/freezer"
)

func open(t *testing.T, file string) *freezer.Client {
	t.Helper()
	f, err := freezer.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	client, _ := serve(t, f)
	return client
}

func TestFreezerPersistsInItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "freezer.json")
	client := open(t, file)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a full freezer has a file: %v", err)
	}
	book(t, client,
		movement("1", "a", freezer.Out, freezer.Topping, "cream"),
		movement("2", "a", freezer.Out, freezer.Flavour, "vanilla"),
		movement("3", "a", freezer.In, freezer.Topping, "cream"))
	before, err := client.Movements(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}

	// The first freezer was not closed, as after a kill -9.
	again := open(t, file)
	after, err := again.Movements(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("movements after reopening (-before +after):\n%s", diff)
	}
	demandStock(t, again, "flavour vanilla 999", "topping cream 1000")
	demandOut(t, again, "a", freezer.Ingredient{Kind: freezer.Flavour, Ingredient: "vanilla"})
	book(t, again,
		movement("2", "a", freezer.Out, freezer.Flavour, "vanilla"),
		movement("4", "a", freezer.In, freezer.Flavour, "vanilla"))
	demandStock(t, again, "flavour vanilla 1000", "topping cream 1000")
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("files in the folder = %v, %v, want only the ledger's", entries, err)
	}
}

func TestUnsavedMovementIsNotBooked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "playground")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "freezer.json")
	client := open(t, file)
	book(t, client, movement("1", "a", freezer.Out, freezer.Topping, "cream"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := client.Book(t.Context(), movement("2", "a", freezer.Out, freezer.Topping, "cream"))
	var problem *freezer.Error
	if !errors.As(err, &problem) || problem.Status != http.StatusInternalServerError ||
		!strings.Contains(problem.Detail, "writing the freezer's ledger") {
		t.Errorf("error = %v", err)
	}
	demandStock(t, client, "topping cream 999")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	book(t, client, movement("2", "a", freezer.Out, freezer.Topping, "cream"))
	demandStock(t, open(t, file), "topping cream 998")
}

func TestForeignFileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, want string }{
		"no JSON":    {"cream", "is not a ledger"},
		"half of it": {`{"movements":[{"id":"1",`, "is not a ledger"},
		"a movement of air": {
			`{"movements":[{"id":"1","owner":"a","direction":"up","kind":"topping","ingredient":"cream"}]}`,
			`movement 1 of .*: the direction "up"`,
		},
	} {
		file := filepath.Join(t.TempDir(), "freezer.json")
		if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := freezer.Open(file)
		if err == nil || !strings.Contains(err.Error(), "to begin with a full freezer") ||
			!regexp.MustCompile(test.want).MatchString(err.Error()) {
			t.Errorf("%s: error = %v", name, err)
		}
		if content, err := os.ReadFile(file); err != nil || string(content) != test.content {
			t.Errorf("%s: the file was changed: %q (%v)", name, content, err)
		}
	}
	if _, err := freezer.Open(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "opening the freezer: ") {
		t.Errorf("Open() of a folder: error = %v", err)
	}
}
