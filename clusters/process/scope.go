// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package process

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// markerVariable names the environment variable by which the processes of a scope are recognised.
const markerVariable = "OPERATOR_LABS_SCOPE"

// Options configure a scope. The zero value means a temporary scope: its folder is new and is removed with it.
type Options struct {
	// Dir is the folder of a scope that keeps its folder, such as the playground's. It must exist. Default: a new folder
	// below Root, removed when the scope ends.
	Dir string
	// Detachable lets processes survive their parent after Release was called.
	Detachable bool

	withoutNamespaces bool          // for tests of containment without namespaces
	waitDelay         time.Duration // for tests that do not depend on it
	patience          time.Duration // for tests of processes that can't be ended
}

// Scope is a folder and the processes that were started in it. All methods are safe for concurrent use.
type Scope struct {
	// ID is the value of the marker that the scope's processes carry.
	ID string
	// Dir is the scope's folder. Only its user can read it.
	Dir string

	options Options
	guard   *exec.Cmd
	pipe    *os.File // its end, whether written or not, signals the guard that we have ended
	lock    *os.File

	mutex     sync.Mutex
	processes map[*Process]struct{}
	// stuck are the processes that had not ended when we stopped waiting for them.
	stuck       []*Process
	closed      bool
	containment Containment
	// built are the walls that all walled programs had.
	built  []Wall
	walled bool
}

// Containment is how we find the processes that a contained program has started.
type Containment string

// The containments, strongest first.
const (
	// Namespaces: the kernel kills all processes of a PID namespace when its first one ends.
	Namespaces Containment = "namespaces"
	// Supervised: a supervisor adopts all orphans below it, finds all processes, and kills them.
	Supervised Containment = "supervisor"
	// Grouped: only the processes that stay in the program's process group are known.
	Grouped Containment = "group"
)

// Containment returns the weakest containment of all contained programs that were started in the scope. It is empty if
// none was.
func (s *Scope) Containment() Containment {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.containment
}

// weakest returns the weaker one of two containments.
func weakest(a, b Containment) Containment {
	order := []Containment{"", Namespaces, Supervised, Grouped}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// Root returns the folder below which temporary scopes have theirs. It belongs to the current user alone.
func Root() (string, error) {
	temporary := os.TempDir()
	if !filepath.IsAbs(temporary) {
		return "", fmt.Errorf("TMPDIR is %q, which is no absolute path: "+
			"set it to the path of a folder, beginning with a slash", temporary)
	}
	root := filepath.Join(temporary, fmt.Sprintf("operator-labs-%d", os.Getuid()))
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("no folder can be made in %s, which is for temporary files (%w): "+
			"set TMPDIR to a folder that exists and that you may write to",
			temporary, errors.Unwrap(err))
	}
	// In a shared temporary folder, another user could have created it first, to read our keys.
	info, err := os.Lstat(root)
	if err != nil {
		return "", fmt.Errorf("looking at the folder for runs: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s is not a folder of yours, so others could read what is in it: "+
			"remove it, or set TMPDIR to a folder of yours", root)
	}
	// A submission runs as the same user, and may have let other users in.
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(root, 0o700); err != nil {
			return "", fmt.Errorf("keeping others out of the folder for runs: %w", err)
		}
	}
	return root, nil
}

// NewScope removes what earlier scopes may have left, and then creates a folder and starts a guard.
func NewScope(options Options) (*Scope, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	if err := sweep(root); err != nil {
		return nil, err
	}
	var random [6]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	s := &Scope{ID: "scope-" + hex.EncodeToString(random[:]), options: options, processes: map[*Process]struct{}{}}
	s.Dir = options.Dir
	if s.Dir == "" {
		s.Dir = filepath.Join(root, s.ID)
	}
	// The guard comes first, so that it knows the folder if we end while the folder is created.
	if err := s.startGuard(); err != nil {
		return nil, err
	}
	if options.Dir == "" {
		if s.lock, err = createLocked(s.Dir); err != nil {
			s.dismissGuard()
			return nil, errors.Join(err, s.removeDir(), removeAll(unfinished(s.Dir)))
		}
	}
	return s, nil
}

