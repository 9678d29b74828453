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
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"lva.io/operators/scripts/grading/limited"
)

// Suffixes of archives that are read, and of archives that are recognised and refused.
var (
	suffixes = []string{".zip", ".tar.gz", ".tgz", ".tar"}
	unread   = []string{
		".rar", ".7z", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.zst", ".zipx", ".gz", ".bz2", ".xz", ".zst",
	}
)

// archiveSuffix returns the suffix of an archive's name, as it is spelled there. It returns an empty string if the name
// is not that of an archive.
func archiveSuffix(name string) string {
	for _, suffix := range slices.Concat(suffixes, unread) {
		if len(name) > len(suffix) && strings.EqualFold(name[len(name)-len(suffix):], suffix) {
			return name[len(name)-len(suffix):]
		}
	}
	return ""
}

// unpackFile unpacks an archive into a folder, which it creates. The archive is the file with a slash-separated name in
// dir. An error that concerns the archive is a problem.
func unpackFile(ctx context.Context, dir, name, to string, limits Limits) error {
	suffix := strings.ToLower(archiveSuffix(name))
	if slices.Contains(unread, suffix) {
		return problemf("%s archives are not supported: hand in a .zip or a .tar.gz", strings.TrimPrefix(suffix, "."))
	}
	file, err := limited.Open(dir, name, limits.Archive)
	if wrong, ok := errors.AsType[*limited.FileError](err); ok && wrong.TooLarge {
		return problemf("the archive is larger than %d MB: leave out files that are not source code, such as bin and .git",
			limits.Archive>>20)
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
		return errors.New("the archive does not support random access")
	}
	return unpack(ctx, at, info.Size(), to, limits)
}

// unpack unpacks an archive. The archive's first bytes determine its format.
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
		return problemf("it is not a zip, tar or tar.gz archive, despite its name: hand in a .zip or a .tar.gz")
	}
	if err != nil {
		return damaged(err)
	}
	return u.makeLinks()
}

// damaged converts an error of the archive packages into a problem. The archive is the cause, unless the error concerns
// one of our files.
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
		return problemf("the archive is compressed with an unsupported method: create an ordinary .zip or .tar.gz")
	}
	return problemf("the archive is damaged or incomplete: hand it in again")
}

// unpacker writes the content of an archive into a folder, within limits.
type unpacker struct {
	ctx    context.Context // it lives as long as one call
	root   *os.Root
	limits Limits

	left    int64 // bytes
	files   int
	entries int
	// seen holds the names of all files and folders, by their form on a system that ignores case.
	seen map[string]entry
	// links are created after all files exist, so that nothing is written through a link.
	links []link
}

func newUnpacker(ctx context.Context, to string, limits Limits) (*unpacker, error) {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, fmt.Errorf("creating a folder for unpacked submissions: %w", err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return nil, fmt.Errorf("opening the folder for unpacked submissions: %w", err)
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
			// A zip that does not mark its names as UTF-8 uses this encoding, as the Windows Explorer does. (APPNOTE.TXT,
			// appendix D)
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

// budget is a reader that fails when its budget is used up.
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
			_, err = io.Copy(io.Discard, stream) // reads up to the checksum
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

// tail remembers the last block that was read. A complete tar ends with blocks of zeros, which package tar does not
// require.
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
