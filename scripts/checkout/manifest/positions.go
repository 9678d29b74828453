// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package manifest

import (
	"fmt"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// positions knows the line of each value of a YAML document. It parses the document separately, because the list itself
// is converted to JSON (as all of Kubernetes' YAML is), where lines are lost.
type positions struct{ root *yamlv3.Node }

func newPositions(data []byte) (*positions, error) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return &positions{root: &yamlv3.Node{Line: 1}}, nil
	}
	return &positions{root: document.Content[0]}, nil
}

// line returns the line where the value at a path begins, or the nearest value around it that the document has. A value
// in a mapping has the line of its key, because people search for the key.
func (p *positions) line(path []string) int {
	node, line := p.root, p.root.Line
	for _, token := range path {
		for node.Kind == yamlv3.AliasNode {
			node = node.Alias
		}
		switch node.Kind {
		case yamlv3.MappingNode:
			var value *yamlv3.Node
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == token {
					line, value = node.Content[i].Line, node.Content[i+1]
				}
			}
			if value == nil {
				return line
			}
			node = value
		case yamlv3.SequenceNode:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(node.Content) {
				return line
			}
			node = node.Content[i]
			line = node.Line
		default:
			return line
		}
	}
	return line
}

func path(tokens ...any) []string {
	tokensText := make([]string, len(tokens))
	for i, token := range tokens {
		tokensText[i] = fmt.Sprint(token)
	}
	return tokensText
}

// dotted returns a path as people write it: labs[1].checks[0].points.
func dotted(path []string) string {
	if len(path) == 0 {
		return "the document"
	}
	var text strings.Builder
	for _, token := range path {
		if _, err := strconv.Atoi(token); err == nil {
			text.WriteString("[" + token + "]")
			continue
		}
		if text.Len() > 0 {
			text.WriteString(".")
		}
		text.WriteString(token)
	}
	return text.String()
}
