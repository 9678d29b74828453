// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package supervisor

import (
	"syscall"
	"unsafe"
)

// address is the address of a network interface, for ioctl(2).
type address struct {
	family uint16
	_      uint16
	ip     [4]byte
	_      [8]byte
}

// ownAddress is the address of the machine in a network of its own. It is one of the addresses for documentation (RFC
// 5737), which no machine has.
var ownAddress = address{family: syscall.AF_INET, ip: [4]byte{192, 0, 2, 1}}

// openNetwork brings up the only interface of a network namespace, and routes all addresses there. An API server looks
// for an address of its machine by the default route, and does not start without one. (netdevice(7))
func openNetwork() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	up := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{name: [syscall.IFNAMSIZ]byte{'l', 'o'}, flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	if err := configure(socket, syscall.SIOCSIFFLAGS, unsafe.Pointer(&up)); err != nil {
		return err
	}
	second := struct {
		name [syscall.IFNAMSIZ]byte
		address
		_ [8]byte
	}{name: [syscall.IFNAMSIZ]byte{'l', 'o', ':', '1'}, address: ownAddress}
	if err := configure(socket, syscall.SIOCSIFADDR, unsafe.Pointer(&second)); err != nil {
		return err
	}
	device := [...]byte{'l', 'o', 0}
	anything := address{family: syscall.AF_INET}
	route := struct { // struct rtentry of linux/route.h
		_                          uintptr
		destination, gateway, mask address
		flags, _                   uint16
		_, _                       uintptr
		metric                     uint16
		device                     *byte
		_, _                       uintptr
		_                          uint16
	}{destination: anything, gateway: anything, mask: anything, flags: syscall.RTF_UP, device: &device[0]}
	return configure(socket, syscall.SIOCADDRT, unsafe.Pointer(&route))
}

func configure(socket int, what uintptr, value unsafe.Pointer) error {
	if _, _, failed := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(socket), what, uintptr(value)); failed != 0 {
		return failed
	}
	return nil
}
