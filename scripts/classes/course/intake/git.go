// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lva.io/operators/clusters/process"
	"lva.io/operators/clusters/removal"
	"lva.io/operators/scripts/grading/limited"
)

// repositories are the fetched repositories, by URL. Several labs of a student are often in one repository.
type repositories struct {
	mutex sync.Mutex
	by    map[string]*repository
}

type repository struct {
	fetched sync.Once
	dir     string
	err     error
}

func (r *repositories) repository(url string) *repository {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.by == nil {
		r.by = map[string]*repository{}
	}
	if r.by[url] == nil {
		r.by[url] = &repository{}
	}
	return r.by[url]
}

// checkout unpacks the commits of a repository that are attempts at a lab.
func (r *reader) checkout(ctx context.Context, s source, lab Lab, student, work string) (trees []tree, err error) {
	failed := func(err error) ([]tree, error) {
		text, err := asProblem(ctx, err)
		return []tree{{from: s.from, submitted: s.submitted, problem: text}}, err
	}
	fetched := r.repos.repository(s.commit.url)
	fetched.fetched.Do(func() {
		sum := sha256.Sum256([]byte(s.commit.url))
		fetched.dir = filepath.Join(r.Work, ".repositories", hex.EncodeToString(sum[:8]))
		fetched.err = r.fetch(ctx, s.commit.url, fetched.dir)
	})
	if fetched.err != nil {
		return failed(fetched.err)
	}
	revisions, err := r.revisions(ctx, fetched.dir, *s.commit, r.Deadline(student, lab.Name))
	if err != nil {
		return failed(err)
	}
	for _, revision := range revisions {
		dir := filepath.Join(work, revision.hash)
		revisionSource := s
		revisionSource.from = fmt.Sprintf("%s@%.12s", s.from, revision.hash)
		if revisionSource.submitted.IsZero() {
			revisionSource.submitted = revision.at
		}
		checkout := revisionSource.tree(dir, strings.TrimSuffix(path.Base(filepath.ToSlash(s.commit.url)), ".git"))
		if err := r.export(ctx, fetched.dir, revision.hash, dir); err != nil {
			if checkout.problem, err = asProblem(ctx, err); err != nil {
				return nil, err
			}
		}
		trees = append(trees, checkout)
	}
	return trees, nil
}

const headRef = "refs/intake/head"

// attributes override the attributes that the repository sets for its files, so nothing is left out, filtered or
// replaced. (gitattributes(5): $GIT_DIR/info/attributes has the highest precedence)
const attributes = "* -export-ignore -export-subst -filter -ident -text -eol -working-tree-encoding\n"

// fetch fetches all branches of a repository into a folder, without checking out files.
func (r *reader) fetch(ctx context.Context, url, dir string) error {
	if err := removal.All(dir); err != nil {
		return fmt.Errorf("removing an earlier clone: %w", err)
	}
	if _, err := r.git(ctx, r.Work, nil, "init", "--quiet", "--bare", "--template=", "--", dir); err != nil {
		return err
	}
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "info"), 0o700),
		os.WriteFile(filepath.Join(dir, "info", "attributes"), []byte(attributes), 0o600))
	if err != nil {
		return fmt.Errorf("preparing git: %w", err)
	}
	_, err = r.git(ctx, dir, nil, "fetch", "--quiet", "--no-tags",
		"--no-recurse-submodules", "--no-write-fetch-head", "--end-of-options", url,
		"+HEAD:"+headRef, "+refs/heads/*:refs/heads/*")
	if err == nil {
		return nil
	}
	if r.isFull(dir) {
		err = problemf("the repository is larger than %d MB: remove large files from its history", r.Limits.Repository>>20)
	}
	if failed := removal.All(dir); failed != nil {
		return failed
	}
	return err
}

// isFull reports whether a file of a repository has reached the limit. In that case git does not report why it failed.
func (r *reader) isFull(dir string) bool {
	packs, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	return err == nil && slices.ContainsFunc(packs, func(pack os.DirEntry) bool {
		info, err := pack.Info()
		return err == nil && info.Size() >= r.Limits.Repository/512*512
	})
}

// revision is a commit with its time.
type revision struct {
	hash string
	at   time.Time
}

// revisions returns the commits that are attempts: the requested commit, or the last one before the deadline and the
// newest one.
func (r *reader) revisions(ctx context.Context, dir string, asked commit, deadline time.Time) ([]revision, error) {
	if asked.hash != "" {
		// A tag or a branch whose name looks like a hash does not count.
		one, err := r.revision(ctx, dir, asked.hash+"^{commit}", time.Time{})
		if _, failed := errors.AsType[problem](err); failed && ctx.Err() == nil ||
			err == nil && (one == nil || !strings.HasPrefix(one.hash, asked.hash)) {
			return nil, problemf("the repository has no commit %s on its branches: correct the roster", asked.hash)
		}
		return single(one, err)
	}
	if !asked.before.IsZero() {
		one, err := r.revision(ctx, dir, headRef, asked.before)
		if err == nil && one == nil {
			return nil, problemf("the repository has no commit before %s: the first one is later",
				asked.before.Format(time.RFC3339))
		}
		return single(one, err)
	}
	newest, err := r.revision(ctx, dir, headRef, time.Time{})
	if err != nil || deadline.IsZero() || !newest.at.After(deadline) {
		return single(newest, err)
	}
	before, err := r.revision(ctx, dir, headRef, deadline)
	if err != nil || before == nil {
		return single(newest, err)
	}
	return []revision{*before, *newest}, nil
}

