// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// small holds limits that tests reach quickly.
var small = Limits{
	Archive: 1 << 20, Bytes: 4 << 20, File: 2 << 20, Stream: 8 << 20, Directory: 64 << 10, Files: 50, Entries: 200,
}

// zipEntry is an entry of a zip, with the metadata that it claims.
type zipEntry struct {
	header  zip.FileHeader
	mode    fs.FileMode
	content string
}

func zipOf(tb testing.TB, entries ...zipEntry) string {
	tb.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, e := range entries {
		if e.mode != 0 {
			e.header.SetMode(e.mode)
		}
		e.header.Method = zip.Deflate
		file, err := w.CreateHeader(&e.header)
		if err != nil {
			tb.Fatal(err)
		}
		if strings.HasSuffix(e.header.Name, "/") {
			continue
		}
		if _, err := file.Write([]byte(e.content)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return archive.String()
}

func named1(name, content string) zipEntry {
	return zipEntry{header: zip.FileHeader{Name: name}, content: content}
}

func (e zipEntry) as(mode fs.FileMode) zipEntry { e.mode = mode; return e }

// inside lists the unpacked files, and fails if any of them points outside the folder.
func inside(tb testing.TB, dir string) (names []string) {
	tb.Helper()
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		tb.Fatal(err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if !entry.IsDir() && !entry.Type().IsRegular() && entry.Type()&fs.ModeSymlink == 0 {
			tb.Errorf("%q is %s", name, entry.Type())
		}
		if _, err := root.Stat(name); err != nil {
			tb.Errorf("%q: %v", name, err)
		}
		if !entry.IsDir() {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return names
}

// unpackInto unpacks an archive into a folder, and checks that nothing was written next to it.
func unpackInto(tb testing.TB, archive string, limits Limits) (dir string, err error) {
	tb.Helper()
	outer, err := os.MkdirTemp("", "unpack-") //nolint:usetesting // fuzzing makes many
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(outer) })
	dir = filepath.Join(outer, "in", "to")
	err = unpack(tb.Context(), strings.NewReader(archive), int64(len(archive)), dir, limits)
	for _, folder := range []string{outer, filepath.Dir(dir)} {
		entries, readErr := os.ReadDir(folder)
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) || len(entries) > 1 {
			tb.Fatalf("next to the folder there are %v (%v)", entries, readErr)
		}
	}
	return dir, err
}

func TestHostileArchives(t *testing.T) {
	t.Parallel()
	reg := func(name string, size int64) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size}
	}
	link := func(kind byte, name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: kind, Linkname: target, Mode: 0o777}
	}
	many := func(n int) (entries []zipEntry) {
		for i := range n {
			entries = append(entries, named1(fmt.Sprintf("f%d", i), ""))
		}
		return entries
	}
	zeros := strings.Repeat("\x00", 3<<20)
	encrypted := []byte(zipOf(t, named1("go.mod", "module x\n")))
	for _, signature := range []string{"PK\x03\x04", "PK\x01\x02"} {
		flags := bytes.Index(encrypted, []byte(signature)) + map[string]int{"PK\x03\x04": 6, "PK\x01\x02": 8}[signature]
		encrypted[flags] |= 1
	}
	// The entry claims a wrong size: 5 bytes instead of 3 MB.
	lying := []byte(zipOf(t, named1("zeros", zeros)))
	central := bytes.Index(lying, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(lying[central+24:], 5)
	whole := join(labFiles("", "x"), files{"long.go": strings.Repeat("package x // much\n", 400)})
	for _, test := range []struct{ name, archive, want string }{
		{"a zip bomb", zipOf(t, named1("zeros", zeros)), "zeros in the archive has more than 2 MB"},
		{
			"many large files", zipOf(t, named1("a", zeros[:2<<20]), named1("b", zeros[:2<<20]), named1("c", zeros[:1<<20])),
			"more than 4 MB are in the archive",
		},
		{"a zip that lies about sizes", string(lying), "the archive is damaged or incomplete"},
		{
			"a tar bomb", zipped(t, tarOf(t, files{"zeros": zeros}, reg("zeros", int64(len(zeros))))),
			"zeros in the archive has more than 2 MB",
		},
		{
			"a tar bomb of files that are not kept",
			zipped(t, tarOf(t, files{".git/a": strings.Repeat(zeros, 3)}, reg(".git/a", int64(3*len(zeros))))),
			"more than 8 MB are in the archive",
		},
		{"too many files", zipOf(t, many(60)...), "there are too many files in the archive: at most 50 are kept"},
		{"very many files", zipOf(t, many(5000)...), "there are too many files in the archive"},
		{"too many files that are not kept", tarOf(t, nil, func() (all []tar.Header) {
			for i := range 300 {
				all = append(all, reg(fmt.Sprintf(".git/%d", i), 0))
			}
			return all
		}()...), "there are too many files in the archive"},
		{
			"folders that are not there",
			zipOf(t, named1(strings.Repeat("a/", 39)+"b", ""), named1(strings.Repeat("c/", 39)+"b", "")),
			"there are too many files",
		},
		{"a deep folder", zipOf(t, named1(strings.Repeat("a/", 50)+"b", "")), "a name in the archive is too long"},
		{"a long name", zipOf(t, named1(strings.Repeat("a", 300), "")), "a name in the archive is too long"},
		{"..", zipOf(t, named1("../../x", "")), "a name in the archive points outside it (../../x)"},
		{".. within", zipOf(t, named1("a/../../x", "")), "a name in the archive points outside it"},
		{".. that stays inside", zipOf(t, named1("a/../x", "")), "a name in the archive points outside it"},
		{"absolute", zipOf(t, named1("/etc/x", "")), "a name in the archive points outside it (/etc/x)"},
		{"absolute in a tar", tarOf(t, nil, reg("/etc/x", 0)), "a name in the archive points outside it"},
		{".. in a tar", tarOf(t, nil, reg("../x", 0)), "a name in the archive points outside it"},
		{"a backslash", zipOf(t, named1(`a\..\..\x`, "")), "a name in the archive has a backslash"},
		{"NUL", zipOf(t, named1("a\x00b", "")), "a name in the archive has a control character"},
		{"a terminal's control sequence", zipOf(t, named1("a\x1b[2Jb", "")), "a name in the archive has a control character"},
		{"a line's end", tarOf(t, nil, reg("a\nb", 0)), "a name in the archive has a control character"},
		{
			"not UTF-8", tarOf(t, nil, tar.Header{Name: "a\xffb", Typeflag: tar.TypeReg, Format: tar.FormatGNU}),
			"a name in the archive is not UTF-8",
		},
		{"an empty name", zipOf(t, named1("", "")), "a name in the archive is empty"},
		{"twice", zipOf(t, named1("a/x", "1"), named1("a/x", "2")), "the archive has a/x twice"},
		{"twice, written differently", zipOf(t, named1("a/x", "1"), named1("a//./x", "2")), "the archive has a/x twice"},
		{"a file and a folder", zipOf(t, named1("a", "1"), named1("a/x", "2")), "the archive has a twice"},
		{"a folder and a file", zipOf(t, named1("a/x", "1"), named1("a", "2")), "the archive has a twice"},
		{
			"another case", zipOf(t, named1("a/X.go", "1"), named1("a/x.go", "2")),
			"the archive has a/X.go and a/x.go, which are the same on some systems",
		},
		{
			"folders of another case", zipOf(t, named1("A/x", "1"), named1("a/y", "2")),
			"the archive has A and a, which are the same",
		},
		{
			"other forms of one letter", zipOf(t, named1("\u00e4", "1"), named1("a\u0308", "2")),
			"which are the same on some systems",
		},
		{
			"an absolute link", tarOf(t, nil, link(tar.TypeSymlink, "x", "/etc/passwd")),
			"x in the archive is a link that points outside it (/etc/passwd)",
		},
		{
			"a link out", tarOf(t, nil, link(tar.TypeSymlink, "a/x", "../../y")),
			"a/x in the archive is a link that points outside it (../../y)",
		},
		{
			"a link out in a zip", zipOf(t, named1("x", "../secret").as(fs.ModeSymlink|0o777)),
			"x in the archive is a link that points outside it (../secret)",
		},
		{
			"a link with a long target", zipOf(t, named1("x", strings.Repeat("y", 5000)).as(fs.ModeSymlink|0o777)),
			"x in the archive is a link to a name that is too long",
		},
		{
			"links that point outside together",
			tarOf(t, nil, tar.Header{Name: "a/b/", Typeflag: tar.TypeDir, Mode: 0o755},
				link(tar.TypeSymlink, "a/b/up", ".."), link(tar.TypeSymlink, "out", "a/b/up/../../..")),
			"out is a link that points outside",
		},
		{
			"over another link",
			tarOf(t, nil, link(tar.TypeSymlink, "a/b/c/up", "../.."), link(tar.TypeSymlink, "out", "a/b/c/up/../x")),
			"",
		},
		{
			"over another link, and further",
			tarOf(t, nil, link(tar.TypeSymlink, "a/b/c/up", "../../.."), link(tar.TypeSymlink, "out", "a/b/c/up/../../..")),
			"is a link that points outside",
		},
		{"a file through a link", tarOf(t, nil, link(tar.TypeSymlink, "a", "b"), reg("a/x", 0)), "the archive has a twice"},
		{
			"a link in a circle", tarOf(t, nil, link(tar.TypeSymlink, "a", "b"), link(tar.TypeSymlink, "b", "a")),
			"a is a link that can't be followed",
		},
		{
			"a hard link out", tarOf(t, nil, link(tar.TypeLink, "a", "../../etc/passwd")),
			"a in the archive is a link that points outside it",
		},
		{
			"a hard link to nothing", tarOf(t, nil, link(tar.TypeLink, "a", "b")),
			"a in the archive is a link to b, which does not come before it",
		},
		{
			"a device", tarOf(t, nil, tar.Header{Name: "a", Typeflag: tar.TypeBlock, Devmajor: 8}),
			"a in the archive is a device: remove it",
		},
		{
			"a character device", tarOf(t, nil, tar.Header{Name: "a", Typeflag: tar.TypeChar}),
			"a in the archive is a device: remove it",
		},
		{
			"a pipe", tarOf(t, nil, tar.Header{Name: "a", Typeflag: tar.TypeFifo}),
			"a in the archive is a named pipe: remove it",
		},
		{"a device in a zip", zipOf(t, named1("a", "").as(fs.ModeDevice|0o644)), "a in the archive is a device: remove it"},
		{"an encrypted zip", string(encrypted), "the archive is encrypted: hand in one without a password"},
		{"a truncated zip", zipOf(t, named1("a", "1"))[:40], "the archive is damaged or incomplete"},
		{"a truncated tar", whole.tar(t)[:2000], "the archive is damaged or incomplete"},
		{"a truncated tar.gz", zipped(t, whole.tar(t))[:100], "the archive is damaged or incomplete"},
		{"a gzip of something else", zipped(t, "hello"), "the archive is damaged or incomplete"},
		{"a zip with nothing in it", zipOf(t), ""},
		{"only PK", "PK", "the archive is damaged or incomplete"},
		{"something else", "7z\xbc\xaf", "it is not a zip, tar or tar.gz archive"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, err := unpackInto(t, test.archive, small)
			if test.want == "" {
				if err != nil {
					t.Errorf("unpack() error = %v", err)
				}
				inside(t, dir)
				return
			}
			if _, ours := errors.AsType[problem](err); !ours || !strings.Contains(err.Error(), test.want) {
				t.Errorf("unpack() error = %v, want a problem with %q", err, test.want)
			}
			if size := sizeOf(t, dir); size > small.Bytes+1<<20 {
				t.Errorf("the unpacked files take %d bytes", size)
			}
		})
	}
}

func sizeOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			info, infoErr := entry.Info()
			if infoErr != nil {
				return infoErr
			}
			size += info.Size()
		}
		return nil
	})
	return size
}

// TestTruncatedArchives checks that the rest of a truncated archive is not mistaken for the whole, wherever it was cut
// off.
func TestTruncatedArchives(t *testing.T) {
	t.Parallel()
	content := files{
		"go.mod": "module x\n", "a.go": strings.Repeat("package x // a\n", 100),
		"b.go": strings.Repeat("package x // b\n", 100),
	}
	for name, archive := range map[string]string{
		"zip": content.zip(t), "tar.gz": zipped(t, content.tar(t)), "tar": content.tar(t),
	} {
		for at := 1; at < len(archive); at += 1 + len(archive)/100 {
			dir, err := unpackInto(t, archive[:at], small)
			if err == nil && len(inside(t, dir)) < len(content) && name != "tar" {
				t.Errorf("a %s of %d bytes, cut off at %d, was taken for a whole archive", name, len(archive), at)
			}
		}
	}
}

// TestUnpack checks that harmless archives are unpacked, including unusual entries that are common in archives.
func TestUnpack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, archive string
		want          []string
	}{
		{
			"links inside",
			tarOf(t, files{"a/x": "1"}, tar.Header{Name: "./", Typeflag: tar.TypeDir},
				tar.Header{Name: "./l", Typeflag: tar.TypeSymlink, Linkname: "a/x"},
				tar.Header{Name: "./a/", Typeflag: tar.TypeDir},
				tar.Header{Name: "a/x", Typeflag: tar.TypeReg, Size: 1, Mode: 0o600},
				tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "a/x"},
				tar.Header{Name: "nowhere", Typeflag: tar.TypeSymlink, Linkname: "missing"}),
			[]string{"a/x", "h", "l"},
		},
		{
			"of git archive",
			tarOf(t, nil, tar.Header{
				Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header",
				PAXRecords: map[string]string{"comment": "abc"},
			}, tar.Header{Name: "x/a", Typeflag: tar.TypeReg}),
			[]string{"x/a"},
		},
		{
			"files that programs leave there",
			zipOf(t, named1("x/a", ""), named1("x/.git/config", ""), named1("__MACOSX/x/._a", ""),
				named1("x/.DS_Store", ""), named1("x/._a", ""),
				named1("x/bin/kube-apiserver", strings.Repeat("\x00", 3<<20)), named1("x/bin/small", ""),
				named1("x/node_modules/y/z.js", "")),
			[]string{"x/a", "x/bin/small"},
		},
		{"of Windows", zipOf(t, zipEntry{header: zip.FileHeader{Name: "L\x94sung/x", NonUTF8: true}}), []string{"Lösung/x"}},
		{"folders twice", zipOf(t, named1("a/", ""), named1("a/", ""), named1("a/x", "")), []string{"a/x"}},
		{"a link to a folder", zipOf(t, named1("a/x", ""), named1("b", "a").as(fs.ModeSymlink|0o777)), []string{"a/x", "b"}},
	} {
		dir, err := unpackInto(t, test.archive, small)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := inside(t, dir); strings.Join(got, " ") != strings.Join(test.want, " ") {
			t.Errorf("%s: there are %q, want %q", test.name, got, test.want)
		}
	}
}

