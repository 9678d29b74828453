// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/removal"
)

// Lab has the properties of a lab that intake uses.
type Lab struct {
	// Name is the folder of the lab's skeleton below labs, such as 02-reconciler.
	Name string
	// Number is the number that students type, such as 2.
	Number int
	// Title is for people.
	Title string
}

// Options configure Read.
type Options struct {
	// Labs are the labs whose submissions are wanted.
	Labs []Lab
	// Course has all labs of the course. A module that is named for a lab outside of Labs is not a submission. Default:
	// Labs.
	Course []Lab
	// Source is a folder of submissions, or a roster: a file whose name ends with .csv.
	Source string
	// Work is a folder for unpacked and fetched files. Read creates it, and replaces the files of an earlier call.
	Work string
	// Owns reports whether a Go module whose name fits no lab can belong to a lab, as HasGroup does by API groups.
	// Default: any can.
	Owns func(lab Lab, dir string) bool
	// Deadline returns the deadline of a student for a lab, or zero if there is none. It decides which commits of a
	// repository are attempts if the roster names none: the last one before it, and the newest one if that is later.
	// Default: no deadline.
	Deadline func(student, lab string) time.Time
	// Limits are the limits of a submission. Default: DefaultLimits.
	Limits Limits
}

// Submission is an attempt of a student at a lab.
type Submission struct {
	// Student is a name that is unique in the class and safe as a file name. It is the same in each call for the same
	// source.
	Student string
	// Name is the student's real name. Email is the student's address, if the source has one.
	Name, Email string
	// Lab is the lab's name.
	Lab string
	// Attempt is the number of the attempt, from 1, in the order in which they were handed in.
	Attempt int
	// Dir is the folder of the Go module, below Options.Work or the source. It is empty if there is a problem.
	Dir string
	// From is the archive, folder or URL@commit, for people.
	From string
	// Submitted is when it was handed in. It is zero if that is unknown.
	Submitted time.Time
	// Digest is a SHA-256 over the names and contents of the module's files, except files that are not the student's work,
	// such as .git and bin. The same work has the same digest.
	Digest string
	// Problem is a sentence that explains why the submission can't be graded. It is empty if it can.
	Problem string
}

// DefaultLimits are large enough for a clone of this repository, and small enough for 500 of them at a time.
func DefaultLimits() Limits {
	return Limits{
		Archive: 64 << 20, Bytes: 128 << 20, File: 32 << 20,
		Stream: 1 << 30, Directory: 16 << 20, Files: 20_000, Entries: 100_000,
		Repository: 256 << 20, Git: 5 * time.Minute,
	}
}

// Limits are the limits of one submission. Sizes are in bytes.
type Limits struct {
	// Archive is the maximum size of an archive, and Directory that of the list of files in a zip.
	Archive, Directory int64
	// Bytes is the maximum total size of the unpacked files, and File that of each file.
	Bytes, File int64
	// Stream is the maximum size that is read of a compressed archive, including skipped files.
	Stream int64
	// Files is the maximum number of files and folders that are kept, and Entries that of the entries in an archive.
	Files, Entries int
	// Repository is the maximum size of the data that is fetched from a Git repository. Git is the time limit of a git
	// command.
	Repository int64
	Git        time.Duration
}

// source is something that a student handed in. It is not opened yet.
type source struct {
	// identity is unique for the student, and name is the name that people use for the student.
	identity, name, email string
	// lab is the lab for which it was handed in. Nil: any lab.
	lab *Lab
	// path is a folder or an archive, and commit is set if it comes from a repository.
	path      string
	commit    *commit
	from      string
	submitted time.Time
	// problem is set if it is already known that the source can't be graded.
	problem string
}

// problem is an error that concerns one submission, in a sentence.
type problem string

func (p problem) Error() string { return string(p) }

func problemf(format string, args ...any) error { return problem(fmt.Sprintf(format, args...)) }

// parallel is how many submissions are opened at a time. More of them would wait for the disk, or for the same host.
const parallel = 4

// reader reads the submissions for one call of Read.
type reader struct {
	Options
	scope *process.Scope
	repos *repositories
}

