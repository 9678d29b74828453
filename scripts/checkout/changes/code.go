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
// Files that differ only in other comments, in the positions of their line breaks, or in how a string is divided into
// literals, have the same code. For a file whose examples state their output, and for a file that is not Go, Code
// returns the whole content.
func Code(content []byte) []byte {
	if expectedOutput.Match(content) {
		return content
	}
	wrong := false
	var all scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(content))
	all.Init(file, content, func(token.Position, string) { wrong = true }, scanner.ScanComments)
	var code []word
	add := func(kind token.Token, text string) { code = append(joined(code, kind), word{kind, text}) }
	waiting := token.ILLEGAL // or a comma or semicolon, which has no meaning before a closing bracket
	inSkeleton := false
	for {
		_, kind, literal := all.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.COMMENT {
			inSkeleton = strings.HasPrefix(literal, skeletonBegins) || inSkeleton && !strings.HasPrefix(literal, skeletonEnds)
			if inSkeleton || instruction.MatchString(literal) {
				add(kind, literal)
			}
			continue
		}
		if waiting != token.ILLEGAL && !slices.Contains([]token.Token{token.RPAREN, token.RBRACK, token.RBRACE}, kind) {
			add(waiting, waiting.String())
		}
		waiting = token.ILLEGAL
		switch {
		case kind == token.COMMA || kind == token.SEMICOLON:
			waiting = kind
		case kind.IsLiteral():
			add(kind, literal)
		default:
			add(kind, kind.String())
		}
	}
	if wrong {
		return content
	}
	var result bytes.Buffer
	for _, w := range joined(code, token.EOF) {
		result.WriteString(w.text + "\x00")
	}
	return result.Bytes()
}

// word is a token of the code, or a comment.
type word struct {
	kind token.Token
	text string
}

// joined replaces two string literals that are added at the end of the code by one, if their quotes are of the same
// kind. It may do so whatever precedes them: the addition of strings is associative, and no operator for strings
// binds tighter. next is the token that follows. A bracket begins an index or a slice, which is taken of the second
// literal alone.
func joined(code []word, next token.Token) []word {
	n := len(code)
	if n < 3 || code[n-3].kind != token.STRING || code[n-2].kind != token.ADD || code[n-1].kind != token.STRING ||
		next == token.LBRACK {
		return code
	}
	first, second := code[n-3].text, code[n-1].text
	if first[0] != second[0] {
		return code
	}
	return append(code[:n-3], word{token.STRING, first[:len(first)-1] + second[1:]})
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