func TestUnpackKeepsExecutableBit(t *testing.T) {
	t.Parallel()
	for _, archive := range []string{
		zipOf(t, named1("a", "x").as(0o755), named1("b", "x").as(0o4644)),
		tarOf(t, files{"a": "x", "b": "x"},
			tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 1, Mode: 0o755},
			tar.Header{Name: "b", Typeflag: tar.TypeReg, Size: 1, Mode: 0o4644}),
	} {
		dir, err := unpackInto(t, archive, small)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]fs.FileMode{"a": 0o100, "b": 0} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode()&(0o100|fs.ModeSetuid) != want {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
	}
}

// TestUnpackLimitsFiles checks that a list of 100,000 files, and one that exceeds the limit, take little memory and
// time.
func TestUnpackLimitsFiles(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for i := range 100_001 {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, limits := range []Limits{
		DefaultLimits(),
		{Directory: 1 << 20, Entries: 1 << 30, Files: 1 << 30, Bytes: 1 << 20, File: 1 << 20, Stream: 1 << 20},
	} {
		if _, err := unpackInto(t, archive.String(), limits); err == nil ||
			!strings.Contains(err.Error(), "there are too many files in the archive") {
			t.Errorf("unpack() error = %v", err)
		}
	}
}

func TestUnpackStopsWithContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	archive := zipOf(t, named1("a", "x"), named1("b", "y"))
	u, err := newUnpacker(ctx, filepath.Join(t.TempDir(), "to"), small)
	if err != nil {
		t.Fatal(err)
	}
	defer u.root.Close()
	stop()
	if err := u.zip(strings.NewReader(archive), int64(len(archive))); !errors.Is(err, context.Canceled) {
		t.Errorf("zip() error = %v", err)
	}
	if err := u.write("c", strings.NewReader("z"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("a file is written: %v", err)
	}
}

// FuzzUnpack checks that for any archive, unpacking ends, no file is written outside of the folder, no link points
// outside, and the size is within the limit.
func FuzzUnpack(f *testing.F) {
	flat := labFiles("a/", "x")
	for _, seed := range []string{
		flat.zip(f), flat.tar(f), zipped(f, flat.tar(f)),
		zipOf(f, named1("x", "../y").as(fs.ModeSymlink|0o777)),
		zipOf(f, named1("a\\b", "x"), named1("A", "x"), named1("a", "x")),
		tarOf(f, files{"a": "x"},
			tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 1}, tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a"},
			tar.Header{Name: "c/d", Typeflag: tar.TypeSymlink, Linkname: "../a"}),
		tarOf(f, nil,
			tar.Header{Name: "a/b", Typeflag: tar.TypeSymlink, Linkname: ".."},
			tar.Header{Name: "c", Typeflag: tar.TypeSymlink, Linkname: "a/b/.."}),
		"PK\x05\x06" + strings.Repeat("\x00", 18), "PK", "\x1f\x8b", "",
	} {
		f.Add([]byte(seed))
	}
	limits := Limits{
		Archive: 1 << 20, Bytes: 64 << 10, File: 32 << 10, Stream: 128 << 10, Directory: 16 << 10, Files: 20, Entries: 40,
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		dir, err := unpackInto(t, string(content), limits)
		if err != nil {
			if _, ours := errors.AsType[problem](err); !ours {
				t.Errorf("%q: the error is %v", content, err)
			}
		} else {
			inside(t, dir)
		}
		if size := sizeOf(t, dir); size > limits.Bytes+limits.File {
			t.Errorf("%q: the unpacked files take %d bytes", content, size)
		}
	})
}

// FuzzCleanName checks that a name is either refused, or it is clean and stays inside the folder.
func FuzzCleanName(f *testing.F) {
	for _, seed := range []string{"a/b", "../a", "/a", "a//b/./c/", "a\\b", "\x00", "a/../b", "..", ".", "", "ä"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := cleanName(name)
		if err == nil && (!filepath.IsLocal(clean) || !fs.ValidPath(clean) || strings.ContainsAny(clean, "\\\x00\n")) {
			t.Errorf("cleanName(%q) = %q", name, clean)
		}
	})
}
