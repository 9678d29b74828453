// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Another process may copy a store while it is removed. That process must not find a part of the store at its name.
func TestStoreIsRenamedBeforeItIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, preparedPrefix+"0123456789abcdef")
	leftover := filepath.Join(store+".removed", "of an interrupted process")
	if err := errors.Join(os.Mkdir(store, 0o700), os.MkdirAll(leftover, 0o700)); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := removeStores(dir); err != nil {
		t.Error(err)
	}
	last, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", opened.Fd()))
	if want := store + ".removed (deleted)"; err != nil || last != want {
		t.Errorf("the store's last name = %q, %v; want %q", last, err, want)
	}
}
