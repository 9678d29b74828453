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

// reserve is space on the node's disk that Pods can't use: a file that is never read. The kubelet writes a little to
// the disk to end a Pod, even to evict a Pod that has filled the disk. So each time that a Pod is stopped on a full
// disk, the server frees a piece of the reserve. If another Pod uses up that piece, the server frees another one when
// it stops that Pod.
type reserve struct {
	file  string // empty if there is no reserve
	mutex sync.Mutex
}

const (
	reserved = 1 << 20  // bytes
	piece    = 64 << 10 // bytes, more than the kubelet writes for a Pod
)

// replenish restores the reserve to its full size, if possible. Without a reserve, a node works until its disk is full.
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
	const much = 16 * reserved // the program that filled the disk may still be running
	if left, err := r.left(); err != nil || left < much {
		return err
	}
	return unix.Fallocate(int(file.Fd()), 0, 0, reserved)
}

// shrink frees a piece of the reserve if the disk is full.
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

// left returns the free space on the disk, in bytes.
func (r *reserve) left() (int64, error) {
	var system unix.Statfs_t
	err := unix.Statfs(r.file, &system)
	return int64(system.Bavail) * system.Bsize, err
}
