// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package rules

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// node is a value of a YAML document with its line. class.yaml is not converted to JSON as usual, because that would
// change keys that look like numbers, such as a student named 0123456.
type node struct {
	at int
	// fields are the fields of a mapping, and scalar is the value of anything that is neither a mapping nor a list.
	keys   []string
	fields map[string]*node
	items  []*node
	scalar any
}

// Limits of a document. Each use of an alias counts as the nodes that it stands for.
const (
	maxNodes = 200_000
	maxDepth = 50
)

var lineOfError = regexp.MustCompile(`^line (\d+): (.*)`)

// parseYAML reads a document. An error begins with its line and a colon.
func parseYAML(data []byte) (*node, error) {
	decoder := yamlv3.NewDecoder(strings.NewReader(string(data)))
	var document, another yamlv3.Node
	if err := decoder.Decode(&document); err != nil {
		if len(strings.TrimSpace(string(data))) == 0 || err.Error() == "EOF" {
			return &node{at: 1, fields: map[string]*node{}}, nil // an empty file
		}
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		if match := lineOfError.FindStringSubmatch(text); match != nil {
			return nil, fmt.Errorf("%s: this is not valid YAML: %s", match[1], match[2])
		}
		return nil, fmt.Errorf("1: this is not valid YAML: %s", text)
	}
	if err := decoder.Decode(&another); err == nil {
		return nil, fmt.Errorf("%d: there is a second document: remove it, and the line --- before it", another.Line)
	}
	count := 0
	root, err := convert(&document, &count, 0)
	if err == nil && root.scalar == nil && root.items == nil && root.fields == nil {
		root.fields = map[string]*node{} // only comments
	}
	return root, err
}

func convert(from *yamlv3.Node, count *int, depth int) (*node, error) {
	if *count++; *count > maxNodes || depth > maxDepth {
		return nil, fmt.Errorf("%d: there is too much in this file: "+
			"it has at most %d values, and lists and mappings in at most %d others", from.Line, maxNodes, maxDepth)
	}
	converted := &node{at: from.Line}
	switch from.Kind {
	case yamlv3.DocumentNode:
		if len(from.Content) != 1 {
			return converted, nil
		}
		return convert(from.Content[0], count, depth)
	case yamlv3.AliasNode:
		if from.Alias == nil {
			return converted, nil
		}
		return convert(from.Alias, count, depth+1)
	case yamlv3.SequenceNode:
		converted.items = []*node{}
		for _, item := range from.Content {
			value, err := convert(item, count, depth+1)
			if err != nil {
				return nil, err
			}
			converted.items = append(converted.items, value)
		}
	case yamlv3.MappingNode:
		converted.fields = map[string]*node{}
		for i := 0; i+1 < len(from.Content); i += 2 {
			key := from.Content[i]
			if key.Kind != yamlv3.ScalarNode {
				return nil, fmt.Errorf("%d: a key must be a string: put quotation marks around it", key.Line)
			}
			if converted.fields[key.Value] != nil {
				return nil, fmt.Errorf("%d: %q is already in line %d: merge the two entries",
					key.Line, key.Value, converted.fields[key.Value].at)
			}
			value, err := convert(from.Content[i+1], count, depth+1)
			if err != nil {
				return nil, err
			}
			value.at = key.Line // users search for the key
			converted.keys, converted.fields[key.Value] = append(converted.keys, key.Value), value
		}
	default:
		var err error
		converted.scalar, err = scalar(from)
		return converted, err
	}
	return converted, nil
}

// scalar returns a number, a truth value, nil or a text. A time is returned as a text, because YAML would interpret
// some forms of it in a zone of its own choice.
func scalar(from *yamlv3.Node) (value any, err error) {
	if tag := from.ShortTag(); tag != "!!int" && tag != "!!float" && tag != "!!bool" && tag != "!!null" {
		return from.Value, nil
	}
	err = from.Decode(&value)
	if number, ok := value.(float64); ok && (math.IsNaN(number) || math.IsInf(number, 0)) {
		err = errors.New("it is not a number")
	}
	if err != nil {
		return nil, fmt.Errorf("%d: %q can't be read: correct it, or put quotation marks around it", from.Line, from.Value)
	}
	return value, nil
}

// value returns the node as encoding/json would decode it.
func (n *node) value() any {
	switch {
	case n.fields != nil:
		all := make(map[string]any, len(n.fields))
		for key, field := range n.fields {
			all[key] = field.value()
		}
		return all
	case n.items != nil:
		all := make([]any, len(n.items))
		for i, item := range n.items {
			all[i] = item.value()
		}
		return all
	}
	return n.scalar
}

// line returns the line where the value at a path begins. If the document has no such value, it returns the line of the
// nearest enclosing one.
func (n *node) line(path []string) int {
	at := n
	for _, token := range path {
		next := at.fields[token]
		if next == nil {
			break
		}
		at = next
	}
	return at.at
}

// dotted returns a path in the usual form: labs.2.deadline.
func dotted(path []string) string {
	if len(path) == 0 {
		return "the file"
	}
	return strings.Join(path, ".")
}