// Read finds all submissions, ordered by student, lab and attempt. They include submissions that can't be graded, which
// have a Problem. The error concerns all of them: the source does not exist, the roster is wrong, the disk is full, or
// the context has ended.
func Read(ctx context.Context, o Options) ([]Submission, error) {
	if len(o.Course) == 0 {
		o.Course = o.Labs
	}
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Deadline == nil {
		o.Deadline = func(string, string) time.Time { return time.Time{} }
	}
	if o.Owns == nil {
		o.Owns = func(Lab, string) bool { return true }
	}
	var err error
	for _, path := range []*string{&o.Source, &o.Work} {
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, fmt.Errorf("reading the submissions: %w", err)
		}
	}
	sources, err := list(o)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Work, 0o700); err != nil {
		return nil, fmt.Errorf("creating a folder for unpacked submissions: %w", err)
	}
	r := &reader{Options: o}
	if slices.ContainsFunc(sources, func(s source) bool { return s.commit != nil }) {
		if r.scope, err = process.NewScope(process.Options{}); err != nil {
			return nil, err
		}
		defer r.scope.Close()
		r.repos = &repositories{}
		if err := os.MkdirAll(filepath.Join(o.Work, ".repositories"), 0o700); err != nil {
			return nil, fmt.Errorf("creating a folder for repositories: %w", err)
		}
	}
	students := studentNames(sources)
	counts := map[string]int{}
	for _, name := range students {
		if err := removal.All(filepath.Join(o.Work, name)); err != nil {
			return nil, fmt.Errorf("removing earlier unpacked submissions: %w", err)
		}
	}
	found := make([][]Submission, len(sources))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, from := range sources {
		student := students[from.identity]
		counts[student]++
		work := filepath.Join(o.Work, student, fmt.Sprint(counts[student]))
		group.Go(func() (err error) {
			found[i], err = r.read(ctx, from, student, work)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return number(slices.Concat(found...)), nil
}

// number sorts submissions, and numbers the attempts. Attempts without a time keep their order, before the others.
func number(all []Submission) []Submission {
	slices.SortStableFunc(all, func(a, b Submission) int {
		return cmp.Or(cmp.Compare(a.Student, b.Student), cmp.Compare(a.Lab, b.Lab), a.Submitted.Compare(b.Submitted))
	})
	for i := range all {
		all[i].Attempt = 1
		if i > 0 && all[i-1].Student == all[i].Student && all[i-1].Lab == all[i].Lab {
			all[i].Attempt = all[i-1].Attempt + 1
		}
	}
	return all
}

// tree is a folder in which the module of a lab may be.
type tree struct {
	// dir is the folder to search, and root is the folder of the whole submission: no link may point out of it.
	dir, root string
	// hint is a name that may contain the lab's.
	hint string
	// only is true if it was handed in for one lab.
	only      bool
	from      string
	submitted time.Time
	problem   string
}

// tree returns the folder that contains the source's modules. Its name is a hint, unless the lab for which it was
// handed in is known.
func (s source) tree(dir, name string) tree {
	result := tree{dir: dir, root: dir, hint: name, from: s.from, submitted: s.submitted}
	if s.lab != nil {
		result.hint, result.only = "", true
	}
	return result
}

// read opens what a student handed in, and finds the modules of the labs in it.
func (r *reader) read(ctx context.Context, s source, student, work string) (found []Submission, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	labs := r.Labs
	if s.lab != nil {
		labs = []Lab{*s.lab}
	}
	blank := Submission{Student: student, Name: printable(s.name), Email: printable(s.email)}
	var all []candidate
	if s.commit == nil {
		trees, err := r.open(ctx, s, work)
		if err != nil {
			return nil, err
		}
		if all, err = r.candidates(ctx, trees, labs, blank); err != nil {
			return nil, err
		}
	} else {
		for _, lab := range labs {
			trees, err := r.checkout(ctx, s, lab, student, filepath.Join(work, lab.Name))
			if err != nil {
				return nil, err
			}
			candidates, err := r.candidates(ctx, trees, []Lab{lab}, blank)
			if err != nil {
				return nil, err
			}
			all = append(all, candidates...)
		}
	}
	for _, c := range withoutMissing(all) {
		found = append(found, c.Submission)
	}
	return found, nil
}

// candidate is a possible submission.
type candidate struct {
	Submission
	// missing is true if the problem is a missing module of the lab: the student may have handed in nothing for it.
	missing bool
}

// candidates finds the modules of labs in all trees. The modules of a lab are attempts at it.
func (r *reader) candidates(
	ctx context.Context, trees []tree, labs []Lab, blank Submission,
) (all []candidate, err error) {
	for _, t := range trees {
		for _, lab := range labs {
			result := candidate{Submission: blank}
			result.Lab, result.From, result.Submitted, result.Problem = lab.Name, printable(t.from), t.submitted, t.problem
			if result.Problem == "" {
				result.Dir, result.Digest, err = r.find(ctx, t, lab)
				if err != nil {
					_, result.missing = errors.AsType[*MissingError](err)
					if result.Problem, err = asProblem(ctx, err); err != nil {
						return nil, err
					}
					result.Dir, result.Digest = "", ""
				}
			}
			all = append(all, result)
		}
	}
	return all, nil
}

// withoutMissing removes candidates without a module of the lab, if another candidate of the student has one or has
// another problem.
func withoutMissing(all []candidate) []candidate {
	if slices.ContainsFunc(all, func(c candidate) bool { return !c.missing }) {
		return slices.DeleteFunc(all, func(c candidate) bool { return c.missing })
	}
	// No candidate has a module. One entry for each lab is enough.
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(c candidate) bool {
		again := seen[c.Lab]
		seen[c.Lab] = true
		return again
	})
}

// find finds the module of a lab in a tree, and its digest.
func (r *reader) find(ctx context.Context, t tree, lab Lab) (dir, sum string, err error) {
	wanted := search{
		lab: lab, course: r.Course, owns: r.Owns, hint: t.hint, only: t.only || len(r.Labs) == 1, limit: r.Limits.Entries,
	}
	if dir, err = wanted.find(t.dir); err != nil {
		return "", "", err
	}
	sum, err = digest(ctx, t.root, dir, r.Limits)
	return dir, sum, err
}

// asProblem returns the sentence of an error that concerns one submission. Other errors are returned as errors.
func asProblem(ctx context.Context, err error) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	for _, ours := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, ours) {
			return "", fmt.Errorf("reading the submissions: %w: free some space, or choose another folder for it", err)
		}
	}
	return printable(err.Error()), nil
}

