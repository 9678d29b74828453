// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

//go:build linux && !amd64

package container

var olderChangeOwner []uint32
