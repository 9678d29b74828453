// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
)

//go:embed templates
var files embed.FS

// frame holds the data with which every page begins.
type frame struct {
	Heading string
	Style   template.CSS
	// Policy makes the browser forbid everything but the page's own style: if a text of a submission were ever interpreted
	// as HTML, it could neither run nor load anything.
	Policy string
}

var style = sync.OnceValue(func() string {
	content, err := files.ReadFile("templates/page.css")
	if err != nil {
		panic(err) // It is embedded.
	}
	return string(content)
})

func newFrame(heading string) frame {
	sum := sha256.Sum256([]byte(style()))
	return frame{
		Heading: heading,
		Style:   template.CSS(style()), //nolint:gosec // our own file
		Policy: fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'",
			base64.StdEncoding.EncodeToString(sum[:])),
	}
}

var templates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("pages").Funcs(template.FuncMap{
		"share": share, "points": points, "signed": signed, "duration": duration, "count": count, "report": reportLink,
		"link": func(base, lecture string) reference { return reference{lecture, lectureLink(base, lecture)} },
		"breakable": func(path string) template.HTML {
			return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(path), "/", "/<wbr>")) //nolint:gosec // escaped
		},
		"quoted": quoted,
	}).ParseFS(files, "templates/*.html")
})

// reference is a heading of a lecture with the target of its link. There is no link if To is empty.
type reference struct{ Lecture, To string }

// quoted formats text between backticks as code. It escapes everything first.
func quoted(text string) template.HTML {
	parts := strings.Split(text, "`")
	if len(parts)%2 == 0 {
		parts = []string{text} // One backtick has no partner, so they do not quote code.
	}
	var out strings.Builder
	for i, part := range parts {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		out.WriteString(part)
	}
	return template.HTML(out.String()) //nolint:gosec // every part of it was escaped above
}

// Write writes the page of a class for its instructor: one complete file without scripts that loads nothing.
func Write(w io.Writer, c *Class) error {
	return execute(w, "class.html", newView(c), "the page of the class")
}

func execute(w io.Writer, name string, data any, what string) error {
	parsed, err := templates()
	if err != nil {
		return fmt.Errorf("reading the templates of the pages: %w", err)
	}
	var out bytes.Buffer // An incomplete page is worse than none.
	if err := parsed.ExecuteTemplate(&out, name, data); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	if _, err := w.Write(bytes.Map(visible, out.Bytes())); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}
