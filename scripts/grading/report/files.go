// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/google/renameio/v2"

	"lva.io/operators/scripts/grading/limited"
)

// Names of the files of a report.
const (
	JSONFile  = "report.json"
	JUnitFile = "junit.xml"
	HTMLFile  = "report.html"
)

// JSON returns the sanitized and validated report as it is written.
func (r Report) JSON() ([]byte, error) {
	r.Sanitize()
	var data bytes.Buffer
	if err := WriteJSON(&data, r, "the report of "+r.Lab); err != nil {
		return nil, err
	}
	if err := validateDocument(data.Bytes()); err != nil {
		return nil, fmt.Errorf("writing the report of %s: %w", r.Lab, err)
	}
	if err := r.validateSums(); err != nil {
		return nil, fmt.Errorf("writing the report of %s: %w", r.Lab, err)
	}
	return data.Bytes(), nil
}

// Read reads and validates a report.json.
func Read(file string) (*Report, error) {
	data, err := readFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no report %s: grade the lab first", file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	if err := Validate(data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return &r, nil
}

// readLimit is how large a report may be, in bytes. The largest have a timeline of some MB.
const readLimit = 64 << 20

// readFile reads a file in a folder of reports. A submission that ran there may have left a pipe or a device in its
// place.
func readFile(file string) ([]byte, error) {
	return limited.ReadFile(filepath.Dir(file), filepath.Base(file), readLimit)
}

// WriteFile replaces a file atomically, so that no reader sees half of it. Every user who can read the folder can read
// the report.
func WriteFile(file string, data []byte) error {
	beside := renameio.WithTempDir(filepath.Dir(file))
	if err := renameio.WriteFile(file, data, 0o644, beside, renameio.WithStaticPermissions(0o644)); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}
