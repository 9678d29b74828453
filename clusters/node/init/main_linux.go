// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

// Command init runs the node's first process, the first process of each container, and a few small tools. It is started
// once for each container, so it must not include packages that start slowly. Its name and first argument select what
// it does:
//
//	init host FILE            the node's end on the machine: creates the namespaces, and forwards connections
//	                          between the networks
//	init probe                tests whether this machine allows namespaces, and reports the result
//	init remove FOLDER        removes the files that a node has left, which may belong to IDs that only a node has
//	operator-labs-node        the first process in the namespaces: keeps the containers, and starts the agent and
//	                          the kubelet
//	operator-labs-container   the first process of a container, until it becomes the program
//	operator-labs-groups      removes the node's control groups when the node's end on the machine has ended,
//	                          even if it was killed
//	operator-labs-owners      runs a command with changes of owners ignored (the kubelet, where there is only one ID)
//	mount, umount             as the kubelet calls them, because a node has no programs except these and its own
//	pause                     the first process of a Pod whose containers see each other's processes
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"lva.io/operators/clusters/node/container"
)

func main() {
	container.Main()
	roles := map[string]func([]string) error{
		"host": host, "probe": probe, "remove": remove,
		"operator-labs-remove": removeInside, "operator-labs-node": first,
		"operator-labs-owners": owners, "operator-labs-groups": removeGroups,
		"mount": mount, "umount": umount, "pause": pause,
	}
	arguments := os.Args
	if filepath.Base(arguments[0]) == "init" && len(arguments) > 1 {
		arguments = arguments[1:]
	}
	name := filepath.Base(arguments[0])
	role, known := roles[name]
	if !known {
		fmt.Fprintf(os.Stderr,
			"%s: this program is part of an embedded cluster's node (clusters/node), which starts it\n", name)
		os.Exit(2)
	}
	if err := role(arguments[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
