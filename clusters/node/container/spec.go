// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

// Spec describes a program and its container. The zero value of a field requests nothing.
type Spec struct {
	// Args are the program and its arguments. A program without a slash is searched for in the PATH of Env.
	Args []string
	Env  []string
	// Dir is the working folder, which is created if it does not exist. Default: /.
	Dir string

	// User and Group are IDs, and Groups are the IDs of supplementary groups.
	User, Group int
	Groups      []int

	Root   Root
	Mounts []Mount
	// Masked are paths that are hidden, and ReadOnly are paths that can't be written.
	Masked   []string
	ReadOnly []string
	// Devices makes all of the node's /dev visible.
	Devices bool

	// Capabilities are the capabilities that it may have, without CAP_: "NET_BIND_SERVICE".
	Capabilities []string
	// NoNewPrivileges prevents programs from gaining privileges by an exec (PR_SET_NO_NEW_PRIVS).
	NoNewPrivileges bool
	// Seccomp allows only the system calls that container runtimes allow by default: see RuntimeDefault.
	Seccomp bool
	// OOMScoreAdjust makes the kernel kill it earlier (up to 1000) or later when memory is short.
	OOMScoreAdjust int
	// Terminal makes the terminal that it is started with its standard input, output and error.
	Terminal bool
	// NodeProcesses lets it see the node's processes and not only its own (hostPID).
	NodeProcesses bool
	// Enter lets it enter the container of the process whose PID namespace it shares, and not be a container of its own.
	Enter bool
	// Cgroup is the folder of the control group that it belongs to.
	Cgroup string
}

// Root is the root file system of a container.
type Root struct {
	// Dir is an empty folder to mount the layers on, or the folder with the files if there are no layers.
	Dir string
	// Layers are folders with unpacked layers, lowest first.
	Layers []string
	// Upper and Work are folders for what the container writes, on one file system (overlayfs).
	Upper, Work string
	// ReadOnly lets it write only to its volumes.
	ReadOnly bool
}

// Mount shows a file or folder of the node in the container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
	// Propagate passes on later mounts below Source (HostToContainer). Share also passes on those of the container
	// (Bidirectional).
	Propagate, Share bool
	// Image reports that Source is a list of the layers of an image, joined by colons. SubPath is the file or folder in
	// the image that is shown. Default: all.
	Image   bool
	SubPath string
}

// Unprivileged are the capabilities that containers have by default, as in Docker and containerd.
var Unprivileged = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
	"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// Path is the PATH of a program whose environment sets none.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
