// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package course

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lva.io/operators/clusters/filelock"
	"lva.io/operators/clusters/removal"
	"lva.io/operators/scripts/grading/report"
)

// Names below the folder of a class.
const (
	journalFile = "journal.jsonl"
	lockFile    = "journal.lock"
	runsDir     = "runs"
)

// Key identifies a result by the work, the lab, the grader and the seed. Equal keys have equal results.
type Key struct {
	Lab string `json:"lab"`
	// Digest is the digest of the submission's files.
	Digest string `json:"digest"`
	// Grader identifies all code that grades the lab.
	Grader string `json:"grader"`
	Seed   uint32 `json:"seed"`
}

// name returns a file name that no other key has.
func (k Key) name() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", k.Lab, k.Digest, k.Grader, k.Seed))
	return k.Lab + "-" + hex.EncodeToString(sum[:12])
}

// Record is one line of the journal: a completed run.
type Record struct {
	Key
	// Student is the first of the students who handed this in. It is for people who read the journal.
	Student string `json:"student"`
	// Try is the number of the run for this submission in one call of the command, from 1.
	Try     int            `json:"try"`
	Outcome report.Outcome `json:"outcome"`
	Score   int            `json:"score"`
	Max     int            `json:"max"`
	// Started is when the run began, Seconds is its duration, and Slot is where it ran, from 0.
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Slot    int       `json:"slot"`
	// Report is the SHA-256 of the run's report.json. A report with another hash does not belong to the run.
	Report string `json:"report"`
}

// final reports whether the run decided anything about the submission. A run that decided nothing is repeated.
func (r *Record) final() bool {
	return r.Outcome != report.Error && r.Outcome != report.Interrupted && r.Outcome != report.Unfinished
}

// line is a line of the journal: a record, or the seed of the class, which is in the first line.
type line struct {
	Seed   uint32  `json:"classSeed,omitempty"`
	Record *Record `json:"run,omitempty"`
}

// Journal keeps the results of a class in a folder. It writes a line when a run has ended, and syncs it to the disk
// before anything else happens. It ignores a line that a killed process or a full disk left unfinished. All methods are
// safe for concurrent use.
type Journal struct {
	dir    string
	unlock func()
	// sync writes a file to the disk.
	sync func(*os.File) error

	mutex sync.Mutex
	file  *os.File
	seed  uint32
	// final has the record of each decided key, last has the last record of each key, and works has the last final record
	// of each work, from any grader and any seed.
	final, last map[Key]Record
	works       map[work]Record
	damaged     int
}

// work is a student's work for a lab.
type work struct{ lab, digest string }

// ErrBusy means that another process grades the same class.
var ErrBusy = errors.New("another `lab class` is grading into this folder: wait until it has ended, " +
	"or choose another folder with --out")

// OpenJournal opens the journal in the folder of a class, and creates both if necessary. The error is ErrBusy if
// another process has it open.
func OpenJournal(dir string) (*Journal, error) { return openSynced(dir, (*os.File).Sync) }

// openSynced is OpenJournal with a function that syncs a file to the disk.
func openSynced(dir string, sync func(*os.File) error) (*Journal, error) {
	if err := os.MkdirAll(filepath.Join(dir, runsDir), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder for the results: %w", err)
	}
	unlock, err := filelock.Try(filepath.Join(dir, lockFile))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, fmt.Errorf("locking the journal: %w", err)
	}
	removal.Abandoned(filepath.Join(dir, runsDir), temporaryPrefix)
	j := &Journal{
		dir: dir, unlock: unlock, sync: sync, final: map[Key]Record{}, last: map[Key]Record{}, works: map[work]Record{},
	}
	if err := j.open(); err != nil {
		unlock()
		return nil, err
	}
	return j, nil
}

func (j *Journal) open() (err error) {
	name := filepath.Join(j.dir, journalFile)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	content, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	whole := bytes.LastIndexByte(content, '\n') + 1
	for text := range bytes.Lines(content[:whole]) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			j.damaged++
			continue
		}
		if l.Seed != 0 {
			j.seed = l.Seed
		}
		if l.Record != nil {
			j.remember(*l.Record)
		}
	}
	// The bytes after the last complete line belong to an unfinished write. The next line must not be joined to them.
	if err := file.Truncate(int64(whole)); err != nil {
		return fmt.Errorf("removing the unfinished line of the journal: %w", err)
	}
	if _, err := file.Seek(int64(whole), io.SeekStart); err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	j.file = file
	// Sync the folder too, because it holds the name of a new journal.
	folder, err := os.Open(j.dir)
	if err != nil {
		return fmt.Errorf("opening the folder of the journal: %w", err)
	}
	if err := errors.Join(j.sync(folder), folder.Close()); err != nil {
		return fmt.Errorf("syncing the folder of the journal: %w", err)
	}
	return nil
}

