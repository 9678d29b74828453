// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package store

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"lva.io/operators/labs/07-llama/api/v1alpha"
)

// compactEvery is after how many changes the log is cut. It is cut earlier if the changes have more than MaxBytes. So
// the log, a snapshot and a new snapshot fill at most half of the volume's 100 MiB.
const compactEvery = 1000

const (
	lockName     = "lock"
	logName      = "log.jsonl"
	snapshotName = "snapshot.json"
)

// snapshot is a whole store at one version.
type snapshot struct {
	Version uint64           `json:"version"`
	Llamas  []*v1alpha.Llama `json:"llamas"`
	History []Change         `json:"history"`
}

// snapshot returns everything that the store needs to start again in its current state.
func (s *Store) snapshot() snapshot {
	return snapshot{Version: s.version, Llamas: sorted(s.llamas, ""), History: s.history}
}

// restore begins with a snapshot.
func (s *Store) restore(state snapshot) {
	s.version = state.Version
	for _, change := range state.History {
		s.remember(measured(change))
	}
	for _, llama := range state.Llamas {
		s.llamas[keyOf(llama)] = llama
		s.bytes += sizeOf(llama)
	}
}

// files is the disk as a folder.
type files struct {
	folder string
	lock   *os.File
	log    *os.File
}

// openFiles locks the folder and loads its contents into the store.
func openFiles(folder string, s *Store) (*files, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// The kernel gives the lock back when the program ends, however it ends.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another server uses this folder: %w", err), lock.Close())
	}
	f := &files{folder: folder, lock: lock}
	if err := f.load(s); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// load reads the snapshot, then the later changes from the log, and opens the log to append to it.
func (f *files) load(s *Store) error {
	content, err := os.ReadFile(filepath.Join(f.folder, snapshotName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		var state snapshot
		if err := json.Unmarshal(content, &state); err != nil {
			return fmt.Errorf("read %s: %w", snapshotName, err)
		}
		s.restore(state)
	}
	f.log, err = os.OpenFile(filepath.Join(f.folder, logName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	end, err := f.replay(s)
	if err != nil {
		return fmt.Errorf("read %s: %w", logName, err)
	}
	// Half a line is a change that was never acknowledged. Remove it, or the next line would be appended to it.
	if err := f.log.Truncate(end); err != nil {
		return err
	}
	if _, err := f.log.Seek(end, io.SeekStart); err != nil {
		return err
	}
	return syncFolder(f.folder)
}

// replay brings the log's changes into the store, and returns where the last whole line ends.
func (f *files) replay(s *Store) (end int64, err error) {
	reader := bufio.NewReader(f.log)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		var change Change
		if err := json.Unmarshal(line, &change); err != nil {
			return 0, fmt.Errorf("the line at byte %d: %w", end, err)
		}
		end += int64(len(line))
		// A kill between the snapshot and the cut leaves changes in the log that the snapshot has already.
		if change.Version > s.version {
			s.apply(measured(change))
		}
	}
}

// append writes a line, and waits until it is on the disk.
func (f *files) append(change Change) error {
	// TODO(lab): b5. A line of JSON, and it must be on the disk before the client gets its answer.
	return nil
}

// compact writes a snapshot and cuts the log. It may be killed after each line.
func (f *files) compact(state snapshot) error {
	// TODO(lab): b5. The snapshot under another name, on the disk; then the rename; then cut the log.
	return nil
}

func (f *files) close() error {
	var err error
	if f.log != nil {
		err = f.log.Close()
	}
	return errors.Join(err, f.lock.Close())
}

// writeSynced writes a file that is whole on the disk when this returns.
func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncFolder(folder string) error {
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