// createLocked creates a folder that its owner holds locked (flock(2)) as long as it lives. The folder never exists
// without its lock, because a sweep at the wrong moment would consider it abandoned.
func createLocked(dir string) (*os.File, error) {
	hidden := unfinished(dir)
	if err := os.Mkdir(hidden, 0o700); err != nil {
		return nil, fmt.Errorf("creating a run folder: %w", err)
	}
	lock, err := openFolder(hidden)
	if err != nil {
		return nil, fmt.Errorf("locking a run folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking a run folder: %w", err), lock.Close())
	}
	if err := os.Rename(hidden, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("creating a run folder: %w", err), lock.Close())
	}
	return lock, nil
}

// unfinished returns the name of a run folder while it is being created.
func unfinished(dir string) string {
	return filepath.Join(filepath.Dir(dir), ".new-"+filepath.Base(dir))
}

// Close kills all processes of the scope, including those that left their group, and removes a temporary folder. It
// returns an error for processes that have not ended a minute after they were killed.
func (s *Scope) Close() error {
	s.mutex.Lock()
	if s.closed {
		s.mutex.Unlock()
		return nil
	}
	s.closed = true
	var ending []*Process
	for p := range s.processes {
		p.signal(syscall.SIGKILL)
		ending = append(ending, p)
	}
	s.mutex.Unlock()
	for _, p := range ending {
		<-p.done
	}
	killMarked(s.ID)
	err := s.removeDir()
	s.dismissGuard()
	// The folder may remain because a process still lives. That error is more important.
	return cmp.Or(s.stuckErrors(), err)
}

// stuckErrors returns the errors of the processes that still have not ended.
func (s *Scope) stuckErrors() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var problems []error
	for _, p := range s.stuck {
		if !p.hasEnded() {
			problems = append(problems, p.err)
		}
	}
	return errors.Join(problems...)
}

// Adopt adds all programs to the scope that this process starts from now on, even those that are not started by Start
// but by a library. They end with the scope, and the guard kills them if we are killed. abandon ends the adoption for
// later programs.
func (s *Scope) Adopt() (abandon func(), err error) {
	if err := os.Setenv(markerVariable, s.ID); err != nil {
		return nil, fmt.Errorf("marking the programs of a run: %w", err)
	}
	return func() { _ = os.Unsetenv(markerVariable) }, nil
}

// Release lets the processes of a detachable scope continue after this one ends. The scope can't be used afterwards.
func (s *Scope) Release() {
	s.mutex.Lock()
	s.closed = true
	s.mutex.Unlock()
	s.dismissGuard()
}

func (s *Scope) removeDir() error {
	if s.options.Dir != "" {
		return nil
	}
	if s.lock != nil {
		defer s.lock.Close()
	}
	return removeAll(s.Dir)
}

// KillGroup kills the group of the process that has a number, if the process belongs to the scope with this ID. The
// number may have been reused.
func KillGroup(number int, id string) {
	g, found := openGroup(number) // before we check which process it is
	if !found {
		return
	}
	defer g.Close()
	if Belongs(number, id) {
		g.SignalGroup(syscall.SIGKILL)
	}
}

// KillMarked kills all processes of the scope with this ID, wherever they were started. It is for scopes that were
// released. On systems without /proc it finds nothing.
func KillMarked(id string) { killMarked(id) }

// marked reports whether an environment, as /proc has it, carries the marker of the scope.
func marked(environment []byte, id string) bool {
	want := markerVariable + "=" + id
	for entry := range strings.SplitSeq(string(environment), "\x00") {
		if entry == want {
			return true
		}
	}
	return false
}
