// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lva.io/operators/labs/07-llama/api/v1alpha"
)

const (
	// HistoryLength is how many of the last changes the store keeps: fewer if they have more than MaxBytes.
	HistoryLength = 100
	// MaxBytes is how many bytes all llamas may have together, as JSON. A llama with many labels takes ten times as
	// much memory. The Pod has 256 MiB for the llamas, the history, and the requests that it answers.
	MaxBytes = 8 << 20
)

var (
	// ErrNotFound means that there is no llama of this name.
	ErrNotFound = errors.New("not found")
	// ErrExists means that there is a llama of this name already.
	ErrExists = errors.New("already exists")
	// ErrTooOld means that the store no longer knows what happened at this version.
	ErrTooOld = errors.New("too old resource version")
	// ErrTooNew means that the store has not come to this version yet.
	ErrTooNew = errors.New("too large resource version")
	// ErrFull means that all llamas together would have more than MaxBytes.
	ErrFull = errors.New("exceeded quota")
)

// Change is one change of one llama. The objects that it points to must not be changed.
type Change struct {
	Type     watch.EventType `json:"type"`
	Version  uint64          `json:"version"`
	Llama    *v1alpha.Llama  `json:"llama"`
	Previous *v1alpha.Llama  `json:"previous,omitempty"` // nil when the llama is new

	size, previousSize int // bytes of the two
}

// measured returns the change with its sizes.
func measured(change Change) Change {
	change.size, change.previousSize = sizeOf(change.Llama), sizeOf(change.Previous)
	return change
}

// Store is the llamas of the farm. Several goroutines may use it at the same time.
type Store struct {
	mu      sync.RWMutex
	llamas  map[types.NamespacedName]*v1alpha.Llama
	bytes   int      // of all llamas
	version uint64   // of the last change; 0: there has been none
	history []Change // the last ones
	past    int      // bytes of the history
	logged  int      // bytes of the changes since the last compaction
	changed chan struct{}
	disk    disk
	broken  error
}

// disk is where changes are stored before they are answered.
type disk interface {
	// append returns when the change is stored for good.
	append(change Change) error
	// compact stores all that is needed to continue from here. Changes up to its version are no longer needed.
	compact(state snapshot) error
	close() error
}

// Open opens the store in this folder, which it creates if there is none. Only one program can use a folder at a time.
func Open(folder string) (*Store, error) {
	s := newStore()
	files, err := openFiles(folder, s)
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", folder, err)
	}
	s.disk = files
	return s, nil
}

func newStore() *Store {
	return &Store{llamas: map[types.NamespacedName]*v1alpha.Llama{}, changed: make(chan struct{})}
}

// Close ends the use of the folder. Nothing has to be saved: all that was answered is on the disk.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = errors.New("the store is closed")
	return s.disk.close()
}

// Version is the resourceVersion of the last change of all. It continues to grow after a restart.
func (s *Store) Version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// Get returns the llama of this name, or ErrNotFound.
func (s *Store) Get(key types.NamespacedName) (*v1alpha.Llama, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	llama, found := s.llamas[key]
	if !found {
		return nil, ErrNotFound
	}
	return llama.DeepCopy(), nil
}

// List returns the llamas of a namespace, or with "" of all, in the order of their names, and the version at which the
// list is true. The caller must not change them.
func (s *Store) List(namespace string) ([]*v1alpha.Llama, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return sorted(s.llamas, namespace), s.version
}

// ListAt returns the llamas as they were at this version: it takes back what happened since, from the last change on.
func (s *Store) ListAt(namespace string, version uint64) ([]*v1alpha.Llama, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.known(version); err != nil {
		return nil, err
	}
	then := make(map[types.NamespacedName]*v1alpha.Llama, len(s.llamas))
	maps.Copy(then, s.llamas)
	for _, change := range slices.Backward(s.history) {
		if change.Version <= version {
			break
		}
		if change.Previous == nil {
			delete(then, keyOf(change.Llama))
		} else {
			then[keyOf(change.Llama)] = change.Previous
		}
	}
	return sorted(then, namespace), nil
}

// Since returns the changes after this version, and a channel that is closed at the next one. So no writer waits for a
// slow reader, and nothing is kept for it: a reader that is too slow gets ErrTooOld, and has to list again.
func (s *Store) Since(version uint64) ([]Change, <-chan struct{}, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.known(version); err != nil {
		return nil, nil, err
	}
	first, _ := slices.BinarySearchFunc(s.history, version+1, func(change Change, version uint64) int {
		return cmp.Compare(change.Version, version)
	})
	return slices.Clone(s.history[first:]), s.changed, nil
}

