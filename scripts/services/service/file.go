// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package service

import (
	"encoding/json"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Save writes a value into a file as JSON. It replaces the file as a whole, so that it is never half written.
func Save(file string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(file, append(content, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(file)))
}
