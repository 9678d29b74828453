// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package services

import (
	"context"
	"path/filepath"
	"testing"

	"lva.io/operators/clusters/multicall"
	"lva.io/operators/clusters/node/nodetest"
)

func TestMain(m *testing.M) {
	nodetest.Main(m, func() error {
		program, err := controlPlane()
		if err != nil {
			return err
		}
		return program.Ensure(context.Background(), nil)
	})
}

func controlPlane() (*multicall.Program, error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return nil, err
	}
	return multicall.New(root)
}
