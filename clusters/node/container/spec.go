// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Operator Labs authors

package container

// Spec says what runs in a container, and how. The zero value of a field asks for nothing.
type Spec struct {
	// Args are the program and its arguments. A program without a slash is looked for in the PATH of Env.
	Args []string
	Env  []string
	// Dir is the working folder, which is made if it does not exist. Default: /.
	Dir string

	// User and Group are ids, and Groups those of further groups.
	User, Group int
	Groups      []int

	Root   Root
	Mounts []Mount
	// Masked are paths that are hidden, and ReadOnly those that can't be written to.
	Masked   []string
	ReadOnly []string
	// NewSys gives the container the /sys of its own network.
	NewSys bool
	// Devices shows all of the node's /dev.
	Devices bool

	// Capabilities are those that it may have, without CAP_: "NET_BIND_SERVICE".
	Capabilities []string
	// NoNewPrivileges lets no program that it starts gain any (PR_SET_NO_NEW_PRIVS).
	NoNewPrivileges bool
	// Seccomp allows only the system calls that container runtimes allow by default, as RuntimeDefault says.
	Seccomp bool
	// OOMScoreAdjust makes the kernel end it sooner (up to 1000) or later when memory is short.
	OOMScoreAdjust int
	// Terminal makes its standard input, output and error the terminal that it is started with.
	Terminal bool
	// NodeProcesses lets it see the node's processes instead of only its own (hostPID).
	NodeProcesses bool
	// Enter lets it enter the container of the process whose numbers it shares, instead of being one of its own.
	Enter bool
	// Cgroup is the folder of the control group that it belongs to.
	Cgroup string
}

// Root is where the files of a container come from.
type Root struct {
	// Dir is an empty folder to mount them on, or the folder with the files if there are no layers.
	Dir string
	// Layers are folders with unpacked layers, lowest first.
	Layers []string
	// Upper and Work are folders for what the container writes, on one file system (overlayfs).
	Upper, Work string
	// ReadOnly lets it write nothing but in its volumes.
	ReadOnly bool
}

// Mount shows a file or folder of the node in the container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
	// Memory mounts new memory of a size ("64m") instead of Source.
	Memory string
	// Propagate passes on what is mounted below Source later (HostToContainer), and Share also the other way
	// (Bidirectional).
	Propagate, Share bool
	// Image says that Source is the layers of an image, joined by colons. SubPath is the file or folder in it that is
	// shown: default, all.
	Image   bool
	SubPath string
}

// Unprivileged is the capabilities that containers have by default: those that Docker and containerd give.
var Unprivileged = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
	"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// Path is the PATH of a program whose environment has none.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
