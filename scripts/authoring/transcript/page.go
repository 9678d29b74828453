// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"mvdan.cc/sh/v3/syntax"

	"lva.io/operators/scripts/authoring/docs"
)

// Block is a block of commands in a page.
type Block struct {
	Page string // path from the root
	Line int    // of its first command, from 1
	// Commands are its statements as the page has them, comments included.
	Commands []string
	// NotRun is the reason why the block is not run. Empty: it is run.
	NotRun string
	// Before has commands that run before the block. They are in no transcript.
	Before string
	// Interrupt reports that the last command of the block ends only on Ctrl-C.
	Interrupt bool
	// Printed are the blocks below it that show the output of its commands.
	Printed []Printed
}

// Printed is a block that shows the output of commands.
type Printed struct {
	Line  int // of its first line, from 1
	Lines []string
}

var marker = regexp.MustCompile(`(?s)<!--\s*(not run|run before|interrupt|printed)\b:?\s*(.*?)\s*-->`)

// Blocks returns the blocks of commands in a page, which is given by its path from the root. The error lists all
// mistakes in markers and commands, each as a *docs.Problem.
func Blocks(root, page string) ([]Block, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	reader := &pageReader{page: page, content: content}
	document := goldmark.DefaultParser().Parse(text.NewReader(content))
	err = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering && node.Type() == ast.TypeBlock {
			reader.visit(node)
		}
		return ast.WalkContinue, nil
	})
	reader.unused()
	return reader.blocks, errors.Join(append(reader.problems, err)...)
}

type pageReader struct {
	page     string
	content  []byte
	blocks   []Block
	problems []error
	// next has the settings from the markers of the next block, and markers are the markers' names.
	next    Block
	markers []string
	marked  int // the line of the first of them
}

func (r *pageReader) problem(line int, format string, args ...any) {
	r.problems = append(r.problems, &docs.Problem{Page: r.page, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (r *pageReader) visit(node ast.Node) {
	switch block := node.(type) {
	case *ast.HTMLBlock:
		r.mark(block)
	case *ast.FencedCodeBlock:
		line, lines := r.lines(block)
		language := string(block.Language(r.content))
		switch {
		case len(r.markers) == 1 && r.markers[0] == "printed" && language != "sh":
			r.printed(line, lines)
		case language == "sh":
			r.commands(line, lines)
		default:
			r.unused()
		}
		r.next, r.markers = Block{}, nil
	case *ast.Paragraph, *ast.Heading:
		r.unused()
	}
}

// unused reports markers that are not directly above a block of their kind.
func (r *pageReader) unused() {
	if len(r.markers) > 0 {
		r.problem(r.marked, "<!-- %s --> must stand directly above a block of commands (sh), "+
			"or of what they print (printed)", r.markers[0])
	}
	r.next, r.markers = Block{}, nil
}

func (r *pageReader) mark(block *ast.HTMLBlock) {
	line, _ := r.lines(block)
	var html []byte
	for i := range block.Lines().Len() {
		segment := block.Lines().At(i)
		html = append(html, segment.Value(r.content)...)
	}
	if block.HasClosure() {
		html = append(html, block.ClosureLine.Value(r.content)...)
	}
	for _, found := range marker.FindAllSubmatch(html, -1) {
		name, value := string(found[1]), string(found[2])
		if len(r.markers) == 0 {
			r.marked = line
		}
		r.markers = append(r.markers, name)
		switch name {
		case "not run":
			r.next.NotRun = value
		case "run before":
			r.next.Before = value
		case "interrupt":
			r.next.Interrupt = true
		}
		if takesValue := name == "not run" || name == "run before"; takesValue != (value != "") {
			r.problem(line, "write <!-- not run: the reason -->, <!-- run before: the commands -->, "+
				"<!-- interrupt --> or <!-- printed -->")
		}
	}
}

func (r *pageReader) printed(line int, lines []string) {
	if len(r.blocks) == 0 {
		r.problem(line, "this block shows output, but no block of commands precedes it")
		return
	}
	above := &r.blocks[len(r.blocks)-1]
	if above.NotRun != "" {
		r.problem(line, "the commands above are not run, so what they print is not known: leave out <!-- printed -->")
		return
	}
	above.Printed = append(above.Printed, Printed{Line: line, Lines: lines})
}

func (r *pageReader) commands(line int, lines []string) {
	block := r.next
	block.Page, block.Line = r.page, line
	var err error
	if block.Commands, err = statements(strings.Join(lines, "\n")); err != nil && block.NotRun == "" {
		r.problem(line, "the shell does not understand this block: %v", err)
	}
	r.blocks = append(r.blocks, block)
}

// lines returns the lines of a block, and the number of the first.
func (r *pageReader) lines(block ast.Node) (number int, lines []string) {
	segments := block.Lines()
	if segments.Len() == 0 {
		return 1, nil
	}
	for i := range segments.Len() {
		segment := segments.At(i)
		lines = append(lines, strings.TrimRight(string(segment.Value(r.content)), "\r\n"))
	}
	return bytes.Count(r.content[:segments.At(0).Start], []byte("\n")) + 1, lines
}

// statements splits a script into its statements. A comment belongs to the statement before it.
func statements(script string) ([]string, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	var all []string
	for i, statement := range file.Stmts {
		from, to := statement.Pos().Offset(), uint(len(script))
		if i == 0 {
			from = 0
		}
		if i+1 < len(file.Stmts) {
			to = file.Stmts[i+1].Pos().Offset()
		}
		all = append(all, strings.TrimSpace(script[from:to]))
	}
	return all, nil
}
