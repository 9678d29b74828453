// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Names of the files that Write makes.
const (
	JSONFile  = "report.json"
	JUnitFile = "junit.xml"
	HTMLFile  = "report.html"
)

// Write makes report.json, report.html and junit.xml in a folder, and the folder if need be. Each file is there as a whole or not
// at all, and nothing is written if the report contradicts itself.
func Write(dir string, r Report) error {
	r.Sanitize()
	data, err := r.JSON()
	if err != nil {
		return err
	}
	var junitXML, page bytes.Buffer
	if err := errors.Join(WriteJUnit(&junitXML, &r), WriteHTML(&page, &r, dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for the report: %w", err)
	}
	// report.json is last: who waits for it finds the others there.
	for _, file := range []struct {
		name    string
		content []byte
	}{{JUnitFile, junitXML.Bytes()}, {HTMLFile, page.Bytes()}, {JSONFile, data}} {
		if err := WriteFile(filepath.Join(dir, file.name), file.content); err != nil {
			return err
		}
	}
	return nil
}

// JSON is the sanitized report as it is written, after it was validated.
func (r Report) JSON() ([]byte, error) {
	r.Sanitize()
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // <, > and & are for people to read
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("writing the report of %s: %w", r.Lab, err)
	}
	if err := validateDocument(data.Bytes()); err != nil {
		return nil, fmt.Errorf("writing the report of %s: %w", r.Lab, err)
	}
	if err := r.addsUp(); err != nil {
		return nil, fmt.Errorf("writing the report of %s: %w", r.Lab, err)
	}
	return data.Bytes(), nil
}

// Read reads and validates a report.json.
func Read(file string) (*Report, error) {
	data, err := os.ReadFile(file)
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

// WriteFile replaces a file by renaming a finished one over it, so that no reader sees half of it.
func WriteFile(file string, data []byte) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", file, errors.Join(err, temporary.Close(), os.Remove(temporary.Name())))
		}
	}()
	if _, err := temporary.Write(data); err != nil {
		return err
	}
	// CreateTemp keeps others out; a report is for whoever can read the folder.
	if err := temporary.Chmod(0o644); err != nil {
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}
