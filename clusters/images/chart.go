// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package images

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"lva.io/operators/clusters/gobuild"
)

// Chart is a Helm chart.
type Chart struct {
	// Path is a chart archive (.tgz).
	Path string
	// Version is the version of the module that it came from, such as v1.20.2.
	Version string
}

// placeholder finds the versions in a chart's description that the project's release tool replaces. The chart in a
// module still has the placeholders.
var placeholder = regexp.MustCompile(`(?m)^(version|appVersion): v0\.0\.0$`)

// path returns the path of a folder that the catalogue names.
func (s *Store) path(folder string) string { return filepath.Join(s.Programs, folder) }

// chartFile returns the path that a chart has once it exists.
func (s *Store) chartFile(c *Catalogue, name string) (file, version string, err error) {
	source, found := c.Charts[name]
	if !found {
		return "", "", fmt.Errorf("there is no chart %s: there are %s", name, strings.Join(names(c.Charts), " and "))
	}
	module := c.Modules[source.Module]
	if version, err = gobuild.Required(s.path(module.RequiredBy), module.Path); err != nil {
		return "", "", err
	}
	key, err := keyOf("chart", []any{source, module.Path, version, placeholder.String()})
	if err != nil {
		return "", "", err
	}
	return filepath.Join(s.Dir, "charts", name+"-"+key[:16]+".tgz"), version, nil
}

// Chart returns a chart of the catalogue. It takes the chart from its module, which it downloads if need be.
func (s *Store) Chart(ctx context.Context, name string) (Chart, error) {
	c, err := Load()
	if err != nil {
		return Chart{}, err
	}
	return s.chart(ctx, c, name)
}

func (s *Store) chart(ctx context.Context, c *Catalogue, name string) (Chart, error) {
	file, version, err := s.chartFile(c, name)
	if err != nil {
		return Chart{}, err
	}
	if _, err := os.Stat(file); err == nil {
		return Chart{Path: file, Version: version}, nil
	}
	source := c.Charts[name]
	folder, _, err := s.moduleFolder(ctx, c.Modules[source.Module])
	if err != nil {
		return Chart{}, fmt.Errorf("getting the chart %s: %w", name, err)
	}
	files := tree{}
	if err := files.addFiles(folder, File{To: "/" + name, From: source.From}, 0o644); err != nil {
		return Chart{}, fmt.Errorf("getting the chart %s: %w", name, err)
	}
	for _, old := range names(source.Rename) {
		e, found := files[name+"/"+old]
		if !found {
			return Chart{}, fmt.Errorf("getting the chart %s: it no longer has %s", name, old)
		}
		delete(files, name+"/"+old)
		files[name+"/"+source.Rename[old]] = e
	}
	if err := files.release(name+"/Chart.yaml", version); err != nil {
		return Chart{}, fmt.Errorf("getting the chart %s: %w", name, err)
	}
	written, err := s.write(nil, func(w io.Writer) error {
		compressed := gzip.NewWriter(w)
		if err := files.write(compressed); err != nil {
			return err
		}
		return compressed.Close()
	})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.Rename(s.blob(written.Digest), file)
	}
	if err != nil {
		return Chart{}, fmt.Errorf("getting the chart %s: %w", name, err)
	}
	return Chart{Path: file, Version: version}, nil
}

// release writes a version into a chart's description in place of the placeholders, as the project's release tool does.
func (t tree) release(description, version string) error {
	e, found := t[description]
	if !found {
		return fmt.Errorf("it has no %s", description)
	}
	content := e.content
	if e.source != "" {
		var err error
		if content, err = os.ReadFile(e.source); err != nil {
			return err
		}
	}
	e.content, e.source = placeholder.ReplaceAll(content, []byte("${1}: "+version)), ""
	t[description] = e
	return nil
}
