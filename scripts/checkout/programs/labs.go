// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"

	"lva.io/operators/clusters/node/targets"
)

// lab is the part of labs.yaml that determines what grading a lab needs. The whole file is read by package manifest,
// which imports more than the bootstrap may.
type lab struct {
	Number int      `json:"number"`
	Name   string   `json:"name"`
	Stage  string   `json:"stage"`
	Addons []string `json:"addons"`
	Node   bool     `json:"node"`
}

// labs reads labs.yaml and returns the lab with a number, or all labs if number is no number. It is no error if the lab
// does not exist.
func labs(root, number string) ([]lab, error) {
	content, err := os.ReadFile(filepath.Join(root, "labs", "labs.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading what the labs need: %w", err)
	}
	var file struct {
		Labs []lab `json:"labs"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("reading what the labs need: %w", err)
	}
	if n, err := strconv.Atoi(number); err == nil {
		file.Labs = slices.DeleteFunc(file.Labs, func(l lab) bool { return l.Number != n })
	}
	return file.Labs, nil
}

// grading lists the programs that grading labs on the embedded cluster needs, or on another one, which has its own
// nodes.
func grading(root string, embedded bool, labs ...lab) (all []Program, err error) {
	var addons []string
	pods := false
	for _, lab := range labs {
		all = append(all, Checks(root, lab.Name))
		addons = append(addons, lab.Addons...)
		pods = pods || lab.Node || lab.Stage != "" && lab.Stage != "process"
	}
	if embedded && pods {
		node, err := Node(root)
		if err != nil {
			return nil, err
		}
		all = append(all, node...)
	}
	more, err := withAddons(root, addons)
	return append(all, more...), err
}

// withAddons lists the programs of add-ons, each once, and the program that installs them. It lists none where no node
// can run, or if no add-on is wanted. The lab command refuses a name that is not an add-on's.
func withAddons(root string, names []string) (all []Program, err error) {
	if len(names) == 0 || !nodes {
		return nil, nil
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		built, err := targets.Addon(root, name)
		if err != nil {
			return nil, err
		}
		for _, program := range built {
			all = append(all, Program(program))
		}
	}
	return append(all, Addons(root)), nil
}