func (j *Journal) remember(r Record) {
	j.last[r.Key] = r
	if r.final() {
		j.final[r.Key], j.works[work{r.Lab, r.Digest}] = r, r
	}
}

// Close closes the journal. Another process may open it then.
func (j *Journal) Close() error {
	defer j.unlock()
	return j.file.Close()
}

// Damaged returns how many lines of the journal could not be read, except an unfinished one at its end. The runs of
// these lines are repeated.
func (j *Journal) Damaged() int { return j.damaged }

// Seed returns the seed of the class, from which every submission is graded. The first call stores wanted, or the seed
// that draw returns if wanted is 0. Later calls return the stored seed. If they want another one, that is stored and
// returned from then on.
func (j *Journal) Seed(wanted uint32, draw func() uint32) (uint32, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.seed != 0 && (wanted == 0 || wanted == j.seed) {
		return j.seed, nil
	}
	seed := cmp.Or(wanted, j.seed)
	for seed == 0 {
		seed = draw()
	}
	if err := j.append(line{Seed: seed}); err != nil {
		return 0, err
	}
	j.seed = seed
	return seed, nil
}

// append writes a line and syncs it to the disk.
func (j *Journal) append(l line) error {
	content, err := json.Marshal(l)
	if err != nil {
		return err
	}
	before, err := j.file.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = j.file.Write(append(content, '\n'))
	}
	if err == nil {
		err = j.sync(j.file)
	}
	if err == nil {
		return nil
	}
	// If the disk is full, half a line may have been written. The next line begins where this one did.
	_, seek := j.file.Seek(before, io.SeekStart)
	return errors.Join(fmt.Errorf("writing the journal: %w", err), j.file.Truncate(before), seek)
}

// Add stores the report of a run, and then the run itself. After a crash between the two, the run does not count.
func (j *Journal) Add(r Record, result *report.Report) error {
	content, err := result.JSON()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	r.Report = hex.EncodeToString(sum[:])
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if err := replaceFile(j.reportFile(r.Key), content, j.sync); err != nil {
		return fmt.Errorf("saving the report of a run: %w", err)
	}
	if err := j.append(line{Record: &r}); err != nil {
		return err
	}
	j.remember(r)
	return nil
}

func (j *Journal) reportFile(k Key) string { return filepath.Join(j.dir, runsDir, k.name()+".json") }

// Final returns the run that decided a key, with its report. ok is false if there is none, or if its report is no
// longer the one that the run wrote.
func (j *Journal) Final(k Key) (r Record, result *report.Report, ok bool, err error) {
	j.mutex.Lock()
	r, ok = j.final[k]
	j.mutex.Unlock()
	return j.withReport(r, ok)
}

// Last is like Final, but returns the last run of a key, even if it decided nothing.
func (j *Journal) Last(k Key) (r Record, result *report.Report, ok bool, err error) {
	j.mutex.Lock()
	if r, ok = j.final[k]; !ok {
		r, ok = j.last[k]
	}
	j.mutex.Unlock()
	return j.withReport(r, ok)
}

// Known is like Final, but returns the last run that decided something about this work, from any grader and any seed.
func (j *Journal) Known(lab, digest string) (r Record, result *report.Report, ok bool, err error) {
	j.mutex.Lock()
	r, ok = j.works[work{lab, digest}]
	j.mutex.Unlock()
	return j.withReport(r, ok)
}

func (j *Journal) withReport(r Record, known bool) (Record, *report.Report, bool, error) {
	if !known {
		return r, nil, false, nil
	}
	content, err := os.ReadFile(j.reportFile(r.Key))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil, false, nil
	}
	if err != nil {
		return r, nil, false, fmt.Errorf("reading the report of a run: %w", err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != r.Report {
		return r, nil, false, nil
	}
	var result report.Report
	if err := json.Unmarshal(content, &result); err != nil {
		return r, nil, false, fmt.Errorf("reading the report of a run: %w", err)
	}
	return r, &result, true, nil
}
