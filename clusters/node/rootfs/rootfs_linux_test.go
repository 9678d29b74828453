// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rootfs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"lva.io/operators/clusters/images/named"
	"lva.io/operators/clusters/node/container"
)

// layer returns a tar archive.
func layer(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, header := range entries {
		content := header.PAXRecords["content"]
		header.PAXRecords = nil
		header.Size = int64(len(content))
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, PAXRecords: map[string]string{"content": content}}
}

func newStore(t *testing.T) *Store {
	t.Helper()
	dir := t.TempDir()
	s, err := New(filepath.Join(dir, "images"), filepath.Join(dir, "layers"), filepath.Join(dir, "containers"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, content []byte) named.Blob {
	t.Helper()
	digest := sha256.Sum256(content)
	b := named.Blob{Digest: "sha256:" + hex.EncodeToString(digest[:]), Size: int64(len(content))}
	if err := os.MkdirAll(filepath.Dir(b.Path(s.Images)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.Path(s.Images), content, 0o644); err != nil {
		t.Fatal(err)
	}
	return b
}

// image puts an image into a store.
func image(t *testing.T, s *Store, configuration string, layers ...[]byte) Image {
	t.Helper()
	i := named.Image{Reference: "test/image:v1", Configuration: put(t, s, []byte(configuration))}
	for _, content := range layers {
		i.Layers = append(i.Layers, put(t, s, content))
	}
	if err := named.Write(s.Images, i); err != nil {
		t.Fatal(err)
	}
	found, err := s.Image("test/image:v1")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// mountRoot mounts the files of a container, and passes their path to a function.
func mountRoot(t *testing.T, root container.Root, inspect func(dir string)) {
	t.Helper()
	if len(root.Layers) > 0 {
		if err := container.Overlay(root.Dir, root.Layers, root.Upper, root.Work); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unix.Unmount(root.Dir, 0); err != nil {
				t.Error(err)
			}
		}()
	}
	inspect(root.Dir)
}

// withAndWithoutOverlay runs a test with overlayfs, and with copies.
func withAndWithoutOverlay(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	for name, copies := range map[string]bool{"overlayfs": false, "copies": true} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			if s.Copies() {
				t.Fatal("this kernel does not let users mount overlayfs")
			}
			s.copies = copies
			test(t, s)
		})
	}
}

func TestUpperLayerOverridesAndRemovesFiles(t *testing.T) {
	withAndWithoutOverlay(t, func(t *testing.T, s *Store) {
		t.Helper()
		i := image(t, s, `{}`,
			layer(t, file("kept", "low"), file("covered", "low"), file("gone", "low"),
				file("dir/old", "low"), file("full/old", "low")),
			layer(t, file("covered", "high"), file(".wh.gone", ""), file("dir/new", "high"),
				file("full/.wh..wh..opq", ""), file("full/new", "high")))
		root, err := s.Prepare("c", i)
		if err != nil {
			t.Fatal(err)
		}
		mountRoot(t, root, func(dir string) {
			for name, want := range map[string]string{
				"kept":     "low",
				"covered":  "high",
				"dir/old":  "low",
				"dir/new":  "high",
				"full/new": "high",
			} {
				if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != want {
					t.Errorf("%s has content %q, %v; want %q", name, content, err, want)
				}
			}
			for _, name := range []string{"gone", ".wh.gone", "full/old"} {
				if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
					t.Errorf("%s exists: %v", name, err)
				}
			}
		})
	})
}

func TestUpperLayerDoesNotFollowSymlinks(t *testing.T) {
	withAndWithoutOverlay(t, func(t *testing.T, s *Store) {
		t.Helper()
		outside := t.TempDir()
		if err := os.Chmod(outside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outside, "victim"), []byte("safe"), 0o600); err != nil {
			t.Fatal(err)
		}
		link := func(name string) tar.Header {
			return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: outside}
		}
		i := image(t, s, `{}`,
			layer(t, link("written"), link("removed"), link("replaced"), link("hidden"), link("folder")),
			layer(t, file("written/new", "x"), file("removed/.wh.victim", ""), file("replaced/victim", "x"),
				file("hidden/.wh..wh..opq", ""), tar.Header{Typeflag: tar.TypeDir, Name: "folder/", Mode: 0o700}))
		root, err := s.Prepare("c", i)
		if err != nil {
			t.Fatal(err)
		}
		mountRoot(t, root, func(dir string) {
			for _, name := range []string{"written", "removed", "replaced", "hidden", "folder"} {
				if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
					t.Errorf("%s of the upper layer is not a folder: %v, %v", name, info, err)
				}
			}
		})
		entries, err := os.ReadDir(outside)
		if err != nil || len(entries) != 1 {
			t.Errorf("found %v outside of the container, %v; want one file", entries, err)
		}
		if content, err := os.ReadFile(filepath.Join(outside, "victim")); err != nil || string(content) != "safe" {
			t.Errorf("the file outside has content %q, %v; want safe", content, err)
		}
		if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the folder outside has mode %v, %v; want 0755", info.Mode(), err)
		}
	})
}

