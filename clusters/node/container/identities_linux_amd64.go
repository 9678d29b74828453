// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

import "golang.org/x/sys/unix"

var olderChangeOwner = []uint32{unix.SYS_CHOWN, unix.SYS_LCHOWN}
