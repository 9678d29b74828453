// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// small is a catalogue of two images that share a program, and one that carries them.
const small = `
programs: {hello: {module: hello, versionOf: example.com/needed, variables: ["main.greeting=Hello-$VERSION-$MAJOR-$MINOR"]}}
layers:
  base: {directories: {/tmp: "1777"}, files: [{to: /etc/hello, content: "world\n"}]}
  hello: {programs: {/usr/bin/hello: hello}, links: {/usr/bin/hi: hello}}
images:
- {reference: "operator-labs/hello:v1", set: small, layers: [base, hello], entrypoint: [/usr/bin/hello]}
- {reference: "operator-labs/hi:v1", set: small, layers: [base, hello], entrypoint: [/usr/bin/hi], environment: {B: "2", A: "1"}}
- {reference: "operator-labs/both:v1", set: large,
   layers: [base, {archives: {/images.tar: ["operator-labs/hello:v1", "operator-labs/hi:v1"]}}]}
`

const helloGo = `package main

import (
	"fmt"
	"os"
)

var greeting string

func main() {
	content, err := os.ReadFile("/etc/hello")
	fmt.Println(greeting, string(content), err, os.Getuid())
}
`

// smallStore returns a store with the small catalogue and its program.
func smallStore(t *testing.T) (*Store, *Catalogue) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "programs", "hello", "main.go"), helloGo)
	write(t, filepath.Join(dir, "programs", "hello", "go.mod"),
		"module hello\n\ngo 1.26.0\n\n"+
			"// indirect on purpose: it is only asked for its version.\nrequire example.com/needed v1.2.3\n")
	c, err := parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	return &Store{Dir: filepath.Join(dir, "store"), Programs: filepath.Join(dir, "programs")}, c
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func ensure(t *testing.T, s *Store, images []Image) []Built {
	t.Helper()
	built, err := s.Ensure(t.Context(), images, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestImageBuildIsReproducible(t *testing.T) {
	s, c := smallStore(t)
	first := ensure(t, s, c.Images)
	again := &Store{Dir: t.TempDir(), Programs: s.Programs}
	main := filepath.Join(s.Programs, "hello", "main.go")
	if err := os.Chtimes(main, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for i, second := range ensure(t, again, c.Images) {
		if second.ID != first[i].ID || second.Size != first[i].Size {
			t.Errorf("%s is %s with %d bytes, want %s with %d",
				second.Reference, second.ID, second.Size, first[i].ID, first[i].Size)
		}
	}
	if first[0].ID == first[1].ID {
		t.Error("two images with different entry points have the same ID")
	}
}

func TestOnlyChangedImagesAreRebuilt(t *testing.T) {
	s, c := smallStore(t)
	var made []string
	s.Made = func(what string, _ time.Duration, _ int64) { made = append(made, what) }
	before := ensure(t, s, c.Set("small"))
	if len(made) != 3 {
		t.Errorf("first Ensure() built %q", made)
	}
	made = nil
	ensure(t, s, c.Set("small"))
	if len(made) > 0 {
		t.Errorf("second Ensure() built %q, want none", made)
	}
	write(t, filepath.Join(s.Programs, "hello", "main.go"), strings.Replace(helloGo, "Println(", `Println("again",`, 1))
	after := ensure(t, s, c.Set("small"))
	if after[0].ID == before[0].ID {
		t.Error("the image is unchanged with another program")
	}
	if found, err := s.Find(c.Images); err != nil || len(found) != 2 {
		t.Errorf("Find() returned %d images (%v), want the two of three that were built", len(found), err)
	}
}

// Another command writes the site's pages. Until it has run, only their image can't be built.
func TestImageOfCommandOutput(t *testing.T) {
	root := t.TempDir()
	c, err := parse([]byte(`images: [{reference: "a/site:v1", set: site, ` +
		`layers: [{files: [{to: /site, command: make docs, from: out/site}]}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{Dir: filepath.Join(root, "store"), Programs: filepath.Join(root, "clusters", "images", "programs")}
	if found, err := s.Find(c.Images); err != nil || len(found) != 0 {
		t.Errorf("Find() before the command has run returned %d images (%v)", len(found), err)
	}
	if _, err := s.Ensure(t.Context(), c.Images, nil); err == nil ||
		!strings.Contains(err.Error(), "out/site is not there: run make docs first") {
		t.Errorf("Ensure() before the command has run: error = %v", err)
	}
	write(t, filepath.Join(root, "out", "site", "lectures", "01.html"), "one")
	first := ensure(t, s, c.Images)
	layer, err := s.fromLayer(first[0].content.Layers[0], "/site/lectures/01.html")
	if err != nil || string(layer) != "one" {
		t.Errorf("page = %q (%v)", layer, err)
	}
	write(t, filepath.Join(root, "out", "site", "lectures", "01.html"), "two")
	if found, err := s.Find(c.Images); err != nil || len(found) != 0 {
		t.Errorf("Find() with another page returned %d images (%v)", len(found), err)
	}
	if second := ensure(t, s, c.Images); second[0].ID == first[0].ID {
		t.Error("the image is unchanged with another page")
	}
}

// Where an add-on is installed without Go, the files that it needs come from its image.
func TestFileIsReadFromStoredImage(t *testing.T) {
	s, c := smallStore(t)
	if text, err := s.fileOf(t.Context(), c, "operator-labs/hello:v1", "/etc/hello"); err == nil {
		t.Errorf("File() before the image is built = %q", text)
	}
	ensure(t, s, c.Set("small"))
	t.Setenv("PATH", "") // there is no Go
	if text, err := s.fileOf(t.Context(), c, "operator-labs/hello:v1", "/etc/hello"); err != nil ||
		string(text) != "world\n" {
		t.Errorf("File() = %q (%v)", text, err)
	}
	if _, err := s.fileOf(t.Context(), c, "operator-labs/hello:v1", "/etc/other"); err == nil {
		t.Error("File() returns a file that the image does not have")
	}
}

func TestDamagedLayerIsRebuilt(t *testing.T) {
	s, c := smallStore(t)
	built := ensure(t, s, c.Set("small")[:1])
	layer := s.blob(built[0].content.Layers[1].Digest)
	if err := os.Truncate(layer, 1000); err != nil {
		t.Fatal(err)
	}
	if again := ensure(t, s, c.Set("small")[:1]); again[0].ID != built[0].ID {
		t.Errorf("image ID = %s, want %s", again[0].ID, built[0].ID)
	}
	if info, err := os.Stat(layer); err != nil || info.Size() == 1000 {
		t.Errorf("the layer is still damaged (%v)", err)
	}
}

func TestLayerWithWrongDigestIsRebuilt(t *testing.T) {
	s, c := smallStore(t)
	built := ensure(t, s, c.Set("small")[:1])
	layer := s.blob(built[0].content.Layers[1].Digest)
	content, err := os.ReadFile(layer)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2]++
	write(t, layer, string(content))
	if err := s.Archive(t.Context(), io.Discard, built...); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Archive() with a damaged layer: error = %v", err)
	}
	ensure(t, s, c.Set("small")[:1])
	if err := s.Archive(t.Context(), io.Discard, built...); err != nil {
		t.Errorf("Archive() after the layer was built again: error = %v", err)
	}
}

func TestRemovedImagesArePrunedAfterADay(t *testing.T) {
	s, c := smallStore(t)
	ensure(t, s, c.Images)
	before := blobs(t, s)
	write(t, filepath.Join(s.Programs, "hello", "main.go"), strings.Replace(helloGo, "Println(", `Println("again",`, 1))
	now := ensure(t, s, c.Images)
	if after := blobs(t, s); len(after) != 2*len(before)-1 { // all but the base layer are new
		t.Errorf("the store had %d blobs, and has %d, but must keep recent ones", len(before), len(after))
	}
	yesterday := time.Now().Add(-keep - time.Hour)
	if err := filepath.WalkDir(s.Dir, func(name string, _ fs.DirEntry, _ error) error {
		return os.Chtimes(name, yesterday, yesterday)
	}); err != nil {
		t.Fatal(err)
	}
	ensure(t, s, c.Set("large")[:1])
	if after := blobs(t, s); len(after) != len(before) {
		t.Errorf("the store has %d blobs, want the catalogue's %d", len(after), len(before))
	}
	for i, b := range ensure(t, s, c.Images) {
		if b.ID != now[i].ID {
			t.Errorf("%s has the ID %s, want %s", b.Reference, now[i].ID, b.ID)
		}
	}
}

func blobs(t *testing.T, s *Store) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.Dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// storeDirVariable is the environment variable of the process that TestStoreSurvivesKill kills.
const storeDirVariable = "OPERATOR_LABS_TEST_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(storeDirVariable); dir != "" {
		c, err := parse([]byte(small))
		if err == nil {
			s := &Store{Dir: filepath.Join(dir, "store"), Programs: filepath.Join(dir, "programs")}
			_, err = s.Ensure(context.Background(), c.Images, nil)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestStoreSurvivesKill(t *testing.T) {
	want, c := smallStore(t)
	expected := ensure(t, want, c.Images)
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, _ := smallStore(t)
	for after := 20 * time.Millisecond; ; after += after / 2 {
		command := exec.Command(own)
		command.Env = append(os.Environ(), storeDirVariable+"="+filepath.Dir(s.Dir))
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(after, func() { _ = command.Process.Kill() })
		err := command.Wait()
		timer.Stop()
		if err == nil {
			break // this time it was quick enough
		}
		if command.ProcessState.ExitCode() > 0 {
			t.Fatalf("Ensure() after a kill: error = %v", err)
		}
	}
	for i, b := range ensure(t, s, c.Images) {
		if b.ID != expected[i].ID {
			t.Errorf("after kills, %s is %s, want %s", b.Reference, b.ID, expected[i].ID)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, "work", "*-*")); len(left) > 0 {
		t.Errorf("unfinished files are left: %q", left)
	}
}

func TestArchiveHasSharedLayerOnce(t *testing.T) {
	s, c := smallStore(t)
	built := ensure(t, s, c.Set("small"))
	var archive bytes.Buffer
	if err := s.Archive(t.Context(), &archive, built...); err != nil {
		t.Fatal(err)
	}
	if size := ArchiveSize(built...); size != int64(archive.Len()) {
		t.Errorf("the archive has %d bytes, want %d", archive.Len(), size)
	}
	seen := map[string]int{}
	for r := tar.NewReader(&archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[header.Name]++
	}
	if len(seen) != 1+2+2 { // the list, two configurations, two layers
		t.Errorf("the archive has %v", seen)
	}
	for name, times := range seen {
		if times != 1 {
			t.Errorf("the archive has %s %d times", name, times)
		}
	}
}

func TestDockerLoadsAndRunsAnImage(t *testing.T) {
	if err := exec.Command("docker", "version").Run(); err != nil {
		t.Skip("there is no Docker engine")
	}
	s, c := smallStore(t)
	built := ensure(t, s, c.Set("small")[:1])
	program := filepath.Join(s.Dir, "programs", "hello")
	own, err := s.FromProgram(t.Context(), "operator-labs/test-manager:v1", program)
	if err != nil {
		t.Fatal(err)
	}
	built[0].Reference = "operator-labs/test-hello:v1"
	built = append(built, own)
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", built[0].Reference, built[1].Reference).CombinedOutput(); err != nil {
			t.Errorf("removing the images: %v: %s", err, out)
		}
	})
	docker := exec.CommandContext(t.Context(), "docker", "load")
	stdin, err := docker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.Archive(t.Context(), stdin, built...)
		stdin.Close()
	}()
	if out, err := docker.CombinedOutput(); err != nil {
		t.Fatalf("docker load: %v: %s", err, out)
	}
	for i, want := range []string{"Hello-v1.2.3-1-2 world\n <nil> 0", "open /etc/hello: no such file or directory 65532"} {
		id, err := exec.Command("docker", "image", "inspect", "--format", "{{.Id}}", built[i].Reference).Output()
		if err != nil || strings.TrimSpace(string(id)) != built[i].ID {
			t.Errorf("Docker's ID of %s is %s (%v), want %s", built[i].Reference, id, err, built[i].ID)
		}
		out, err := exec.Command("docker", "run", "--rm", "--network=none", built[i].Reference).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s prints %q (%v), want %q", built[i].Reference, out, err, want)
		}
	}
}

func TestUnrunnableProgramIsRejected(t *testing.T) {
	s := checkout(t)
	script := filepath.Join(t.TempDir(), "script")
	write(t, script, "#!/bin/sh\n")
	_, err := s.FromProgram(t.Context(), "operator-labs/x:v1", script)
	if err == nil || !strings.Contains(err.Error(), "not a Linux program") {
		t.Errorf("FromProgram() of a script: error = %v", err)
	}
	if shell, err := exec.LookPath("bash"); err == nil {
		if _, err := s.FromProgram(t.Context(), "operator-labs/x:v1", shell); !errors.Is(err, errNotStatic) {
			t.Errorf("FromProgram() of a program with libraries: error = %v", err)
		}
	}
	if _, err := s.FromProgram(t.Context(), "x", script); err == nil {
		t.Error("no error for a reference without a tag")
	}
}

func TestBundleRoundTrip(t *testing.T) {
	s, c := smallStore(t)
	if err := s.save(t.Context(), c, io.Discard); err == nil || !strings.Contains(err.Error(), "does not exist yet") {
		t.Errorf("Save() of missing images: error = %v", err)
	}
	// The store's programs were built by another version of Go than the one that is installed.
	write(t, filepath.Join(s.Dir, goVersionFile), "go1.26.99\n")
	built := ensure(t, s, c.Images)
	var bundle bytes.Buffer
	if err := s.save(t.Context(), c, &bundle); err != nil {
		t.Fatal(err)
	}
	restored := &Store{Dir: t.TempDir(), Programs: s.Programs}
	if err := Restore(t.Context(), restored.Dir, bytes.NewReader(bundle.Bytes())); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir()) // no Go, no Debian
	for i, b := range ensure(t, restored, c.Images) {
		if b.ID != built[i].ID {
			t.Errorf("restored %s is %s, want %s", b.Reference, b.ID, built[i].ID)
		}
	}

	for name, broken := range map[string][]byte{
		"half": bundle.Bytes()[:bundle.Len()/2], "nothing": nil, "text": []byte("this is no bundle"),
	} {
		if err := Restore(t.Context(), t.TempDir(), bytes.NewReader(broken)); err == nil {
			t.Errorf("no error for %s of a bundle", name)
		}
	}
}

func TestDebianRootIsReproducible(t *testing.T) {
	root := func(when time.Time) io.Reader {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range []tar.Header{
			{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
			{Typeflag: tar.TypeDir, Name: "./etc/", Mode: 0o755},
			{Typeflag: tar.TypeReg, Name: "./etc/machine-id", Mode: 0o444},
			{Typeflag: tar.TypeReg, Name: "./etc/passwd", Mode: 0o644},
			{Typeflag: tar.TypeDir, Name: "./usr/share/doc/bash/", Mode: 0o755},
			{Typeflag: tar.TypeReg, Name: "./usr/share/doc/bash/README", Mode: 0o644},
			{
				Typeflag: tar.TypeReg, Name: "./usr/bin/ping", Mode: 0o4755,
				PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x", "mtime": "1"},
			},
			{Typeflag: tar.TypeLink, Name: "./usr/bin/ping6", Linkname: "./usr/bin/ping"},
			{Typeflag: tar.TypeReg, Name: "./var/log/dpkg.log", Mode: 0o644},
		} {
			h.ModTime, h.Uname = when, "somebody"
			if h.PAXRecords != nil {
				h.Format = tar.FormatPAX
				delete(h.PAXRecords, "mtime")
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	var first, second bytes.Buffer
	if err := errors.Join(
		normalise(root(time.Now()), &first, []string{"/usr/share/doc/*"}),
		normalise(root(time.Now().Add(-time.Hour)), &second, []string{"/usr/share/doc/*"}),
	); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two roots of the same files differ")
	}
	var kept []string
	for r := tar.NewReader(&first); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		kept = append(kept, fmt.Sprintf("%s %o %s%s",
			h.Name, h.Mode, h.Linkname, h.PAXRecords["SCHILY.xattr.security.capability"]))
	}
	if want := "[etc/ 755  etc/passwd 644  usr/bin/ping 4755 x usr/bin/ping6 0 usr/bin/ping]"; fmt.Sprint(kept) != want {
		t.Errorf("kept %v, want %s", kept, want)
	}
}

func TestEditWithoutMatchIsAnError(t *testing.T) {
	edits := []Replacement{{Find: "a = 1", With: "a = 2"}}
	if got, err := edited([]byte("x\na = 1\n"), edits); err != nil || string(got) != "x\na = 2\n" {
		t.Errorf("edited to %q, %v", got, err)
	}
	for _, content := range []string{"a = 3", "a = 1, a = 1"} {
		if _, err := edited([]byte(content), edits); err == nil {
			t.Errorf("%q was edited", content)
		}
	}
}
