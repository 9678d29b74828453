// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package cri

import (
	"fmt"
	"log"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// reserve is room on the node's disk that Pods can't take: a file that is never read. The kubelet writes a little to
// the disk to end a Pod, also one that it evicts because it has filled the disk. So a piece is given back each time
// that a Pod is stopped on a full disk. If another Pod that fills the disk takes the piece, that Pod gets another one
// when it is stopped in turn.
type reserve struct {
	file  string // empty: there is none
	mutex sync.Mutex
}

const (
	reserved = 1 << 20  // bytes
	piece    = 64 << 10 // bytes; what the kubelet writes for a Pod is less
)

// replenish makes the reserve whole, as far as that is possible: a node without one does well until its disk is full.
func (r *reserve) replenish() {
	if r.file == "" {
		return
	}
	if err := r.fill(); err != nil {
		log.Printf("reserving space on the node's disk: %v", err)
	}
}

func (r *reserve) fill() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	file, err := os.OpenFile(r.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == reserved {
		return err
	}
	const much = 16 * reserved // the program that filled the disk may still be there
	if left, err := r.left(); err != nil || left < much {
		return err
	}
	return unix.Fallocate(int(file.Fd()), 0, 0, reserved)
}

// shrink gives a piece back if the disk is full.
func (r *reserve) shrink() error {
	if r.file == "" {
		return nil
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	left, err := r.left()
	if err != nil || left >= piece {
		return err
	}
	info, err := os.Stat(r.file)
	if err != nil {
		return err
	}
	if err := os.Truncate(r.file, max(0, info.Size()-piece)); err != nil {
		return fmt.Errorf("freeing disk space for the kubelet: %w", err)
	}
	return nil
}

// left is how much room there is on the disk, in bytes.
func (r *reserve) left() (int64, error) {
	var system unix.Statfs_t
	err := unix.Statfs(r.file, &system)
	return int64(system.Bavail) * system.Bsize, err
}
