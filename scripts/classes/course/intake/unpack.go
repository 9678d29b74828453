// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package intake

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"

	"lva.io/operators/scripts/grading/limited"
)

// suffixes of archives that are read, and of those that are recognised and refused.
var (
	suffixes = []string{".zip", ".tar.gz", ".tgz", ".tar"}
	unread   = []string{".rar", ".7z", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.zst", ".zipx", ".gz", ".bz2", ".xz", ".zst"}
)

// archiveSuffix is the suffix of an archive's name, as it is written there; empty if it is no name of an archive.
func archiveSuffix(name string) string {
	for _, suffix := range slices.Concat(suffixes, unread) {
		if len(name) > len(suffix) && strings.EqualFold(name[len(name)-len(suffix):], suffix) {
			return name[len(name)-len(suffix):]
		}
	}
	return ""
}

// unpackFile unpacks an archive, the file with a slash-separated name in a folder, into a folder that is made. An error
// that is about the archive is a problem.
func unpackFile(ctx context.Context, dir, name, to string, limits Limits) error {
	suffix := strings.ToLower(archiveSuffix(name))
	if slices.Contains(unread, suffix) {
		return problemf("%s archives are not read: hand in a .zip or a .tar.gz", strings.TrimPrefix(suffix, "."))
	}
	file, err := limited.Open(dir, name, limits.Archive)
	if wrong, ok := errors.AsType[*limited.FileError](err); ok && wrong.TooLarge() {
		return problemf("the archive is larger than %d MB: leave out what is no source, such as bin and .git", limits.Archive>>20)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading the archive: %w", err)
	}
	at, ok := file.(io.ReaderAt)
	if !ok {
		return errors.New("the archive can't be read at any place")
	}
	return unpack(ctx, at, info.Size(), to, limits)
}

// unpack unpacks an archive, whose beginning says what it is.
func unpack(ctx context.Context, from io.ReaderAt, size int64, to string, limits Limits) error {
	begin := make([]byte, 512)
	n, err := from.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the archive: %w", err)
	}
	begin = begin[:n]
	u, err := newUnpacker(ctx, to, limits)
	if err != nil {
		return err
	}
	defer u.root.Close()
	switch {
	case len(begin) == 0:
		return problemf("the archive is empty: hand it in again")
	case bytes.HasPrefix(begin, []byte("PK")):
		err = u.zip(from, size)
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		err = u.gzip(io.NewSectionReader(from, 0, size))
	case len(begin) > 262 && string(begin[257:262]) == "ustar":
		err = u.tar(io.NewSectionReader(from, 0, size))
	default:
		return problemf("it is no zip, tar or tar.gz archive, whatever its name says: hand in a .zip or a .tar.gz")
	}
	if err != nil {
		return damaged(err)
	}
	return u.makeLinks()
}

// damaged makes a problem of what the packages for archives say, which is about the archive unless it is about a file
// of ours.
func damaged(err error) error {
	_, known := errors.AsType[problem](err)
	_, file := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	long, tooLong := errors.AsType[*limited.LongError](err)
	switch {
	case known, file, link, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case tooLong:
		return problemf("more than %d MB are in the archive: hand in the folder of the lab, and nothing else", long.Limit>>20)
	case errors.Is(err, zip.ErrAlgorithm):
		return problemf("the archive is compressed in a way that is not read: make a usual .zip or .tar.gz")
	}
	return problemf("the archive is damaged or not complete: hand it in again")
}

// unpacker writes what is in an archive into a folder, within limits.
type unpacker struct {
	ctx    context.Context // it lives as long as one call
	root   *os.Root
	limits Limits

	left    int64 // bytes
	files   int
	entries int
	// seen are the names of all files and folders, by what they are on a system where case does not count.
	seen map[string]entry
	// links are made when all files are there, so that nothing is written through one.
	links []link
}

type entry struct {
	name   string
	folder bool
}

type link struct{ name, target string }

func newUnpacker(ctx context.Context, to string, limits Limits) (*unpacker, error) {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for what is unpacked: %w", err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return nil, fmt.Errorf("opening the folder for what is unpacked: %w", err)
	}
	return &unpacker{ctx: ctx, root: root, limits: limits, left: limits.Bytes, seen: map[string]entry{}}, nil
}

