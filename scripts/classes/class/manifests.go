// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package class

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// parse reads the objects in a file of clusters/config, which an instructor may have edited.
func parse(name string, content []byte) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var objects []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s in clusters/config: %w", name, err)
		}
		fields := map[string]any{}
		if err := yaml.UnmarshalStrict(document, &fields); err != nil {
			return nil, fmt.Errorf("reading %s in clusters/config: %w", name, err)
		}
		if len(fields) == 0 {
			continue // only comments
		}
		object := &unstructured.Unstructured{Object: fields}
		if object.GetKind() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("reading %s in clusters/config: an object has no kind or no name", name)
		}
		objects = append(objects, object)
	}
}