// known reports whether all changes since this version are known.
func (s *Store) known(version uint64) error {
	switch {
	case version > s.version:
		return ErrTooNew
	case version < s.version-uint64(len(s.history)):
		return ErrTooOld
	default:
		return nil
	}
}

// Create stores a new llama and returns it with its resourceVersion.
func (s *Store) Create(llama *v1alpha.Llama) (*v1alpha.Llama, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.llamas[keyOf(llama)]; found {
		return nil, ErrExists
	}
	return s.commit(watch.Added, llama, nil)
}

// Update replaces a llama by the result of change, which gets a copy of its own. No other write happens in the
// meantime. An error of change is returned as it is, and nothing is stored. A llama with a deletionTimestamp is removed
// as soon as it has no finalizers, also by an update.
func (s *Store) Update(
	key types.NamespacedName, change func(current *v1alpha.Llama) (*v1alpha.Llama, error),
) (*v1alpha.Llama, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, found := s.llamas[key]
	if !found {
		return nil, ErrNotFound
	}
	updated, err := change(current.DeepCopy())
	if err != nil {
		return nil, err
	}
	if updated.DeletionTimestamp != nil && len(updated.Finalizers) == 0 {
		return s.commit(watch.Deleted, updated, current)
	}
	return s.commit(watch.Modified, updated, current)
}

// commit stores the change first, and then makes it visible. In the other order a client could see a change that is
// lost in a power failure.
func (s *Store) commit(kind watch.EventType, llama, previous *v1alpha.Llama) (*v1alpha.Llama, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	llama = llama.DeepCopy()
	llama.ResourceVersion = strconv.FormatUint(s.version+1, 10)
	change := measured(Change{Type: kind, Version: s.version + 1, Llama: llama, Previous: previous})
	if !s.fits(change) {
		return nil, ErrFull
	}
	if err := s.disk.append(change); err != nil {
		// Whether the line is on the disk is not known now. Only a restart finds out, so nothing is written until then.
		s.broken = fmt.Errorf("the store takes no more writes: %w", err)
		return nil, s.broken
	}
	s.apply(change)
	if s.version%compactEvery == 0 || s.logged > MaxBytes {
		s.logged = 0
		if err := s.disk.compact(s.snapshot()); err != nil {
			s.broken = fmt.Errorf("the store takes no more writes: %w", err)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return llama.DeepCopy(), nil
}

// fits reports whether there is room for the bytes that this change adds. A deletion always fits, or no client could
// make room. If the llama has finalizers, it only gets a deletionTimestamp, which makes it larger.
func (s *Store) fits(change Change) bool {
	before, after := change.Previous, change.Llama
	marked := before != nil && before.DeletionTimestamp == nil && after.DeletionTimestamp != nil
	grows := change.size - change.previousSize
	return grows <= 0 || marked || change.Type == watch.Deleted || s.bytes+grows <= MaxBytes
}

// apply makes a stored change visible.
func (s *Store) apply(change Change) {
	s.bytes -= change.previousSize
	if change.Type == watch.Deleted {
		delete(s.llamas, keyOf(change.Llama))
	} else {
		s.llamas[keyOf(change.Llama)] = change.Llama
		s.bytes += change.size
	}
	s.version = change.Version
	s.logged += change.size + change.previousSize
	s.remember(change)
}

// remember adds a change to the history, and removes the oldest ones that no longer fit.
func (s *Store) remember(change Change) {
	s.history = append(s.history, change)
	s.past += change.size + change.previousSize
	forgotten := 0
	for len(s.history)-forgotten > HistoryLength || s.past > MaxBytes {
		s.past -= s.history[forgotten].size + s.history[forgotten].previousSize
		forgotten++
	}
	if forgotten > 0 {
		s.history = slices.Clone(s.history[forgotten:])
	}
}

// sizeOf is how many bytes a llama has as JSON. A nil llama has none.
func sizeOf(llama *v1alpha.Llama) int {
	if llama == nil {
		return 0
	}
	content, err := json.Marshal(llama)
	if err != nil {
		panic(err) // it came as JSON
	}
	return len(content)
}

func keyOf(llama *v1alpha.Llama) types.NamespacedName {
	return types.NamespacedName{Namespace: llama.Namespace, Name: llama.Name}
}

func sorted(llamas map[types.NamespacedName]*v1alpha.Llama, namespace string) []*v1alpha.Llama {
	var found []*v1alpha.Llama
	for key, llama := range llamas {
		if namespace == "" || key.Namespace == namespace {
			found = append(found, llama)
		}
	}
	slices.SortFunc(found, func(a, b *v1alpha.Llama) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found
}
