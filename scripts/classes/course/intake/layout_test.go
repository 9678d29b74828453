// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadFoldersAndArchives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flat := labFiles("", "lva.io/operators/labs/02-reconciler")
	repository := join(labFiles("labs/01-icecream/", "lva.io/operators/labs/01-icecream"),
		labFiles("labs/02-reconciler/", "lva.io/operators/labs/02-reconciler"),
		labFiles("solutions/02-reconciler/", "lva.io/operators/solutions/02-reconciler"),
		files{"scripts/go.mod": "module lva.io/operators/scripts\n"})
	github := files{}
	for name, content := range repository {
		github["operators-main/"+name] = content
	}
	all := files{
		"bob.zip": flat.zip(t), "carol.tar": flat.tar(t), "dora.tgz": zipped(t, flat.tar(t)),
		"emil.tar.gz": zipped(t, github.tar(t)), "fay.ZIP": github.zip(t),
		"gus.zip": files{"lab.zip": flat.zip(t)}.zip(t), "hal.zip": files{"a.zip": files{"b.zip": flat.zip(t)}.zip(t)}.zip(t),
		"ida.zip": files{"a.zip": files{"b.zip": files{"c.zip": flat.zip(t)}.zip(t)}.zip(t)}.zip(t),
		"jan.rar": "Rar!", "kim.zip": "PK\x03\x04 is cut here", "leo.zip": "",
		"max.zip": "<html>log in</html>", "nina/README.md": "nothing",
		"olga.zip": files{"README.md": "nothing"}.zip(t), "quinn/lab.zip": flat.zip(t), "quinn/notes.txt": "my notes",
		// no submissions
		".DS_Store": "x", "__MACOSX/._bob.zip": "x", "Thumbs.db": "x",
		"grades.csv": "ada,100", "._ada.zip": "x", ".hidden/go.mod": "module x", "notes.txt": "",
	}
	all.write(t, dir)
	flat.write(t, filepath.Join(dir, "ada"))
	github.write(t, filepath.Join(dir, "pia"))
	if err := os.Symlink(filepath.Join(dir, "ada"), filepath.Join(dir, "rita")); err != nil {
		t.Fatal(err)
	}
	wantLines(t, short(readAll(t, dir, lab2), dir), []string{
		"ada 02-reconciler 1: in ada", "bob 02-reconciler 1: in 1",
		"carol 02-reconciler 1: in 1", "dora 02-reconciler 1: in 1",
		"emil 02-reconciler 1: in 02-reconciler", "fay 02-reconciler 1: in 02-reconciler", "gus 02-reconciler 1: in in-0",
		"hal 02-reconciler 1: it is an archive in an archive in an archive (b.zip): hand in one archive",
		"ida 02-reconciler 1: it is an archive in an archive in an archive (b.zip): hand in one archive",
		"jan 02-reconciler 1: rar archives are not supported: hand in a .zip",
		"kim 02-reconciler 1: the archive is damaged or incomplete: hand it in again",
		"leo 02-reconciler 1: the archive is empty", "max 02-reconciler 1: it is not a zip, tar or tar.gz archive",
		"nina 02-reconciler 1: there is no go.mod in it: hand in the folder of the lab",
		"olga 02-reconciler 1: there is no go.mod in it",
		"pia 02-reconciler 1: in 02-reconciler", "quinn 02-reconciler 1: in in-0",
		"rita 02-reconciler 1: rita is a link, and links are not followed",
	})
}

func TestSeveralLabsAndAttempts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := labFiles("01-icecream/", "a"), labFiles("02-reconciler/", "b")
	files{
		"bob/lab-1.zip": labFiles("", "example.com/x").zip(t), "bob/lab2-final.zip": labFiles("x/", "example.com/y").zip(t),
		"carol/first.zip": two.zip(t), "carol/second.zip": two.zip(t), "carol.zip": one.zip(t),
		"dora/attempt-10/x.zip": two.zip(t), "dora/attempt-9/README": "nothing", "emil.zip": "PK\x03\x04",
	}.write(t, dir)
	join(one, two).write(t, filepath.Join(dir, "ada"))
	two.write(t, filepath.Join(dir, "dora", "attempt-2"))
	two.write(t, filepath.Join(dir, "fay"))
	wantLines(t, short(readAll(t, dir, lab1, lab2), dir), []string{
		"ada 01-icecream 1: in 01-icecream", "ada 02-reconciler 1: in 02-reconciler",
		"bob 01-icecream 1: in in-0", "bob 02-reconciler 1: in x",
		"carol 01-icecream 1: in 01-icecream", "carol 02-reconciler 1: in 02-reconciler",
		"carol 02-reconciler 2: in 02-reconciler",
		"dora 02-reconciler 1: in 02-reconciler", "dora 02-reconciler 2: in 02-reconciler",
		"emil 01-icecream 1: the archive is damaged", "emil 02-reconciler 1: the archive is damaged",
		"fay 02-reconciler 1: in 02-reconciler",
	})
}

// TestReadFolderPerLab reads a folder for each lab, with the students in it.
func TestReadFolderPerLab(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files{
		"01-icecream/ada.zip": labFiles("", "x").zip(t), "02-reconciler/ada.zip": labFiles("", "y").zip(t),
		"11-workspace/ada.zip": "unread",
	}.write(t, dir)
	wantLines(t, short(readAll(t, dir, lab1, lab2), dir), []string{"ada 01-icecream 1: in 1", "ada 02-reconciler 1: in 2"})
}

