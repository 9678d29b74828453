// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package main

import (
	"errors"
	"fmt"
	"os"

	"lva.io/operators/clusters/node/namespace"
	"lva.io/operators/clusters/removal"
)

// remove removes a folder as the node's root. A Pod's files may belong to subordinate IDs of an ordinary user, and may
// be in folders that no other user may enter.
func remove(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: remove FOLDER")
	}
	mapping := namespace.Choose()
	if user, _ := mapping.Owner(); user != os.Geteuid() {
		return removeAll(arguments[0]) // this process is root, and needs no namespaces
	}
	cmd, err := namespace.Start(namespace.Command{
		Path: "/proc/self/exe", Args: []string{"operator-labs-remove", arguments[0]},
		Env: os.Environ(), Mapping: mapping, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return removeAll(arguments[0])
	}
	return cmd.Wait()
}

// removeInside removes the folder from within the namespaces.
func removeInside(arguments []string) error {
	if err := namespace.Begin(); err != nil {
		return err
	}
	return removeAll(arguments[0])
}

func removeAll(dir string) error {
	if err := removal.All(dir); err != nil {
		return fmt.Errorf("removing the node's data: %w", err)
	}
	return nil
}
