// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Result is the result of a part.
type Result string

// These are the results. A running part has the record of an interrupted run, since after kill -9 no other record can
// be written.
const (
	Proven      Result = "proven"
	Failed      Result = "failed"
	Interrupted Result = "interrupted"
)

// Record has the known facts about a part: the result of its last run, and when it was last proven.
type Record struct {
	Part   string `json:"part"`
	Result Result `json:"result"`
	Run
	// Reason is why the part is not proven: the last lines of its output.
	Reason string `json:"reason,omitempty"`
	// LastProven is the last run that proved the part, which may be this one. Nil: none is known.
	LastProven *Run `json:"lastProven,omitempty"`
}

// Run is one run of a part.
type Run struct {
	// Inputs is the hash of all inputs of the part.
	Inputs string `json:"inputs"`
	// Proved is how much was proven: "48 submissions".
	Proved string `json:"proved,omitempty"`
	// Commit is the checked-out commit. It ends with +changes if the work tree had uncommitted changes.
	Commit string `json:"commit"`
	// Date is when the run began. Seconds is its duration.
	Date    time.Time `json:"date"`
	Seconds float64   `json:"seconds"`
	Machine string    `json:"machine"`
}

// proves reports whether the part is proven with these inputs. There need be no record.
func (r *Record) proves(inputs string) bool {
	return r != nil && r.Result == Proven && r.Inputs == inputs
}

// Store has a record for each part: this machine's own, and those that a checkout has from other machines.
type Store struct {
	dir string
	// published are the records of the checkout, by part.
	published map[string]*Record
}

// UserStore returns the store of this user on this machine, which all checkouts share, with the records that the
// checkout at root has.
func UserStore(root string) (*Store, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("looking for the user's cache folder, which has the records of the proof: %w", err)
	}
	store, err := NewStore(filepath.Join(cache, "operator-labs", "proof"))
	if err != nil {
		return nil, err
	}
	return store, store.readPublished(root)
}

// NewStore returns a store in a folder, which it creates if necessary. It has no records of a checkout.
func NewStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder for the records of the proof: %w", err)
	}
	return &Store{dir: dir}, nil
}

// readPublished reads the records that the checkout at root has. It need not have any.
func (s *Store) readPublished(root string) error {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(Records)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var records []*Record
	if err == nil {
		err = json.Unmarshal(content, &records)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w; take the file from git again", Records, err)
	}
	s.published = map[string]*Record{}
	for _, record := range records {
		s.published[record.Part] = record
	}
	return nil
}

func (s *Store) file(part string) string { return filepath.Join(s.dir, part+".json") }

// Read returns the latest record of a part. It is nil if there is none.
func (s *Store) Read(part string) (*Record, error) {
	own, err := s.read(part)
	if other := s.published[part]; err == nil && other != nil && (own == nil || other.Date.After(own.Date)) {
		return other, nil
	}
	return own, err
}

// read returns this machine's record of a part. An unreadable record counts as missing, so the part is proven again.
func (s *Store) read(part string) (*Record, error) {
	content, err := os.ReadFile(s.file(part))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of %s: %w", part, err)
	}
	var record Record
	if !json.Valid(content) { // damaged, for example by a full disk, so it proves nothing
		return nil, nil
	}
	if err := json.Unmarshal(content, &record); err != nil {
		return nil, fmt.Errorf("reading the record of %s: %w; remove the file to start over", part, err)
	}
	if record.Part != part {
		return nil, nil
	}
	return &record, nil
}

// Write stores the record of a part atomically: after a failure there is either the old record or the new one.
func (s *Store) Write(record *Record) error {
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(s.file(record.Part), append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the record of %s: %w", record.Part, err)
	}
	return nil
}
