// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseRoster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	roster := filepath.Join(dir, "roster.csv")
	labFiles("ada/", "x").write(t, dir)
	files{
		"bob.zip": labFiles("", "x").zip(t), "second.zip": labFiles("", "x").zip(t),
		"roster.csv": "\ufeffstudent, source, lab, commit, submitted\r\n# a comment\r\n" +
			"ada,ada,2,,2026-10-25 23:59 Europe/Berlin\r\n" +
			"bob,second.zip,02-reconciler,,2026-10-26T10:00:00+01:00\r\nbob,bob.zip,2,,2026-10-25T10:00:00Z\r\n" +
			"\"Lovelace, Ada\",missing,\r\n",
	}.write(t, dir)
	all := readAll(t, roster, lab2)
	wantLines(t, short(all, dir), []string{
		"Lovelace-Ada 02-reconciler 1: there is no missing: correct the path in the roster",
		"ada 02-reconciler 1: in ada", "bob 02-reconciler 1: in 2", "bob 02-reconciler 2: in 1",
	})
	if all[2].From != "bob.zip" || all[3].From != "second.zip" ||
		all[1].Submitted.UTC().Format(time.RFC3339) != "2026-10-25T22:59:59Z" {
		t.Errorf("Read() = %+v", all)
	}
}

func TestParseRosterErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, content, want string }{
		{"nothing", "", "it has no students"},
		{"only a header", "student,source\n", "it has no students"},
		{
			"no such column", "student,url\n",
			`line 1: there is no column "url": the columns are student, source, lab, commit, submitted`,
		},
		{"a column twice", "student,source,source\n", "line 1: the column source is duplicated"},
		{"no source column", "student,lab\n", "line 1: there is no column source"},
		{"no source", "student,source\nada,\n", "line 2: there is no source for ada"},
		{"no student", "ada,a\n,b\n", "line 2: there is no student"},
		{"semicolons", "ada;x.zip\n", "line 1: \"ada;x.zip\" has no comma"},
		{"too many fields", "ada,a,2,,,x\n", "line 1: there are 6 fields: write student,source,lab,commit,submitted"},
		{"not CSV", "ada,\"a\nbob,b\n", "this is not valid CSV: quotation marks must enclose"},
		{"no lab", "ada,a,reconciler\n", `line 1: there is no lab "reconciler"`},
		{
			"no hash and no time", "ada,a,2,main\n",
			`line 1: commit: "main" is not a time with a time zone: ` +
				`write one such as 2026-10-25 23:59 Europe/Berlin or 2026-10-25T23:59:00+01:00, or the hash`,
		},
		{"a time without a zone", "ada,a,2,2026-10-25 23:59\n", "is not a time with a time zone"},
		{"no zone", "ada,a,2,2026-10-25 23:59 Europe/Berln\n", `unknown time zone "Europe/Berln"`},
		{"a submitted time without a zone", "ada,a,2,,2026-10-25 23:59\n", "line 1: submitted: "},
		{
			"a program of git's", "ada,\"ext::sh -c touch% x\"\n",
			"line 1: ext::sh -c touch% x names a git remote helper, which is not supported",
		},
		{
			"another protocol", "ada,http://example.org/x.git\n",
			"line 1: a repository can't be fetched by http: write a URL of https, ssh, file, or a path",
		},
		{"git's own", "ada,git://example.org/x.git\n", "line 1: a repository can't be fetched by git"},
		{"no URL", "ada,https://user:secret@exa mple/%zz\n", "line 1: the source is not a valid URL"},
		{"two of them", "ada,a,99\nbob,b,98\n", "line 2: "},
	} {
		_, err := parseRoster([]byte(test.content), Options{Course: course, Source: "/x/roster.csv"})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is %v, want %q", test.name, err, test.want)
		}
	}
}

func TestReadRosterSources(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ path, url, from string }{
		"https://user:secret@example.org/x.git": {
			"", "https://user:secret@example.org/x.git", "https://user:xxxxx@example.org/x.git",
		},
		"git@example.org:course/ada": {"", "git@example.org:course/ada", "git@example.org:course/ada"},
		"ssh://git@example.org/x":    {"", "ssh://git@example.org/x", "ssh://git@example.org/x"},
		"ada":                        {"/x/ada", "", "ada"},
		"/y/ada.zip":                 {"/y/ada.zip", "", "/y/ada.zip"},
		"ada.git":                    {"/x/ada.git", "/x/ada.git", "ada.git"},
		"--upload-pack=touch x":      {"/x/--upload-pack=touch x", "", "--upload-pack=touch x"},
	} {
		all, err := parseRoster([]byte("ada,"+text+"\n"), Options{Course: course, Source: "/x/roster.csv"})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := all[0]
		if got.path != want.path || (got.commit != nil) != (want.url != "") ||
			got.commit != nil && got.commit.url != want.url || got.from != want.from {
			t.Errorf("%s: it is %+v, want %+v", text, got, want)
		}
	}
}

// FuzzRoster checks that any roster is either read, or refused with a line number.
func FuzzRoster(f *testing.F) {
	for _, seed := range []string{
		"ada,a\n", "student,source,lab,commit\nada,https://example.org/x,2,abcdef0\n", "\"a\nb\",c\n",
		"ada,a,2,2026-10-25 23:59 Europe/Berlin\n", "\ufeff#\n", "a,b::c",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		all, err := parseRoster(content, Options{Course: course, Source: "/x/roster.csv"})
		if err == nil && len(all) == 0 {
			t.Errorf("%q has no students", content)
		}
		for identity, name := range studentNames(all) {
			if name != safeName(name) || name == "" || !filepath.IsLocal(name) {
				t.Errorf("%q is called %q", identity, name)
			}
		}
	})
}

// FuzzGradescope checks that reading ends for any content of Gradescope's file.
func FuzzGradescope(f *testing.F) {
	f.Add([]byte(gradescopeMetadata))
	f.Add([]byte("submission_1:\n  :submitters:\n  - :name: [\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		all, err := parseGradescope(strings.NewReader(string(content)))
		for _, one := range all {
			if !filepath.IsLocal(one.folder) || strings.ContainsAny(one.folder, "/\\") {
				t.Errorf("%q names the folder %q", content, one.folder)
			}
		}
		if err == nil && len(all) == 0 {
			t.Errorf("%q names nothing", content)
		}
	})
}