// TestReadInvalidSource checks that the folder of one student is not mistaken for a class.
func TestReadInvalidSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	labFiles("module/", "x").write(t, dir)
	labFiles("repository/02-reconciler/", "x").write(t, dir)
	files{"empty/notes.txt": "x", "class.zip": "x", "notes.txt": "x"}.write(t, dir)
	for source, want := range map[string]string{
		"module":     "is a Go module itself: name the folder in which there is one for each student",
		"repository": "seems to be the work of one student: name the folder above",
		"missing":    "there is no ",
		"empty":      "there is no submission in ",
		"class.zip":  "is an archive: unpack it",
		"notes.txt":  "is neither a folder nor a roster",
	} {
		_, err := Read(t.Context(), Options{Labs: []Lab{lab2}, Source: filepath.Join(dir, source), Work: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", source, err, want)
		}
	}
}

const gradescopeMetadata = `---
submission_101:
  :submitters:
  - :name: Ada Lovelace
    :sid: '0123'
    :email: ada@example.org
  - :name: "Bob \"B\" Müller"
    :sid:
    :email: bob@example.org
  :created_at: 2026-10-25 22:59:59.123456789 Z
  :score: 35.0
  :status: processed
  :results:
    stdout: |
      submission_999:
        :submitters:
        - :name: Mallory
      :created_at: 2020-01-01 00:00:00 Z
    tests: []
  :history:
  - :id: 100
    :created_at: 2020-01-01 00:00:00 Z
submission_102:
  :submitters:
  - :name: Ada Lovelace
    :sid: '0456'
    :email: another@example.org
  :created_at: !ruby/object:ActiveSupport::TimeWithZone
    utc: &1 2026-10-26 08:00:00.000000000 Z
    zone: &2 !ruby/object:ActiveSupport::TimeZone
      name: Etc/UTC
submission_103:
  :submitters:
  - :name: Carol
  :created_at: 2026-10-25 10:00:00 -08:00
`

func TestReadGradescopeExport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files{
		gradescopeFile: gradescopeMetadata, "submission_102/upload.zip": labFiles("x/", "x").zip(t), "submission_104/x": "x",
	}.write(t, dir)
	labFiles("submission_101/", "x").write(t, dir)
	all := readAll(t, dir, lab2)
	lines := short(all, dir)
	suffixes := map[string]bool{}
	for i, line := range lines { // two students have the same name
		if rest, found := strings.CutPrefix(line, "Ada-Lovelace-"); found {
			suffixes[rest[:8]] = true
			lines[i] = "Ada-Lovelace-…" + rest[8:]
		}
	}
	slices.Sort(lines)
	wantLines(t, lines, []string{
		"Ada-Lovelace-… 02-reconciler 1: in submission_101",
		"Ada-Lovelace-… 02-reconciler 1: in x", "Bob-B-Müller 02-reconciler 1: in submission_101",
		"Carol 02-reconciler 1: submission_metadata.yml names the folder submission_103, which is not there",
		"submission_104 02-reconciler 1: submission_metadata.yml does not name the student of the folder submission_104",
	})
	if len(suffixes) != 2 {
		t.Errorf("two students have the same name: %v", short(all, dir))
	}
	for _, s := range all {
		want := map[string]string{
			"ada@example.org": "2026-10-25T22:59:59.123456789Z",
			"bob@example.org": "2026-10-25T22:59:59.123456789Z", "another@example.org": "2026-10-26T08:00:00Z",
		}[s.Email]
		if s.Name == "Carol" {
			want = "2026-10-25T18:00:00Z"
		}
		if got := s.Submitted.Format(time.RFC3339Nano); want != "" && got != want {
			t.Errorf("%s handed it in at %s, want %s", s.Name, got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, gradescopeFile), []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), Options{Labs: course, Source: dir, Work: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "export the submissions again") {
		t.Errorf("Read() error = %v", err)
	}
}

func TestReadMoodleExport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flat := labFiles("", "x")
	files{
		"Ada Lovelace_1234567_assignsubmission_file_/lab.zip":               flat.zip(t),
		"Ada Lovelace_1234568_assignsubmission_file/lab.zip":                flat.zip(t),
		"Ada Lovelace_1234567_assignsubmission_onlinetext_/onlinetext.html": "<p>hello</p>",
		"Bob_B_42_assignsubmission_file_my lab.zip":                         flat.zip(t),
		"Carol_43_assignsubmission_file_main.go":                            "package main",
		"Teilnehmer 7_44_assignsubmission_file_/README":                     "x",
	}.write(t, dir)
	lines := short(readAll(t, dir, lab2), dir)
	for i, line := range lines {
		if rest, found := strings.CutPrefix(line, "Ada-Lovelace-"); found {
			lines[i] = "Ada-Lovelace-…" + rest[8:]
		}
	}
	wantLines(t, lines, []string{
		"Ada-Lovelace-… 02-reconciler 1: in in-0", "Ada-Lovelace-… 02-reconciler 1: in in-0",
		"Bob_B 02-reconciler 1: in 1",
		"Carol 02-reconciler 1: Carol_43_assignsubmission_file_main.go is not an archive: hand in a .zip",
		"Teilnehmer-7 02-reconciler 1: there is no go.mod",
	})
}
