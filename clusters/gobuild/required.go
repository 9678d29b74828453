// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package gobuild

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// Required returns the version of a module, such as v1.36.3, that the go.mod of a folder requires.
func Required(folder, module string) (version string, err error) {
	name := filepath.Join(folder, "go.mod")
	content, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", module, err)
	}
	mod, err := modfile.ParseLax(name, content, nil)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", module, err)
	}
	for _, require := range mod.Require {
		if require.Mod.Path == module {
			return require.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", name, module)
}
