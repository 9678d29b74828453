// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package addons_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lva.io/operators/scripts/checkout/addons"
)

func TestMissingAddons(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "install")
	const script = `#!/bin/sh
echo '{"addon": "cert-manager", "state": {"name": "cert-manager", "installed": "v1.19.1", "usable": true}}'
echo '{"addon": "pebble", "state": {"name": "pebble", "pinned": "2.8.0"}}'
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	installer := addons.Installer{Program: program}
	missing, err := installer.Missing(t.Context(), "kubeconfig", []string{"cert-manager", "pebble"})
	if want := []string{"pebble"}; err != nil || !slices.Equal(missing, want) {
		t.Errorf("Missing() = %v, %v, want %v", missing, err, want)
	}
}