func TestContainersDoNotShareWrites(t *testing.T) {
	withAndWithoutOverlay(t, func(t *testing.T, s *Store) {
		t.Helper()
		i := image(t, s, `{}`, layer(t, file("shared", "layer")))
		one, err := s.Prepare("one", i)
		if err != nil {
			t.Fatal(err)
		}
		mountRoot(t, one, func(dir string) {
			if err := os.WriteFile(filepath.Join(dir, "shared"), []byte("one's"), 0o644); err != nil {
				t.Fatal(err)
			}
		})
		two, err := s.Prepare("two", i)
		if err != nil {
			t.Fatal(err)
		}
		mountRoot(t, two, func(dir string) {
			if content, err := os.ReadFile(filepath.Join(dir, "shared")); err != nil || string(content) != "layer" {
				t.Errorf("the other container reads %q, %v; want layer", content, err)
			}
		})
		if bytes, files := s.Written("one"); bytes == 0 || files == 0 {
			t.Errorf("Written() = %d, %d; want more than 0", bytes, files)
		}
		if err := s.Remove("one"); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(s.Containers, "one")); !os.IsNotExist(err) {
			t.Errorf("the files of the removed container exist: %v", err)
		}
	})
}

func TestKeepRemovesOtherContainers(t *testing.T) {
	s := newStore(t)
	i := image(t, s, `{}`, layer(t, file("x", "")))
	for _, id := range []string{"kept", "left"} {
		if _, err := s.Prepare(id, i); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(s.Containers, "left", "upper", "closed")
	if err := os.MkdirAll(filepath.Join(closed, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(func(id string) bool { return id == "kept" }); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(s.Containers); err != nil || len(entries) != 1 || entries[0].Name() != "kept" {
		t.Errorf("got containers %v, %v; want only kept", entries, err)
	}
}

func TestUnpackKeepsModesAndLinks(t *testing.T) {
	s := newStore(t)
	i := image(t, s, `{}`, layer(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o500},
		file("closed/inside", "x"),
		tar.Header{Typeflag: tar.TypeReg, Name: "suid", Mode: 0o4755},
		tar.Header{Typeflag: tar.TypeDir, Name: "tmp", Mode: 0o1777},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "/anywhere/else"},
		file("a", "same"),
		tar.Header{Typeflag: tar.TypeLink, Name: "b", Linkname: "a"},
		tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o600},
		tar.Header{Typeflag: tar.TypeChar, Name: "device", Devmajor: 1, Devminor: 3}))
	if err := s.Unpack(i); err != nil {
		t.Fatal(err)
	}
	dir := s.Folders(i)[0]
	for name, want := range map[string]os.FileMode{
		"closed": os.ModeDir | 0o500,
		"suid":   os.ModeSetuid | 0o755,
		"tmp":    os.ModeDir | os.ModeSticky | 0o777,
		"pipe":   os.ModeNamedPipe | 0o600,
	} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, "link")); err != nil || target != "/anywhere/else" {
		t.Errorf("the link points to %q, %v", target, err)
	}
	a, errA := os.Stat(filepath.Join(dir, "a"))
	b, errB := os.Stat(filepath.Join(dir, "b"))
	if errors.Join(errA, errB) != nil || !os.SameFile(a, b) {
		t.Errorf("a and b are not the same file: %v", errors.Join(errA, errB))
	}
	if _, err := os.Lstat(filepath.Join(dir, "device")); !os.IsNotExist(err) {
		t.Errorf("the device was unpacked: %v", err)
	}
}

func TestUnpackStaysInsideTheLayer(t *testing.T) {
	outside := t.TempDir()
	for name, entries := range map[string][]tar.Header{
		"dots":     {file("../../../../"+outside+"/x", "x")},
		"absolute": {file(outside+"/x", "x")},
		"link":     {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: outside}, file("out/x", "x")},
		"relative": {{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "../../../../../.." + outside}, file("out/x", "x")},
		"hard":     {{Typeflag: tar.TypeLink, Name: "x", Linkname: "../../../../../etc/passwd"}},
	} {
		s := newStore(t)
		_ = s.Unpack(image(t, s, `{}`, layer(t, entries...))) // the file is refused, or stays inside
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Fatalf("%s: found %v outside, %v; want nothing", name, left, err)
		}
	}
}

