// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package service

import (
	"encoding/json"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Save writes a value to a file as JSON. It replaces the file atomically, so that no reader sees half of it.
func Save(file string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(file, append(content, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(file)))
}
