// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build !linux

package informer_test

// restrictNewFiles and limitFiles are not possible here: see limits_linux_test.go.
func (*node) restrictNewFiles() (widen func() error, possible bool) { return nil, false }

func (*node) limitFiles(uint64) (lift func() error, possible bool) { return nil, false }