// open opens a folder or an archive.
func (r *reader) open(ctx context.Context, s source, work string) ([]tree, error) {
	if s.problem != "" {
		return []tree{{from: s.from, submitted: s.submitted, problem: s.problem}}, nil
	}
	info, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = problemf("there is no %s: correct the path in the roster", s.from)
	case err != nil:
	case info.Mode()&fs.ModeSymlink != 0:
		err = problemf("%s is a link, and links are not followed: put the folder or the archive itself there", s.from)
	case info.IsDir():
		return r.openFolder(ctx, s, work)
	default:
		return r.openArchive(ctx, filepath.Dir(s.path), filepath.Base(s.path), s, work, nested)
	}
	text, err := asProblem(ctx, err)
	return []tree{{from: s.from, submitted: s.submitted, problem: text}}, err
}

// nested is how many levels of nested archives are opened.
const nested = 1

// openFolder returns the folder itself, or its attempts. If it has no module but archives, it returns their contents.
func (r *reader) openFolder(ctx context.Context, s source, work string) ([]tree, error) {
	if attempts := attemptFolders(s.path); len(attempts) > 0 {
		var trees []tree
		for i, name := range attempts {
			inner := s
			inner.path, inner.from = filepath.Join(s.path, name), s.from+"/"+name
			more, err := r.openFolder(ctx, inner, filepath.Join(work, fmt.Sprint(i)))
			if err != nil {
				return nil, err
			}
			trees = append(trees, more...)
		}
		return trees, nil
	}
	self := s.tree(s.path, filepath.Base(s.path))
	return r.openInner(ctx, self, s, work, nested+1)
}

// openInner returns a tree. If the tree has no module but archives, it returns their contents. levels is how many
// levels of archives may be opened.
func (r *reader) openInner(ctx context.Context, self tree, s source, work string, levels int) ([]tree, error) {
	modules, archives, err := look(self.dir, r.Limits.Entries)
	if err != nil {
		self.problem, err = asProblem(ctx, err)
		return []tree{self}, err
	}
	if len(modules) > 0 || len(archives) == 0 {
		return []tree{self}, nil
	}
	if levels == 0 {
		self.problem = fmt.Sprintf("it is an archive in an archive in an archive (%s): "+
			"hand in one archive with the folder of the lab", archives[0])
		return []tree{self}, nil
	}
	if len(archives) > maxInner {
		self.problem = fmt.Sprintf("there are %d archives in it: hand in one with the folder of the lab", len(archives))
		return []tree{self}, nil
	}
	var trees []tree
	for i, name := range archives {
		inner := s
		inner.from = s.from + "/" + name
		more, err := r.openArchive(ctx, self.dir, name, inner, filepath.Join(work, fmt.Sprintf("in-%d", i)), levels-1)
		if err != nil {
			return nil, err
		}
		trees = append(trees, more...)
	}
	return trees, nil
}

// maxInner is how many archives a student may hand in at once. More than one lab per week is a mistake.
const maxInner = 30

// openArchive unpacks the archive with a name in a folder. levels is how many levels of nested archives are opened.
func (r *reader) openArchive(ctx context.Context, dir, name string, s source, work string, levels int) ([]tree, error) {
	stem := strings.TrimSuffix(filepath.Base(name), archiveSuffix(name))
	self := s.tree(work, stem)
	if err := unpackFile(ctx, dir, name, work, r.Limits); err != nil {
		var failed error
		if self.problem, failed = asProblem(ctx, err); failed != nil {
			return nil, failed
		}
		return []tree{self}, removal.All(work)
	}
	return r.openInner(ctx, self, s, work+".inner", levels)
}
