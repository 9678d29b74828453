// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package changes

import (
	"bytes"
	"context"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	// instruction matches a comment that a program obeys: a directive such as //go:embed or //lab:begin, or a marker of
	// kubebuilder.
	instruction = regexp.MustCompile(`^//(?:[a-z0-9]+:[a-z0-9]|\s*\+)`)
	// expectedOutput matches the beginning of what an example must print. The comments after it count as code, too.
	expectedOutput = regexp.MustCompile(`(?mi)^\s*//\s*(?:unordered )?output:`)
)

// The comments between these two directives are code of a lab's skeleton.
const (
	skeletonBegins = "//lab:else"
	skeletonEnds   = "//lab:end"
)

// Code returns the parts of a Go file that decide what it does: its tokens, and the comments that a program obeys.
// Files that differ only in other comments, or in the positions of their line breaks, have the same code. For a file
// whose examples state their output, and for a file that is not Go, Code returns the whole content.
func Code(content []byte) []byte {
	if expectedOutput.Match(content) {
		return content
	}
	wrong := false
	var all scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(content))
	all.Init(file, content, func(token.Position, string) { wrong = true }, scanner.ScanComments)
	var code bytes.Buffer
	waiting := "" // a comma or semicolon, which has no meaning before a closing bracket
	inSkeleton := false
	for {
		_, kind, literal := all.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.COMMENT {
			inSkeleton = strings.HasPrefix(literal, skeletonBegins) || inSkeleton && !strings.HasPrefix(literal, skeletonEnds)
			if inSkeleton || instruction.MatchString(literal) {
				code.WriteString(literal + "\x00")
			}
			continue
		}
		if waiting != "" && !slices.Contains([]token.Token{token.RPAREN, token.RBRACK, token.RBRACE}, kind) {
			code.WriteString(waiting + "\x00")
		}
		waiting = ""
		switch {
		case kind == token.COMMA || kind == token.SEMICOLON:
			waiting = kind.String()
		case kind.IsLiteral():
			code.WriteString(literal + "\x00")
		default:
			code.WriteString(kind.String() + "\x00")
		}
	}
	if wrong {
		return content
	}
	return code.Bytes()
}

// SameCode reports whether a Go file that differs has the same code as at the commit. Its name is slash-separated and
// relative to the root.
func (c *Changes) SameCode(ctx context.Context, name string) bool {
	if path.Ext(name) != ".go" {
		return false
	}
	same, known := c.same[name]
	if !known { // git is asked twice, and several labs import the same packages
		same = c.sameCode(ctx, name)
		c.same[name] = same
	}
	return same
}

func (c *Changes) sameCode(ctx context.Context, name string) bool {
	before, err := c.Before(ctx, name)
	if err != nil || before == "" {
		return false
	}
	now, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(name)))
	return err == nil && bytes.Equal(Code([]byte(before)), Code(now))
}