func (u *unpacker) zip(from io.ReaderAt, size int64) error {
	directory := &budget{ReaderAt: from, left: u.limits.Directory}
	reader, err := zip.NewReader(directory, size)
	if directory.left < 0 {
		return u.tooMany()
	}
	if err != nil {
		return err
	}
	directory.left = 1 << 62 // from here on, other limits hold
	for _, file := range reader.File {
		name := file.Name
		if file.NonUTF8 && !utf8.ValidString(name) {
			// What a zip without a mark is written in, as of Windows' explorer. (APPNOTE.TXT, appendix D)
			name, _ = charmap.CodePage437.NewDecoder().String(name)
		}
		mode := file.Mode()
		clean, skip, err := u.enter(name, int64(min(file.UncompressedSize64, 1<<62)))
		if err != nil {
			return err
		}
		if skip {
			continue
		}
		if file.Flags&1 != 0 {
			return problemf("the archive is encrypted: hand in one without a password")
		}
		switch {
		case mode.IsDir():
			if err := u.folder(clean); err != nil {
				return err
			}
			continue
		case !mode.IsRegular() && mode&fs.ModeSymlink == 0:
			return problemf("%s in the archive is %s: remove it", clean, limited.Kind(mode))
		}
		content, err := file.Open()
		if err != nil {
			return err
		}
		if mode&fs.ModeSymlink != 0 {
			err = u.readLink(clean, content)
		} else {
			err = u.write(clean, content, mode&0o111 != 0)
		}
		content.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// budget reads as long as there is something left.
type budget struct {
	io.ReaderAt
	left int64
}

func (b *budget) ReadAt(p []byte, offset int64) (int, error) {
	n, err := b.ReaderAt.ReadAt(p, offset)
	if b.left -= int64(n); b.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (u *unpacker) gzip(from io.Reader) error {
	content, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	return u.tar(content)
}

func (u *unpacker) tar(from io.Reader) error {
	stream := &tail{Reader: limited.Reader(&stoppable{u.ctx, from}, u.limits.Stream)}
	reader := tar.NewReader(stream)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			if stream.last != ([512]byte{}) {
				return io.ErrUnexpectedEOF
			}
			_, err = io.Copy(io.Discard, stream) // to the checksum
			return err
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return err
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue // git archive writes the commit into one
		}
		clean, skip, err := u.enter(header.Name, header.Size)
		if err != nil {
			return err
		}
		if skip {
			continue
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = u.folder(clean)
		case tar.TypeReg, tar.TypeGNUSparse:
			err = u.write(clean, reader, header.Mode&0o111 != 0)
		case tar.TypeSymlink:
			err = u.link(clean, header.Linkname)
		case tar.TypeLink:
			err = u.hardLink(clean, header.Linkname)
		default:
			err = problemf("%s in the archive is %s: remove it", clean, limited.Kind(header.FileInfo().Mode()))
		}
		if err != nil {
			return err
		}
	}
}

// tail knows the last block of what was read. A complete tar ends with blocks of zeros, for which package tar does not
// ask.
type tail struct {
	io.Reader
	last [512]byte
}

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	read := p[:n]
	if n > len(t.last) {
		read = read[n-len(t.last):]
	}
	copy(t.last[:], t.last[len(read):])
	copy(t.last[len(t.last)-len(read):], read)
	return n, err
}

// Limits of a name.
const (
	maxPath    = 1000 // bytes
	maxElement = 255  // bytes
	maxFolders = 40
)

// enter checks the name of an entry. What is no student's work is skipped.
func (u *unpacker) enter(raw string, size int64) (clean string, skip bool, err error) {
	if err := u.ctx.Err(); err != nil {
		return "", false, err
	}
	if u.entries++; u.entries > u.limits.Entries {
		return "", false, u.tooMany()
	}
	name, err := cleanName(raw)
	if err != nil || name == "." {
		return "", true, err
	}
	elements := strings.Split(name, "/")
	if slices.ContainsFunc(elements, isJunk) {
		return "", true, nil
	}
	// The tools of a project's Makefile. Whatever a package named bin has, it is no large file.
	const large = 1 << 20
	if size > large && path.Ext(name) != ".go" && slices.Contains(elements[:len(elements)-1], "bin") {
		return "", true, nil
	}
	return name, false, nil
}

func (u *unpacker) tooMany() error {
	return problemf("there are too many files in the archive: at most %d are kept, of at most %d. "+
		"Hand in the folder of the lab, and nothing else", u.limits.Files, u.limits.Entries)
}