func single(one *revision, err error) ([]revision, error) {
	if err != nil {
		return nil, err
	}
	return []revision{*one}, nil
}

// latest is the last second of the year 2199. The time of a commit that claims to be later is useless.
const latest = 7_258_118_399

// revision returns the newest commit that a name reaches along first parents, before a moment if one is given. It
// returns nil if no commit is that early.
func (r *reader) revision(ctx context.Context, dir, name string, before time.Time) (*revision, error) {
	args := []string{"log", "-1", "--first-parent", "--format=%H %ct"}
	if !before.IsZero() {
		args = append(args, fmt.Sprintf("--before=@%d", before.Unix()))
	}
	answer, err := r.git(ctx, dir, nil, append(args, "--end-of-options", name, "--")...)
	if err != nil {
		return nil, err
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(answer), " ")
	if hash == "" {
		return nil, nil
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || at < 0 || at > latest {
		return nil, problemf("the commit %.12s has no valid time: commit again", hash)
	}
	return &revision{hash, time.Unix(at, 0).UTC()}, nil
}

// export unpacks the files of a commit.
func (r *reader) export(ctx context.Context, dir, hash, to string) error {
	u, err := newUnpacker(ctx, to, r.Limits)
	if err != nil {
		return err
	}
	defer u.root.Close()
	archive, writer := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := r.git(ctx, dir, writer, "archive", "--format=tar", hash)
		writer.CloseWithError(err) // nil means end of file
	}()
	err = u.tar(archive)
	archive.CloseWithError(errEnough)
	<-ended
	if err != nil {
		return errors.Join(damaged(err), removal.All(to))
	}
	return u.makeLinks()
}

var errEnough = errors.New("reading has stopped")

// Limits for git's output.
const (
	gitAnswer = 64 << 10
	gitWords  = 16 << 10
)

// git runs a git command, which never prompts, runs no hooks, and fetches by few protocols. It writes the command's
// output to output, or returns it if output is nil. If git fails, the error is a problem in git's own words.
func (r *reader) git(ctx context.Context, dir string, output io.Writer, args ...string) (string, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return "", errors.New("git is not installed, and the roster names Git repositories: install git")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Limits.Git,
		problemf("git %s took longer than %s: look at the repository", args[0], r.Limits.Git))
	defer cancel()
	answer, stderr := limited.NewOutput(gitAnswer), limited.NewOutput(gitWords)
	if output == nil {
		output = answer
	}
	location := []string{"--git-dir=."}
	if args[0] == "init" {
		location = nil
	}
	settings := []string{
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
		"-c", "fetch.unpackLimit=1", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
		"-c", "fetch.fsckObjects=false", "-c", "submodule.recurse=false",
		"-c", "http.followRedirects=initial", "-c", "safe.bareRepository=all",
		"-c", "core.attributesFile=/dev/null", "-c", "tar.umask=0022",
	}
	// Git stores everything that it fetches in one file. The kernel limits its size, in blocks of 512 bytes (POSIX,
	// ulimit).
	script := fmt.Sprintf(`ulimit -f %d && exec "$@"`, r.Limits.Repository/512)
	started, err := r.scope.Start(process.Spec{
		Name: "git " + args[0], Path: "/bin/sh",
		Args: slices.Concat([]string{"-c", script, "sh", program}, location, settings, args),
		Env:  gitEnvironment(args[0]), Dir: dir, Stdout: output, Stderr: stderr, Background: true,
	})
	if err != nil {
		return "", err
	}
	if err := started.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			started.Kill()
			<-started.Done()
			return "", context.Cause(ctx)
		}
		return "", gitProblem(args[0], stderr.String(), err)
	}
	return answer.String(), nil
}

// gitEnvironment returns the environment of git, without variables that would change its behaviour. Fetching uses the
// user's settings, for passwords and proxies. All other commands use none, so they do not use the filters of an
// installed LFS.
func gitEnvironment(command string) (env []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "GIT_") ||
			name == "GIT_SSH_COMMAND" && command == "fetch" || name == "GIT_CONFIG_GLOBAL" && command == "fetch" {
			env = append(env, variable)
		}
	}
	if os.Getenv("GIT_SSH_COMMAND") == "" {
		env = append(env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes")
	}
	if command != "fetch" {
		env = append(env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	}
	return append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false",
		"SSH_ASKPASS=/bin/false", "GCM_INTERACTIVE=never",
		"GIT_ALLOW_PROTOCOL="+strings.Join(schemes, ":"), "GIT_LFS_SKIP_SMUDGE=1", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
}

var passwordInURL = regexp.MustCompile(`://[^/@\s]*@`)

// gitProblem returns why git failed, in git's words.
func gitProblem(command, stderr string, err error) error {
	reason := ""
	for line := range strings.Lines(stderr) {
		for _, prefix := range []string{"fatal: ", "error: ", "remote: "} {
			if text, found := strings.CutPrefix(strings.TrimSpace(line), prefix); found &&
				(reason == "" || prefix == "fatal: ") {
				reason = text
			}
		}
	}
	reason = passwordInURL.ReplaceAllString(printable(strings.TrimSuffix(reason, ".")), "://")
	if strings.Contains(reason, "couldn't find remote ref HEAD") {
		return problemf("the repository has no commits: ask the student to push")
	}
	if reason == "" {
		reason = err.Error()
	}
	return problemf("git %s failed (%s): correct the source, or your access to it", command, reason)
}