func TestUnpackCompressedLayer(t *testing.T) {
	s := newStore(t)
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(layer(t, file("x", "content"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	i := image(t, s, `{}`, compressed.Bytes())
	if err := s.Unpack(i); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(s.Folders(i)[0], "x")); err != nil || string(content) != "content" {
		t.Errorf("the file has content %q, %v", content, err)
	}
}

func TestDamagedLayerIsAnError(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, s *Store, i Image){
		"changed": func(t *testing.T, s *Store, i Image) {
			t.Helper()
			path := i.Layers[0].Path(s.Images)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			content[len(content)-1] ^= 1
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"cut": func(t *testing.T, s *Store, i Image) {
			t.Helper()
			if err := os.Truncate(i.Layers[0].Path(s.Images), 700); err != nil {
				t.Fatal(err)
			}
		},
		"missing": func(t *testing.T, s *Store, i Image) {
			t.Helper()
			if err := os.Remove(i.Layers[0].Path(s.Images)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s := newStore(t)
		i := image(t, s, `{}`, layer(t, file("a", strings.Repeat("content", 1000))))
		damage(t, s, i)
		if err := s.Unpack(i); err == nil || !strings.Contains(err.Error(), "test/image:v1") {
			t.Errorf("%s: Unpack() error = %v, want one with the image's name", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(s.Layers, "*[0-9a-f]")); len(left) > 0 {
			t.Errorf("%s: found unpacked layers %v, want none", name, left)
		}
	}
}

func TestNewCleansUpInterruptedOverlayTest(t *testing.T) {
	s := newStore(t)
	try := filepath.Join(s.Containers, ".try")
	if err := os.MkdirAll(filepath.Join(try, "merged"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The agent was killed while the filesystem was mounted. Any filesystem keeps its folder from being removed.
	if err := unix.Mount("tmpfs", filepath.Join(try, "merged"), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	next, err := New(s.Images, s.Layers, s.Containers)
	if err != nil {
		t.Fatal(err)
	}
	if next.Copies() != s.Copies() {
		t.Errorf("Copies() = %v, want %v as before", next.Copies(), s.Copies())
	}
	if left, err := os.ReadDir(s.Containers); err != nil || len(left) > 0 {
		t.Errorf("the folder of containers has %v, %v; want nothing", left, err)
	}
}

func TestConcurrentUnpackRunsOnce(t *testing.T) {
	s := newStore(t)
	i := image(t, s, `{}`, layer(t, file("x", "content")))
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			other := &Store{Images: s.Images, Layers: s.Layers, Containers: s.Containers}
			if err := other.Unpack(i); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	before, err := os.Stat(s.Folders(i)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unpack(i); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(s.Folders(i)[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("the layer was unpacked again: %v", err)
	}
}

func TestUserResolvesNamesFromTheImage(t *testing.T) {
	s := newStore(t)
	i := image(t, s, `{"config":{"User":"web"}}`,
		layer(t, file("etc/passwd", "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/false\n"),
			file("etc/group", "logs:x:50:web,other\nnone:x:51:\nweb:x:34:\n")))
	if err := s.Unpack(i); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]User{
		"":         {ID: 0, Group: 0, Home: "/root"},
		"web":      {ID: 33, Group: 34, Groups: []int{50}, Home: "/srv"},
		"33":       {ID: 33, Group: 34, Groups: []int{50}, Home: "/srv"},
		"33:7":     {ID: 33, Group: 7, Groups: []int{50}, Home: "/srv"},
		"web:logs": {ID: 33, Group: 50, Groups: []int{50}, Home: "/srv"},
		"1000":     {ID: 1000, Home: "/"},
	} {
		got, err := s.User(i, who)
		if err != nil || got.ID != want.ID || got.Group != want.Group || got.Home != want.Home ||
			len(got.Groups) != len(want.Groups) {
			t.Errorf("User(%q) = %+v, %v; want %+v", who, got, err, want)
		}
	}
	for _, who := range []string{"nobody", "web:nobody"} {
		if _, err := s.User(i, who); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
			t.Errorf("User(%q) error = %v", who, err)
		}
	}
}

func TestReplacedUserFileIsAbsent(t *testing.T) {
	for name, replacement := range map[string]tar.Header{
		"FIFO":    {Typeflag: tar.TypeFifo, Name: "etc/passwd"},
		"folder":  {Typeflag: tar.TypeDir, Name: "etc/passwd", Mode: 0o755},
		"deleted": file("etc/.wh.passwd", ""),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			i := image(t, s, `{}`,
				layer(t, file("etc/passwd", "web:x:33:34::/srv:/bin/false\n")), layer(t, replacement), layer(t))
			if err := s.Unpack(i); err != nil {
				t.Fatal(err)
			}
			if user, err := s.User(i, "web"); err == nil || !strings.Contains(err.Error(), "no user") {
				t.Errorf("User() = %+v, %v; want no user from the lowest layer", user, err)
			}
		})
	}
}

// The kernel would take each of these for root.
func TestIDOutOfRangeIsAnError(t *testing.T) {
	s := newStore(t)
	i := image(t, s, `{}`,
		layer(t, file("etc/passwd", "large:x:4294967296:1::/:\nword:x:zero:1::/:\n"),
			file("etc/group", "large:x:4294967296:\n")))
	if err := s.Unpack(i); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"4294967296", "-1", "large", "word", "1:4294967296", "1:-1", "1:large"} {
		if user, err := s.User(i, who); err == nil {
			t.Errorf("User(%q) = %+v, want an error", who, user)
		}
	}
	for _, who := range []string{"large", "1:large"} {
		if _, err := s.User(i, who); !errors.Is(err, strconv.ErrRange) {
			t.Errorf("User(%q) error = %v, want that the ID is out of range", who, err)
		}
	}
}