// cleanName refuses names that mean different files on different systems, or files elsewhere.
func cleanName(raw string) (string, error) {
	elements := strings.Split(raw, "/")
	switch shown := printable(raw); {
	case !utf8.ValidString(raw):
		return "", problemf("a name in the archive is not UTF-8 (%s): rename the file", shown)
	case strings.ContainsFunc(raw, unicode.IsControl):
		return "", problemf("a name in the archive has a control character (%s): rename the file", shown)
	case strings.Contains(raw, `\`):
		return "", problemf("a name in the archive has a backslash (%s): "+
			"make the archive with a program that separates folders with slashes", shown)
	case strings.HasPrefix(raw, "/"), slices.Contains(elements, ".."):
		return "", problemf("a name in the archive leads out of it (%s): hand in an archive of the folder itself", shown)
	case len(raw) > maxPath, len(elements) > maxFolders, slices.ContainsFunc(elements, func(e string) bool { return len(e) > maxElement }):
		return "", problemf("a name in the archive is too long (%.80s…): shorten it", shown)
	case raw == "":
		return "", problemf("a name in the archive is empty: make the archive again")
	}
	return path.Clean(raw), nil
}

// note remembers a file or a folder, and those above it. A name must not be there twice, in whatever case.
func (u *unpacker) note(name string, folder bool) error {
	for i, r := range name {
		if r == '/' {
			if err := u.noteOne(name[:i], true); err != nil {
				return err
			}
		}
	}
	return u.noteOne(name, folder)
}

func (u *unpacker) noteOne(name string, folder bool) error {
	key := norm.NFC.String(strings.ToLower(norm.NFC.String(name)))
	before, there := u.seen[key]
	switch {
	case there && before.name != name:
		return problemf("the archive has %s and %s, which are the same on some systems: rename one of them",
			printable(before.name), printable(name))
	case there && (!before.folder || !folder):
		return problemf("the archive has %s twice: make it again", printable(name))
	case there:
		return nil
	}
	if u.files++; u.files > u.limits.Files {
		return u.tooMany()
	}
	u.seen[key] = entry{name, folder}
	return nil
}

func (u *unpacker) folder(name string) error {
	if err := u.note(name, true); err != nil {
		return err
	}
	if err := u.root.MkdirAll(filepath.FromSlash(name), 0o755); err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	return nil
}

// write writes a file. The sizes that an archive states are not believed.
func (u *unpacker) write(name string, content io.Reader, executable bool) (err error) {
	if err := u.note(name, false); err != nil {
		return err
	}
	if folder := path.Dir(name); folder != "." {
		if err := u.root.MkdirAll(filepath.FromSlash(folder), 0o755); err != nil {
			return fmt.Errorf("unpacking %s: %w", name, err)
		}
	}
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	file, err := u.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	limit := min(u.left, u.limits.File)
	n, err := io.Copy(file, limited.Reader(&stoppable{u.ctx, content}, limit))
	u.left -= n
	if _, long := errors.AsType[*limited.LongError](err); long {
		if limit < u.limits.File {
			return problemf("more than %d MB are in the archive: hand in the folder of the lab, and nothing else", u.limits.Bytes>>20)
		}
		return problemf("%s in the archive has more than %d MB: leave it out", printable(name), u.limits.File>>20)
	}
	return err
}

// stoppable ends with a context.
type stoppable struct {
	ctx context.Context // it lives as long as one call
	io.Reader
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

// readLink reads where a link of a zip leads: it is the content of its file.
func (u *unpacker) readLink(name string, content io.Reader) error {
	const longest = 4096
	target, err := limited.ReadAll(content, longest)
	if _, long := errors.AsType[*limited.LongError](err); long {
		return problemf("%s in the archive is a link to a name that is too long: put the file itself there", printable(name))
	}
	if err != nil {
		return err
	}
	return u.link(name, string(target))
}

func (u *unpacker) link(name, target string) error {
	if err := u.note(name, false); err != nil {
		return err
	}
	inside := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || inside == ".." || strings.HasPrefix(inside, "../") {
		return problemf("%s in the archive is a link that leads out of it (%s): put the file itself there", printable(name), printable(target))
	}
	if target == "" || !utf8.ValidString(target) || strings.ContainsFunc(target, unicode.IsControl) || strings.Contains(target, `\`) {
		return problemf("%s in the archive is a link to a name that can't be followed: put the file itself there", printable(name))
	}
	u.links = append(u.links, link{name, target})
	return nil
}

// hardLink copies the file of the archive to which a link of a tar leads.
func (u *unpacker) hardLink(name, target string) error {
	clean, err := cleanName(target)
	if err != nil {
		return problemf("%s in the archive is a link that leads out of it (%s): put the file itself there", printable(name), printable(target))
	}
	from, err := limited.Open(u.root.Name(), clean, u.limits.File)
	if err != nil {
		return problemf("%s in the archive is a link to %s, which is not there before it: make the archive again",
			printable(name), printable(clean))
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	return u.write(name, from, info.Mode()&0o111 != 0)
}

// makeLinks makes the links. One that leads nowhere is left out, and one that leads out over others is refused.
func (u *unpacker) makeLinks() error {
	for _, l := range u.links {
		if folder := path.Dir(l.name); folder != "." {
			if err := u.root.MkdirAll(filepath.FromSlash(folder), 0o755); err != nil {
				return fmt.Errorf("unpacking %s: %w", l.name, err)
			}
		}
		if err := u.root.Symlink(filepath.FromSlash(l.target), filepath.FromSlash(l.name)); err != nil {
			return fmt.Errorf("unpacking %s: %w", l.name, err)
		}
	}
	for _, l := range u.links {
		_, err := u.root.Stat(filepath.FromSlash(l.name))
		if errors.Is(err, fs.ErrNotExist) {
			if err := u.root.Remove(filepath.FromSlash(l.name)); err != nil {
				return fmt.Errorf("leaving out the link %s: %w", l.name, err)
			}
			continue
		}
		if err := checkLink(u.root, l.name, printable(l.name)); err != nil {
			return err
		}
	}
	return nil
}
